"""Special functions: the operators of the namespace `special`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("special"))
