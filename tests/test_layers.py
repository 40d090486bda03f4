"""The layers of docs/architecture.md: modules import only their own layer and lower ones, also inside functions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "metatensor"

# From the bottom up. Packages on one line may import each other.
LAYERS = [
    {"_core"},
    {"ops"},
    {"rules"},
    {"overloads"},
    {"hookspecs", "devices", "library", "plugins"},
    {"profiler"},
    {"autograd"},
    {"nn"},
    {"deferred"},
    {"interchange"},
    {"func"},
    {"amp"},
    {"serialization", "checkpoint"},
    {"testing"},
    {"optim"},
    {"distributions"},
    {"distributed"},
    {"data"},
    {"program"},
    {"array_api", "interop"},
    {"torch_api", "utils"},
    {"analysis"},
    {"plan"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

# Modules that only give operators another namespace: they import nothing but the core.
NAMESPACES = {"fft", "linalg", "masked", "signal", "special"}

IMPORT = re.compile(r"""
    ^\s* (?: from \s+ metatensor(?P<module>[\w.]*) \s+ c?import \s+ (?P<names> \([^)]*\) | [^\#\n]* )
        | c?import \s+ metatensor(?P<plain>[\w.]*) )
""", re.M | re.X)


def room_of(path):
    return path.relative_to(ROOT).parts[0].split(".")[0]


def rooms_in(text):
    """Yield the packages of metatensor that a source imports from."""
    for match in IMPORT.finditer(text):
        inside = (match["module"] or match["plain"] or "").split(".")[1:]
        if inside:
            yield inside[0]
        elif match["names"]:
            yield from (name.split()[0] for name in match["names"].strip("() \n").split(",") if name.strip())


def sources():
    return [path for path in sorted(ROOT.rglob("*")) if path.suffix in {".py", ".pyx", ".pxd"} and path.parent != ROOT or
            path.suffix == ".py" and not path.name.startswith("_") and path.parent == ROOT]


def test_every_room_has_a_layer():
    assert {room_of(path) for path in sources()} <= set(LEVEL) | NAMESPACES


@pytest.mark.slow
def test_no_module_imports_a_layer_above_its_own():
    reaching = {
        (path.relative_to(ROOT).as_posix(), room)
        for path in sources()
        for room in rooms_in(path.read_text(encoding="utf-8"))
        if room in LEVEL and LEVEL[room] > LEVEL.get(room_of(path), 0)
    }
    assert not reaching


@pytest.mark.parametrize(("text", "rooms"), [
    ("from metatensor.nn import Module", ["nn"]),
    ("    from metatensor._core.tensor cimport Tensor", ["_core"]),
    ("cimport metatensor.ops.view", ["ops"]),
    ("from metatensor import plugins, library as lib", ["plugins", "library"]),
    ("from metatensor import (\n    nn,\n    ops,\n)", ["nn", "ops"]),
    ("import metatensor as mt", []),
])  # fmt: skip
def test_imports_are_found(text, rooms):
    assert list(rooms_in(text)) == rooms
