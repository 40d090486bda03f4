"""Tables that Jupyter shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["table"]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return an HTML table. The first ``left`` columns are aligned to the left, the others to the right."""

    def cells(values: Sequence[str], tag: str) -> str:
        sides = ("left" if i < left else "right" for i in range(len(values)))
        return "".join(f'<{tag} style="text-align:{side}">{escape(str(text))}</{tag}>' for side, text in zip(sides, values))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(headings, 'th')}</tr></thead><tbody>{body}</tbody></table>"
