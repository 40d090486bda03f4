"""Training plans in words and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.units import bytes_text, seconds_text
from metatensor.plan.layouts import CATEGORIES, Layout
from metatensor.plan.rates import text_of_energy

if TYPE_CHECKING:
    from metatensor.plan.searching import TrainingPlan

__all__ = ["explained", "plan_text"]

SHOWN = 10
"""Layouts in a table."""


def explained(a: Layout, b: Layout, memory: int) -> str:
    """Return why the faster of two layouts is faster, and how their memory differs."""
    fast, slow = (a, b) if a.seconds <= b.seconds else (b, a)
    gain = slow.seconds - fast.seconds
    lines = [f"[{fast.degrees}] takes {seconds_text(fast.seconds)}, {gain / slow.seconds:.1%} less than [{slow.degrees}], "
             f"{seconds_text(slow.seconds)}:"]  # fmt: skip
    differences = {name: slow.parts()[name] - value for name, value in fast.parts().items()}
    for name, saved in sorted(differences.items(), key=lambda item: -abs(item[1])):
        if abs(saved) > 1e-3 * gain and saved:
            word = "less" if saved > 0 else "more"
            lines.append(f"  {seconds_text(abs(saved))} {word} {name}: {seconds_text(fast.parts()[name])} against "
                         f"{seconds_text(slow.parts()[name])}")  # fmt: skip
    lines += _energy(fast, slow)
    for one in (fast, slow):
        over = one.peak - memory
        rank = max(one.memory, key=lambda rank: sum(rank.values()))
        largest = max(CATEGORIES, key=lambda name: rank[name])
        fits = f"{bytes_text(over)} too much" if over > 0 else f"{bytes_text(-over)} are left"
        lines.append(f"  [{one.degrees}] needs {bytes_text(one.peak)}, most of it {largest} ({bytes_text(rank[largest])}); {fits}")
    return "\n".join(lines)


def _energy(fast: Layout, slow: Layout) -> list[str]:
    """Return how energy and price differ, where they are known and differ by more than 0.1%."""
    found = []
    for what, a, b, text in (
        ("takes at most", fast.energy, slow.energy, text_of_energy), ("costs", fast.price, slow.price, lambda value: f"{value:.4g}"),
    ):  # fmt: skip
        if a is not None and b is not None and abs(a - b) > 1e-3 * max(a, b):
            found.append(f"  a step {what} {text(a)} against {text(b)}, {abs(a - b) / b:.1%} {'less' if a < b else 'more'}")
    return found


def plan_text(plan: TrainingPlan) -> str:
    """Return the table of a `TrainingPlan`."""
    lines = [f"{plan.model}, {plan.batch:,} samples in a step on {plan.devices}, {plan.precision}, at most {bytes_text(plan.memory)} each",
             ""]  # fmt: skip
    if not plan.layouts:
        lines.append(f"no layout fits: {plan.advice()}")
    else:
        lines.append(f"{'':>3} {'layout':<62}{'step':>10}{'samples/s':>11}{'MFU':>7}{'memory':>10}{'exposed':>10}{'bubble':>10}")
        for i, layout in enumerate(plan.layouts[:SHOWN]):
            exposed = layout.tensor_communication + layout.data_communication + layout.pipeline_communication
            mfu = "" if layout.mfu is None else f"{layout.mfu:.1%}"
            lines.append(f"{i:>3} {layout.degrees!s:<62}{seconds_text(layout.seconds):>10}{layout.samples_per_second:>11,.4g}{mfu:>7}"
                         f"{bytes_text(layout.peak):>10}{seconds_text(exposed):>10}{seconds_text(layout.bubble):>10}")  # fmt: skip
        lines += ["", f"{len(plan.layouts):,} layouts fit; with least memory for their speed: "
                  + ", ".join(str(plan.layouts.index(one)) for one in plan.pareto()[:SHOWN])]  # fmt: skip
        best = plan.layouts[0]
        if known := best.rates.text(best.seconds, best.degrees.devices, best.tokens):
            lines.append(f"a step of layout 0: {known}")
    if plan.rejected:
        lines += ["", f"{len(plan.rejected):,} were left out, among them"]
        seen: set[str] = set()
        for one in plan.rejected:
            if one.limit not in seen and len(seen) < 5:
                seen.add(one.limit)
                by = f" exceeded by {bytes_text(one.by)}" if one.by is not None else ""
                lines.append(f"    {one.degrees}: {one.limit}{by}")
    return "\n".join([*lines, *(["", *plan.remarks] if plan.remarks else [])])
