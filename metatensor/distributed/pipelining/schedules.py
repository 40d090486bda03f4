"""Schedules: the order in which the ranks of a pipeline run the passes of their stages on the microbatches of a step.

A schedule is a table of actions (`_orders` makes them, `_timing` checks them and adds communication), which `_running` runs.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import metatensor as mt
from metatensor.distributed.pipelining import _orders
from metatensor.distributed.pipelining._actions import Table, _Action, _ComputationType, format_table
from metatensor.distributed.pipelining._running import run_actions
from metatensor.distributed.pipelining._shared import reduce_shared, set_aside
from metatensor.distributed.pipelining._timing import Timeline, check_table, forward_only, timeline, with_communication
from metatensor.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks, split_tensor
from metatensor.distributed.pipelining.stage import _PipelineStageBase

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "get_schedule_class",
]  # fmt: skip

FORWARD, FULL_BACKWARD, OVERLAP_F_B = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD, _ComputationType.OVERLAP_F_B
BACKWARD_INPUT, BACKWARD_WEIGHT = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT


class _PipelineContext(NamedTuple):
    """What a function given to `register_custom_function` gets."""

    schedule_ref: _PipelineSchedule
    arg_mbs: list[tuple[Any, ...]] | None = None
    kwarg_mbs: list[dict[str, Any]] | None = None
    target_mbs: list[Any] | None = None
    losses: list[Any] | None = None


def _wait_batch_p2p(work: Sequence[Any]) -> None:
    """Wait for messages."""
    for one in work:
        one.wait()


class _PipelineSchedule:
    """The base of all schedules."""

    _order: ClassVar[str] = ""
    """Name of the function of `_orders` that makes the table."""
    _style: ClassVar[str] = "loop"
    _each: ClassVar[int | None] = None
    """Number of stages on each rank, if it is fixed."""

    def __init__(
        self, stages: Sequence[_PipelineStageBase], n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if n_microbatches < 1:
            raise ValueError(f"{name}: n_microbatches must be positive, got {n_microbatches}")
        if not stages:
            raise ValueError(f"{name}: there are no stages")
        first = stages[0]
        self._stages = {stage.stage_index: stage for stage in stages}
        self._num_stages, self.pp_group_size, self.rank = first.num_stages, first.group_size, first.group_rank
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec, self._output_merge_spec = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        if self._num_stages % self.pp_group_size:
            raise ValueError(f"{name}: {self._num_stages} stages cannot be divided evenly over {self.pp_group_size} ranks")
        each = self._num_stages // self.pp_group_size
        if self._each not in (None, each):
            wanted = "1 stage" if self._each == 1 else f"{self._each} stages"
            raise ValueError(f"{name}: each rank must have exactly {wanted}, but {self._num_stages} stages on {self.pp_group_size} ranks "
                             f"are {each}")  # fmt: skip
        expected = _orders.stages_of_rank(self.rank, self.pp_group_size, each, self._style)
        if sorted(self._stages) != sorted(expected) or len(stages) != each:
            raise ValueError(f"{name}: rank {self.rank} of {self.pp_group_size} must have the stages {expected} of {self._num_stages}, got "
                             f"{[stage.stage_index for stage in stages]}")  # fmt: skip
        self.stage_index_to_group_rank = _orders.stage_to_rank(self.pp_group_size, self._num_stages, self._style)
        for stage in stages:
            stage.stage_index_to_group_rank = self.stage_index_to_group_rank
        self.pipeline_order: Table = {}
        self.pipeline_order_with_comms: Table = {}
        self._forward_order: Table = {}
        self._key = object()
        if self._order:
            kind: Any = type(self)
            order, full = _prepared(kind, self.pp_group_size, n_microbatches, each)
            self.pipeline_order, self.pipeline_order_with_comms = dict(order), dict(full)

    @classmethod
    def table(cls, num_ranks: int, n_microbatches: int, stages_per_rank: int | None = None) -> Table:
        """Return the computations of each rank, in order, without creating stages.

        Parameters
        ----------
        num_ranks, n_microbatches : int
            Number of ranks and of microbatches.
        stages_per_rank : int, optional
            Number of stages on each rank. Default: 2 if the schedule needs several, otherwise 1.

        Raises
        ------
        ValueError
            If the schedule cannot have these numbers.

        Examples
        --------
        >>> from metatensor.distributed import pipelining
        >>> pipelining.ScheduleGPipe.table(num_ranks=2, n_microbatches=2)
        {0: [0F0, 0F1, 0B0, 0B1], 1: [1F0, 1F1, 1B0, 1B1]}
        """
        if not cls._order:
            raise ValueError(f"{cls.__name__}: has no table of its own")
        each = stages_per_rank or cls._each or 2
        if cls._each not in (None, each):
            raise ValueError(f"{cls.__name__}: each rank has {cls._each} stages, got {each}")
        least = cls._fewest(num_ranks, each)
        if n_microbatches < least:
            raise ValueError(f"{cls.__name__}: {num_ranks * each} stages on {num_ranks} ranks need at least {least} microbatches, got "
                             f"{n_microbatches}")  # fmt: skip
        try:
            made: Table = getattr(_orders, cls._order)(num_ranks, each, n_microbatches)
        except ValueError as error:
            raise ValueError(f"{cls.__name__}: {error}") from None
        return made

    @classmethod
    def _fewest(cls, p: int, v: int) -> int:
        """Return the least number of microbatches."""
        return 1

    def _prepare_schedule_with_comms(self, actions: Mapping[int, Sequence[_Action | None]], format: str = "compute_only") -> None:
        """Use a table of actions. Raise ValueError if the ranks cannot run it."""
        if format not in ("compute_only", "compute_comms"):
            raise ValueError(f"{type(self).__name__}: format must be 'compute_only' or 'compute_comms', got {format!r}")
        self.pipeline_order = {rank: [one for one in row if one is not None and one.is_compute_op] for rank, row in actions.items()}
        check_table(self.pipeline_order, self.stage_index_to_group_rank, self._n_microbatches)
        if format == "compute_comms":
            self.pipeline_order_with_comms = {rank: [one for one in row if one is not None] for rank, row in actions.items()}
        else:
            self.pipeline_order_with_comms = with_communication(self.pipeline_order, self.stage_index_to_group_rank)
        self._forward_order = {}

    def timeline(self, costs: Mapping[Any, float] | None = None, latency: float = 0.0) -> Timeline:
        """Return when each rank runs its actions, for given times of the passes. See `metatensor.distributed.pipelining.timeline`."""
        return timeline(self.pipeline_order, costs, num_stages=self._num_stages, latency=latency)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._num_stages} stages on {self.pp_group_size} ranks, {self._n_microbatches} microbatches>"

    def __str__(self) -> str:
        return f"{self!r}\n{format_table(self.pipeline_order)}"

    # Running ------------------------------------------------------------------------------------------

    def step(
        self, *args: Any, target: Any = None, losses: list | None = None, return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Run the forward and backward passes of a batch. Without a loss function, run forward passes only.

        The gradients are those of the mean of the losses of the microbatches (with ``scale_grads=False``, of their sum), added to those
        that the parameters have.

        Parameters
        ----------
        *args, **kwargs
            The batch, on the rank of the first stage. It is divided into microbatches along dimension 0, or as the chunk specs say.
            Keyword arguments go to each stage of the rank that passes them.
        target : Tensor, optional
            On the rank of the last stage: what the loss function compares outputs with, divided along dimension 0. Without it the loss
            function is called with the output only.
        losses : list, optional
            On that rank it is filled with the losses of the microbatches.
        return_outputs : bool
            Whether to return the outputs. Default True.
        loss_kwargs : dict, optional
            Further arguments of the loss function.

        Returns
        -------
        object
            The outputs of the whole batch, on the rank of the last stage. None on others.

        Raises
        ------
        RuntimeError
            If gradients are disabled; use `eval`.
        ValueError
            If the batch has fewer rows than there are microbatches.
        """
        backward = self._loss_fn is not None
        if backward and not mt.is_grad_enabled():
            raise RuntimeError(f"{type(self).__name__}.step: gradients are disabled here; call eval() to run forward passes only")
        if backward and not self.pipeline_order_with_comms:
            raise RuntimeError(f"{type(self).__name__}: there is no table of actions; load one with _load_csv()")
        kept = set_aside(self._stages) if backward else {}
        result = self._run(args, kwargs, target, losses, return_outputs, loss_kwargs, backward)
        if backward:
            reduce_shared(self._stages, kept, self.stage_index_to_group_rank)
        return result

    def eval(self, *args: Any, target: Any = None, losses: list | None = None, loss_kwargs: dict[str, Any] | None = None,
             **kwargs: Any) -> Any:  # fmt: skip
        """Run the forward passes of a batch, without gradients. Arguments and result are those of `step`."""
        return self._run(args, kwargs, target, losses, True, loss_kwargs, False)

    def _run(self, args: tuple, kwargs: dict[str, Any], target: Any, losses: list | None, return_outputs: bool,
             loss_kwargs: dict[str, Any] | None, backward: bool) -> Any:  # fmt: skip
        n = self._n_microbatches
        arg_mbs, kwarg_mbs = split_args_kwargs_into_chunks(args, kwargs, n, self._args_chunk_spec if args else None,
                                                           self._kwargs_chunk_spec if kwargs else None)  # fmt: skip
        targets = None if target is None else split_tensor(target, 0, n, "target")
        last = self._num_stages - 1

        def compute_loss(output: Any, i: int) -> Any:
            assert self._loss_fn is not None
            given = (output,) if targets is None else (output, targets[i])
            return self._loss_fn(*given, **(loss_kwargs or {}))

        if 0 in self._stages and not args and not kwargs:
            raise ValueError(f"{type(self).__name__}: rank {self.rank} has the first stage, so it must be given the batch")
        if backward:
            actions = self.pipeline_order_with_comms[self.rank]
        else:
            if not self._forward_order:
                chosen = forward_only(self.pipeline_order)
                self._forward_order = with_communication(chosen, self.stage_index_to_group_rank)
            actions = self._forward_order[self.rank]
        has_loss = self._loss_fn is not None and (backward or targets is not None)
        found, outputs = run_actions(
            self._stages, actions, arg_mbs, kwarg_mbs, compute_loss if has_loss else None, schedule=self._key, backward=backward,
            scale=1.0 / n if self.scale_grads else 1.0, keep_outputs=return_outputs,
        )  # fmt: skip
        if last not in self._stages:
            return None
        if losses is not None:
            losses[:] = found
        return merge_chunks(outputs, self._output_merge_spec) if return_outputs else None


