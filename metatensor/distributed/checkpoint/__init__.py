"""Sharded checkpoints. The classes that describe them work, but functions that write or read them raise."""

from __future__ import annotations

from metatensor._core.absent import functions
from metatensor._core.lazy import attributes
from metatensor.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, StorageReader, StorageWriter
from metatensor.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from metatensor.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "FileSystemReader", "FileSystemWriter", "LoadPlan", "LoadPlanner", "Metadata",
    "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter", "TensorStorageMetadata", "WriteItem", "async_save",
    "load", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip

_places = {name: f"{__name__}.planner:{name}" for name in ("DefaultLoadPlanner", "DefaultSavePlanner")}
__getattr__, __dir__ = attributes(
    __name__, ("default_planner", "filesystem", "metadata", "optimizer", "planner", "state_dict"),
    _places | {"load_sharded_optimizer_state_dict": f"{__name__}.optimizer:load_sharded_optimizer_state_dict"},
)  # fmt: skip

_made = functions(
    "distributed.checkpoint", "async_save load load_state_dict save save_state_dict",
    "metatensor does not write sharded checkpoints; use torch.save and torch.load, or metatensor.checkpoint",
)  # fmt: skip
async_save, load, load_state_dict = _made["async_save"], _made["load"], _made["load_state_dict"]
save, save_state_dict = _made["save"], _made["save_state_dict"]
