"""Plans of what to save and load."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

from metatensor.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = ["BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "TensorWriteData",
           "WriteItem", "WriteItemType"]  # fmt: skip


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

    def tensor_storage_size(self) -> int | None:
        """Return the size of the whole tensor in bytes, or None if the item is not a tensor."""
        data = self.tensor_data
        return None if data is None else prod(data.size) * int(data.properties.dtype.itemsize)


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


class SavePlanner(ABC):
    """Base class of objects that decide what each rank saves.

    `save` calls on all ranks: `set_up_planner`, `create_local_plan`; on the coordinator: `create_global_plan`; on all ranks:
    `finish_plan`, and `resolve_data` for each item.
    """

    @abstractmethod
    def set_up_planner(self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False) -> None:
        """Set the state dict to save."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Return everything that this rank holds."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return what each rank saves, and the metadata of the checkpoint."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the plan of this rank, given that of the coordinator."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Any:
        """Return the tensor to save, or a binary file with a pickled object."""


class LoadPlanner(ABC):
    """Base class of objects that decide what each rank loads.

    `load` calls on all ranks: `set_up_planner`, `create_local_plan`; on the coordinator: `create_global_plan`; on all ranks:
    `finish_plan`, and for each item `load_bytes`, or `resolve_tensor` and `commit_tensor`.
    """

    @abstractmethod
    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        """Set the state dict to load into."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Return what this rank needs."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return what each rank loads."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Return the plan of this rank, given that of the coordinator."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        """Load an object from a binary file."""

    def resolve_bytes(self, read_item: ReadItem) -> Any:
        """Return a binary file that is filled with an object. It need not be supported."""
        raise NotImplementedError("torch.distributed.checkpoint.LoadPlanner.resolve_bytes: this planner loads objects with load_bytes")

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Any:
        """Return a tensor that is filled with the elements of an item."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """Accept a tensor that `resolve_tensor` returned, and that has been filled."""
