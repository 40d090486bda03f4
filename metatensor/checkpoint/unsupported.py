"""Entries of a checkpoint that cannot be tensors here: sparse, quantised and nested ones."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["UnsupportedTensor"]


class UnsupportedTensor:
    """Stands for a tensor of a checkpoint that has no counterpart here; using it raises NotImplementedError with the reason.

    The rest of the checkpoint loads. `repr` tells the reason.

    Parameters
    ----------
    reason
        What kind of tensor it is, as part of a sentence.
    shape
        Its shape where that is known.
    """

    __slots__ = ("_reason", "_shape")

    def __init__(self, reason: str, shape: tuple[int, ...] | None = None) -> None:
        self._reason = reason
        self._shape = shape

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(f"this entry of the checkpoint was not loaded: {self._reason}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python looks for of its own accord
            raise AttributeError(name)
        self._refuse()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Raise NotImplementedError: no operator takes it."""
        for arg in (*args, *(kwargs or {}).values()):
            if isinstance(arg, cls):
                arg._refuse()
        raise NotImplementedError("an entry of the checkpoint was not loaded")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise NotImplementedError: what was not loaded cannot be saved."""
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
