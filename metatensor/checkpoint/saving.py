"""Saving: which format, to which file, and a model in several files with an index."""

from __future__ import annotations

import io
import os
import pickle
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.sharding import save_shards
from metatensor.checkpoint.writers import WRITERS

__all__ = ["FORMATS", "format_for", "save"]

FORMATS = {".safetensors": "safetensors", ".npz": "npz", ".npy": "npy"}
"""File name endings and the formats they stand for; every other is PyTorch's, but for those that `UNWRITTEN` has."""

UNWRITTEN = {
    ".gguf": "GGUF", ".onnx": "ONNX", ".distcp": "a distributed checkpoint", ".h5": "HDF5", ".hdf5": "HDF5", ".keras": "Keras",
    ".tflite": "TensorFlow Lite", ".pb": "TensorFlow's", ".msgpack": "Flax's", ".mlmodel": "Core ML", ".json": "JSON",
    ".engine": "TensorRT", ".pdparams": "PaddlePaddle's", ".mat": "MATLAB's", ".csv": "CSV", ".zip": "a zip archive",
    ".tar": "a tar archive", ".gz": "a gzip file",
}  # fmt: skip
"""Endings that promise a format which is not written, and its name."""

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def save(
    obj: Any,
    f: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    metadata: Mapping[str, str] | None = None,
    max_shard_size: int | str | None = None,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
) -> None:
    """Save ``obj`` in a file that PyTorch, safetensors or NumPy reads as well.

    Each storage is written straight from its memory, one after the other. In PyTorch's format, tensors on meta are saved
    as a *skeleton*: shapes, strides, dtypes and what shares what, without data.

    Parameters
    ----------
    obj
        What to save. PyTorch's format takes any object that can be pickled: a state dict, a module, an optimizer, arrays,
        plain values, containers of them. Shared storages stay shared, and views stay views. Safetensors and npz take a
        dict of tensors by name, npy takes one tensor.
    f
        A path, or a file opened for writing in binary. A path gets its new content as a whole, once all of it is on the
        disk: if saving fails or the machine does, the old file is still there.
    format
        "torch" (PyTorch's zip format), "torch-legacy" (its format before 1.6), "safetensors", "npz" or "npy". By default
        the ending of the file's name decides; it is "torch" for an ending that no format has.
    metadata
        Texts by name, for safetensors.
    max_shard_size
        Write several files of at most about this size ("2GB", or a number of bytes) and an index beside them, as Hugging
        Face's libraries do. ``obj`` is then a dict of tensors, or an iterable of pairs of a name and a tensor, of which
        one shard at a time is held. A model that fits into one file becomes one.
    pickle_module
        For PyTorch's formats: the module whose ``Pickler`` pickles objects that are no tensors, such as `dill`.
    pickle_protocol
        For PyTorch's formats: 0 to 5. PyTorch's own safe loader reads 1, 2 and 3.

    Raises
    ------
    TypeError
        For what the format cannot hold.
    ValueError
        For a file name whose ending promises a format that is not written, such as ``.gguf``, unless ``format`` is given.
    RuntimeError
        For a tensor without data and, in safetensors, for tensors that share memory.
    pickle.PicklingError, AttributeError
        For an object that cannot be pickled, such as a lambda.
    """
    check_target(f)
    chosen = format_for(f, format)
    options: dict[str, Any] = {}
    if chosen in TORCH:
        options = {"protocol": checked_protocol(pickle_protocol), "pickle_module": pickle_module}
    elif pickle_module is not None:
        raise TypeError(f"save: {chosen} pickles nothing; pickle_module is for PyTorch's formats")
    if not isinstance(f, (str, bytes, os.PathLike)):
        if max_shard_size is not None:
            raise TypeError("save: max_shard_size needs a path, as there may be several files")
        WRITERS[chosen](obj, f, metadata=metadata, **options)
        return
    path = os.fsdecode(os.fspath(f))
    if max_shard_size is not None:
        save_shards(obj, path, chosen, parse_size(max_shard_size), metadata)
        return
    with replacing(path) as file:
        WRITERS[chosen](obj, file, metadata=metadata, **options)


def save_torch(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, legacy: bool = False, byte_order: bool = True
) -> None:
    """Save ``obj`` in PyTorch's zip format, or with ``legacy`` in that before PyTorch 1.6, whatever the ending of the file's name.

    The zip format says its byte order unless ``byte_order`` is false.
    """
    check_target(f)
    options: dict[str, Any] = {"protocol": checked_protocol(pickle_protocol), "pickle_module": pickle_module}
    if not legacy:
        options["byte_order"] = byte_order
    write = WRITERS["torch-legacy" if legacy else "torch"]
    if not isinstance(f, (str, bytes, os.PathLike)):
        write(obj, f, **options)
        return
    with replacing(os.fsdecode(os.fspath(f))) as file:
        write(obj, file, **options)


def check_target(f: Any) -> None:
    """TypeError for what cannot be written to."""
    if isinstance(f, io.TextIOBase):
        raise TypeError(f'save: {getattr(f, "name", "the file")} is open for text; a checkpoint is bytes: open(path, "wb")')
    if not hasattr(f, "write") and not isinstance(f, (str, bytes, os.PathLike)):
        raise TypeError(f"save: a file is given by its path, or opened for writing in binary, got {type(f).__name__}")


TORCH = ("torch", "torch-legacy")


def checked_protocol(protocol: Any) -> int:
    """Return a pickle protocol: 0 to 5, or the highest for a negative number. ValueError for another one."""
    number = int(protocol)
    if number > pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"save: pickle_protocol must be at most {pickle.HIGHEST_PROTOCOL}, got {number}")
    return pickle.HIGHEST_PROTOCOL if number < 0 else number


def format_for(f: Any, format: str | None = None) -> str:
    """Return the name of the format to write ``f`` in.

    ValueError for a format that is not known, and for a file name that promises one which is not written.
    """
    if format is not None:
        if format not in WRITERS:
            raise ValueError(f"save: unknown format {format!r}: known are {', '.join(WRITERS)}")
        return format
    name = str(getattr(f, "name", "")) if hasattr(f, "write") else os.fsdecode(os.fspath(f))
    ending = os.path.splitext(name)[1].lower()
    if ending in UNWRITTEN:
        raise ValueError(
            f"save: {os.path.basename(name)!r} would be {UNWRITTEN[ending]} by its name, which is not written; choose another ending "
            f"({', '.join(('.pt', *FORMATS))}), or say which format it shall have with format= ({', '.join(WRITERS)})"
        )
    return FORMATS.get(ending, "torch")


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
