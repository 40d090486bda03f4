"""Saving distributed checkpoints."""

from __future__ import annotations

import enum
import os
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from metatensor.distributed.checkpoint._ranks import Ranks
from metatensor.distributed.checkpoint.api import CheckpointException
from metatensor.distributed.checkpoint.default_planner import DefaultSavePlanner
from metatensor.distributed.checkpoint.filesystem import FileSystemWriter
from metatensor.distributed.checkpoint.metadata import Metadata
from metatensor.distributed.checkpoint.planner import SavePlan, SavePlanner
from metatensor.distributed.checkpoint.stateful import Stateful
from metatensor.distributed.checkpoint.storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(enum.Enum):
    """Where `async_save` writes."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures for the copy of the state dict and for the complete checkpoint."""

    staging_completion: Future[None]
    upload_completion: Future[None]


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: Any = None, no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Save a state dict from all ranks, in PyTorch's format of distributed checkpoints. All ranks of the group call it.

    Each rank writes its parts of distributed tensors (`DTensor`). What several ranks hold is written by one of them. The
    checkpoint can be loaded on any number of ranks, with any placements, here and in PyTorch.

    If a rank fails or the processes are killed, a checkpoint that was in the folder before stays complete.

    Parameters
    ----------
    state_dict : dict
        Entries by name: tensors, distributed tensors, other objects, nested dicts and lists of these, and objects with
        ``state_dict`` and ``load_state_dict``. Ranks that have a plain tensor or object of
        one name must have the same values.
    checkpoint_id : str or path, optional
        The folder.
    storage_writer : StorageWriter, optional
        What writes the data. Default: a `FileSystemWriter`.
    planner : SavePlanner, optional
        What decides who saves what. Default: a `DefaultSavePlanner`.
    process_group : ProcessGroup, optional
        The ranks that save. Default: all.
    no_dist : bool
        This process saves alone. It does so as well if there is no process group.
    use_collectives : bool
        Must be True.

    Returns
    -------
    Metadata
        The metadata of the checkpoint, on all ranks.

    Raises
    ------
    CheckpointException
        On all ranks, if any of several ranks fails. It names the ranks and what failed on each.
    ValueError
        If neither ``checkpoint_id`` nor ``storage_writer`` is given. With one rank also if the state dict cannot be saved.

    Examples
    --------
    >>> import tempfile
    >>> import metatensor as mt
    >>> from metatensor.distributed import checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> _ = checkpoint.save({"model": {"weight": mt.ones(4, 2, device="cpu")}, "step": 7}, checkpoint_id=folder)
    >>> state = {"model": {"weight": mt.zeros(4, 2, device="cpu")}, "step": 0}
    >>> checkpoint.load(state, checkpoint_id=folder)
    >>> state["model"]["weight"].sum().item(), state["step"]
    (8.0, 7)
    """
    if not use_collectives:
        raise NotImplementedError("torch.distributed.checkpoint.save: use_collectives=False is not supported; all ranks share .metadata")
    writer = _writer("save", storage_writer, checkpoint_id)
    return _save(_states(state_dict), writer, Ranks(process_group, no_dist), planner or DefaultSavePlanner())


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """Save a flat state dict. Deprecated in PyTorch: use `save`."""
    storage_writer.reset()
    return _save(state_dict, storage_writer, Ranks(process_group, no_dist, coordinator_rank), planner or DefaultSavePlanner())


def _writer(name: str, writer: StorageWriter | None, checkpoint_id: Any) -> StorageWriter:
    if writer is None:
        if checkpoint_id is None:
            raise ValueError(f"torch.distributed.checkpoint.{name}: checkpoint_id or storage_writer is required")
        return FileSystemWriter(checkpoint_id)
    writer.reset(checkpoint_id)
    return writer


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return the state dict with the states of its stateful objects."""
    return {name: value.state_dict() if isinstance(value, Stateful) else value for name, value in state_dict.items()}


def _planned(state_dict: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner) -> tuple[SavePlan, list[Metadata]]:
    """Return this rank's plan, and on the coordinator the metadata, as a list of one element."""
    made: list[Metadata] = []

    def local() -> SavePlan:
        planner.set_up_planner(state_dict, storage_meta=writer.storage_meta(), is_coordinator=ranks.coordinates)
        writer.set_up_storage_writer(ranks.coordinates, rank=ranks.rank, use_collectives=True)
        return writer.prepare_local_plan(planner.create_local_plan())

    def together(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        made.append(metadata)
        return writer.prepare_global_plan(plans)

    return planner.finish_plan(ranks.scatter("save", local, together)), made


def _save(state_dict: dict[str, Any], writer: StorageWriter, ranks: Ranks, planner: SavePlanner) -> Metadata:
    try:
        plan, made = _planned(state_dict, writer, ranks, planner)
        results = ranks.gather("save", lambda: writer.write_data(plan, planner).wait())

        def finish() -> Metadata:
            writer.finish(made[0], results)
            return made[0]

        return ranks.finish("save", finish)
    except BaseException as error:
        if isinstance(writer, FileSystemWriter):
            writer.abandon(ranks.size == 1 or isinstance(error, CheckpointException))
        raise


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD, async_stager: Any = None, no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata | None]:  # fmt: skip
    """Copy what this rank has to save to host memory, and save it in a thread. Otherwise like `save`.

    Only planning communicates. The ranks' threads wait for each other through files in the folder, so collectives of the
    program are not disturbed.

    Parameters
    ----------
    state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist, use_collectives
        As for `save`. A writer of another class than `FileSystemWriter` saves before the function returns.
    async_checkpointer_type : AsyncCheckpointerType
        Has no effect: a thread is used.
    async_stager
        Must be None.

    Returns
    -------
    concurrent.futures.Future
        Its result is the metadata on the coordinator, and None on other ranks. It is there once the checkpoint is complete.

    Raises
    ------
    CheckpointException
        If planning or copying fails. Later failures are exceptions of the future.
    """
    if async_stager is not None:
        raise NotImplementedError("torch.distributed.checkpoint.async_save: stagers are not supported")
    if not use_collectives:
        raise NotImplementedError("torch.distributed.checkpoint.async_save: use_collectives=False is not supported")
    from metatensor.distributed.checkpoint._saving_later import save_later

    writer, ranks = _writer("async_save", storage_writer, checkpoint_id), Ranks(process_group, no_dist)
    states, planner = _states(state_dict), planner or DefaultSavePlanner()
    if type(writer) is not FileSystemWriter:
        done: Future[Metadata | None] = Future()
        done.set_result(_save(states, writer, ranks, planner))
        return done
    try:
        plan, made = _planned(states, writer, ranks, planner)
        return save_later(plan, made[0] if made else None, writer, ranks, planner)
    except BaseException as error:
        writer.abandon(ranks.size == 1 or isinstance(error, CheckpointException))
        raise
