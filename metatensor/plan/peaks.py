"""Memory of the passes over a part of a model: at their peaks, and between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor.distributed.tensor import DTensor
from metatensor.plan.arranging import local_numel

__all__ = ["Gradients", "Peaks", "nbytes"]


class Peaks(NamedTuple):
    """Bytes of a pass that computes gradients of parameters, above those that are there before the forward pass."""

    before: int = 0
    """The peak up to the first gradient of a parameter; of the whole pass without parameters."""
    between: int = 0
    """The peak from the first gradient of a parameter to the last."""
    after: int = 0
    """The peak from there on."""
    start: int = 0
    """At the beginning."""
    kept: int = 0
    """The peak of the whole pass if gradients of parameters were kept until its end."""


def nbytes(t: Any) -> int:
    """Return the bytes of a tensor on this rank."""
    return local_numel(t) * int(t.element_size())


class Gradients:
    """Adds the gradients of parameters to sums, frees them, and notes when the first and the last one of a pass come.

    Parameters
    ----------
    parameters : iterable of Parameter
        Those of a part. The gradients that they have become the sums.

    Attributes
    ----------
    reduced, scattered : tuple of int
        Bytes of gradients that are partial sums, of whole parameters and of those that are cut.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._parameters = {id(p): p for p in parameters if p.requires_grad}
        self._sums: dict[int, Any] = {}
        for key, p in self._parameters.items():
            self._sums[key], p.grad = p.grad, None
        self._memory: MemoryTracker | None = None
        self._clear()
        self._hooks = [p.register_post_accumulate_grad_hook(self._add) for p in self._parameters.values()]

    def __len__(self) -> int:
        return len(self._parameters)

    def _clear(self) -> None:
        self._before = self._between = self._after = self._start = self._most = self._kept = 0
        self.reduced: tuple[int, ...] = ()
        self.scattered: tuple[int, ...] = ()
        self._arrived: set[int] = set()

    def start(self, memory: MemoryTracker) -> None:
        """Begin to watch a pass."""
        self._clear()
        self._memory, self._start = memory, memory.current
        memory.reset_peak()

    def finish(self, base: int = 0) -> Peaks:
        """Return the peaks of the pass, above ``base`` bytes."""
        assert self._memory is not None
        self._end_interval(self._memory.peak)
        self._memory = None
        found = (self._before, self._between, self._after, self._start, self._most)
        return Peaks(*(max(one - base, 0) for one in found))

    def _end_interval(self, peak: int) -> None:
        """Note the peak of an interval between gradients."""
        if not self._arrived:
            self._before = peak
        elif len(self._arrived) < len(self._parameters):  # if some get no gradient, the others are summed at the end
            self._between = max(self._between, peak)
        else:
            self._after = peak
        self._most = max(self._most, peak + self._kept)

    def _add(self, p: Any) -> None:
        grad, p.grad, memory = p.grad, None, self._memory
        if isinstance(grad, DTensor) and any(place.is_partial() for place in grad.placements):
            if isinstance(p.data, DTensor) and not all(place.is_replicate() for place in p.data.placements):
                self.scattered += (nbytes(grad),)
            else:
                self.reduced += (nbytes(grad),)
        if memory is None:
            return
        self._end_interval(memory.peak)
        memory.reset_peak()
        total = self._sums[id(p)]
        if total is not None:
            with mt.no_grad():
                total.add_(grad)
        self._between = max(self._between, memory.peak)
        self._most = max(self._most, memory.peak + self._kept)
        memory.reset_peak()
        self._arrived.add(id(p))
        self._kept += nbytes(grad)

    def remove(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
