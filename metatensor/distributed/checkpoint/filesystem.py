"""Checkpoints in folders: ``.metadata`` and the ``.distcp`` files of each rank."""

from __future__ import annotations

import dataclasses
import io
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor.checkpoint._pickle_writer import pickled
from metatensor.checkpoint._zip_writer import write_all
from metatensor.checkpoint.atomic import Staged
from metatensor.checkpoint.box_reading import read_piece
from metatensor.checkpoint.boxes import Box
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.distributed import FORMAT, METADATA, files_of
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.reading import shown
from metatensor.checkpoint.writers import ALIGNMENT, OWN, Contents, write_torch
from metatensor.distributed.checkpoint._folder import STAGED, Saving, file_name, remove
from metatensor.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from metatensor.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItem, WriteItemType
from metatensor.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from metatensor.distributed.futures import Future

__all__ = ["FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter", "WriteResult"]

VERSION = "1.0.0"


@dataclass
class _StorageInfo:
    """The position of an item in a file."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class _StoragePrefix:
    """Names of the files of a rank."""

    prefix: str
    rank: int = 0
    tag: str = ""


# Writing --------------------------------------------------------------------------


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint to a folder, in PyTorch's format.

    A checkpoint that the folder has already is replaced in one step when the new one is complete. Until then it can be
    read, also if processes that save are killed. Several programs may save to one folder at the same time. The last one's
    checkpoint remains.

    Parameters
    ----------
    path : str or path
        The folder. It is created.
    single_file_per_rank : bool
        Write one file for each rank. If False, write one for each item.
    sync_files : bool
        Has no effect: files are always on the disk before ``.metadata`` refers to them.
    thread_count, per_thread_copy_ahead : int
        Have no effect: one item at a time is copied to host memory and written.
    cache_staged_state_dict : bool
        Has no effect.
    overwrite : bool
        Replace a checkpoint. If False, that is an error.

    Raises
    ------
    RuntimeError
        When saving, if ``overwrite`` is False and there is a checkpoint.
    """

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True,
        _extensions: Any = None, serialization_format: Any = None,
    ) -> None:  # fmt: skip
        if _extensions:
            raise NotImplementedError("torch.distributed.checkpoint.FileSystemWriter: extensions are not supported")
        if getattr(serialization_format, "value", "torch_save") != "torch_save":
            raise NotImplementedError("torch.distributed.checkpoint.FileSystemWriter: only PyTorch's format is supported for chunks")
        self.path = os.fspath(path)
        self.single_file_per_rank, self.overwrite = single_file_per_rank, overwrite
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self._saving: Saving | None = None
        self._written: list[str] = []

    @property
    def checkpoint_id(self) -> str:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self.path = os.fspath(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank = kwargs.get("rank")
        self._written = []

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        os.makedirs(self.path, exist_ok=True)
        if not self.overwrite and os.path.exists(os.path.join(self.path, METADATA)):
            raise RuntimeError(f"torch.distributed.checkpoint.FileSystemWriter: {self.path} has a checkpoint, and overwrite is False")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        self._saving = Saving(self.path)
        tag = self._saving.tag
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{rank}_", rank, tag)) if plan.storage_data is None else plan
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        prefix: _StoragePrefix = plan.storage_data
        groups = [plan.items] if self.single_file_per_rank else [[item] for item in plan.items]
        results = []
        for number, items in enumerate(groups):
            if items:
                results += self._write_file(file_name(prefix.rank, number, prefix.tag), items, planner)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with Staged(self.path, STAGED) as staged:
            file = staged.file
            for item in items:
                begin = file.tell()
                if begin % ALIGNMENT:
                    write_all(file, bytes(-begin % ALIGNMENT))
                    begin = file.tell()
                try:
                    _write_item(file, item, planner.resolve_data(item))
                except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                    raise type(error)(f"{os.path.join(self.path, name)}: {item.index.fqn!r}: {error}") from error
                length = file.tell() - begin
                results.append(WriteResult(item.index, length, _StorageInfo(name, begin, length)))
            staged.sync()
            staged.link(os.path.join(self.path, name))
            self._written.append(name)
            staged.keep()
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]], before_end: Callable[[], None] | None = None) -> None:
        assert self._saving is not None
        metadata.version = VERSION
        metadata.storage_data = {one.index: one.storage_data for found in results for one in found}
        metadata.storage_meta = self.storage_meta()
        self._saving.commit(pickled(metadata, protocol=4)[0], before_end)
        self._saving, self._written = None, []

    def abandon(self, agreed: bool = True) -> None:
        """Remove what was written, unless it is the checkpoint already. The checkpoint that was there before stays.

        ``agreed`` is false if other ranks may not know that saving has failed, as after a failure of communication. The
        coordinator may then still complete the checkpoint, so nothing is removed. If it does not, the next saver removes it.
        """
        if self._saving is not None:
            if agreed:
                self._saving.abandon()
            else:
                self._saving.leave()
            self._saving = None
        elif agreed and self._written:
            kept = files_of(os.path.join(self.path, METADATA))
            remove(self.path, set(self._written) - kept if kept is not None else ())
        self._written = []

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self.path, save_id=self.save_id)


