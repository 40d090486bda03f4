"""Notes that tell which module of a model raised an exception, and the attribute ``module_path``."""

from __future__ import annotations

import linecache
import sys
import weakref
from typing import TYPE_CHECKING

from metatensor._core.source_locations import add_note, line_of, running_line

if TYPE_CHECKING:
    from metatensor.nn.module import Module

__all__ = ["ModulePath", "add_module_note"]


class ModulePath(str):
    """Dotted path of the module that failed, such as "encoder.layers.3", relative to the outermost module called.

    The path is empty if the outermost module itself failed. ``leaf`` is the class name of the failed module. ``line``
    is the line of code outside metatensor that failed or made the failing call, as "file:number", or None. Copies and
    pickles are plain strings.
    """

    __slots__ = ("leaf", "line", "note", "outermost")
    leaf: str
    line: str | None
    note: str
    outermost: weakref.ref[Module]

    def __reduce__(self):
        return str, (str(self),)


def add_module_note(error: BaseException, module: Module) -> None:
    """Record the path of the module that raised ``error`` in a note and in ``error.module_path``.

    This runs in each enclosing module while the exception propagates outwards: ``module`` is the one that the exception
    is leaving. Each call prepends one component to the recorded path and rewrites the note. A module that is called by
    another one without being registered in it appears as a component like ``<Linear>``.
    """
    if not isinstance(error, Exception):
        return
    inner = getattr(error, "module_path", None)
    if type(inner) is ModulePath and inner.outermost() is not None:
        child = inner.outermost()
        if child is module:
            return
        step = _name_within(module, child) or f"<{type(child).__name__}>"
        path = ModulePath(f"{step}.{inner}" if inner else step)
        path.leaf, path.line = inner.leaf, inner.line
        path.note = f"in module {path} ({path.leaf}) of {type(module).__name__}" + _at(path.line)
        _replace_note(error, inner.note, path.note)
    else:
        path = ModulePath("")
        path.leaf = type(module).__name__
        found = line_of(error.__traceback__) or running_line(sys._getframe(1))
        path.line = None if found is None else f"{found[0]}:{found[1]}"
        path.note = f"in module {path.leaf}" + _at(path.line)
        add_note(error, path.note)
    path.outermost = weakref.ref(module)
    error.module_path = path  # type: ignore[attr-defined]


def _at(line: str | None) -> str:
    """Return ", at" and the line of code with its text, or "" if there is no line."""
    if line is None:
        return ""
    filename, _, number = line.rpartition(":")
    text = linecache.getline(filename, int(number)).strip()
    return f", at {line}: {text}" if text else f", at {line}"


def _name_within(module: Module, child: Module) -> str | None:
    for name, candidate in module._modules.items():
        if candidate is child:
            return name
    for name, candidate in module.named_modules():
        if candidate is child:
            return name
    return None


def _replace_note(error: Exception, old: str, new: str) -> None:
    notes = getattr(error, "__notes__", [])
    if old in notes:
        notes[notes.index(old)] = new
    else:
        add_note(error, new)
