"""Interfaces of what writes and reads the data of checkpoints."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from metatensor.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from metatensor.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from metatensor.distributed.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """Description of an item that was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Base class of writers, which execute a `SavePlan`.

    `save` calls on all ranks: `reset`, `set_up_storage_writer`, `prepare_local_plan`; on the coordinator:
    `prepare_global_plan`; on all ranks: `write_data`; on the coordinator: `finish`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Prepare for a new checkpoint, at ``checkpoint_id`` if it is given."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare this rank. ``rank`` is passed by keyword."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return this rank's plan, with what the writer adds to it."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans of all ranks, with what the writer adds to them."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items of a plan. ``planner.resolve_data(item)`` returns the data of an item."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata. The checkpoint is complete afterwards."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if this writer can write to ``checkpoint_id``."""
        return True

    def storage_meta(self) -> StorageMeta | None:
        """Return what is stored about the checkpoint as a whole."""
        return None


class StorageReader(ABC):
    """Base class of readers, which execute a `LoadPlan`.

    `load` calls on all ranks: `reset`, `read_metadata`, `set_up_storage_reader`, `prepare_local_plan`; on the
    coordinator: `prepare_global_plan`; on all ranks: `read_data`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Prepare for another checkpoint, at ``checkpoint_id`` if it is given."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the metadata."""

    @abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepare this rank. ``rank`` is passed by keyword."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return this rank's plan, with what the reader adds to it."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans of all ranks, with what the reader adds to them."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of a plan.

        Objects are passed to ``planner.load_bytes``. The elements of tensors are written to the tensor that
        ``planner.resolve_tensor`` returns, which is then passed to ``planner.commit_tensor``.
        """

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return True if this reader can read ``checkpoint_id``."""
        return True
