"""The layouts that a search tries, and which of them it has to cost as a whole."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from metatensor.plan.costing import Candidate
from metatensor.plan.layouts import OFFLOADS, Degrees, Layout, Rejected
from metatensor.plan.schedules import virtual_stages_of

__all__ = ["Space", "degrees_in", "offloaded", "ranked"]


@dataclass(frozen=True)
class Space:
    """The values that a search tries. None means all that the devices, the batch and the model allow."""

    devices: int
    per_node: int
    blocks: int
    batch: int
    tensor: Sequence[int] | None
    pipeline: Sequence[int] | None
    micro_batches: Sequence[int] | None
    context: Sequence[int]
    expert: Sequence[int]
    shard: Sequence[int]
    recompute: Sequence[str]
    sequence: Sequence[bool]
    schedules: Sequence[str]
    virtual_stages: Sequence[int]
    precision: str


def divisors(n: int) -> list[int]:
    """Return the divisors of a number."""
    return [k for k in range(1, n + 1) if n % k == 0]


def degrees_in(space: Space) -> Iterator[Degrees]:
    """Yield all combinations, without offload, that use all devices and divide the batch."""
    for tensor in space.tensor or divisors(min(space.per_node, space.devices)):
        if space.devices % tensor:
            continue
        for context in space.context:
            if space.devices // tensor % context:
                continue
            left = space.devices // tensor // context
            for pipeline in space.pipeline or divisors(left):
                if not left % pipeline and pipeline <= max(space.blocks, 1):
                    yield from _with_data(space, tensor, context, pipeline, left // pipeline)


def _with_data(space: Space, tensor: int, context: int, pipeline: int, data: int) -> Iterator[Degrees]:
    schedules = [("1F1B", 1)]
    if pipeline > 1:
        schedules = [(name, v) for name in space.schedules for v in virtual_stages_of(name, space.virtual_stages)
                     if pipeline * v <= space.blocks]  # fmt: skip
    for micro in space.micro_batches or (1, 2, 4, 8):
        if space.batch % (data * micro):
            continue
        for sequence in space.sequence:
            if sequence and tensor == 1:
                continue
            for recompute in space.recompute:
                for expert in space.expert:
                    if data * context % expert:
                        continue
                    for schedule, v in schedules:
                        for shard in space.shard:
                            if not shard or data * context > 1:
                                yield Degrees(data, tensor, pipeline, shard, sequence, micro, recompute, context, expert, schedule, v,
                                              space.precision)  # fmt: skip


def offloaded(degrees: Degrees, offload: Sequence[str], costed: Callable[[Degrees], Candidate], memory: int) -> Iterator[Candidate]:
    """Yield the candidates of a layout with what the host may hold.

    Nothing is added to what the host holds where a layout already fits, as further transfers never make it faster.
    """
    fits: list[set[str]] = []
    for what in OFFLOADS:
        held = set(what.split("+")) - {"none"}
        if what in offload and not any(less <= held for less in fits):
            found = costed(replace(degrees, offload=what))
            if found.peak <= memory:
                fits.append(held)
            yield found


def ranked(candidates: Iterable[Candidate], memory: int, keep: int | None) -> tuple[list[Layout], list[Rejected]]:
    """Return the layouts that fit, the fastest first, and those that do not.

    Candidates are costed in the order of their bounds. One is left out if ``keep`` layouts are known to be faster than its bound, and one
    of them needs no more memory: so the ``keep`` fastest and all that no other one surpasses in both time and memory are found.
    """
    candidates = list(candidates)
    rejected = [Rejected(one.degrees, "memory", one.peak - memory, one.layout) for one in candidates if one.peak > memory]
    layouts: list[Layout] = []
    seconds: list[float] = []
    front: list[tuple[float, int]] = []
    for one in sorted((one for one in candidates if one.peak <= memory), key=lambda one: (one.bound, one.peak)):
        if keep is not None and len(seconds) >= keep and seconds[keep - 1] <= one.bound:
            i = bisect_right(front, (one.bound, 1 << 62))
            if i and front[i - 1][1] <= one.peak:
                continue
        layout = one.layout()
        layouts.append(layout)
        insort(seconds, layout.seconds)
        i = bisect_right(front, (layout.seconds, layout.peak))
        if not i or front[i - 1][1] > layout.peak:
            insort(front, (layout.seconds, layout.peak))
            while i + 1 < len(front) and front[i + 1][1] >= layout.peak:
                del front[i + 1]
    layouts.sort(key=lambda layout: (layout.seconds, layout.peak))
    return layouts, rejected
