"""Functions of sparse tensors. They raise NotImplementedError, because metatensor has only strided tensors."""

from metatensor._core.absent import functions, kind

__all__ = ["SparseSemiStructuredTensor", "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
           "softmax", "solve", "sum", "to_sparse_semi_structured"]  # fmt: skip

_WHY = "metatensor has strided tensors only"
_made = functions("sparse", "addmm as_sparse_gradcheck log_softmax mm softmax solve sum to_sparse_semi_structured", _WHY)
addmm, mm, solve, sum = _made["addmm"], _made["mm"], _made["solve"], _made["sum"]
softmax, log_softmax, as_sparse_gradcheck = _made["softmax"], _made["log_softmax"], _made["as_sparse_gradcheck"]
to_sparse_semi_structured = _made["to_sparse_semi_structured"]
SparseSemiStructuredTensor = kind("sparse.SparseSemiStructuredTensor", _WHY)


class check_sparse_tensor_invariants:
    """A context manager that does nothing, because there are no sparse tensors to check."""

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._state = enable

    @classmethod
    def is_enabled(cls) -> bool:
        """Return the value set by `enable` and `disable`."""
        return cls._enabled

    @classmethod
    def enable(cls) -> None:
        """Store that checks are enabled. No check is made."""
        cls._enabled = True

    @classmethod
    def disable(cls) -> None:
        """Store that checks are disabled."""
        cls._enabled = False

    def __enter__(self) -> None:
        self._before, type(self)._enabled = type(self)._enabled, self._state

    def __exit__(self, *_: object) -> None:
        type(self)._enabled = self._before
