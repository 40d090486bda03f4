"""Loading distributed checkpoints."""

from __future__ import annotations

import os
from typing import Any

from metatensor.distributed.checkpoint._ranks import Ranks
from metatensor.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from metatensor.distributed.checkpoint.filesystem import FileSystemReader
from metatensor.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from metatensor.distributed.checkpoint.stateful import Stateful
from metatensor.distributed.checkpoint.storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Load a checkpoint into a state dict, in place. All ranks of the group call it.

    Each rank reads the bytes of its parts of distributed tensors (`DTensor`), whatever ranks and placements the checkpoint
    was saved from. Checkpoints of other formats (safetensors, PyTorch's files) can be loaded as well.

    Parameters
    ----------
    state_dict : dict
        The entries to load, nested as they were saved. Tensors are overwritten, and keep their dtype; those on meta are
        replaced by tensors with data. Other entries are replaced. Objects with ``state_dict`` and ``load_state_dict`` are
        loaded through these. Entries of the checkpoint that are not in it are not read.
    checkpoint_id : str or path, optional
        The folder, or the file of another format.
    storage_reader : StorageReader, optional
        What reads the data. Default: a `FileSystemReader`.
    planner : LoadPlanner, optional
        What decides who loads what. Default: a `DefaultLoadPlanner`.
    process_group : ProcessGroup, optional
        The ranks that load. Default: all.
    no_dist : bool
        This process loads alone. It does so as well if there is no process group.

    Raises
    ------
    CheckpointException
        On all ranks, if any of several ranks fails. It names the ranks and what failed on each.
    RuntimeError, ValueError
        With one rank: if the checkpoint lacks an entry or has another shape for it. `CheckpointError` if it is damaged.
    """
    reader = _reader("load", storage_reader, checkpoint_id)
    keys = sorted(state_dict)
    states = {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in ((key, state_dict[key]) for key in keys)}
    _load(states, reader, Ranks(process_group, no_dist), planner or DefaultLoadPlanner())
    for key in keys:
        value = state_dict[key]
        if isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """Load a flat state dict. Deprecated in PyTorch: use `load`."""
    storage_reader.reset()
    _load(state_dict, storage_reader, Ranks(process_group, no_dist, coordinator_rank), planner or DefaultLoadPlanner())


def _reader(name: str, reader: StorageReader | None, checkpoint_id: Any) -> StorageReader:
    if reader is None:
        if checkpoint_id is None:
            raise ValueError(f"torch.distributed.checkpoint.{name}: checkpoint_id or storage_reader is required")
        return FileSystemReader(checkpoint_id)
    reader.reset(checkpoint_id)
    return reader


def _load(state_dict: dict[str, Any], reader: StorageReader, ranks: Ranks, planner: LoadPlanner) -> None:
    def local() -> LoadPlan:
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, ranks.coordinates)
        reader.set_up_storage_reader(metadata, ranks.coordinates, rank=ranks.rank, use_collectives=True)
        return reader.prepare_local_plan(planner.create_local_plan())

    def together(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    alone = type(planner).create_global_plan is DefaultLoadPlanner.create_global_plan and isinstance(reader, FileSystemReader)
    if alone:  # the global plan is that of each rank
        made: list[LoadPlan] = []
        ranks.gather("load", lambda: made.append(local()))
        plan = made[0]
    else:
        plan = ranks.scatter("load", local, together)

    def read() -> None:
        reader.read_data(planner.finish_plan(plan), planner).wait()

    ranks.gather("load", read)


def _load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    _load(state_dict, storage_reader, Ranks(process_group, no_dist, coordinator_rank), planner or DefaultLoadPlanner())


def _load_state_dict_from_keys(
    keys: Any = None, *, checkpoint_id: Any = None, storage_reader: StorageReader | None = None, process_group: Any = None
) -> dict[str, Any]:
    """Return the entries named by ``keys`` and below them, or all, loaded by this process alone."""
    found: dict[str, Any] = {}
    chosen = None if keys is None else {keys} if isinstance(keys, str) else set(keys)
    _load(found, _reader("load", storage_reader, checkpoint_id), Ranks(no_dist=True), _EmptyStateDictLoadPlanner(chosen))
    return found
