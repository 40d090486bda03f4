"""Writers for each checkpoint format. They write one storage or tensor at a time to an open file.

A writer takes an object and a `Contents`, which supplies the bytes. They come from tensors with data or, in a
conversion, from the source file, whose tensors are then represented on meta.
"""

from __future__ import annotations

import json
import mmap
import struct
import sys
from collections.abc import Callable, Mapping
from math import prod
from pickle import dumps
from typing import Any, BinaryIO, NamedTuple

import metatensor as mt
from metatensor._core.capture import note_read, note_storage_read
from metatensor._core.storage import storage_bytes
from metatensor.checkpoint._pickle_writer import pickled
from metatensor.checkpoint._zip_writer import ZipWriter, write_all
from metatensor.deferred import bytes_of, is_deferred
from metatensor.serialization import get_crc32_options, skips_data

__all__ = ["NPY_DTYPES", "SAFETENSORS_DTYPES", "WRITERS", "Contents", "npy_header", "safetensors_header", "tensor_span", "write_npy",
           "write_npz", "write_safetensors", "write_torch", "write_torch_legacy"]

ALIGNMENT = 64

SAFETENSORS_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn_x2": "F4",
}  # fmt: skip

NPY_DTYPES = {
    "bool": "|b1", "uint8": "|u1", "int8": "|i1", "uint16": "u2", "int16": "i2", "uint32": "u4", "int32": "i4", "uint64": "u8",
    "int64": "i8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16",
}  # fmt: skip


class Contents:
    """Supplies bytes from the tensors' own data. Deferred tensors are computed one at a time and stay deferred."""

    holds_meta = False
    """True if bytes are available for tensors on meta.

    Otherwise these are saved as a skeleton, if the format allows it.
    """

    def storage(self, storage: Any) -> Any:
        """Return all bytes of a storage as a buffer."""
        from metatensor._core.storage_views import tensor_from_storage
        from metatensor.plugins import backend

        count = storage.nbytes()
        if not count:
            return b""
        if skips_data(storage.is_fake):
            return mmap.mmap(-1, count)  # zeros that take no memory
        note_storage_read(storage, "save")
        if is_deferred(storage):
            return storage_bytes(storage)
        if storage.is_fake:
            raise RuntimeError(f"save: a tensor on {storage.device} holds no data; on meta it would be saved as a skeleton")
        return backend(storage.device.type).to_host(tensor_from_storage(storage, mt.uint8, (count,), (1,)))

    def tensor(self, name: str, tensor: Any) -> Any:
        """Return the elements of a tensor in row-major order as a buffer."""
        from metatensor.plugins import backend

        if not tensor.numel():
            return b""
        note_read(tensor, "save")
        if is_deferred(tensor):
            return bytes_of(tensor.detach().contiguous())
        if tensor.is_meta or tensor.untyped_storage().is_fake:
            raise RuntimeError(
                f"save: tensor {name!r} on {tensor.device} holds no data; PyTorch's format (format='torch') saves it as a skeleton"
            )
        return backend(tensor.device.type).to_host(tensor.detach())


OWN = Contents()


def write_torch(
    obj: Any, file: BinaryIO, source: Contents = OWN, metadata: Mapping[str, str] | None = None, *, byte_order: bool = True, **options: Any
) -> None:
    """Write PyTorch's zip format. Each storage is written once. Tensors on meta are written as a skeleton.

    ``options`` are passed to `pickled`. If ``byte_order`` is false, the file does not record its byte order.
    """
    _refuse_metadata(metadata)
    pickle, stored = pickled(obj, source.holds_meta, **options)
    archive = ZipWriter(file, checksums=get_crc32_options())
    archive.add("archive/data.pkl", pickle, align=ALIGNMENT)
    archive.add("archive/.format_version", b"1", align=ALIGNMENT)
    archive.add("archive/.storage_alignment", b"%d" % ALIGNMENT, align=ALIGNMENT)
    if byte_order:
        archive.add("archive/byteorder", sys.byteorder.encode(), align=ALIGNMENT)
    for key, storage in stored.storages.items():
        archive.add(f"archive/data/{key}", source.storage(storage), align=ALIGNMENT)
    archive.add("archive/version", b"3\n", align=ALIGNMENT)
    archive.close()


