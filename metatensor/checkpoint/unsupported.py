"""Placeholder for tensors in checkpoints that metatensor cannot represent: sparse, quantized and nested ones."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["UnsupportedTensor"]


class UnsupportedTensor:
    """Placeholder for a tensor in a checkpoint that metatensor cannot represent.

    Using it raises NotImplementedError with the reason, which `repr` also shows. The rest of the checkpoint loads
    normally.

    Parameters
    ----------
    reason : str
        Why the tensor was not loaded, as a clause.
    shape : tuple of int, optional
        Shape of the tensor, if known.

    Examples
    --------
    >>> from metatensor.checkpoint import UnsupportedTensor
    >>> UnsupportedTensor("it is a sparse tensor", (2, 3))
    UnsupportedTensor(shape=(2, 3), reason='it is a sparse tensor')
    """

    __slots__ = ("_reason", "_shape")

    def __init__(self, reason: str, shape: tuple[int, ...] | None = None) -> None:
        self._reason = reason
        self._shape = shape

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(f"this entry of the checkpoint was not loaded: {self._reason}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself probes for special methods
            raise AttributeError(name)
        self._refuse()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Raise NotImplementedError: no operator accepts the tensor."""
        for arg in (*args, *(kwargs or {}).values()):
            if isinstance(arg, cls):
                arg._refuse()
        raise NotImplementedError("an entry of the checkpoint was not loaded")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise NotImplementedError: a tensor that was not loaded cannot be saved."""
        self._refuse()

    def __copy__(self) -> UnsupportedTensor:
        return self

    def __deepcopy__(self, memo: Any) -> UnsupportedTensor:
        return self

    def __repr__(self) -> str:
        shape = "" if self._shape is None else f"shape={self._shape}, "
        return f"UnsupportedTensor({shape}reason={self._reason!r})"


def _refusing(name: str) -> Any:
    def method(self: Any, *args: Any) -> None:
        self._refuse()

    method.__name__ = name
    return method


for _name in ("add sub mul truediv floordiv mod pow matmul and or xor radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul neg abs invert "
              "len iter getitem setitem float int bool lt le gt ge array index").split():  # fmt: skip
    setattr(UnsupportedTensor, f"__{_name}__", _refusing(f"__{_name}__"))
