"""A storage as a sequence of elements of a dtype: the result of `Tensor.storage`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import metatensor as mt

__all__ = ["TypedStorage"]

_NAMES = {
    mt.float64: "Double", mt.float32: "Float", mt.float16: "Half", mt.bfloat16: "BFloat16", mt.int64: "Long", mt.int32: "Int",
    mt.int16: "Short", mt.int8: "Char", mt.uint8: "Byte", mt.bool: "Bool", mt.complex128: "ComplexDouble",
    mt.complex64: "ComplexFloat",
}  # fmt: skip


class TypedStorage:
    """A storage as a sequence of elements of a dtype (deprecated in PyTorch).

    Parameters
    ----------
    *args : int or sequence, optional
        The number of elements, or their values. Default: 0.
    wrap_storage : UntypedStorage, optional
        The storage to wrap. By default a new one is created.
    dtype : dtype, optional
        Dtype of the elements. By default the default dtype.
    device : device or str, optional
        Device of a new storage.
    """

    is_sparse = False

    def __init__(self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False) -> None:
        self.dtype = dtype if dtype is not None else mt.get_default_dtype()
        if wrap_storage is not None:
            if not isinstance(wrap_storage, mt.UntypedStorage):
                raise TypeError(f"TypedStorage: wrap_storage must be an UntypedStorage, got {type(wrap_storage).__name__}")
            self._untyped_storage = wrap_storage
            return
        given = args[0] if args else 0
        if isinstance(given, int):
            made = mt.empty(given, dtype=self.dtype, device=device)
        else:
            made = mt.tensor(list(given), dtype=self.dtype, device=device)
        self._untyped_storage = made.untyped_storage()

    def _tensor(self) -> Any:
        storage = self._untyped_storage
        return mt.empty(0, dtype=self.dtype, device=storage.device).set_(storage, 0, (len(self),))

    @property
    def device(self) -> Any:
        """Device of the storage."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """True if the storage is on a CUDA device."""
        return bool(self.device.type == "cuda")

    def untyped(self) -> Any:
        """Return the underlying untyped storage."""
        return self._untyped_storage

    def __len__(self) -> int:
        return int(self._untyped_storage.nbytes()) // int(self.dtype.itemsize)

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return int(self._untyped_storage.nbytes())

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return int(self.dtype.itemsize)

    def is_shared(self) -> bool:
        """Return True if the memory is shared with other processes."""
        return bool(self._untyped_storage.is_shared())

    def share_memory_(self) -> TypedStorage:
        """Move the values into memory that other processes can share. Return this storage."""
        self._untyped_storage.share_memory_()
        return self

    def data_ptr(self) -> int:
        """Return the memory address; 0 without data."""
        return int(self._untyped_storage.data_ptr())

    @property
    def _cdata(self) -> int:
        return int(self._untyped_storage._cdata)

    def __getitem__(self, index: Any) -> Any:
        if self._untyped_storage.data is None and not mt.is_deferred(self._tensor()):
            raise NotImplementedError(f"the elements of a storage on {self.device} cannot be read: it has no data")
        found = self._tensor()[index]
        return found.item() if isinstance(index, int) else found.tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tensor()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list:
        """Return the elements as a list."""
        return list(self._tensor().tolist())

    def fill_(self, value: Any) -> TypedStorage:
        """Set all elements to ``value``."""
        self._tensor().fill_(value)
        return self

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return TypedStorage(wrap_storage=self._tensor().clone().untyped_storage(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """Return the storage on the cpu, copied if necessary."""
        return TypedStorage(wrap_storage=self._tensor().cpu().untyped_storage(), dtype=self.dtype)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the storage type, or with ``dtype`` a storage of that dtype."""
        if dtype is None:
            where = "" if self.device.type in ("cpu", "meta") else f"{self.device.type}."
            return f"torch.{where}{_NAMES[self.dtype]}Storage"
        return self._as(dtype)

    def _as(self, dtype: Any) -> TypedStorage:
        return TypedStorage(wrap_storage=self._tensor().to(dtype).untyped_storage(), dtype=dtype)

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the elements of another storage of the same length, converted to this dtype."""
        self._tensor().copy_(source._tensor())
        return self

    def resizable(self) -> bool:
        """Return True: `resize_` works on any storage."""
        return bool(self._untyped_storage.resizable())

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def resize_(self, size: int) -> TypedStorage:
        """Change the number of elements in place."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def __repr__(self) -> str:
        return f"TypedStorage(dtype={self.dtype}, device={self.device}, size={len(self)})"


def _cast(dtype: Any, name: str) -> Any:
    def cast(self: TypedStorage) -> TypedStorage:
        return self._as(dtype)

    cast.__name__, cast.__doc__ = name, f"Return a copy with the elements as {dtype.name}."
    return cast


for _dtype, _name in _NAMES.items():
    _method = {"ComplexDouble": "complex_double", "ComplexFloat": "complex_float"}.get(_name, _name.lower())
    setattr(TypedStorage, _method, _cast(_dtype, _method))
