"""The time of a training step on all ranks, with communication: tensor and sequence parallelism, 1F1B, a distributed optimizer."""

from __future__ import annotations

from functools import partial
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.analysis import topology
from metatensor.analysis.ranks.profiling import _Times
from metatensor.analysis.ranks.recording import RankRecorder
from metatensor.analysis.ranks.scheduling import Program, RankTimeline, schedule
from metatensor.analysis.timing import EFFICIENCY

from . import kernels
from .rank import Layout
from .step import _prepared, stages_of

__all__ = ["seconds_on_ranks", "timelines"]


def seconds_on_ranks(layout: Layout, device: str, micro_batches: int, dtype: Any = mt.bfloat16) -> float | None:
    """Return the predicted seconds of a step, None if a rate is unknown or the layout's communication is not written here."""
    found = timelines(layout, device, micro_batches, dtype)
    return None if found is None else max(one.end for one in found.values())


def timelines(layout: Layout, device: str, micro_batches: int, dtype: Any = mt.bfloat16) -> dict[int, RankTimeline] | None:
    """Return the timeline of one rank of each pipeline stage."""
    if layout.context > 1 or layout.virtual > 1 or layout.experts or (layout.tensor > 1 and not layout.sequence_parallel):
        return None
    where = topology(f"{layout.gpus}x{device}")
    profile = where.device
    if profile.memory_bandwidth is None:
        return None
    speed = profile.memory_bandwidth * EFFICIENCY["elementwise"]

    def body() -> tuple[RankRecorder, float]:
        dist.init_process_group()
        mesh = dist.init_device_mesh("meta", (layout.pipeline, layout.data, layout.tensor), mesh_dim_names=("pp", "dp", "tp"))
        rank = mesh.get_local_rank("pp")
        with mt.device("meta"):
            (stage,) = stages_of(layout, rank, dtype)
            masters = _prepared([stage], layout)
            group = mesh.get_group("tp") if layout.tensor > 1 else None
            with RankRecorder() as recorder, kernels.communicating(group):
                _one_forward_one_backward(stage, layout, rank, micro_batches, mesh.get_group("pp"), dtype)
                if layout.data > 1:
                    _reduce(masters, layout, mesh.get_group("dp"))
                _update(recorder, masters)
                if layout.data > 1:
                    _gather(masters, layout, mesh.get_group("dp"), dtype)
        return recorder, 0.0

    run = dist.sim.run(body, world_size=where.size, ranks="groups")
    first = {member: members[0] for members in run.classes for member in members}
    programs = {members[0]: _program(run[members[0]][0]) for members in run.classes}
    times = _Times(profile)

    def seconds(call: Any) -> float:
        return call.flops / speed if call.op == UPDATE else times(kernels.as_known(call))

    found = schedule(programs, first.__getitem__, where, seconds)
    return None if times.unknown else found


UPDATE = "published::update"
"""Adam's update in one kernel. Its "operations" are the bytes that it reads and writes."""


def _program(recorder: RankRecorder) -> Program:
    return Program(recorder.calls, recorder.marks, recorder.log.entries)


def _update(recorder: RankRecorder, masters: Any) -> None:
    """Record Adam's update: it reads 4 numbers and writes 3 for each."""
    last = recorder.calls[-1]
    recorder.calls.append(last._replace(op=UPDATE, flops=7 * 4 * sum(master.numel() for master in masters.tensors), phase="optimizer"))


def _one_forward_one_backward(stage: Any, layout: Layout, rank: int, times: int, group: Any, dtype: Any) -> None:
    """Run the micro-batches of a step in the order of 1F1B, as Megatron-LM exchanges them."""
    first, last = rank == 0, rank == layout.pipeline - 1
    shape = layout.tokens // layout.shards, layout.micro_batch, layout.hidden
    made: list[tuple[Any, Any]] = []

    def exchange(*wanted: tuple[Any, Any, int]) -> None:
        works = dist.batch_isend_irecv([dist.P2POp(op, tensor, group=group, group_peer=peer) for op, tensor, peer in wanted])
        for work in works:
            work.wait()

    def forward(x: Any) -> Any:
        if first:
            x = mt.empty(layout.micro_batch, layout.tokens, dtype=mt.int64)
        made.append((x, stage(x)))
        return made[-1][1]

    def backward(grad: Any) -> Any:
        x, out = made.pop(0)
        out.backward(grad)
        return None if first else x.grad

    empty = partial(mt.empty, shape, dtype=dtype)
    received = partial(empty, requires_grad=True)
    up, down = (dist.irecv, rank - 1), (dist.irecv, rank + 1)
    held = min(layout.pipeline - rank - 1, times)
    x = None
    for _ in range(held):
        x = received()
        if not first:
            exchange((up[0], x.detach(), up[1]))
        exchange((dist.isend, forward(x).detach(), rank + 1))
    if times > held:
        x = received()
        if not first:
            exchange((up[0], x.detach(), up[1]))
    for number in range(times - held):
        out, grad = forward(x), None
        if not last:
            grad = empty()
            exchange((dist.isend, out.detach(), rank + 1), (down[0], grad, down[1]))
        passed = backward(grad)
        x = received()
        more = number + 1 < times - held
        if not first:
            exchange((dist.isend, passed, rank - 1), *([(up[0], x.detach(), up[1])] if more else []))
    for _ in range(held):
        grad = empty()
        exchange((down[0], grad, down[1]))
        passed = backward(grad)
        if not first:
            exchange((dist.isend, passed, rank - 1))


def _reduce(masters: Any, layout: Layout, group: Any) -> None:
    """Add the float32 gradients of all data-parallel ranks, of which each keeps its part."""
    whole = masters.gradients
    if layout.distributed_optimizer:
        part = -(-whole.numel() // layout.data)
        dist.reduce_scatter_tensor(mt.empty(part, dtype=mt.float32), mt.empty(part * layout.data, dtype=mt.float32), group=group)
    else:
        dist.all_reduce(whole, group=group)


def _gather(masters: Any, layout: Layout, group: Any, dtype: Any) -> None:
    """Gather the parameters that each rank has updated."""
    if layout.distributed_optimizer:
        part = -(-masters.elements // layout.data)
        dist.all_gather_into_tensor(mt.empty(part * layout.data, dtype=dtype), mt.empty(part, dtype=dtype), group=group)
