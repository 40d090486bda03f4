"""Linear algebra: the operators of the namespace `linalg`."""

from metatensor._core.op import namespace as _namespace


class LinAlgError(RuntimeError):
    """What was asked of a matrix does not exist: the inverse of a singular one, Cholesky factors of an indefinite one."""


globals().update(_namespace("linalg"))
