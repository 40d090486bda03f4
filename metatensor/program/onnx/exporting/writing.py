"""Writing models: the bytes of tensors, in the file or beside it."""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO, NamedTuple

import numpy as np

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.checkpoint.atomic import replacing

__all__ = ["Built", "with_data", "write"]

_LIMIT = (1 << 31) - (1 << 20)
"""Maximum bytes of tensors in the model file itself: the limit of Protocol Buffers, less room for the nodes."""
_SMALL = 1024
"""Tensors up to this many bytes stay in the model file itself."""
_ALIGN = 4096


class Built(NamedTuple):
    """A model and the tensors of the initializers that have no data yet, by name."""

    model: Any
    tensors: dict[str, Tensor]


def _bytes(tensor: Tensor) -> memoryview:
    """Return the elements of a tensor in order, little-endian."""
    flat = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous().reshape(-1)
    width = flat.dtype.itemsize
    array = flat.view(mt.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
    if sys.byteorder == "big" and width > 1:
        array = array.reshape(-1, width)[:, ::-1].reshape(-1)
    return memoryview(np.ascontiguousarray(array))


def with_data(built: Built) -> Any:
    """Return the model with the data of all its tensors."""
    _refuse_large(built, "")
    for initializer in built.model.graph.initializer:
        if initializer.name in built.tensors:
            initializer.raw_data = _bytes(built.tensors[initializer.name]).tobytes()
    return built.model


def _nbytes(built: Built) -> int:
    return sum(t.numel() * t.dtype.itemsize for t in built.tensors.values())


def _refuse_large(built: Built, advice: str) -> None:
    if _nbytes(built) > _LIMIT:
        raise ValueError(f"the tensors of the model have {_nbytes(built)} bytes, and a model's own file can have 2 GiB{advice}")


def write(built: Built, f: str | os.PathLike[str] | BinaryIO, external: bool | None) -> None:
    """Write a model to a file, with its tensors' data in a separate file if requested or necessary."""
    if not isinstance(f, (str, bytes, os.PathLike)):
        if external:
            raise ValueError("external_data: a file beside the model needs a path, not a file object")
        _refuse_large(built, "; give a path, so that the data can be in a file beside it")
        f.write(with_data(built).SerializeToString())
        return
    path = os.fsdecode(os.fspath(f))
    if external is None:
        external = _nbytes(built) > _LIMIT
    if external:
        _write_beside(built, path)
    else:
        _refuse_large(built, "; leave external_data out, or pass True")
        with_data(built)
    with replacing(path) as file:
        file.write(built.model.SerializeToString())


def _write_beside(built: Built, path: str) -> None:
    """Write the data to ``PATH.data`` and make the initializers refer to it."""
    location = os.path.basename(path) + ".data"
    with replacing(path + ".data") as file:
        at = 0
        for initializer in built.model.graph.initializer:
            tensor = built.tensors.get(initializer.name)
            if tensor is None:
                continue
            data = _bytes(tensor)
            if data.nbytes < _SMALL:
                initializer.raw_data = data.tobytes()
                continue
            gap = -at % _ALIGN
            file.write(b"\0" * gap)
            file.write(data)
            initializer.data_location = 1  # EXTERNAL
            for key, value in (("location", location), ("offset", at + gap), ("length", data.nbytes)):
                entry = initializer.external_data.add()
                entry.key, entry.value = key, str(value)
            at += gap + data.nbytes
