"""Layouts that can be costed, but not be applied yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metatensor.plan.layouts import Degrees, Layout
from metatensor.plan.schedules import split_backward

__all__ = ["NotApplied", "check_degrees", "fastest_applied"]


class NotApplied(NotImplementedError):
    """A layout that cannot be applied. ``allowed`` says of others whether the same reason speaks against them."""

    def __init__(self, text: str, allowed: Callable[[Degrees], bool]) -> None:
        super().__init__(text)
        self.allowed = allowed


def check_degrees(degrees: Degrees) -> None:
    """Raise `NotApplied` for a layout that cannot be applied, whatever the model is."""
    if degrees.offload != "none":
        raise NotApplied(f"apply: offload {degrees.offload} is not supported; search with offload=['none']", _applied)
    if degrees.shard == 3 and degrees.pipeline > 1 and split_backward(degrees.schedule):
        raise NotApplied(f"apply: shard 3 with the schedule {degrees.schedule}, which computes gradients of weights later, is not "
                         "supported; search with shard=[0, 1, 2]", _applied)  # fmt: skip


def _applied(degrees: Degrees) -> bool:
    try:
        check_degrees(degrees)
    except NotApplied:
        return False
    return True


def fastest_applied(layouts: Sequence[Layout], allowed: Callable[[Degrees], bool]) -> str:
    """Return which of the layouts is the fastest that can be applied, as the end of a message."""
    found = next((i for i, one in enumerate(layouts) if allowed(one.degrees) and _applied(one.degrees)), None)
    if found is None:
        return "; no layout of this plan can be applied"
    return f"; the fastest layout of this plan that can be applied is which={found}: {layouts[found].degrees}"
