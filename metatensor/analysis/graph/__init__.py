"""The page of a program's graph: one HTML file that draws its calls by module, without network access.

The page contains `contents` of a program as JSON and draws everything from it. ``graph.html`` is its frame, ``graph.css`` its
style, on the head and the theme of `metatensor.analysis.page`. Of the scripts, ``levels.js`` finds what each open group shows,
``layout.js`` places it with dagre, ``drawing.js`` draws it with Cytoscape.js, ``panel.js`` describes what is selected,
``moving.js`` has the keys and the search, and ``start.js`` starts them. Both libraries are in ``vendor``, so that nothing has to be
installed. A content security policy forbids all requests.
"""

from __future__ import annotations

import os
import re
from functools import cache
from html import escape
from typing import Any

from metatensor.analysis.graph.contents import contents
from metatensor.analysis.page import filled, json_text, packed, part
from metatensor.checkpoint.atomic import replacing
from metatensor.program.program import Program

__all__ = ["contents", "document", "write"]

SHARED = ("text.js", "unpack.js")
SCRIPTS = ("levels.js", "layout.js", "drawing.js", "panel.js", "moving.js", "start.js")
LIBRARIES = ("dagre", "cytoscape")


def document(program: Program) -> str:
    """Return the page of a program's graph as HTML."""
    return _filled(contents(program))


def write(path: str | os.PathLike[str], program: Program) -> None:
    """Write the page of a program's graph to a file."""
    text = document(program)
    with replacing(os.fspath(path)) as file:
        file.write(text.encode("utf-8", "replace"))  # a name from a file may be invalid text


def _filled(data: dict[str, Any]) -> str:
    return filled(part("graph.html", __name__), {
        "title": escape(f"{data['model']}: graph of the program"),
        "heading": escape(data["model"]),
        "style": part("theme.css") + part("graph.css", __name__),
        "scripts": "\n".join([*map(part, SHARED), *(part(name, __name__) for name in SCRIPTS)]),
        "data": json_text(data),
        "libraries": _libraries(),
    })  # fmt: skip


@cache
def _libraries() -> str:
    texts = []
    for name in LIBRARIES:
        licence = part(f"vendor/{name}.LICENSE", __name__).replace("/*", "").replace("*/", "")
        script = part(f"vendor/{name}.min.js", __name__)
        texts.append(f"/*! {name}\n{licence}\n*/\n{re.sub(r'(?m)^//# sourceMappingURL=.*$', '', script)}")
    return packed("\n".join(texts))
