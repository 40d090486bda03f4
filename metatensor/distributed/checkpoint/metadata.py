"""Metadata of sharded checkpoints."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
           "TensorStorageMetadata"]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """Offsets and sizes of a chunk of a tensor."""

    offsets: Any
    sizes: Any


class _MEM_FORMAT_ENCODING(enum.Enum):
    """Numbers of memory formats in files."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    mt.contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT, mt.channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
    mt.preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT,
}  # fmt: skip


@dataclass
class TensorProperties:
    """Properties of a tensor other than its size."""

    dtype: Any = field(default_factory=mt.get_default_dtype)
    layout: Any = mt.strided
    requires_grad: bool = False
    memory_format: Any = mt.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        return self.dtype, self.layout, self.requires_grad, _FORMATS[self.memory_format], self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = next(known for known, number in _FORMATS.items() if number is encoded)

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Return the properties of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, mt.contiguous_format, tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """Properties and size of a tensor, and the chunks it is stored in."""

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Placeholder for an object that is not a tensor."""


@dataclass
class StorageMeta:
    """Identifiers of a checkpoint and of the calls that saved and loaded it."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """Metadata of all entries of a checkpoint, by name."""

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A name and, for a chunk of a tensor, its offset. ``index`` is a hint that comparisons ignore."""

    fqn: str
    offset: Any = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else mt.Size(offset))
        object.__setattr__(self, "index", index)
