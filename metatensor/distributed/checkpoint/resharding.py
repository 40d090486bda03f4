"""Change how a checkpoint is divided among ranks, or plan it without reading any data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor.checkpoint.box_reading import read_block
from metatensor.checkpoint.boxes import Block, Box, overlap, reading_of, whole_box
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.distributed import FORMAT
from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.progress import progress_for
from metatensor.checkpoint.reading import contiguous, shown
from metatensor.distributed.checkpoint._nested_dict import flatten_state_dict
from metatensor.distributed.checkpoint.default_planner import create_default_global_save_plan, saved_once
from metatensor.distributed.checkpoint.filesystem import FileSystemWriter
from metatensor.distributed.checkpoint.layouts import Layout
from metatensor.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from metatensor.distributed.checkpoint.planner import SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType

__all__ = ["RankPlan", "ReshardPlan", "plan_reshard", "reshard"]

SCHEMA = 1


@dataclass
class RankPlan:
    """What one rank of the new mesh holds, reads and writes, in bytes."""

    rank: int
    held: int = 0
    """Its parts of all tensors."""
    reads: dict[str, int] = field(default_factory=dict)
    """What it reads from each file in order to load its parts."""
    buffer: int = 0
    """The largest buffer for elements that cannot be read straight into their place."""
    writes: int = 0
    """Its tensor data in the resharded checkpoint. A part that several ranks hold is written by one of them."""

    @property
    def peak(self) -> int:
        """The memory that it needs for loading."""
        return self.held + self.buffer


@dataclass
class ReshardPlan:
    """The result of `plan_reshard`."""

    source: str
    format: str
    layout: Layout
    placements: dict[str, tuple[Any, ...]]
    """The placements of each tensor."""
    nbytes: int
    """The size of all tensors."""
    ranks: list[RankPlan]

    @property
    def files(self) -> list[str]:
        """The files that are read, sorted."""
        return sorted({file for one in self.ranks for file in one.reads}, key=_file_order)

    @property
    def staying(self) -> int:
        """The bytes that ranks read from files that the same rank of the old mesh wrote."""
        return sum(count for one in self.ranks for file, count in one.reads.items() if source_rank(file) == one.rank)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict of JSON types."""
        return {
            "schema": SCHEMA, "source": self.source, "format": self.format, "mesh": list(self.layout.mesh), "bytes": self.nbytes,
            "files": self.files, "bytes_read": sum(sum(one.reads.values()) for one in self.ranks), "bytes_staying": self.staying,
            "placements": {name: list(map(str, found)) for name, found in self.placements.items()},
            "ranks": [
                {"rank": one.rank, "held": one.held, "reads": one.reads, "buffer": one.buffer, "peak": one.peak, "writes": one.writes}
                for one in self.ranks
            ],
        }  # fmt: skip


def source_rank(file: str) -> int | None:
    """Return the rank that wrote a ``.distcp`` file, by its name, or None for another file."""
    match = re.fullmatch(r"__(\d+)_\d+.*\.distcp", file)
    return int(match[1]) if match else None


def _file_order(file: str) -> tuple[int, str]:
    rank = source_rank(file)
    return (-1 if rank is None else rank, file)


