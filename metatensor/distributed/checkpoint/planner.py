"""Plans of what to save and load."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from metatensor._core.absent import kind
from metatensor.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = ["BytesIOWriteData", "DefaultLoadPlanner", "DefaultSavePlanner", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem",
           "SavePlan", "SavePlanner", "TensorWriteData", "WriteItem", "WriteItemType"]  # fmt: skip


class WriteItemType(enum.Enum):
    """The kind of an item to save."""

    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


class LoadItemType(enum.Enum):
    """The kind of an item to load."""

    TENSOR = 1
    BYTE_IO = 2


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size in bytes of an object that is not a tensor."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk of a tensor, with the properties and size of the whole tensor."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """One item to save."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None


@dataclass(frozen=True)
class ReadItem:
    """One item to load: its position in the checkpoint and its destination."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """Everything that one process saves."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """Everything that one process loads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner:
    """Base class of objects that create a `SavePlan`."""


class LoadPlanner:
    """Base class of objects that create a `LoadPlan`."""


_WHY = "metatensor does not write sharded checkpoints; metatensor.checkpoint reads them"
DefaultSavePlanner = kind("distributed.checkpoint.DefaultSavePlanner", _WHY, SavePlanner)
DefaultLoadPlanner = kind("distributed.checkpoint.DefaultLoadPlanner", _WHY, LoadPlanner)
