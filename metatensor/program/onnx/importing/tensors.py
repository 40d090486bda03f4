"""Tensors of a protobuf message."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.onnx import TYPES
from metatensor.checkpoint.reading import beside, counted, shown
from metatensor.checkpoint.source import open_file
from metatensor.program.onnx.dtypes import SMALL, held_dtype
from metatensor.program.onnx.importing.values import Small

__all__ = ["shape_of", "tensor_from", "texts_from"]

_FIELDS = {1: "float_data", 14: "float_data", 7: "int64_data", 11: "double_data", 15: "double_data", 12: "uint64_data", 13: "uint64_data"}


def shape_of(message: Any, file: str) -> tuple[int, ...]:
    """Return the shape of a tensor, after checking it and the type."""
    dims = tuple(message.dims)
    if message.data_type not in TYPES:
        raise CheckpointError(file, f"tensor {shown(message.name)} has the type {message.data_type}, which is not known or not a number")
    counted(file, message.name, list(dims), TYPES[message.data_type][1])
    return dims


def tensor_from(message: Any, file: str, device: Any = "cpu") -> Tensor | Small:
    """Return the tensor of a ``TensorProto``.

    Parameters
    ----------
    message : onnx.TensorProto
        The tensor. External data is read from the folder of `file`.
    file : str
        Name of the model's file, for messages. Empty if the model came from memory: there is no external data then.
    device : str or device
        Where to make it. On meta, no data is read.
    """
    shape, kind = shape_of(message, file), message.data_type
    dtype = held_dtype(kind)
    if mt.device(device).type == "meta":
        made = mt.empty(shape, dtype=dtype, device="meta")
    else:
        made = _filled(_bytes(message, shape, file), kind, shape, dtype).to(device)
    return Small(made, kind) if kind in SMALL else made


def _filled(data: bytes, kind: int, shape: tuple[int, ...], dtype: mt.dtype) -> Tensor:
    import numpy as np

    bits = TYPES[kind][1]
    if bits < 8:
        return mt.from_numpy(_unpacked(data, kind, prod(shape))).view(dtype).reshape(shape)
    width = bits // 8
    if dtype.is_complex:
        array: Any = np.frombuffer(data, f"<c{width}").astype(f"=c{width}")
    else:
        array = np.frombuffer(data, f"<u{width}").astype(f"=u{width}")
    made = mt.from_numpy(array)
    if dtype is mt.bool:
        return (made != 0).reshape(shape)
    return made.view(dtype).reshape(shape)


def _unpacked(data: bytes, kind: int, count: int) -> Any:
    """Return the bytes that hold the elements of a type smaller than a byte; the first element is in the lowest bits."""
    import numpy as np

    bits = TYPES[kind][1]
    per, mask = 8 // bits, (1 << bits) - 1
    raw = np.frombuffer(data, np.uint8)
    elements = np.stack([raw >> (bits * i) & mask for i in range(per)], 1).reshape(-1)[:count]
    if kind == 23:  # float4e2m1: sign, two bits of exponent, one of mantissa; these are the bytes of float8_e4m3fn
        table = np.array([0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0x48, 0x4C], np.uint8)
        return table[elements & 7] | (elements & 8) << 4
    if SMALL[kind] is mt.int8:
        elements = (elements ^ (1 << bits - 1)).astype(np.int8) - (1 << bits - 1)
        return elements.astype(np.int8).view(np.uint8)
    return elements.astype(np.uint8)


def _bytes(message: Any, shape: tuple[int, ...], file: str) -> bytes:
    """Return the little-endian bytes of a tensor."""
    import numpy as np

    kind = message.data_type
    bits = TYPES[kind][1]
    nbytes = (prod(shape) * bits + 7) // 8
    if message.data_location == 1:
        return _external(message, nbytes, file)
    if message.HasField("raw_data"):
        data = message.raw_data
    else:
        field = _FIELDS.get(kind, "int32_data")
        width = {"float_data": "<f4", "double_data": "<f8", "int64_data": "<i8", "uint64_data": "<u8"}.get(field, "<i4")
        numbers = np.array(getattr(message, field), width)
        item = bits // 8 or 1
        data = numbers.tobytes() if field in ("float_data", "double_data") else numbers.astype(f"<u{item}").tobytes()
    if len(data) != nbytes:
        raise CheckpointError(file, f"tensor {shown(message.name)} needs {nbytes:,} bytes, but has {len(data):,}")
    return bytes(data)


def _external(message: Any, nbytes: int, file: str) -> bytes:
    """Return the bytes of external data. Its file must be in the folder of the model."""
    label = f"tensor {shown(message.name)}"
    if not file:
        raise CheckpointError("<model>", f"{label} has external data: give the path of the model")
    entries = {entry.key: entry.value for entry in message.external_data}
    location = entries.get("location", "").removeprefix("./")
    path = beside(file, location, f"{label}: the file of external data")
    try:
        offset, length = int(entries.get("offset", "0")[:20] or 0), int(entries.get("length", str(nbytes))[:20] or 0)
    except ValueError:
        raise CheckpointError(file, f"{label}: the place of its external data is not a number") from None
    if length != nbytes or offset < 0:
        raise CheckpointError(file, f"{label} needs {nbytes:,} bytes, but its external data has {length:,} at {offset:,}")
    with open_file(path) as other:
        if offset + nbytes > os.fstat(other.fileno()).st_size:
            raise CheckpointError(file, f"{label}: {location!r} has no {nbytes:,} bytes at {offset:,}")
        other.seek(offset)
        parts, left = [], nbytes
        while left:
            part = other.read(left)
            if not part:
                raise CheckpointError(file, f"{label}: {location!r} ends too early")
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def texts_from(message: Any) -> list[str]:
    """Return the elements of a tensor of strings."""
    return [bytes(text).decode("utf-8", "replace") for text in message.string_data]


