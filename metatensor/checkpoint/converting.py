"""One format into another, streaming: no more than one tensor, or one shared storage, is in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod
from typing import Any

import metatensor as mt
from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.budget import Claims, shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.listing import tensors_of, unique
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.places import Places
from metatensor.checkpoint.progress import progress_for
from metatensor.checkpoint.reading import contiguous, resolved, row_major, shown, span
from metatensor.checkpoint.saving import format_for, parse_size
from metatensor.checkpoint.sharding import save_shards
from metatensor.checkpoint.writers import WRITERS, Contents, _is_unicode, tensor_span

__all__ = ["convert", "elements"]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    max_shard_size: int | str | None = None,
    progress: bool | Callable[[int, int, str], None] | None = None,
) -> dict[str, str]:
    """Write the checkpoint ``source``, of any format, as ``target``, in a format that `save` knows.

    Values stay as they are, bit for bit. PyTorch's format keeps shared storages shared and, from another file of
    PyTorch's, whatever else was saved; in the other formats a tensor that is the same as another is left out, and told
    of in the metadata of safetensors, as its library does.

    Returns the names left out, each with the name that has its values. Raises `CheckpointError` for what cannot be read,
    TypeError or RuntimeError for what the new format cannot hold.
    """
    form = format_for(target, format)
    path = os.fsdecode(os.fspath(target))
    with shared(), Opened(source) as opened:
        claims = Claims(opened.path, _bytes_behind(opened), "tensors that repeat their elements, or share them, would take space")
        for name, info in opened.checkpoint.tensors.items():
            if form != "torch":
                claims.add(info.nbytes)
                if not _is_unicode(name):
                    raise CheckpointError(opened.path, f"the name of tensor {shown(name)} is not Unicode text, and cannot be written")
            if info.location == "meta":
                raise CheckpointError(opened.path, f"tensor {shown(name)} has no data: it is a skeleton, or was saved from meta")
        obj, tensors = _stand_ins(opened, form)
        left_out: dict[str, str] = {}
        if form != "torch":
            left_out = _same(opened, tensors)
            for name in left_out:
                del tensors[name]
        metadata = None
        if form == "safetensors":
            metadata = {**_texts(opened), "format": "pt", **left_out}
        total = sum(opened.checkpoint.tensors[name].nbytes for name in tensors)
        with progress_for(progress, total) as shown_progress:
            contents = _FileContents(opened, tensors, shown_progress)
            if max_shard_size is not None:
                save_shards(tensors, path, form, parse_size(max_shard_size), metadata, contents)
            else:
                with replacing(path) as file:
                    WRITERS[form](obj, file, contents, metadata)
    return left_out


def _bytes_behind(opened: Opened) -> int:
    """The bytes that all tensors have in memory together: fewer than theirs where some share them, or repeat elements."""
    total = 0
    storages: dict[str, int] = {}
    for info in opened.checkpoint.tensors.values():
        if info.storage is None:
            total += info.nbytes
        elif info.nbytes:
            end = (info.storage_offset + span(info.shape, info.stride)) * (info.nbytes // prod(info.shape))
            storages[info.storage] = max(storages.get(info.storage, 0), end)
    return total + sum(storages.values())


def _stand_ins(opened: Opened, form: str) -> tuple[Any, dict[str, Any]]:
    """What is to be saved, on meta, and its tensors by name: for PyTorch's format with everything else that was saved.

    Where that has objects that are not known, the tensors alone.
    """
    tensors = _on_meta(opened, form == "torch")
    if form == "torch" and not opened.checkpoint.metadata.get("unknown names"):
        with opened.again() as file:
            value = opened.format.load(file, opened.path, Places("meta"))
        named = dict(unique(tensors_of(value, opened.path, 4 * (sum(map(len, tensors)) + 1000 * len(tensors)))))
        if named.keys() == tensors.keys():
            return value, named
    return tensors, tensors


def _on_meta(opened: Opened, lazy: bool) -> dict[str, Any]:
    """Stand-ins for the tensors, those of one storage over one storage, with ``lazy`` conjugates and negatives as such."""
    infos = opened.checkpoint.tensors
    storages: dict[str, int] = {}
    for name, info in infos.items():
        dtype = getattr(mt, info.dtype, None)
        if not isinstance(dtype, mt.dtype):
            raise CheckpointError(opened.path, f"tensor {shown(name)} is of {info.dtype}, which no other format has")
        if info.storage is not None:
            end = (info.storage_offset + span(info.shape, info.stride)) * dtype.itemsize
            storages[info.storage] = max(storages.get(info.storage, 0), end)
    made = {key: mt.empty(size, dtype=mt.uint8, device="meta").untyped_storage() for key, size in storages.items()}
    tensors = {}
    for name, info in infos.items():
        dtype, stride = getattr(mt, info.dtype), info.stride or contiguous(info.shape)
        if info.storage is None:
            tensors[name] = mt.empty_strided(info.shape, stride, dtype=dtype, device="meta")
        else:
            tensors[name] = mt.empty(0, dtype=dtype, device="meta").set_(made[info.storage], info.storage_offset, info.shape, stride)
        if lazy and "conj" in info.lazy:
            tensors[name] = tensors[name].conj()
        if lazy and "neg" in info.lazy:
            tensors[name] = mt._neg_view(tensors[name])
    return tensors


def _same(opened: Opened, tensors: dict[str, Any]) -> dict[str, str]:
    """Tensors that are another one by another name, with that name."""
    first: dict[Any, str] = {}
    found = {}
    for name in tensors:
        info = opened.checkpoint.tensors[name]
        if info.storage is not None and info.nbytes:
            key = (info.dtype, info.storage, info.storage_offset, info.shape, info.stride or contiguous(info.shape), info.lazy)
            if first.setdefault(key, name) != name:
                found[name] = first[key]
    return found


def _texts(opened: Opened) -> dict[str, str]:
    found = {str(key): str(value) for key, value in opened.checkpoint.metadata.items()}
    for key, value in found.items():
        if not _is_unicode(key + value):
            raise CheckpointError(opened.path, f"its metadata {shown(key)} are not Unicode text, and cannot be written")
    return found


class _FileContents(Contents):
    """The bytes of stand-ins: those of the checkpoint that is being converted."""

    holds_meta = True

    def __init__(self, opened: Opened, tensors: dict[str, Any], progress: Any) -> None:
        self.opened = opened
        self.progress = progress
        self.over: dict[Any, list[str]] = {}
        self.tensors = tensors
        for name, tensor in tensors.items():
            self.over.setdefault(tensor.untyped_storage(), []).append(name)

    def storage(self, storage: Any) -> Any:
        """All bytes of a storage, from the tensors over it."""
        names = self.over[storage]
        data = memoryview(bytearray(storage.nbytes()))
        filled: set[tuple[int, int]] = set()
        for name in names:
            begin, end = tensor_span(self.tensors[name])
            if end > begin and (begin, end) not in filled:
                self.progress.start(name)
                self.opened.read_into(name, data[begin:end], 0, self.progress.advance)
                filled.add((begin, end))
        return data

    def tensor(self, name: str, tensor: Any) -> Any:
        """The elements in row-major order."""
        self.progress.start(name)
        data = elements(self.opened, name)
        self.progress.advance(self.opened.checkpoint.tensors[name].nbytes)
        return data


def elements(opened: Opened, name: str) -> Any:
    """The elements of a checkpoint's tensor in row-major order."""
    info = opened.checkpoint.tensors[name]
    data = resolved(opened.fetch(name), info, opened.path)
    if info.stride is None or info.stride == contiguous(info.shape) or not info.nbytes:
        return data
    return row_major(data, info)