def write_torch_legacy(
    obj: Any, file: BinaryIO, source: Contents = OWN, metadata: Mapping[str, str] | None = None, *, protocol: int = 2, **options: Any
) -> None:
    """Write PyTorch's format before 1.6: a series of pickles, then each storage after its number of elements."""
    from metatensor.checkpoint.torch_legacy import MAGIC, PROTOCOL

    _refuse_metadata(metadata)
    pickle, stored = pickled(obj, source.holds_meta, protocol=protocol, legacy=True, **options)
    machine = {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": {"short": 2, "int": 4, "long": 4}}
    for value in (MAGIC, PROTOCOL, machine):
        write_all(file, dumps(value, protocol))
    write_all(file, pickle)
    write_all(file, dumps(list(stored.storages), protocol))
    for key, storage in stored.storages.items():
        write_all(file, struct.pack("<q", storage.nbytes() // stored.itemsize(key)))
        write_all(file, source.storage(storage))


def _refuse_metadata(metadata: Any) -> None:
    if metadata:
        raise ValueError("save: PyTorch's format stores no metadata besides the object")


class _Placed(NamedTuple):
    name: str
    tensor: Any
    nbytes: int


def write_safetensors(obj: Any, file: BinaryIO, source: Contents = OWN, metadata: Mapping[str, str] | None = None) -> None:
    """Write the safetensors format: a dict of tensors that do not share memory."""
    header, tensors = safetensors_header(obj, metadata)
    write_all(file, header)
    for name, tensor, nbytes in tensors:
        write_all(file, _little(_checked(name, source.tensor(name, tensor), nbytes), tensor.dtype))


def safetensors_header(obj: Any, metadata: Mapping[str, str] | None) -> tuple[bytes, list[_Placed]]:
    """Return the file's bytes up to the data, and the tensors in data order.

    The tensors with the widest dtypes come first, so that all are aligned.
    """
    tensors = tensors_of(obj, "safetensors")
    _refuse_sharing(tensors)
    if "__metadata__" in tensors:
        raise ValueError("save: in safetensors no tensor can have the name '__metadata__'")
    entries: dict[str, Any] = {}
    if metadata:
        if any(type(k) is not str or type(v) is not str for k, v in metadata.items()):
            raise TypeError("save: the metadata of safetensors must map strings to strings")
        entries["__metadata__"] = dict(metadata)
    placed = []
    at = 0
    for name, tensor in sorted(tensors.items(), key=lambda pair: (-pair[1].dtype.itemsize, pair[0])):
        kind = SAFETENSORS_DTYPES.get(tensor.dtype.name)
        if kind is None:
            raise TypeError(f"save: tensor {name!r} is of {tensor.dtype.name}, which safetensors does not have")
        shape = list(tensor.shape)
        if kind == "F4":
            if not shape:
                raise TypeError(f"save: tensor {name!r}: 4-bit floats need at least one dimension in safetensors")
            shape[-1] *= 2
        nbytes = prod(tensor.shape) * tensor.dtype.itemsize
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + nbytes]}
        placed.append(_Placed(name, tensor, nbytes))
        at += nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, placed


def write_npz(obj: Any, file: BinaryIO, source: Contents = OWN, metadata: Mapping[str, str] | None = None) -> None:
    """Write NumPy's archive of arrays: a dict of tensors with dtypes that NumPy has."""
    if metadata:
        raise ValueError("save: npz stores no metadata")
    archive = ZipWriter(file)
    for name, tensor in tensors_of(obj, "npz").items():
        header = npy_header(name, tensor)
        archive.add(f"{name}.npy", header, _checked(name, source.tensor(name, tensor), _nbytes(tensor)), align=ALIGNMENT)
    archive.close()


def write_npy(obj: Any, file: BinaryIO, source: Contents = OWN, metadata: Mapping[str, str] | None = None) -> None:
    """Write NumPy's file of one array: a tensor with a dtype that NumPy has."""
    name = "tensor"
    if isinstance(obj, dict) and len(obj) == 1:
        name, obj = next(iter(obj.items()))
    if not isinstance(obj, mt.Tensor):
        raise TypeError(f"save: npy holds one tensor, got {type(obj).__name__}; npz holds a dict of them")
    write_all(file, npy_header(name, obj))
    write_all(file, _checked(name, source.tensor(name, obj), _nbytes(obj)))


def npy_header(name: str, tensor: Any) -> bytes:
    """Return the bytes before an array's data, padded to a multiple of 64."""
    kind = NPY_DTYPES.get(tensor.dtype.name)
    if kind is None:
        raise TypeError(f"save: tensor {name!r} is of {tensor.dtype.name}, which NumPy does not have")
    if not kind.startswith("|"):
        kind = ("<" if sys.byteorder == "little" else ">") + kind
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {tuple(tensor.shape)!r}, }}"
    text += " " * (-(10 + len(text) + 1) % ALIGNMENT) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1")


