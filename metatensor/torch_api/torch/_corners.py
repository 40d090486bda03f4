"""Rare names of PyTorch's top-level module: old names, removed functions, and functions that metatensor does not have.

Functions that PyTorch removed raise RuntimeError, as in PyTorch. Those of sparse and quantized tensors raise
NotImplementedError.
"""

from __future__ import annotations

import sys
from typing import Any

import metatensor as mt
from metatensor._core.absent import functions, kind
from metatensor.interchange.typed_storage import TypedStorage
from metatensor.nn.utils._norms import weight_of
from metatensor.torch_api.torch._typed import DTYPES

_STRIDED = "metatensor has strided tensors only"
_PLAIN = "metatensor has no quantized tensors"
_REMOVED = {
    "eig": "torch.linalg.eig", "lstsq": "torch.linalg.lstsq", "matrix_rank": "torch.linalg.matrix_rank",
    "solve": "torch.linalg.solve", "symeig": "torch.linalg.eigh",
}  # fmt: skip

has_lapack = has_mkl = has_openmp = has_spectral = has_cuda = has_mps = False


def _removed(name: str, instead: str) -> Any:
    made = functions("", name, f"PyTorch removed it; use {instead}", RuntimeError)[name]
    made.__module__ = "torch"
    return made


def dsmm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices."""
    return mt.mm(input, mat2)


def spmm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices."""
    return mt.mm(input, mat2)


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Return the square root of the sum of squares over the dimensions `dim`, or over all."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    return mt.linalg.vector_norm(input, 2.0, dims or None, keepdim)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """Return the sum of the singular values of each matrix."""
    return mt.linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


def _adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Divide the input into `output_size` areas and return their means. See `nn.functional.adaptive_avg_pool2d`."""
    return mt.nn.functional.adaptive_avg_pool2d(input, output_size)


def _adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Divide the input into `output_size` volumes and return their means. See `nn.functional.adaptive_avg_pool3d`."""
    return mt.nn.functional.adaptive_avg_pool3d(input, output_size)


def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """Return `v` divided by its norm over all dimensions except `dim`, times `g`.

    If `dim` is -1, the norm is over all dimensions.
    """
    return weight_of(v, g, dim)


def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """Return the gradient of the input of a softmax from that of its output."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _has_compatible_shallow_copy_type(input: Any, from_: Any) -> bool:
    """Return True, because all tensors have one implementation type."""
    return True


class _StorageType(type):
    """Metaclass of `FloatStorage` and similar classes.

    Every typed storage of a class's dtype is an instance of the class.
    """

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return TypedStorage(*args, dtype=cls.dtype, **options)

    def from_buffer(cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0) -> Any:
        """Return a copy of the bytes of a buffer. ``byte_order`` is native, big or little."""
        if byte_order not in ("native", "big", "little"):
            raise ValueError(f"from_buffer: the byte order must be native, big or little, not {byte_order!r}")
        size, length = cls.dtype.itemsize, len(memoryview(buffer).cast("B"))
        if count < 0:
            if (length - offset) % size:
                raise ValueError(f"from_buffer: {length - offset} bytes are not a multiple of the element size, {size}")
            count = (length - offset) // size
        data = bytearray(memoryview(buffer).cast("B")[offset : offset + count * size])
        if len(data) < count * size:
            raise ValueError(f"from_buffer: {count} elements from byte {offset} need more than {length} bytes")
        part = size // 2 if cls.dtype.is_complex else size
        if byte_order not in ("native", sys.byteorder):
            data = bytearray(b"".join(data[i : i + part][::-1] for i in range(0, len(data), part)))
        elements = mt.frombuffer(data, dtype=cls.dtype) if data else mt.empty(0, dtype=cls.dtype, device="cpu")
        return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> Any:
        """Return a storage over the first ``size`` elements of a file. With ``shared``, writes change the file."""
        bytes_of = mt.UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=bytes_of, dtype=cls.dtype)


_STORAGES = {f"{name}Storage": _StorageType(f"{name}Storage", (), {
    "dtype": dtype, "__module__": "torch", "__doc__": f"Storages seen as elements of {dtype.name} (deprecated in PyTorch).",
}) for name, dtype in DTYPES.items()}  # fmt: skip

_TYPES = (
    "AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType FutureType InferredType IntType "
    "InterfaceType ListType NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType "
    "TensorType TupleType UnionType"
).split()

_ABSENT = {
    _STRIDED: "hsmm hspmm saddmm smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
              "sparse_csc_tensor sparse_csr_tensor sspaddmm",
    _PLAIN: "dequantize fake_quantize_per_channel_affine fake_quantize_per_tensor_affine int_repr q_scale q_zero_point "
            "quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic _make_per_tensor_quantized_tensor",
    "there is no TorchScript": "fork wait import_ir_module parse_ir parse_schema",
}  # fmt: skip

_FILES = {
    name: kind(name, f"metatensor has no access to single records of a checkpoint; use metatensor.{instead}")
    for name, instead in (("PyTorchFileReader", "load(path, mmap=True)"), ("PyTorchFileWriter", "save"))
}
_JIT = {name: kind(name, "there is no TorchScript") for name in (*_TYPES, "CompilationUnit")}
_GONE = {name: _removed(name, instead) for name, instead in _REMOVED.items()}
_LACKING = {name: made for why, names in _ABSENT.items() for name, made in functions("", names, why).items()}


class JITException(RuntimeError):
    """The exception class of TorchScript. It is never raised."""


globals().update({**_STORAGES, **_FILES, **_JIT, **_GONE, **_LACKING})

__all__ = [
    "JITException", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_has_compatible_shallow_copy_type", "_softmax_backward_data",
    "_weight_norm", "dsmm", "frobenius_norm", "has_cuda", "has_lapack", "has_mkl", "has_mps", "has_openmp",
    "has_spectral", "nuclear_norm", "spmm", *_STORAGES, *_FILES, *_JIT, *_GONE, *_LACKING,
]  # fmt: skip
