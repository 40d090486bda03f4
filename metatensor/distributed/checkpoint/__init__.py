"""Checkpoints that several ranks save and load together, in PyTorch's format: a folder with ``.metadata`` and ``.distcp`` files.

`save` and `load` take a state dict with distributed tensors. A checkpoint can be loaded with other numbers of ranks and other
placements than it was saved with; each rank reads only the bytes that it needs.
"""

from __future__ import annotations

from metatensor._core.lazy import attributes
from metatensor.distributed.checkpoint.api import CheckpointException
from metatensor.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from metatensor.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from metatensor.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from metatensor.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from metatensor.distributed.checkpoint.state_dict_loader import load, load_state_dict
from metatensor.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from metatensor.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner",
    "FileSystemReader", "FileSystemWriter", "LoadPlan", "LoadPlanner", "Metadata", "ReadItem", "SavePlan", "SavePlanner",
    "StorageReader", "StorageWriter", "TensorStorageMetadata", "WriteItem", "async_save", "load", "load_state_dict", "save",
    "save_state_dict",
]  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__, (
        "api", "default_planner", "filesystem", "format_utils", "hf_storage", "layouts", "metadata", "optimizer", "planner", "resharding",
        "state_dict", "state_dict_loader", "state_dict_saver", "stateful", "storage",
    ),
    {name: f"{__name__}.hf_storage:{name}" for name in ("HuggingFaceStorageReader", "HuggingFaceStorageWriter")}
    | {"load_sharded_optimizer_state_dict": f"{__name__}.optimizer:load_sharded_optimizer_state_dict"},
)  # fmt: skip
