"""Saving: which format, to which file, and a model in several files with an index."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.sharding import save_shards
from metatensor.checkpoint.writers import WRITERS

__all__ = ["FORMATS", "format_for", "save"]

FORMATS = {".safetensors": "safetensors", ".npz": "npz", ".npy": "npy"}
"""File name endings and the formats they stand for; every other is PyTorch's."""

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def save(
    obj: Any,
    f: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    metadata: Mapping[str, str] | None = None,
    max_shard_size: int | str | None = None,
) -> None:
    """Save ``obj`` in a file that PyTorch, safetensors or NumPy reads as well.

    Args:
        obj: what to save. PyTorch's format takes tensors, parameters, plain values and containers of them, and keeps
            shared storages shared and views views; safetensors and npz take a dict of tensors by name.
        f: a path, or a file opened for writing in binary. A path gets its new content as a whole, once all of it is on
            the disk: if saving fails or the machine does, the old file is still there.
        format: "torch", "safetensors", "npz" or "npy"; by default the ending of the file's name decides (PyTorch's, if it
            is none of these).
        metadata: texts by name, for safetensors.
        max_shard_size: write several files of at most about this size ("2GB", or bytes) and an index beside them, as
            Hugging Face's libraries do; ``obj`` is then a dict of tensors, or an iterable of names with tensors, of
            which one shard at a time is held. A model that fits in one file becomes one.

    Tensors on meta are saved in PyTorch's format as a *skeleton*: shapes, strides, dtypes and what shares what, without
    bytes. Each storage is written straight from its memory, one after the other.

    Raises TypeError for what the format cannot hold, RuntimeError for a tensor without data or, in safetensors, for
    tensors that share memory.
    """
    if isinstance(f, io.TextIOBase):
        raise TypeError(f'save: {getattr(f, "name", "the file")} is open for text; a checkpoint is bytes: open(path, "wb")')
    if not hasattr(f, "write") and not isinstance(f, (str, bytes, os.PathLike)):
        raise TypeError(f"save: a file is given by its path, or opened for writing in binary, got {type(f).__name__}")
    chosen = format_for(f, format)
    if not isinstance(f, (str, bytes, os.PathLike)):
        if max_shard_size is not None:
            raise TypeError("save: max_shard_size needs a path, as there may be several files")
        WRITERS[chosen](obj, f, metadata=metadata)
        return
    path = os.fsdecode(os.fspath(f))
    if max_shard_size is not None:
        save_shards(obj, path, chosen, parse_size(max_shard_size), metadata)
        return
    with replacing(path) as file:
        WRITERS[chosen](obj, file, metadata=metadata)


def format_for(f: Any, format: str | None = None) -> str:
    """The name of the format to write ``f`` in. ValueError for one that is not known."""
    if format is not None:
        if format not in WRITERS:
            raise ValueError(f"save: unknown format {format!r}: known are {', '.join(WRITERS)}")
        return format
    name = str(getattr(f, "name", "")) if hasattr(f, "write") else os.fsdecode(os.fspath(f))
    return FORMATS.get(os.path.splitext(name)[1].lower(), "torch")


def parse_size(size: int | str) -> int:
    """Bytes of "2GB", "500 MiB" or a number."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", size.lower())
        if match is None or match[2] not in UNITS:
            raise ValueError(f'save: max_shard_size is a number of bytes, or a text such as "2GB" or "500MiB", not {size!r}')
        size = int(float(match[1]) * UNITS[match[2]])
    if size <= 0:
        raise ValueError(f"save: max_shard_size must be positive, got {size}")
    return size
