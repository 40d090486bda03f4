"""The page of a report: one HTML file with all figures, which asks the network for nothing.

The page contains the JSON form of a report (`Report.to_dict`, `TrainingReport.to_dict`, `Profile.to_dict`) and draws everything from
it. ``report.html`` is its frame, ``report.css`` its style. `words` writes its text and tables. Of the scripts, ``text.js`` formats
figures, ``charts.js`` draws charts with Plotly, ``table.js`` draws the table of modules, and ``main.js`` starts them. Plotly's bundle
is embedded in compressed form, because it is 5 MB; the browser unpacks it. A content security policy forbids all requests.
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

from metatensor.analysis.page import words

__all__ = ["MissingPlotly", "document", "plotly", "write"]

SCRIPTS = ("text.js", "charts.js", "table.js", "main.js")


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
    return base64.b64encode(gzip.compress(offline.get_plotlyjs().encode(), 9, mtime=0)).decode()


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
        "notes": words.notes(data),
        "style": _file("report.css"),
        "scripts": "\n".join(_file(name) for name in SCRIPTS),
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "plotly": plotly(),
    }
    page = _file("report.html")
    pieces = []
    for piece in page.split("{{"):  # one pass, so that figures are never taken for names of parts
        name, mark, rest = piece.partition("}}")
        pieces.append(parts[name] + rest if mark else piece)
    return "".join(pieces)


def write(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write the page of a report's JSON form to a file."""
    text = document(data)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")

