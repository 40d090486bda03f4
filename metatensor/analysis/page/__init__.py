"""The page of a report: one HTML file with all figures, without network access.

The page contains the JSON form of a report (`Report.to_dict`, `TrainingReport.to_dict`, `Profile.to_dict`) and draws everything
from it. ``head.html`` and ``report.html`` are its frame, ``theme.css`` and ``report.css`` its style. `words` writes its text and
tables. Of the scripts, ``text.js`` formats figures, ``unpack.js`` runs what is embedded, ``charts.js`` draws charts with Plotly,
``table.js`` draws the table of modules, ``ranks.js`` the timeline of ranks, and ``main.js`` starts them. Plotly's bundle is embedded
in compressed form, because it is 5 MB; the browser unpacks it. A content security policy forbids all requests. The page of a
program's graph, `metatensor.analysis.graph`, uses the head, the theme and the first two scripts.
"""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import os
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from metatensor.analysis.page import rank_words, words

__all__ = ["MissingPlotly", "document", "filled", "json_text", "packed", "part", "plotly", "write"]

SCRIPTS = ("text.js", "unpack.js", "charts.js", "table.js", "ranks.js", "main.js")


class MissingPlotly(ImportError):
    """Plotly, which draws the charts of the page, is not installed."""


@cache
def plotly() -> str:
    """Return Plotly's bundle, compressed with gzip and in base64. Raise `MissingPlotly` if it is not installed."""
    try:
        offline = importlib.import_module("plotly.offline")
    except ModuleNotFoundError as error:
        raise MissingPlotly(
            f"the page needs {error.name}, which is not installed. Install it with pip install 'metatensor-device[report]'"
        ) from None
    return packed(offline.get_plotlyjs())


def packed(script: str) -> str:
    """Return a script as text that ``unpack.js`` runs: compressed with gzip, and in base64."""
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()


def json_text(data: dict[str, Any]) -> str:
    """Return JSON for a script element, escaped so that it cannot end the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def part(name: str, package: str = __name__) -> str:
    """Return a file of the page, or of a page in another package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def filled(body: str, parts: dict[str, str]) -> str:
    """Return a page with this body, and with its parts in the places of their names. Names inside parts remain."""
    pieces = []
    for piece in (part("head.html") + body).split("{{"):  # one pass, so that figures are never taken for names of parts
        name, mark, rest = piece.partition("}}")
        pieces.append(parts[name] + rest if mark else piece)
    return "".join(pieces)


def document(data: dict[str, Any]) -> str:
    """Return the page of a report's JSON form as HTML."""
    parts = {
        "title": escape(words.heading(data)),
        "subtitle": words.subtitle(data),
        "headline": words.headline(data),
        "facts": words.facts(data),
        "facts_per_row": words.facts_per_row(data),
        "peak_tables": words.peak_tables(data),
        "time_table": words.time_table(data),
        "ranks": rank_words.section(data),
        "notes": words.notes(data),
        "style": part("theme.css") + part("report.css"),
        "scripts": "\n".join(part(name) for name in SCRIPTS),
        "data": json_text(data),
        "plotly": plotly(),
    }
    return filled(part("report.html"), parts)


def write(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write the page of a report's JSON form to a file."""
    text = document(data)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
