"""The page of plans: one HTML file with all layouts of searches, without network access.

The page contains the layouts as columns of numbers in JSON and draws everything from them. ``plans.html`` is its frame and ``plans.css``
its style. The head, the theme and two scripts are those of `metatensor.analysis.page`. ``choice.js`` holds the rows and which of them are
chosen, ``axes.js`` draws the parallel coordinates on a canvas, ``front.js`` the plot of memory against time with Plotly, ``rows.js`` the
table, and ``begin.js`` starts them. Plotly's own parallel coordinates make functions from text, which the page's security policy
forbids. A content security policy forbids all requests.
"""

from __future__ import annotations

import os
from html import escape
from typing import Any

from metatensor._core.units import bytes_text, seconds_text
from metatensor.analysis.page import filled, json_text, part, plotly
from metatensor.checkpoint.atomic import replacing

__all__ = ["contents", "document", "write"]

SHARED = ("text.js", "unpack.js")
SCRIPTS = ("choice.js", "axes.js", "front.js", "rows.js", "begin.js")
MOST = 20_000
"""Maximum number of layouts on a page. If there are more, the fastest of each plan are shown, and all of `TrainingPlan.pareto`."""
FIGURES = ("seconds", "peak", "mfu", "exposed", "bubble", "tokens_per_second", "energy", "price")


def contents(plans: list[tuple[dict[str, Any], Any]]) -> dict[str, Any]:
    """Return what a page of plans shows, as JSON types.

    Parameters
    ----------
    plans : list of (dict, TrainingPlan)
        Plans, each with labels that distinguish it from the others.
    """
    most = max(1, MOST // max(len(plans), 1))
    columns: dict[str, list[Any]] = {"case": [], "rank": [], "best": [], **{name: [] for name in FIGURES}}
    degrees: dict[str, list[Any]] = {}
    cases, left_out = [], 0
    for number, (labels, plan) in enumerate(plans):
        front = {id(layout) for layout in plan.pareto()}
        shown = [layout for i, layout in enumerate(plan.layouts) if i < most or id(layout) in front]
        left_out += len(plan.layouts) - len(shown)
        for rank, layout in enumerate(shown):
            exposed = layout.tensor_communication + layout.data_communication + layout.pipeline_communication
            values = (layout.seconds, layout.peak, layout.mfu, exposed, layout.bubble, layout.tokens_per_second, layout.energy,
                      layout.price)  # fmt: skip
            for name, value in zip(("case", "rank", "best", *FIGURES), (number, rank, id(layout) in front, *values), strict=True):
                columns[name].append(value)
            for name, value in vars(layout.degrees).items():
                degrees.setdefault(name, []).append(value)
        cases.append({"title": _title(labels, plan), "memory": plan.memory, "fits": len(plan.layouts), "rejected": len(plan.rejected),
                      "advice": None if plan.layouts else plan.advice()})  # fmt: skip
    return {"kind": "plans", "cases": cases, "columns": columns, "degrees": degrees, "left_out": left_out}


def _title(labels: dict[str, Any], plan: Any) -> str:
    others = ", ".join(f"{name} {value}" for name, value in labels.items())
    return f"{plan.model} on {plan.devices}, {plan.batch:,} samples" + (f", {others}" if others else "")


def document(plans: list[tuple[dict[str, Any], Any]]) -> str:
    """Return the page of plans as HTML."""
    data = contents(plans)
    return filled(part("plans.html", __name__), {
        "title": escape(_heading(plans)), "heading": escape(_heading(plans)), "facts": _facts(plans, data),
        "style": part("theme.css") + part("report.css") + part("plans.css", __name__),
        "scripts": "\n".join([*map(part, SHARED), *(part(name, __name__) for name in SCRIPTS)]),
        "data": json_text(data), "plotly": plotly(),
    })  # fmt: skip


def _heading(plans: list[tuple[dict[str, Any], Any]]) -> str:
    models = sorted({plan.model for _, plan in plans})
    return "Layouts of a training step: " + ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")


def _facts(plans: list[tuple[dict[str, Any], Any]], data: dict[str, Any]) -> str:
    fit, rejected = sum(len(plan.layouts) for _, plan in plans), sum(len(plan.rejected) for _, plan in plans)
    hidden = f"{data['left_out']:,} are not shown" if data["left_out"] else ""
    facts = [("plans", f"{len(plans):,}", ""), ("layouts that fit", f"{fit:,}", hidden),
             ("left out", f"{rejected:,}", "too large, or not possible")]  # fmt: skip
    best = min((plan.layouts[0] for _, plan in plans if plan.layouts), key=lambda one: one.seconds, default=None)
    if best is not None and len(plans) == 1:
        facts.append(("fastest step", seconds_text(best.seconds), f"{bytes_text(best.peak)}: {best.degrees}"))
    rows = [tuple(map(escape, fact)) for fact in facts]
    return "".join(f"<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>" for name, value, more in rows)


def write(path: str | os.PathLike[str], plans: list[tuple[dict[str, Any], Any]]) -> None:
    """Write the page of plans to a file."""
    text = document(plans)
    with replacing(os.fspath(path)) as file:
        file.write(text.encode("utf-8", "replace"))
