"""Convert one checkpoint format into another, holding at most one tensor or shared storage in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import metatensor as mt
from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.budget import Claims, shared
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.listing import PER_BYTE, Walk, tensors_of, unique
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.progress import progress_for
from metatensor.checkpoint.reading import contiguous, resolved, row_major, shown, span
from metatensor.checkpoint.saving import TORCH, format_for, parse_size
from metatensor.checkpoint.sharding import save_shards
from metatensor.checkpoint.unsupported import UnsupportedTensor
from metatensor.checkpoint.writers import WRITERS, Contents, _is_unicode, tensor_span

__all__ = ["convert", "elements"]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    max_shard_size: int | str | None = None,
    drop: bool = False,
    progress: bool | Callable[[int, int, str], None] | None = None,
) -> dict[str, str]:
    """Convert a checkpoint of any readable format into one that `save` can write.

    Values are preserved bit for bit. PyTorch's formats preserve shared storages and, if the source is also a PyTorch
    file, all other saved values. The other formats keep only one of several names for the same tensor. The metadata of
    safetensors records the omitted names, as the safetensors library does.

    Parameters
    ----------
    source : str or path
        A file or folder that `load` accepts.
    target : str or path
        The file to write.
    format, max_shard_size
        As for `save`.
    drop : bool, default False
        Omit values that the target format cannot hold, and tensors that cannot be loaded. By default they raise an
        error.
    progress : bool or callable, optional
        As for `load_into`.

    Returns
    -------
    dict of str to str
        The omitted names of tensors, each with the name under which its values were written.

    Raises
    ------
    CheckpointError
        If the source cannot be read.
    TypeError, RuntimeError
        If the target format cannot hold the source's contents.
    ValueError
        If the extension of ``target`` belongs to a format that cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import metatensor as mt
    >>> folder = tempfile.mkdtemp()
    >>> source, target = os.path.join(folder, "a.pt"), os.path.join(folder, "a.safetensors")
    >>> weight = mt.ones(2, 3, device="cpu")
    >>> mt.save({"weight": weight, "tied": weight}, source)
    >>> mt.checkpoint.convert(source, target)
    {'tied': 'weight'}
    """
    form = format_for(target, format)
    path = os.fsdecode(os.fspath(target))
    with shared(), Opened(source) as opened:
        claims = Claims(opened.path, _bytes_behind(opened), "tensors that repeat their elements, or share them, would take space")
        for name, info in opened.checkpoint.tensors.items():
            if form not in TORCH:
                claims.add(info.nbytes)
                if not _is_unicode(name):
                    raise CheckpointError(opened.path, f"the name of tensor {shown(name)} is not Unicode text, and cannot be written")
            if info.location == "meta":
                raise CheckpointError(opened.path, f"tensor {shown(name)} has no data: it is a skeleton, or was saved from meta")
        obj, tensors, dropped = _stand_ins(opened, form)
        if dropped and not drop:
            names = ", ".join(shown(name) for name in dropped[:20])
            raise TypeError(
                f"convert: {os.path.basename(path)!r} would lack {names}{', ...' if len(dropped) > 20 else ''}, which cannot be in a file "
                f"of the format {form}; drop=True (--drop) leaves out objects that are not tensors"
            )
        left_out: dict[str, str] = {}
        if form not in TORCH:
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
    """Return the number of bytes of memory behind all tensors. Shared and repeated elements count once."""
    total = 0
    storages: dict[str, int] = {}
    for info in opened.checkpoint.tensors.values():
        if info.storage is None:
            total += info.nbytes
        elif info.nbytes:
            end = (info.storage_offset + span(info.shape, info.stride)) * (info.nbytes // prod(info.shape))
            storages[info.storage] = max(storages.get(info.storage, 0), end)
    return total + sum(storages.values())


def _stand_ins(opened: Opened, form: str) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the object to save with its tensors on meta, these tensors by name, and what the target will lack.

    For PyTorch's formats the object is everything that was saved, or only its tensors if the file contains unknown
    objects.
    """
    torch = form in TORCH
    tensors = _on_meta(opened, torch)
    unknown = [name for name in opened.checkpoint.metadata.get("unknown names", "").split(", ") if name]
    lacking = list(opened.checkpoint.unsupported)
    if not hasattr(opened.format, "unpickle"):
        return tensors, tensors, lacking + list(getattr(opened.checkpoint.private, "others", ()))  # of a distributed checkpoint
    if unknown:
        # The tensors of a module are saved as its state dict, so the module itself is not reported as missing.
        return tensors, tensors, lacking + [f"objects of {name}" for name in unknown if not name.startswith("torch.nn.")]
    with opened.again() as file:
        value = opened.format.load(file, opened.path, Places("meta"))
    walk = Walk(opened.path, PER_BYTE * opened.checkpoint.size)
    if not torch:
        return tensors, tensors, lacking + list(_no_tensors(value, walk))
    named = dict(unique(tensors_of(value, opened.path, 4 * (sum(map(len, tensors)) + 1000 * len(tensors)))))
    if named.keys() != tensors.keys() or lacking:
        return tensors, tensors, lacking + list(_no_tensors(value, walk))
    return value, named, lacking


def _no_tensors(value: Any, walk: Walk, path: str = "") -> Iterator[str]:
    """Yield the paths of values that are neither tensors nor containers of tensors.

    ``walk`` is charged for the traversal.
    """
    walk.pay(64)
    if isinstance(value, (dict, list, tuple)) and not isinstance(value, mt.Size):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _no_tensors(item, walk, walk.inner(path, key))
    elif not isinstance(value, (mt.Tensor, UnsupportedTensor)):
        yield path or "(the value)"


def _on_meta(opened: Opened, lazy: bool) -> dict[str, Any]:
    """Return meta tensors that represent the stored ones and share storages in the same way.

    With ``lazy``, conjugated and negated tensors stay lazy views.
    """
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
    """Return the names of tensors that are identical to an earlier tensor, mapped to the earlier one's name."""
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
    """Supplies the bytes of the checkpoint that is being converted."""

    holds_meta = True

    def __init__(self, opened: Opened, tensors: dict[str, Any], progress: Any) -> None:
        self.opened = opened
        self.progress = progress
        self.over: dict[Any, list[str]] = {}
        self.tensors = tensors
        for name, tensor in tensors.items():
            self.over.setdefault(tensor.untyped_storage(), []).append(name)

    def storage(self, storage: Any) -> Any:
        """Return all bytes of a storage, assembled from its tensors."""
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
        """Return the elements of a tensor in row-major order."""
        self.progress.start(name)
        data = elements(self.opened, name)
        self.progress.advance(self.opened.checkpoint.tensors[name].nbytes)
        return data


def elements(opened: Opened, name: str) -> Any:
    """Return the elements of a checkpoint's tensor in row-major order."""
    info = opened.checkpoint.tensors[name]
    data = resolved(opened.fetch(name), info, opened.path)
    if info.stride is None or info.stride == contiguous(info.shape) or not info.nbytes:
        return data
    return row_major(data, info)
