"""The layouts that a search tries, and which of them it has to cost as a whole."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from metatensor.plan.costing import Candidate
from metatensor.plan.layouts import OFFLOADS, Degrees, Layout, Rejected
from metatensor.plan.schedules import virtual_stages_of

__all__ = ["Ranking", "Space", "degrees_in", "grouped", "most_samples", "offloaded"]


KEEP = 100
"""How many layouts a search finds at least by default."""


@dataclass(frozen=True)
class Space:
    """The values that a search tries. None means all that the devices, the batch and the model allow."""

    devices: int
    per_node: int
    blocks: int
    batch: int
    tensor: Sequence[int] | None
    pipeline: Sequence[int] | None
    micro_batches: Sequence[int]
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


def most_samples(space: Space) -> int:
    """Return the largest number of samples that a rank may process together in any layout."""
    pairs = ((tensor, context) for tensor in space.tensor or divisors(min(space.per_node, space.devices)) for context in space.context)
    left = [space.devices // tensor // context for tensor, context in pairs if not space.devices % (tensor * context)]
    copies = [n // p for n in left for p in space.pipeline or divisors(n) if not n % p and p <= max(space.blocks, 1)]
    return max((space.batch // n for n in copies), default=0)


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
    for micro in space.micro_batches:
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
    """Yield the candidates of a layout, one for each choice of what the host holds.

    If a layout fits with some offload, more offload is not tried, because further transfers never make it faster.
    """
    fits: list[set[str]] = []
    for what in OFFLOADS:
        held = set(what.split("+")) - {"none"}
        if what in offload and not any(less <= held for less in fits):
            found = costed(replace(degrees, offload=what))
            if found.peak <= memory:
                fits.append(held)
            yield found


class Ranking:
    """The fastest layouts found so far.

    Parameters
    ----------
    memory : int
        Bytes of a device that a step may use.
    keep : int or None
        Number of layouts that are wanted; None for all.

    Attributes
    ----------
    layouts : list of Layout
        Those that fit, in the order in which they were costed.
    rejected : list of Rejected
        Those that need more memory.
    bounded : int
        Number of layouts that were not costed as a whole, because a bound shows that at least ``keep`` others are faster.
    """

    def __init__(self, memory: int, keep: int | None) -> None:
        self.memory, self.keep = memory, keep
        self.layouts: list[Layout] = []
        self.rejected: list[Rejected] = []
        self.bounded = 0
        self._seconds: list[float] = []

    def surpassed(self, bound: float) -> bool:
        """Return whether at least ``keep`` layouts found so far take at most ``bound`` seconds."""
        return self.keep is not None and len(self._seconds) >= self.keep and self._seconds[self.keep - 1] <= bound

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Cost those candidates that may be among the fastest."""
        fitting = []
        for one in candidates:
            if one.peak > self.memory:
                self.rejected.append(Rejected(one.degrees, "memory", one.peak - self.memory, one.layout))
            else:
                fitting.append(one)
        for one in sorted(fitting, key=lambda one: (one.bound, one.peak)):
            if self.surpassed(one.bound):
                self.bounded += 1
            else:
                layout = one.layout()
                self.layouts.append(layout)
                insort(self._seconds, layout.seconds)


def grouped(degrees: Iterable[Degrees], bound: Callable[[Degrees], float]) -> list[tuple[float, list[Degrees]]]:
    """Group layouts that divide the computation in the same way. Return each group after a lower bound of its times, sorted by that."""
    groups: dict[Degrees, list[Degrees]] = {}
    for one in degrees:
        groups.setdefault(replace(one, schedule="1F1B", virtual_stages=1, shard=0), []).append(one)
    return sorted(((bound(key), members) for key, members in groups.items()), key=lambda item: item[0])
