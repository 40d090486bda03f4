"""The default planners: each rank saves what it holds, replicas are saved once, and each rank loads what it needs."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import metatensor as mt
from metatensor.checkpoint.boxes import Box, badly_covered, overlap, whole_box
from metatensor.checkpoint.budget import shared
from metatensor.distributed.checkpoint._nested_dict import flatten_state_dict, set_element
from metatensor.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from metatensor.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from metatensor.distributed.tensor import DTensor

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan", "create_default_global_save_plan",
    "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip

_NAME = "torch.distributed.checkpoint"


# What a rank holds ----------------------------------------------------------------


def blocks_of(name: str, tensor: Any) -> list[tuple[Box, tuple[int, ...]]]:
    """Return the boxes of a tensor that this rank holds, and their offsets in its part.

    Raise ValueError for a partial tensor.
    """
    shape = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return [(whole_box(shape), (0,) * len(shape))]
    try:
        found = [(Box(offsets, sizes), place) for offsets, sizes, place in tensor._blocks()]
    except ValueError as error:
        raise ValueError(f"{_NAME}: {name!r}: {error}") from None
    if not found and not tensor.numel() and tensor.device_mesh.get_coordinate() is not None:
        return [(whole_box(shape), (0,) * len(shape))]
    return found


def part_of(name: str, tensor: Any, offset: Any) -> Any:
    """Return the elements of the block of a tensor that begins at ``offset``."""
    for box, place in blocks_of(name, tensor):
        if offset is None or box.offsets == tuple(offset):
            local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
            for dim, (start, size) in enumerate(zip(place, box.sizes)):
                if size != local.shape[dim]:
                    local = local.narrow(dim, start, size)
            return local
    raise ValueError(f"{_NAME}: this rank holds no block of {name!r} at {tuple(offset)}")


# Saving ---------------------------------------------------------------------------


class DefaultSavePlanner(SavePlanner):
    """Saves every block of a distributed tensor, and every other entry, once.

    If several ranks hold the same block, the one with the least to write saves it.

    Parameters
    ----------
    flatten_state_dict : bool
        Save the entries of nested dicts and lists separately, under their paths.
    flatten_sharded_tensors : bool
        Has no effect: there are no nested distributed tensors.
    dedup_replicated_tensors : bool, optional
        Has no effect.
    dedup_save_to_lowest_rank : bool
        If several ranks hold the same block, let the lowest rank save it.
    enable_plan_caching : bool
        Has no effect: plans are made anew.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False, enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, tuple[Any, ...]] = {}
        self.state_dict: dict[str, Any] = {}
        self.is_coordinator = False

    def set_up_planner(self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        return dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(saved_once(all_plans, self.dedup_save_to_lowest_rank))
        in_order = dict.fromkeys(item.index.fqn for plan in all_plans for item in plan.items)
        metadata.state_dict_metadata = {name: metadata.state_dict_metadata[name] for name in in_order}
        if self.flatten_state_dict:
            paths: dict[str, Any] = {}
            for plan in all_plans:
                paths.update(plan.planner_data or {})
            metadata = dataclasses.replace(metadata, planner_data=paths)
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return the entry of the state dict with this index: a block of a tensor, or an object."""
        found = self.state_dict[index.fqn]
        return part_of(index.fqn, found, index.offset) if isinstance(found, mt.Tensor) else found

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Return a tensor unchanged, and any other object as a file in PyTorch's format."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        file = io.BytesIO()
        mt.save(object, file)
        file.seek(0)
        return file


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Return the items of a flat state dict that this rank holds."""
    items = []
    for name, value in state_dict.items():
        if not isinstance(value, mt.Tensor):
            items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
            continue
        properties = TensorProperties.create_from_tensor(value)
        kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
        for box, _ in blocks_of(name, value):
            chunk = ChunkStorageMetadata(mt.Size(box.offsets), mt.Size(box.sizes))
            data = TensorWriteData(chunk, properties, mt.Size(value.shape))
            items.append(WriteItem(MetadataIndex(name, box.offsets), kind, tensor_data=data))
    return SavePlan(items)


def saved_once(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """Leave each item to one of the ranks that hold it. Raise ValueError if ranks disagree about an item."""
    holders: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            known = items.setdefault(item.index, item)
            ranks = holders.setdefault(item.index, [])
            if known is not item and (why := _difference(known, item)):
                raise ValueError(f"{_NAME}: ranks {ranks[0]} and {rank} disagree about {item.index.fqn!r}: {why}")
            ranks.append(rank)
    load = [0] * len(plans)
    chosen: dict[MetadataIndex, int] = {}
    for index, ranks in holders.items():
        if len(ranks) == 1 or lowest or items[index].tensor_data is None:
            chosen[index] = min(ranks)
            load[chosen[index]] += _nbytes(items[index])
    shared = [index for index in holders if index not in chosen]
    for index in sorted(shared, key=lambda index: -_nbytes(items[index])):
        chosen[index] = min(holders[index], key=lambda rank: (load[rank], rank))
        load[chosen[index]] += _nbytes(items[index])
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank]) for rank, plan in enumerate(plans)
    ]


