"""`FloatTensor`, `LongTensor` and similar types, which construct tensors of one dtype on one device type."""

from __future__ import annotations

import warnings
from typing import Any

import metatensor as mt

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor", "set_default_tensor_type", "typename_of",
]  # fmt: skip

DTYPES = {
    "BFloat16": mt.bfloat16, "Bool": mt.bool, "Byte": mt.uint8, "Char": mt.int8, "Double": mt.float64, "Float": mt.float32,
    "Half": mt.float16, "Int": mt.int32, "Long": mt.int64, "Short": mt.int16, "ComplexDouble": mt.complex128,
    "ComplexFloat": mt.complex64,
}  # fmt: skip


class TensorType(type):
    """Metaclass of `FloatTensor` and similar classes.

    Every tensor of that dtype and device type is an instance of the class.
    """

    dtype: Any
    device_type: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, mt.Tensor) and instance.dtype is cls.dtype and instance.device.type == cls.device_type

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """Return a new tensor.

        ``LongTensor(2, 3)`` is an uninitialized tensor of that shape, and ``LongTensor([2, 3])`` a tensor of those
        values. A tensor of the right type is returned detached, and a storage is viewed as a vector.
        """
        place = mt.device(cls.device_type if device is None else device)
        if place.type != cls.device_type:
            raise RuntimeError(f"{cls.__name__}: creates tensors on {cls.device_type}, but device={place}")
        if not args:
            return mt.empty(0, dtype=cls.dtype, device=place)
        if len(args) == 1 and isinstance(args[0], mt.Tensor):
            given = args[0]
            if given.dtype is not cls.dtype or given.device.type != cls.device_type:
                raise TypeError(f"{cls.__name__}: expected a tensor of {cls.dtype} on {cls.device_type}, "
                                f"got one of {given.dtype} on {given.device}")  # fmt: skip
            return given.detach()
        if len(args) == 1 and isinstance(args[0], mt.UntypedStorage):
            storage = args[0]
            return mt.empty(0, dtype=cls.dtype, device=place).set_(storage, 0, (storage.nbytes() // cls.dtype.itemsize,))
        if isinstance(args[0], mt.Size) and len(args) == 1:
            return mt.empty(args[0], dtype=cls.dtype, device=place)
        if all(isinstance(size, int) for size in args):
            return mt.empty(args, dtype=cls.dtype, device=place)
        if len(args) > 1:
            raise TypeError(f"{cls.__name__}: expected sizes, or one sequence of values, got {len(args)} arguments")
        return mt.tensor(args[0], dtype=cls.dtype, device=place)


def make(kind: str, device_type: str = "cpu") -> TensorType:
    """Return the type of tensors with a dtype, given by its old name such as "Float", on a device type."""
    where = "" if device_type == "cpu" else f".{device_type}"
    return TensorType(f"{kind}Tensor", (), {
        "dtype": DTYPES[kind], "device_type": device_type, "__module__": f"torch{where}",
        "is_cuda": device_type == "cuda", "layout": mt.strided,
        "__doc__": f"Tensors of {DTYPES[kind].name} on {device_type}.",
    })  # fmt: skip


def typename_of(tensor: Any) -> str:
    """Return the type of a tensor as ``tensor.type()`` does: ``"torch.FloatTensor"``."""
    return str(tensor.type())


BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor = (
    make(kind)
    for kind in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)


def set_default_tensor_type(kind: Any) -> None:
    """Set the default dtype and device from a tensor type or its name (deprecated in PyTorch).

    Raise TypeError for any other argument, and for types that are not floating-point.
    """
    warnings.warn(
        "set_default_tensor_type() is deprecated; use set_default_dtype() and set_default_device()", UserWarning, stacklevel=2
    )
    if isinstance(kind, str):
        *where, name = kind.split(".")
        dtype = DTYPES.get(name.removesuffix("Tensor"))
        if dtype is None or where not in (["torch"], ["torch", "cuda"]):
            raise TypeError(f"set_default_tensor_type: invalid type {kind!r}")
        device_type = "cuda" if where[-1] == "cuda" else "cpu"
    elif isinstance(kind, TensorType):
        dtype, device_type = kind.dtype, kind.device_type
    else:
        raise TypeError(f"set_default_tensor_type: expected a tensor type or its name, got {type(kind).__name__}")
    if not dtype.is_floating_point:
        raise TypeError(f"set_default_tensor_type: only floating-point types can be the default, got {dtype}")
    mt.set_default_dtype(dtype)
    mt.set_default_device(device_type)
