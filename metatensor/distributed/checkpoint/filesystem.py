"""Sharded checkpoints in directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metatensor._core.absent import kind
from metatensor.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter", "WriteResult"]


@dataclass
class _StorageInfo:
    """The position of an item in a file."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None


@dataclass(frozen=True)
class WriteResult:
    """Description of an item that was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageReader:
    """Base class of readers, which execute a `LoadPlan`."""


class StorageWriter:
    """Base class of writers, which execute a `SavePlan`."""


_WHY = "metatensor does not write sharded checkpoints; metatensor.checkpoint reads them"
FileSystemReader = kind("distributed.checkpoint.FileSystemReader", _WHY, StorageReader)
FileSystemWriter = kind("distributed.checkpoint.FileSystemWriter", _WHY, StorageWriter)
