"""Readers of safetensors files, as Hugging Face's libraries write them."""

from __future__ import annotations

import os

from metatensor._core.absent import kind
from metatensor.distributed.checkpoint.filesystem import FileSystemReader
from metatensor.distributed.checkpoint.storage import StorageWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageReader(FileSystemReader):
    """Reads a folder of safetensors files with an index, or with a single file.

    Parameters
    ----------
    path : str or path
        The folder, or a file.
    thread_count : int
        Has no effect.
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)


HuggingFaceStorageWriter = kind(
    "distributed.checkpoint.HuggingFaceStorageWriter",
    "metatensor writes distributed checkpoints in PyTorch's format only; metatensor.checkpoint.convert makes safetensors files of them",
    StorageWriter,
)