@lru_cache(64)
def _prepared(cls: Any, p: int, m: int, v: int) -> tuple[Table, Table]:
    """Return the table of a schedule, without and with communication. Simulated ranks share it."""
    table: Table = cls.table(p, m, v)
    return table, with_communication(table, _orders.stage_to_rank(p, p * v, cls._style))


_PARAMETERS = """

    Parameters
    ----------
    {stages}
    n_microbatches : int
        Number of microbatches of each step.
    loss_fn : callable, optional
        ``loss_fn(output, target)`` returns the loss of a microbatch, a tensor with one element. Without it there are no backward passes.
    args_chunk_spec, kwargs_chunk_spec : optional
        A `TensorChunkSpec` for each argument of `step`: along which dimension it is divided. Default: dimension 0.
    output_merge_spec : optional
        A `TensorChunkSpec` for each output. Default: dimension 0.
    scale_grads : bool
        Whether gradients are those of the mean of the losses of the microbatches. Default True; otherwise of their sum.

    Raises
    ------
    ValueError
        If there are too few microbatches, or the rank does not have the stages that the schedule gives it.
    """
_ONE = "stage : PipelineStage\n        The stage of this rank."
_SEVERAL = "stages : list of PipelineStage\n        The stages of this rank."


def _documented(cls: Any) -> Any:
    cls.__doc__ = cls.__doc__.rstrip() + _PARAMETERS.format(stages=_ONE if issubclass(cls, PipelineScheduleSingle) else _SEVERAL)
    return cls


