"""Windows: the operators of the namespace `signal.windows`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("signal.windows"))