def plan_reshard(source: str | os.PathLike[str], layout: Layout) -> ReshardPlan:
    """Plan the loading of a checkpoint by the ranks of a mesh, and its division among them. No tensor data is read.

    Parameters
    ----------
    source : str or path
        A checkpoint of any format that `metatensor.load` knows, or a skeleton, which has no data.
    layout : Layout
        The mesh, and the placements of tensors on it.

    Returns
    -------
    ReshardPlan
        For each rank: what it reads from which file, and how much memory it needs.

    Raises
    ------
    CheckpointError
        If the checkpoint is damaged.
    ValueError
        If the layout does not fit a tensor.

    Examples
    --------
    >>> import os, tempfile
    >>> import metatensor as mt
    >>> from metatensor.distributed.checkpoint.layouts import Layout
    >>> from metatensor.distributed.checkpoint.resharding import plan_reshard
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> mt.save({"weight": mt.ones(16, 4, device="cpu")}, path)
    >>> plan = plan_reshard(path, Layout([4]))
    >>> plan.ranks[3].reads
    {'model.safetensors': 64}
    """
    with shared(), Opened(source) as opened:
        _check(opened, data=False)
        placements = {name: layout.placements_of(name, len(info.shape)) for name, info in opened.checkpoint.tensors.items()}
        ranks = [RankPlan(rank) for rank in range(layout.size)]
        patterns: dict[Any, list[list[_Load]]] = {}
        for name, info in opened.checkpoint.tensors.items():
            files, boxes = _stored(opened, name)
            size = getattr(mt, info.dtype).itemsize
            partial = all(file is not None for file in files) and _readable_in_part(opened, name)
            key = info.shape, info.stride, size, tuple(boxes), placements[name], partial
            if key not in patterns:  # layers of a model have the same shapes
                patterns[key] = _loads(layout, name, info, boxes, size, partial)
            for one, loads in zip(ranks, patterns[key]):
                for load in loads:
                    file = files[load.place]
                    one.reads[file] = one.reads.get(file, 0) + load.read
                    one.held += load.held
                    one.buffer = max(one.buffer, load.buffer)
        for one, plan in zip(ranks, _save_plans(opened, layout, {})):
            one.writes = sum(mt.Size(item.tensor_data.chunk.sizes).numel() * item.tensor_data.properties.dtype.itemsize
                             for item in plan.items if item.tensor_data is not None)  # fmt: skip
        for one in ranks:
            one.reads = dict(sorted(one.reads.items(), key=lambda pair: _file_order(pair[0])))
        checkpoint = opened.checkpoint
        return ReshardPlan(opened.path, checkpoint.format, layout, placements, checkpoint.nbytes, ranks)


@dataclass
class _Load:
    """What a rank reads from one stored array."""

    place: int
    held: int
    read: int
    buffer: int


def _stored(opened: Opened, name: str) -> tuple[list[str], list[Box]]:
    """Return the files and the boxes of the arrays that a tensor is stored in."""
    if opened.format is FORMAT:
        chunks = opened.checkpoint.private.tensors[name].chunks
        return [chunk.file for chunk in chunks], [chunk.box for chunk in chunks]
    return [os.path.basename(opened.path_of(name))], [whole_box(opened.checkpoint.tensors[name].shape)]


def _readable_in_part(opened: Opened, name: str) -> bool:
    """Return False if the format's reader can only supply whole tensors, for example because they are compressed."""
    info = opened.checkpoint.tensors[name]
    return opened.format is FORMAT or info.offset >= 0 or info.location == "meta"


def _loads(layout: Layout, name: str, info: Any, boxes: list[Box], size: int, partial: bool) -> list[list[_Load]]:
    """Return what each rank reads of a tensor."""
    found = []
    for blocks in layout.blocks(name, info.shape):
        loads = []
        for block in blocks:
            for place, box in enumerate(boxes):
                common = overlap(block, box)
                if common is None:
                    continue
                held = common.numel * size
                if not partial:
                    loads.append(_Load(place, held, info.nbytes, info.nbytes))
                    continue
                stride = info.stride if info.stride is not None and len(boxes) == 1 else contiguous(box.sizes)
                inside = Box(tuple(a - b for a, b in zip(common.offsets, box.offsets)), common.sizes)
                reading = reading_of(inside, stride, size)
                straight = reading.stride == contiguous(common.sizes) and _inner(common, block)
                loads.append(_Load(place, held, reading.numel * size, 0 if straight else reading.numel * size))
        found.append(loads)
    return found


def _inner(part: Box, block: Box) -> bool:
    """Return True if a part of a block is contiguous in the block's memory."""
    cut = [dim for dim, (a, b) in enumerate(zip(part.sizes, block.sizes)) if a != b]
    return not cut or all(size == 1 for size in part.sizes[: cut[-1]])