WRITERS: dict[str, Callable[..., None]] = {
    "torch": write_torch,
    "torch-legacy": write_torch_legacy,
    "safetensors": write_safetensors,
    "npz": write_npz,
    "npy": write_npy,
}
"""Writers by format name."""


def tensors_of(obj: Any, form: str) -> dict[str, Any]:
    """Return ``obj`` as a dict of tensors. Raise TypeError naming the first entry that is not a tensor."""
    if not isinstance(obj, Mapping):
        raise TypeError(f"save: {form} holds a dict of tensors by name, got {type(obj).__name__}; save module.state_dict()")
    for name, tensor in obj.items():
        if type(name) is not str:
            raise TypeError(f"save: names of tensors in {form} must be strings, got {name!r}")
        if not _is_unicode(name):
            raise ValueError(f"save: {form} names tensors in UTF-8, which cannot encode {name[:100]!r}")
        if not isinstance(tensor, mt.Tensor):
            raise TypeError(f"save: {form} holds nothing but tensors; {name!r} is of type {type(tensor).__name__}")
    return dict(obj)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_sharing(tensors: Mapping[str, Any]) -> None:
    """Raise RuntimeError if two tensors share memory. The format would silently save a copy of each."""
    groups: dict[Any, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            groups.setdefault(tensor.untyped_storage(), []).append(name)
    for names in groups.values():
        spans = sorted((*tensor_span(tensors[name]), name) for name in names)
        for (_, end, first), (begin, _, second) in zip(spans, spans[1:]):
            if begin < end:
                raise RuntimeError(
                    f"save: {first!r} and {second!r} share memory, which safetensors cannot represent. Leave out all names but one (a "
                    "model with tied weights is loaded from one of them), clone() one, or save in PyTorch's format (format='torch')"
                )


def tensor_span(tensor: Any) -> tuple[int, int]:
    """Return the offset in bytes of a tensor's first byte in its storage, and of the byte after its last."""
    begin = tensor.storage_offset()
    end = begin + 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return begin * tensor.dtype.itemsize, end * tensor.dtype.itemsize


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)


def _checked(name: str, data: Any, nbytes: int) -> memoryview:
    view = memoryview(data).cast("B")
    if len(view) != nbytes:
        raise RuntimeError(f"save: tensor {name!r} should have {nbytes:,} bytes, got {len(view):,}")
    return view


def _little(data: memoryview, dtype: Any) -> Any:
    """Return elements in little-endian byte order."""
    if sys.byteorder == "little":
        return data
    from metatensor.checkpoint.source import native

    return native(data, dtype.itemsize // (2 if dtype.is_complex else 1))
