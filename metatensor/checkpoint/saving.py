"""Save checkpoints: choose a format and write one file, or several with an index."""

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
"""Formats by file name extension. Any other extension means PyTorch's zip format, except those in `UNWRITTEN`."""

UNWRITTEN = {
    ".gguf": "GGUF", ".onnx": "ONNX", ".distcp": "distributed checkpoints", ".h5": "HDF5", ".hdf5": "HDF5", ".keras": "Keras",
    ".tflite": "TensorFlow Lite", ".pb": "TensorFlow", ".msgpack": "Flax", ".mlmodel": "Core ML", ".json": "JSON",
    ".engine": "TensorRT", ".pdparams": "PaddlePaddle", ".mat": "MATLAB", ".csv": "CSV", ".zip": "zip",
    ".tar": "tar", ".gz": "gzip",
}  # fmt: skip
"""Names by extension of formats that cannot be written."""

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
    """Save ``obj`` in a file that PyTorch, safetensors or NumPy can read.

    Each storage is written straight from its memory. In PyTorch's formats, tensors on meta are saved as a *skeleton*:
    shapes, strides, dtypes and shared storages, without data.

    Parameters
    ----------
    obj : object
        PyTorch's formats take any object that can be pickled: a state dict, a module, an optimizer, arrays, plain
        values, containers of them. Shared storages stay shared, and views stay views. safetensors and npz take a dict
        of tensors by name, npy one tensor.
    f : str, path or binary file
        Where to write. A path is replaced atomically once the new content is on the disk, so the old file survives if
        saving fails or the machine crashes.
    format : {"torch", "torch-legacy", "safetensors", "npz", "npy"}, optional
        "torch" is PyTorch's zip format, "torch-legacy" its format before version 1.6. By default the file name's
        extension selects the format, and an unknown extension means "torch".
    metadata : mapping of str to str, optional
        Text to store in a safetensors file.
    max_shard_size : int or str, optional
        Split the checkpoint into files of at most about this many bytes ("2GB" works too), with an index beside them in
        the layout of Hugging Face's libraries. ``obj`` is then a dict of tensors, or an iterable of (name, tensor)
        pairs. At most one shard is held in memory. A checkpoint that fits in one file is saved as one file.
    pickle_module : module, optional
        For PyTorch's formats: the module whose ``Pickler`` pickles objects that are not tensors, such as `dill`.
    pickle_protocol : int, default 2
        For PyTorch's formats: 0 to 5, or a negative number for the highest. PyTorch's safe loader reads 2 and 3.

    Raises
    ------
    TypeError
        If the format cannot hold ``obj``.
    ValueError
        If the extension belongs to a format that cannot be written, such as ``.gguf``, and ``format`` is not given.
    RuntimeError
        If a tensor has no data and the format needs data, or if tensors for a safetensors file share memory.
    pickle.PicklingError, AttributeError
        If an object cannot be pickled, such as a lambda.

    Examples
    --------
    >>> import io
    >>> import metatensor as mt
    >>> weight = mt.zeros(2, 3, device="cpu")
    >>> file = io.BytesIO()
    >>> mt.save({"weight": weight, "row": weight[0]}, file)
    >>> _ = file.seek(0)
    >>> state = mt.load(file)
    >>> state["row"].untyped_storage() == state["weight"].untyped_storage()
    True
    """
    check_target(f)
    chosen = format_for(f, format)
    options: dict[str, Any] = {}
    if chosen in TORCH:
        options = {"protocol": checked_protocol(pickle_protocol), "pickle_module": pickle_module}
    elif pickle_module is not None:
        raise TypeError(f"save: {chosen} does not use pickle; pickle_module is for PyTorch's formats")
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
    """Save ``obj`` in PyTorch's zip format, or with ``legacy`` in its format before 1.6, whatever the extension.

    With ``byte_order`` false, the zip file does not record its byte order.
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
    """Raise TypeError if ``f`` is neither a path nor a binary file."""
    if isinstance(f, io.TextIOBase):
        raise TypeError(f'save: {getattr(f, "name", "the file")} is open for text; open it in binary mode: open(path, "wb")')
    if not hasattr(f, "write") and not isinstance(f, (str, bytes, os.PathLike)):
        raise TypeError(f"save: expected a path, or a file open for writing in binary mode, got {type(f).__name__}")


TORCH = ("torch", "torch-legacy")


def checked_protocol(protocol: Any) -> int:
    """Return a valid pickle protocol.

    A negative number means the highest. Raise ValueError if ``protocol`` is too high.
    """
    number = int(protocol)
    if number > pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"save: pickle_protocol must be at most {pickle.HIGHEST_PROTOCOL}, got {number}")
    return pickle.HIGHEST_PROTOCOL if number < 0 else number


def format_for(f: Any, format: str | None = None) -> str:
    """Return the name of the format in which to write the file ``f``.

    Raise ValueError if ``format`` is unknown, or if the file name's extension belongs to a format that cannot be
    written.
    """
    if format is not None:
        if format not in WRITERS:
            raise ValueError(f"save: unknown format {format!r}; the formats are {', '.join(WRITERS)}")
        return format
    name = str(getattr(f, "name", "")) if hasattr(f, "write") else os.fsdecode(os.fspath(f))
    ending = os.path.splitext(name)[1].lower()
    if ending in UNWRITTEN:
        raise ValueError(
            f"save: {os.path.basename(name)!r} has the extension of a format that cannot be written, {UNWRITTEN[ending]}; choose another "
            f"extension ({', '.join(('.pt', *FORMATS))}), or choose the format with format= ({', '.join(WRITERS)})"
        )
    return FORMATS.get(ending, "torch")


def parse_size(size: int | str) -> int:
    """Return the number of bytes in ``size``: "2GB", "500 MiB" or a number."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", size.lower())
        if match is None or match[2] not in UNITS:
            raise ValueError(f'save: max_shard_size is a number of bytes, or a string such as "2GB" or "500MiB", not {size!r}')
        size = int(float(match[1]) * UNITS[match[2]])
    if size <= 0:
        raise ValueError(f"save: max_shard_size must be positive, got {size}")
    return size