def _check(opened: Opened, data: bool = True) -> None:
    for name, info in opened.checkpoint.tensors.items():
        if data and info.location == "meta":
            raise CheckpointError(opened.path, f"tensor {shown(name)} has no data: it is a skeleton, or was saved from meta")
        if not isinstance(getattr(mt, info.dtype, None), mt.dtype):
            raise CheckpointError(opened.path, f"tensor {shown(name)} is of {info.dtype}, which metatensor does not compute with")


# Doing it -------------------------------------------------------------------------


def reshard(
    source: str | os.PathLike[str], target: str | os.PathLike[str], layout: Layout, *, drop: bool = False, progress: Any = None
) -> Metadata:  # fmt: skip
    """Write a checkpoint as a distributed one, as the ranks of a mesh would save it.

    One block of a tensor is in memory at a time. ``target`` may be the folder of ``source``, which is then replaced in one
    step.

    Parameters
    ----------
    source : str or path
        A checkpoint of any format that `metatensor.load` knows.
    target : str or path
        The folder to write.
    layout : Layout
        The mesh, and the placements of tensors on it.
    drop : bool
        Omit tensors and objects that cannot be loaded. By default they are an error.
    progress : bool or callable, optional
        As for `metatensor.load_into`.

    Raises
    ------
    CheckpointError
        If the checkpoint is damaged, has no data, or contains what cannot be loaded.
    ValueError
        If the layout does not fit a tensor.

    Examples
    --------
    >>> import os, tempfile
    >>> import metatensor as mt
    >>> from metatensor.distributed.checkpoint.layouts import Layout
    >>> from metatensor.distributed.checkpoint.resharding import reshard
    >>> folder = tempfile.mkdtemp()
    >>> mt.save({"weight": mt.ones(16, 4, device="cpu")}, os.path.join(folder, "model.safetensors"))
    >>> _ = reshard(os.path.join(folder, "model.safetensors"), os.path.join(folder, "two"), Layout([2]))
    >>> sorted(os.listdir(os.path.join(folder, "two")))
    ['.metadata', '__0_0.distcp', '__1_0.distcp']
    """
    with shared(), Opened(source) as opened:
        _check(opened)
        objects, paths = _objects(opened, drop)
        plans, metadata = create_default_global_save_plan(_save_plans(opened, layout, objects))
        in_order = [*opened.checkpoint.tensors, *objects]
        metadata.state_dict_metadata = {name: metadata.state_dict_metadata[name] for name in in_order}
        metadata.planner_data = paths
        writer = FileSystemWriter(target)
        writer.set_up_storage_writer(True, rank=0)
        try:
            plans = writer.prepare_global_plan([writer.prepare_local_plan(plan) for plan in plans])
            with progress_for(progress, opened.checkpoint.nbytes) as shown_progress:
                planner = _FromFile(opened, objects, shown_progress)
                results = [writer.write_data(plan, planner).wait() for plan in plans]
            writer.finish(metadata, results)
        except BaseException:
            writer.abandon()
            raise
    return metadata


def _save_plans(opened: Opened, layout: Layout, objects: dict[str, Any]) -> list[SavePlan]:
    """Return what each rank saves. Objects are saved by rank 0."""
    plans: list[list[WriteItem]] = [[] for _ in range(layout.size)]
    for name, info in opened.checkpoint.tensors.items():
        properties, shape = TensorProperties(getattr(mt, info.dtype)), mt.Size(info.shape)
        made: dict[Box, WriteItem] = {}
        held = layout.blocks(name, info.shape) if shape.numel() else [[whole_box(info.shape)]]
        for items, blocks in zip(plans, held):
            for box in blocks:
                if box not in made:
                    chunk = ChunkStorageMetadata(mt.Size(box.offsets), mt.Size(box.sizes))
                    data = TensorWriteData(chunk, properties, shape)
                    made[box] = WriteItem(MetadataIndex(name, box.offsets), WriteItemType.SHARD, tensor_data=data)
                items.append(made[box])
    plans[0] += [WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO) for name in objects]
    return saved_once([SavePlan(items) for items in plans], False)


