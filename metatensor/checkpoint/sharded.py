"""Checkpoints in several files (shards), with a JSON index that maps tensors to files.

Common names of the index are ``model.safetensors.index.json`` and ``pytorch_model.bin.index.json``. The shards are in
the same folder and may have any single-file format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.formats import Format, format_of
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.model import Checkpoint
from metatensor.checkpoint.reading import beside, json_integer, must_be_found, shown
from metatensor.checkpoint.source import Source, open_file

__all__ = ["FORMAT", "MAX_INDEX", "Sharded", "file_in"]

MAX_INDEX = 1 << 26
MAX_SHARDS = 1 << 14

PREFERRED = (
    "model.safetensors.index.json", "pytorch_model.bin.index.json", ".metadata", "model.safetensors", "pytorch_model.bin",
)  # fmt: skip
"""File names that represent a folder's checkpoint, in order of preference."""
ENDINGS = (".safetensors", ".gguf", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".onnx")


def file_in(folder: str) -> str:
    """Return the file that represents the checkpoint in a folder: an index, or the only checkpoint file."""
    names = sorted(os.listdir(folder))
    for name in PREFERRED:
        if name in names:
            return os.path.join(folder, name)
    for ending in (".index.json", *ENDINGS):
        found = [name for name in names if name.endswith(ending)]
        if len(found) == 1:
            return os.path.join(folder, found[0])
        if found:
            raise CheckpointError(folder, _several(found))
    raise CheckpointError(folder, "the folder has no checkpoint: neither an index nor a file with a known extension")


def _several(names: list[str]) -> str:
    """Return the message for a folder that has these files but no index."""
    parts = [re.fullmatch(r"(.+)-\d{5}-of-(\d{5})(\.\w+)", name) for name in names]
    whole = {f"{part[1]}{part[3]}" for part in parts if part}
    if len(whole) != 1 or not all(parts):
        return f"the folder has {len(names)} files {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: name one"
    base = whole.pop()
    return (
        f"the folder has {len(names)} shards of {base!r} and no index that says which tensors belong together: put the index, "
        f"{base + '.index.json'!r}, beside them, or name one shard"
    )


class Sharded:
    """Reader of an index and its shards."""

    name: str = "sharded"
    suffixes: tuple[str, ...] = (".index.json",)

    def matches(self, head: bytes, size: int) -> bool:
        """Return True if the file begins with a JSON object and a key of an index."""
        return head.lstrip()[:1] == b"{" and (b'"weight_map"' in head or b'"metadata"' in head)

    def inspect(self, file: BinaryIO, name: str) -> Checkpoint:
        """Return the tensors of all shards."""
        metadata, weights = read_index(file, name)
        size = Source(file, name).size
        tensors: dict[str, Any] = {}
        unsupported: dict[str, str] = {}
        inner = ""
        for shard, form, opened in self._shards(name, weights):
            found = form.inspect(opened, shard)
            base = os.path.basename(shard)
            inner = found.format
            size += found.size
            for tensor, info in found.tensors.items():
                self._once(name, tensor, tensors, base)
                storage = None if info.storage is None else f"{base}:{info.storage}"
                tensors[tensor] = info._replace(file=base, storage=storage)
            unsupported.update(found.unsupported)
        self._complete(name, weights, {**tensors, **unsupported})
        return Checkpoint(name, f"{self.name} {inner}", size, tensors, metadata, unsupported=unsupported)

    def load(self, file: BinaryIO, name: str, place: Places) -> dict[str, Any]:
        """Return the tensors of all shards. They are read one shard at a time."""
        _, weights = read_index(file, name)
        tensors: dict[str, Any] = {}
        for shard, form, opened in self._shards(name, weights):
            found = form.load(opened, shard, place)
            if not isinstance(found, dict):
                raise CheckpointError(shard, f"a shard must hold tensors by name, but this one holds {type(found).__name__}")
            base = os.path.basename(shard)
            for tensor, value in found.items():
                self._once(name, tensor, tensors, base)
                tensors[tensor] = value
        self._complete(name, weights, tensors)
        return tensors

    def _shards(self, name: str, weights: dict[str, str]) -> Iterator[tuple[str, Format, BinaryIO]]:
        """Yield the path, format and open file of each shard."""
        shards = sorted(set(weights.values()))
        if len(shards) > MAX_SHARDS:
            raise CheckpointError(name, f"the index names {len(shards):,} shards; the limit is {MAX_SHARDS:,}")
        paths = [beside(name, shard, "the shard") for shard in shards]
        for path in paths:
            with open_file(path) as opened:
                form = format_of(opened, path)
                if form is self:
                    raise CheckpointError(path, "a shard cannot be an index")
                yield path, form, opened

    def _once(self, name: str, tensor: Any, tensors: dict[str, Any], shard: str) -> None:
        if tensor in tensors:
            raise CheckpointError(name, f"tensor {shown(tensor)} is in two shards; the second is {shard!r}")

    def _complete(self, name: str, weights: dict[str, str], tensors: dict[str, Any]) -> None:
        for tensor, shard in weights.items():
            if tensor not in tensors:
                raise CheckpointError(name, f"the index places tensor {shown(tensor)} in {shown(shard)}, which does not have it")


FORMAT = Sharded()


def read_index(file: BinaryIO, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the index's metadata as strings, and the shard of each tensor.

    Raise `CheckpointError` if the index is invalid.
    """
    source = Source(file, name)
    if source.size > MAX_INDEX:
        raise CheckpointError(name, f"the index has {source.size:,} bytes; the limit is {MAX_INDEX:,}")
    try:
        index = _DECODER.decode(source.read(0, source.size, "the index").decode("utf-8"))
    except RecursionError:
        raise CheckpointError(name, "the index is nested too deeply") from None
    except _Twice as error:
        raise CheckpointError(name, f"the index has the name {shown(error.args[0])} twice") from None
    except ValueError as error:
        raise CheckpointError(name, f"the index is not JSON in UTF-8: {error}") from None
    weights = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weights, dict):
        raise CheckpointError(name, "it is JSON but not an index: it has no weight_map from tensors to files")
    for tensor, shard in weights.items():
        if not isinstance(shard, str):
            raise CheckpointError(name, f"the index places tensor {shown(tensor)} in {shown(str(shard))}, which is not a file name")
    if not weights:
        raise CheckpointError(name, "the index names no tensors")
    must_be_found(file, name, "shards")
    metadata = index.get("metadata")
    try:
        return {key: str(value)[:1000] for key, value in metadata.items()} if isinstance(metadata, dict) else {}, weights
    except RecursionError:
        raise CheckpointError(name, "the metadata of the index are nested too deeply") from None


class _Twice(ValueError):
    """A repeated key in a JSON object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return made


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=json_integer)