class PipelineScheduleSingle(_PipelineSchedule):
    """The base of schedules with one stage on each rank."""

    _each = 1

    def __init__(
        self, stage: _PipelineStageBase, n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage

    @classmethod
    def _fewest(cls, p: int, v: int) -> int:
        return p


@_documented
class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes, then all backward passes."""

    _order = "gpipe"


@_documented
class Schedule1F1B(PipelineScheduleSingle):
    """Forward and backward passes in turns. A stage keeps activations of as many microbatches as there are stages from it to the last."""

    _order = "one_f_one_b"


class PipelineScheduleMulti(_PipelineSchedule):
    """The base of schedules with several stages on each rank. By itself it runs a table from a file, see `_load_csv`."""

    def __init__(
        self, stages: Sequence[_PipelineStageBase], n_microbatches: int, loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True,
        backward_requires_autograd: bool = True, defer_pp_recv: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(stages, (list, tuple)):
            raise TypeError(f"{type(self).__name__}: expected a list of the stages of this rank, got {type(stages).__name__}")
        super().__init__(list(stages), n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)

    def _load_csv(self, filename: Any, format: str = "compute_only") -> None:
        """Use the table of a file: a line for each rank, with actions such as ``2F0`` and empty cells, separated by commas.

        With ``format="compute_comms"`` the file says what is sent and received, otherwise this is added. Raise ValueError if the ranks
        cannot run the table.
        """
        with open(filename, newline="", encoding="utf-8") as file:
            table = {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))}
        self._prepare_schedule_with_comms(table, format)

    def register_custom_function(self, computation_type: _ComputationType, custom_function: Callable[..., Any]) -> None:
        """Raise NotImplementedError: passes run in turn, so there is nothing that a function could overlap."""
        name = f"{type(self).__name__}.register_custom_function"
        raise NotImplementedError(f"{name}: {computation_type} cannot be replaced; passes run in turn")

    def _dump_csv(self, filename: Any, format: str = "compute_comms") -> None:
        """Write the table to a file that `_load_csv` reads."""
        table = self.pipeline_order_with_comms if format == "compute_comms" else self.pipeline_order
        with open(filename, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table[rank] for rank in sorted(table))


_PipelineScheduleRuntime = PipelineScheduleMulti


@_documented
class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches on one stage of the rank, then all on its next one."""

    _order = "looped_bfs"


@_documented
class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages on each rank, which makes the bubble smaller. Rank ``r`` of ``p`` has the stages ``r``, ``r + p``, ..."""

    _order = "interleaved_1f1b"


@_documented
class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Interleaved 1F1B that computes gradients of weights later than those of inputs, so that ranks wait less."""

    _order = "interleaved_zero_bubble"


@_documented
class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """ZB-V: rank ``r`` of ``p`` has the stages ``r`` and ``2p - 1 - r``, and gradients of weights fill the bubble."""

    _order = "zbv_zero_bubble"
    _style, _each = "v", 2


@_documented
class ScheduleDualPipeV(PipelineScheduleMulti):
    """DualPipeV: the stages of ZB-V, with pairs of forward and backward passes that a device can overlap. Here they run in turn."""

    _order = "dual_pipe_v"
    _style, _each = "v", 2

    @classmethod
    def _fewest(cls, p: int, v: int) -> int:
        return 2 * p


_CLASSES = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> Any:
    """Return the schedule with a name such as ``"1F1B"``, in upper or lower case. Raise ValueError if there is none."""
    found = {name.lower(): cls for name, cls in _CLASSES.items()}.get(schedule_name.lower())
    if found is None:
        raise ValueError(f"get_schedule_class: there is no schedule {schedule_name!r}; the schedules are {', '.join(_CLASSES)}")
    return found
