"""Linear algebra: the operators of the namespace `linalg`."""

from metatensor._core.op import namespace as _namespace


class LinAlgError(RuntimeError):
    """Raised if the requested result does not exist, such as the inverse of a singular matrix."""


globals().update(_namespace("linalg"))
