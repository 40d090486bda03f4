"""Write a JSON file of CuPy's names, their signatures, and the dtypes of its ufuncs. No GPU is needed.

    python tools/cupy_names.py tests/devices/cupy_names.json

`tests/devices/fake_cupy.py` uses the file to reject calls that CuPy does not support, so that a kernel with such a call
fails its tests even without a GPU. Run this where CuPy is installed, once for each new version of CuPy.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from typing import Any

MODULES = ("cupy", "cupy.linalg", "cupy.fft", "cupy.cuda", "cupy.cuda.runtime", "cupyx", "cupyx.scipy.special")
CLASSES = {
    "cupy.ndarray": "ndarray", "cupy.ufunc": "ufunc", "cupy.cuda.Device": "Device", "cupy.cuda.Stream": "Stream",
    "cupy.cuda.Event": "Event", "cupy.cuda.MemoryPool": "MemoryPool", "cupy.cuda.PinnedMemoryPool": "PinnedMemoryPool",
    "cupy.cuda.ExternalStream": "ExternalStream",
}  # fmt: skip


def describe(found: Any) -> Any:
    """Return the loops of a ufunc as a list, the parameters of a function as a string, or None for other objects."""
    if isinstance(getattr(found, "types", None), list | tuple):
        return list(found.types)
    if inspect.ismodule(found) or inspect.isclass(found) or not callable(found):
        return None
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return written(found)
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parts, keyword_only = [], False
    for item in parameters:
        if item.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
        keyword_only |= item.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        parts.append(marks.get(item.kind, "") + item.name + ("" if item.default is inspect.Parameter.empty else "="))
    return " ".join(parts)


def written(found: Any) -> str | None:
    """Return the parameters that the first line of a compiled function's docstring shows."""
    match = re.match(r"[\w.]*\((.*?)\)", (found.__doc__ or "").split("\n")[0])
    if match is None:
        return None
    parts = []
    for item in match[1].split(", "):
        name, equals, _ = item.partition("=")
        if re.fullmatch(r"(\w+ )?\*{0,2}\w+", name):
            parts.append(name.split()[-1] + equals)
    return " ".join(parts)


def main(path: str) -> None:
    import cupy

    known: dict[str, Any] = {"version": cupy.__version__}
    for name in MODULES:
        module = importlib.import_module(name)
        public = [key for key in dir(module) if not key.startswith("_")]
        known[name] = {key: describe(getattr(module, key)) for key in sorted(public)}
    for name, attribute in CLASSES.items():
        owner = importlib.import_module(name.rpartition(".")[0])
        kind = getattr(owner, attribute)
        known[name] = {key: describe(getattr(kind, key)) for key in sorted(dir(kind)) if key not in dir(object)}
    lines = []
    for name, value in known.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
