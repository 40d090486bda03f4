"""Plans of what is written and read."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from metatensor._core.absent import kind
from metatensor.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = ["BytesIOWriteData", "DefaultLoadPlanner", "DefaultSavePlanner", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem",
           "SavePlan", "SavePlanner", "TensorWriteData", "WriteItem", "WriteItemType"]  # fmt: skip


class WriteItemType(enum.Enum):
    """What is written."""

    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


class LoadItemType(enum.Enum):
    """What is read."""

    TENSOR = 1
    BYTE_IO = 2


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of something that is no tensor."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A part of a tensor."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """One thing to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None


@dataclass(frozen=True)
class ReadItem:
    """One thing to read: where it is and where it goes."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """All that a process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """All that a process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner:
    """Makes `SavePlan`; a base to subclass."""


class LoadPlanner:
    """Makes `LoadPlan`; a base to subclass."""


_WHY = "metatensor writes no sharded checkpoints"
DefaultSavePlanner = kind("distributed.checkpoint.DefaultSavePlanner", _WHY, SavePlanner)
DefaultLoadPlanner = kind("distributed.checkpoint.DefaultLoadPlanner", _WHY, LoadPlanner)
