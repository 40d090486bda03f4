"""What a sharded checkpoint says of what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
           "TensorStorageMetadata"]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and its sizes."""

    offsets: Any
    sizes: Any


@dataclass
class TensorProperties:
    """What a tensor is besides its size."""

    dtype: Any = field(default_factory=mt.get_default_dtype)
    layout: Any = mt.strided
    requires_grad: bool = False
    memory_format: Any = mt.contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, mt.contiguous_format, tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """A tensor and its parts."""

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Something that is no tensor."""


@dataclass
class StorageMeta:
    """Where a checkpoint is, and who wrote it."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """Everything of a checkpoint by name."""

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A name, and for a part of a tensor where it begins; ``index`` is a hint that does not count in comparisons."""

    fqn: str
    offset: Any = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else mt.Size(offset))
        object.__setattr__(self, "index", index)
