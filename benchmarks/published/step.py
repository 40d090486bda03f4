"""Run training steps of one rank on meta and count its bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis import MemoryLog, MemoryTracker, allocator, device_profile
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.timing import EFFICIENCY, predict

from . import kernels
from .rank import Layout, Stage

__all__ = ["Bytes", "held_activations", "memory_of", "reserved_of", "seconds_of_step", "stages_of"]


class Bytes(NamedTuple):
    """What a rank's step takes, in bytes."""

    parameters: int
    """Elements of the rank's parameters, not bytes."""
    resident: int
    """Parameters, main gradients, copies and states of the optimizer between two steps."""
    peak: int
    """The most during a step after the first."""


def held_activations(layout: Layout, rank: int) -> list[int]:
    """Return, for each piece of the model on a pipeline rank, how many forward passes are held at the peak, with the one before
    the first backward pass (1F1B; interleaved: arXiv:2104.04473, 2.2)."""
    p, v = layout.pipeline, layout.virtual
    if v == 1:
        return [p - rank]
    passes = (p - rank - 1) * 2 + (v - 1) * p + 1
    held = [0] * v
    for number in range(passes):
        held[number // p % v] += 1
    return held


def memory_of(layout: Layout, rank: int | None = None, dtype: Any = mt.bfloat16) -> Bytes:
    """Return the bytes of one step on a pipeline rank (by default the last): mixed precision, float32 main gradients, Adam."""
    rank = layout.pipeline - 1 if rank is None else rank
    with mt.device("meta"), MemoryTracker() as memory:
        stages = stages_of(layout, rank, dtype)
        masters = _prepared(stages, layout)
        optimizer = mt.optim.AdamW(masters.tensors)
        for master in masters.tensors:  # Adam's state appears, without a second set of gradients
            master.grad = mt.empty_like(master)
            optimizer.step()
            master.grad = None
        if layout.accumulated and not layout.experts:  # the first step makes placeholders that stay
            _passes(stages, [1] * layout.virtual, layout, dtype)
        resident = memory.current
        memory.reset_peak()
        if not layout.experts:
            _passes(stages, held_activations(layout, rank), layout, dtype)
        peak = memory.peak
    return Bytes(masters.elements, resident, peak)


def reserved_of(layout: Layout, rank: int | None = None, dtype: Any = mt.bfloat16) -> int:
    """Return what the caching allocator has reserved after two steps on a pipeline rank: its rules, replayed over the requests."""
    rank = layout.pipeline - 1 if rank is None else rank
    with mt.device("meta"), MemoryLog() as log:
        stages = stages_of(layout, rank, dtype)
        masters = _prepared(stages, layout)
        for step in range(2):
            _passes(stages, held_activations(layout, rank), layout, dtype)
            if not step:  # a fused update, which creates nothing but the states of Adam
                states = [mt.empty_like(master) for master in masters.tensors for _ in range(2)]
    del states
    return int(allocator.replay(allocator.requests(log.events())).peak_reserved)


def stages_of(layout: Layout, rank: int, dtype: Any) -> list[Stage]:
    """Return the pieces of the model on a pipeline rank."""
    pieces = layout.pipeline * layout.virtual
    places = range(rank, pieces, layout.pipeline)
    return [Stage(layout, layout.layers // pieces, place == 0, place == pieces - 1).to(dtype) for place in places]


class _Masters(NamedTuple):
    tensors: list[Any]
    elements: int
    gradients: Any


def _prepared(stages: list[Stage], layout: Layout) -> _Masters:
    """Give the stages main gradients, and return what the optimizer updates."""
    dense: list[Any] = []
    experts: list[Any] = []
    for stage in stages:
        for name, p in stage.named_parameters():
            (experts if ".members." in name else dense).append(p)
    main = _main_gradients(dense + experts, layout.accumulated)
    kept: dict[Any, Any] = {}
    for stage in stages:
        ends = {id(stage.head), id(getattr(stage, "words", None))}
        for p in stage.parameters():
            p.placeholders = None if id(p) in ends else kept
    masters = _masters(dense, layout.data, layout) + _masters(experts, _expert_data(layout), layout)
    return _Masters(masters, sum(p.numel() for p in dense + experts), main)


def seconds_of_step(layout: Layout, device: str, micro_batches: int, dtype: Any = mt.bfloat16) -> float | None:
    """Return the predicted seconds of a step without communication: the slowest stage's passes, the pipeline's fill, the update.

    The pipeline's fill takes (stages - 1) / pieces of a micro-batch's time (arXiv:2104.04473, 2.2).
    """
    profile = device_profile(device)
    slowest = 0.0
    for rank in {0, layout.pipeline - 1}:
        with mt.device("meta"):
            stages = stages_of(layout, rank, dtype)
            masters = _prepared(stages, layout)
            with CallRecorder() as recorder:
                _passes(stages, [1] * layout.virtual, layout, dtype)
            update = 7 * 4 * sum(master.numel() for master in masters.tensors)  # reads 4 numbers and writes 3 for each, in one kernel
        phases = predict([kernels.as_known(call) for call in recorder.calls], profile).phases
        if None in phases.values() or profile.memory_bandwidth is None:
            return None
        passes = sum(seconds or 0.0 for seconds in phases.values())
        fill = (layout.pipeline - 1) / layout.virtual
        slowest = max(slowest, passes * (micro_batches + fill) + update / (profile.memory_bandwidth * EFFICIENCY["elementwise"]))
    return slowest


def _main_gradients(parameters: list[Any], accumulated: bool) -> Any:
    """Return one float32 buffer for the gradients of all parameters, to which backward adds."""
    buffer = mt.empty(sum(p.numel() for p in parameters), dtype=mt.float32)
    start = 0
    for p in parameters:
        p.main_grad = buffer[start : start + p.numel()].view(p.shape)
        p.accumulated = accumulated
        start += p.numel()

        def add(leaf: Any) -> None:
            leaf.grad = None

        p.register_post_accumulate_grad_hook(add)
    return buffer


def _expert_data(layout: Layout) -> int:
    return max(1, layout.gpus // (layout.pipeline * layout.expert * (layout.expert_tensor or layout.tensor)))


def _masters(parameters: list[Any], data: int, layout: Layout) -> list[Any]:
    """Return the float32 copies that this rank updates."""
    if not parameters:
        return []
    if layout.distributed_optimizer:
        return [mt.empty(-(-sum(p.numel() for p in parameters) // data), dtype=mt.float32, requires_grad=True)]
    return [mt.empty(p.shape, dtype=mt.float32, requires_grad=True) for p in parameters]


def _passes(stages: list[Stage], held: list[int], layout: Layout, dtype: Any) -> None:
    """Run the forward passes that are held at the peak, then the backward passes, the last first."""
    results = []
    for stage, times in zip(stages, held, strict=True):
        for _ in range(times):
            if stage.first:
                x = mt.empty(layout.micro_batch, layout.tokens, dtype=mt.int64)
            else:
                x = mt.empty(layout.tokens // layout.shards, layout.micro_batch, layout.hidden, dtype=dtype, requires_grad=True)
            results.append((x, stage(x)))
            del x
    while results:
        x, out = results.pop()
        out.backward(None if out.dim() == 0 else mt.empty_like(out))
        del x, out