def _objects(opened: Opened, drop: bool) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Return what a checkpoint holds besides tensors, and the paths of all entries in the nested state dict."""
    checkpoint = opened.checkpoint
    if opened.format is FORMAT:
        return dict.fromkeys(checkpoint.private.others), checkpoint.private.paths
    lacking = list(checkpoint.unsupported)
    objects: dict[str, Any] = {}
    paths: dict[str, tuple[Any, ...]] = {name: (name,) for name in checkpoint.tensors}
    unknown = checkpoint.metadata.get("unknown names", "")
    if unknown:
        lacking.append(f"objects of {unknown}")
    elif hasattr(opened.format, "unpickle"):
        with opened.again() as file:
            value = opened.format.load(file, opened.path, Places("meta"))
        if isinstance(value, dict):
            flat, known = flatten_state_dict(value)
            tensors = {name for name, one in flat.items() if isinstance(one, mt.Tensor)}
            objects = {name: one for name, one in flat.items() if name not in tensors and name not in checkpoint.unsupported}
            paths.update({name: path for name, path in known.items() if name in paths or name in objects})
            lacking += [name for name in checkpoint.tensors if name not in tensors]
    if lacking and not drop:
        names = ", ".join(shown(name) for name in lacking[:20]) + (", ..." if len(lacking) > 20 else "")
        raise CheckpointError(opened.path, f"it holds {names}, which cannot be in a distributed checkpoint; drop=True (--drop) omits that")
    return objects, paths


class _FromFile(SavePlanner):
    """Supplies the blocks of stored tensors."""

    def __init__(self, opened: Opened, objects: dict[str, Any], progress: Any) -> None:
        self.opened, self.objects, self.progress = opened, objects, progress

    def resolve_data(self, write_item: WriteItem) -> Any:
        import io

        name, data = write_item.index.fqn, write_item.tensor_data
        if data is None:
            if self.opened.format is FORMAT:
                return io.BytesIO(FORMAT.object_bytes(self.opened.checkpoint, name))
            file = io.BytesIO()
            mt.save(self.objects[name], file)
            return file
        self.progress.start(name)
        box = Box(tuple(data.chunk.offsets), tuple(data.chunk.sizes))
        tensor = mt.empty(box.sizes, dtype=data.properties.dtype, device="cpu")
        read_block(self.opened, name, Block(box, (0,) * len(box.sizes)), tensor, self.progress.advance)
        return tensor

    def set_up_planner(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError

    create_local_plan = create_global_plan = finish_plan = set_up_planner  # type: ignore[assignment]


def ranges_of(source: str | os.PathLike[str], layout: Layout) -> Iterator[dict[str, Any]]:
    """Yield the byte ranges that each rank reads, as dicts of JSON types. Headers of chunks are read, but no data.

    Each dict has the ``tensor``, the ``rank``, the ``file``, and ranges of ``length`` bytes, the first of which starts at byte ``begin``.
    The others follow from nested ``loops``, the outermost first: pairs of a number of ranges and their distance in bytes.
    """
    with shared(), Opened(source) as opened:
        _check(opened)
        for name, info in opened.checkpoint.tensors.items():
            size = getattr(mt, info.dtype).itemsize
            pieces = opened.pieces(name, whole_box(info.shape))
            for rank, blocks in enumerate(layout.blocks(name, info.shape)):
                for block in blocks:
                    for piece in pieces:
                        common = overlap(block, piece.box)
                        if common is None:
                            continue
                        if piece.path is None:
                            file, begin, length, loops = os.path.basename(opened.path_of(name)), None, info.nbytes, []
                        else:
                            inside = Box(tuple(a - b for a, b in zip(common.offsets, piece.box.offsets)), common.sizes)
                            reading = reading_of(inside, piece.info.stride or contiguous(piece.info.shape), size)
                            file, begin = os.path.basename(piece.path), piece.info.offset + reading.first * size
                            length, loops = reading.length * size, [[count, step * size] for count, step in reading.loops]
                        yield {"tensor": name, "rank": rank, "file": file, "begin": begin, "length": length, "loops": loops}