class _Rows(Contents):
    """The elements of one tensor in row-major order, as the contents of a storage on meta."""

    holds_meta = True

    def __init__(self, name: str, tensor: Any) -> None:
        self.name, self.held = name, tensor

    def storage(self, storage: Any) -> Any:
        return OWN.tensor(self.name, self.held)


def _write_item(file: Any, item: WriteItem, data: Any) -> None:
    """Write a tensor or the content of a binary file."""
    if item.type is WriteItemType.BYTE_IO:
        write_all(file, data.getbuffer() if isinstance(data, io.BytesIO) else data.read())
        return
    layout = mt.empty(tuple(data.shape), dtype=data.dtype, device="meta")
    write_torch(layout, file, _Rows(item.index.fqn, data.detach()))


# Reading --------------------------------------------------------------------------


class FileSystemReader(StorageReader):
    """Reads a checkpoint in a folder, or in any other format that `metatensor.load` knows. Only bytes that are needed are read.

    Objects that are not tensors are loaded safely: a file that needs unknown classes is refused.

    Parameters
    ----------
    path : str or path
        The folder, or the file of a checkpoint in another format.
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        self.path = os.fspath(path)
        self.storage_data: dict[MetadataIndex, _StorageInfo] = {}
        self.load_id = str(uuid.uuid4())
        self._source: Opened | None = None

    @property
    def checkpoint_id(self) -> str:
        """The folder or file."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return os.path.exists(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self.storage_data, self._source = {}, None
        if checkpoint_id:
            self.path = os.fspath(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def _opened(self) -> Opened:
        inside = os.path.join(self.path, METADATA)
        return Opened(inside if os.path.exists(inside) else self.path)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with self._opened() as source:
            metadata = metadata_of(source)
        self._source = source  # what it knows of the checkpoint; its files are closed
        metadata.storage_meta = StorageMeta(checkpoint_id=self.path, load_id=self.load_id)
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        def place(item: Any) -> tuple[str, int]:
            info = self.storage_data[item.storage_index]
            return info.relative_path, info.offset

        with self._source or self._opened() as source:
            for item in sorted(plan.items, key=place):
                if item.type is LoadItemType.BYTE_IO:
                    with shared(source.budget):
                        name = item.storage_index.fqn
                        planner.load_bytes(item, _Object(self.path, name, FORMAT.object_bytes(source.checkpoint, name)))
                    continue
                target = planner.resolve_tensor(item).detach()
                if tuple(target.shape) != tuple(item.lengths):
                    raise CheckpointError(source.path, f"{item.storage_index.fqn!r}: {list(item.lengths)} is loaded into a tensor of "
                                                       f"shape {list(target.shape)}")
                if target.numel() and not target.is_meta:
                    name, piece = item.storage_index.fqn, _piece(source, item.storage_index)
                    with mt.no_grad():
                        read_piece(source, name, piece, Box(tuple(item.storage_offsets), tuple(item.lengths)), target)
                planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done


class _Object(io.BytesIO):
    """The file of an object, with a name for messages."""

    def __init__(self, path: str, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = f"{path}: {shown(name)}"


def _piece(source: Opened, index: MetadataIndex) -> Any:
    """Return the stored array with a chunk of a tensor."""
    if source.format is FORMAT:
        with shared(source.budget):
            return FORMAT.piece(source.checkpoint, index.fqn, tuple(index.offset))
    info = source.checkpoint.tensors[index.fqn]
    return source.pieces(index.fqn, Box((0,) * len(info.shape), info.shape))[0]


def metadata_of(source: Opened) -> Metadata:
    """Return the metadata of an open checkpoint of any format. What is not a distributed checkpoint has one chunk per tensor."""
    table: dict[str, Any] = {}
    places: dict[MetadataIndex, _StorageInfo] = {}
    layout = source.checkpoint.private if source.format is FORMAT else None
    for name, info in source.checkpoint.tensors.items():
        dtype = getattr(mt, info.dtype, None)
        if not isinstance(dtype, mt.dtype):
            raise CheckpointError(source.path, f"{name!r}: metatensor does not compute with {info.dtype}")
        if layout is None:
            whole = _StorageInfo(os.path.basename(source.path_of(name)), max(info.offset, 0), info.nbytes)
            stored = [((0,) * len(info.shape), info.shape, whole)]
        else:
            stored = [(one.offsets, one.sizes, _StorageInfo(one.file, one.begin, one.length)) for one in layout.tensors[name].chunks]
        table[name] = TensorStorageMetadata(TensorProperties(dtype), mt.Size(info.shape), [])
        for number, (offsets, sizes, place) in enumerate(stored):
            table[name].chunks.append(ChunkStorageMetadata(mt.Size(offsets), mt.Size(sizes)))
            places[MetadataIndex(name, offsets, number)] = place
    paths: dict[str, Any] = {}
    if layout is not None:
        paths = layout.paths
        for name, chunk in layout.others.items():
            table[name] = BytesStorageMetadata()
            places[MetadataIndex(name)] = _StorageInfo(chunk.file, chunk.begin, chunk.length)
    return Metadata(table, paths, places)

