"""Tables and times of the page, as HTML and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["seconds_text", "table"]


def seconds_text(value: float | None) -> str:
    """Return a time in a suitable unit; ``unknown`` for None."""
    if value is None:
        return "unknown"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.3g} µs"


def table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of texts as a table that scrolls if it is wide."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table><caption>{escape(title)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")  # fmt: skip
