"""Linear algebra: the operators of the namespace `linalg`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("linalg"))