def _difference(one: WriteItem, other: WriteItem) -> str:
    a, b = one.tensor_data, other.tensor_data
    if (a is None) != (b is None):
        return "it is a tensor on one of them only"
    if a is None or b is None:
        return ""
    for what, x, y in (("shape", a.size, b.size), ("dtype", a.properties.dtype, b.properties.dtype), ("block", a.chunk, b.chunk)):
        if x != y:
            return f"{what} {x} and {y}"
    return ""


def _nbytes(item: WriteItem) -> int:
    data = item.tensor_data
    return 0 if data is None else mt.Size(data.chunk.sizes).numel() * int(data.properties.dtype.itemsize)


def create_default_global_save_plan(all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
    """Return the plans, and the metadata of a checkpoint with their items.

    Raise ValueError if the items do not contain each element of a tensor exactly once.
    """
    table: dict[str, Any] = {}
    first: dict[str, int] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            made: Any = BytesStorageMetadata() if data is None else TensorStorageMetadata(data.properties, data.size, [])
            found = table.setdefault(name, made)
            begun = first.setdefault(name, rank)
            if type(found) is not type(made):
                raise ValueError(f"{_NAME}: {name!r} is a tensor on one of ranks {begun} and {rank} only")
            if data is not None:
                if (found.size, found.properties.dtype) != (data.size, data.properties.dtype):
                    raise ValueError(
                        f"{_NAME}: ranks {begun} and {rank} disagree about {name!r}: {found.properties.dtype} of shape {list(found.size)} "
                        f"and {data.properties.dtype} of shape {list(data.size)}"
                    )
                found.chunks.append(data.chunk)
    places: dict[MetadataIndex, int] = {}
    for name, found in table.items():
        if isinstance(found, TensorStorageMetadata):
            found.chunks.sort(key=lambda chunk: tuple(chunk.offsets))
            _check_cover(name, found)
            places.update((MetadataIndex(name, chunk.offsets), place) for place, chunk in enumerate(found.chunks))
    plans = []
    for plan in all_plans:
        items = [
            dataclasses.replace(item, index=MetadataIndex(item.index.fqn, item.index.offset, places[item.index]))
            if item.tensor_data is not None else item for item in plan.items
        ]  # fmt: skip
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(table)


def _check_cover(name: str, found: TensorStorageMetadata) -> None:
    boxes = [Box(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in found.chunks]
    at = badly_covered(tuple(found.size), boxes)
    if at is not None or sum(box.numel for box in boxes) != found.size.numel():
        raise ValueError(f"{_NAME}: the ranks' blocks of {name!r}, of shape {list(found.size)}, overlap or leave a gap"
                         f"{'' if at is None else f' at {list(at)}'}")  # fmt: skip


# Loading --------------------------------------------------------------------------


class DefaultLoadPlanner(LoadPlanner):
    """Loads every entry of the state dict, in place. Of distributed tensors, this rank's blocks are loaded.

    Parameters
    ----------
    flatten_state_dict : bool
        Look for the entries of nested dicts and lists separately, under their paths.
    flatten_sharded_tensors : bool
        Has no effect: there are no nested distributed tensors.
    allow_partial_load : bool
        Skip entries that the checkpoint does not have. By default they are an error.
    """

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.mappings: dict[str, tuple[Any, ...]] = {}
        self.state_dict: dict[str, Any] = {}
        self.metadata: Metadata | None = None
        self.is_coordinator = False

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        _give_data(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        name = read_item.dest_index.fqn
        found = mt.load(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        return

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """Return the block of a tensor of the state dict with this index."""
        return part_of(index.fqn, self.state_dict[index.fqn], index.offset)

    def transform_tensor(self, read_item: ReadItem, tensor: Any) -> Any:
        """Return the part of a block into which an item is loaded."""
        for dim, (start, size) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            if size != tensor.shape[dim]:
                tensor = tensor.narrow(dim, start, size)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads all entries, or those named by ``keys`` and below them, into an empty state dict. Tensors are on the cpu."""

    def __init__(self, keys: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        assert not state_dict and metadata is not None
        paths = metadata.planner_data or {}
        with shared():
            for name, found in metadata.state_dict_metadata.items():
                path = paths.get(name, (name,))
                above = (".".join(map(str, path[: length + 1])) for length in range(len(path)))
                if self.keys is None or name in self.keys or any(one in self.keys for one in above):
                    tensor = isinstance(found, TensorStorageMetadata)
                    value = mt.empty(tuple(found.size), dtype=found.properties.dtype, device="cpu") if tensor else None
                    set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _give_data(value: Any) -> None:
    """Replace tensors on meta in a nested state dict by uninitialized ones with data, unless their mesh is on meta."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in list(pairs):
        if isinstance(entry, mt.Tensor) and entry.is_meta:
            if not isinstance(entry, DTensor):
                value[key] = mt.empty_like(entry, device=mt.get_default_device())
            elif entry.device_mesh.device_type != "meta":
                local = mt.empty_like(entry._local_tensor, device=entry.device_mesh.device_type)
                value[key] = entry._with_local(local).requires_grad_(entry.requires_grad)
        else:
            _give_data(entry)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """Return the items of a checkpoint that a flat state dict needs on this rank.

    Raise RuntimeError if the checkpoint lacks an entry and ``strict`` is true, and ValueError if shapes differ.
    """
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        found = metadata.state_dict_metadata.get(name)
        if found is None:
            if strict:
                raise RuntimeError(f"{_NAME}: the checkpoint has no entry {name!r}")
            continue
        if isinstance(value, mt.Tensor) != isinstance(found, TensorStorageMetadata):
            if not isinstance(value, mt.Tensor) and value is not None:
                raise ValueError(f"{_NAME}: {name!r} is a tensor in the checkpoint, and of type {type(value).__name__} in the state dict")
            if isinstance(value, mt.Tensor):
                raise ValueError(f"{_NAME}: {name!r} is a tensor in the state dict, but not in the checkpoint")
            raise ValueError(f"{_NAME}: {name!r} is a tensor in the checkpoint; the state dict needs a tensor to load it into")
        if isinstance(value, mt.Tensor):
            if tuple(value.shape) != tuple(found.size):
                raise ValueError(
                    f"{_NAME}: {name!r} has shape {list(found.size)} in the checkpoint, and {list(value.shape)} in the state dict"
                )
            items += _items_of(name, value, found)
        else:
            index = MetadataIndex(name)
            items.append(ReadItem(LoadItemType.BYTE_IO, index, mt.Size((0,)), index, mt.Size((0,)), mt.Size((0,))))
    return LoadPlan(items)


def _items_of(name: str, tensor: Any, found: TensorStorageMetadata) -> list[ReadItem]:
    items = []
    for box, _ in blocks_of(name, tensor):
        for place, chunk in enumerate(found.chunks):
            common = overlap(box, Box(tuple(chunk.offsets), tuple(chunk.sizes)))
            if common is not None:
                items.append(ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(name, box.offsets), mt.Size(a - b for a, b in zip(common.offsets, box.offsets)),
                    MetadataIndex(name, chunk.offsets, place), mt.Size(a - b for a, b in zip(common.offsets, chunk.offsets)),
                    mt.Size(common.sizes),
                ))  # fmt: skip
    return items


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Return the plans of all ranks unchanged."""
    return all_plans
