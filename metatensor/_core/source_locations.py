"""Locations in user code, for messages: the running line, the line of an error, the place of a tensor in a module."""

from __future__ import annotations

import gc
import sys
from types import FrameType, TracebackType
from typing import Any

__all__ = ["add_note", "is_ours", "line_of", "location_of", "name_in_module", "running_line"]


def is_ours(frame: FrameType) -> bool:
    """Return True if a frame belongs to metatensor or one of its plugins.

    Tracebacks contain frames of compiled code too.
    """
    name = frame.f_globals.get("__name__", "")
    return name == "metatensor" or name.startswith(("metatensor.", "metatensor_"))


def line_of(traceback: TracebackType | None) -> tuple[str, int] | None:
    """Return (file, line) of the innermost user frame of a traceback, or None."""
    found = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not filename.startswith("<") and not is_ours(traceback.tb_frame):
            found = filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def location_of(traceback: TracebackType | None) -> str | None:
    """Return ``file:line`` of the innermost user frame of a traceback, or None."""
    found = line_of(traceback)
    return None if found is None else f"{found[0]}:{found[1]}"


def running_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return (file, line) of the innermost user frame, starting at ``frame`` and going outwards, or None."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith("<") and not is_ours(frame):
            return filename, frame.f_lineno
        frame = frame.f_back
    return None


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception. Tracebacks show it."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif hasattr(error, "__notes__"):  # Python 3.10 has no add_note, but some tools read the attribute
        error.__notes__.append(note)
    else:
        error.__notes__ = [note]  # type: ignore[attr-defined]


def name_in_module(tensor: Any) -> str | None:
    """Return the place of a parameter or buffer in a module, ``encoder.weight of Model``, or None.

    For a view, return the place of its base. The function searches all live objects, so use it only for messages.
    """
    nn = sys.modules.get("metatensor.nn.module")
    if nn is None:
        return None
    modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module) and "_modules" in vars(o)]
    inner = {id(child) for module in modules for child in module._modules.values()}
    wanted = {id(tensor), id(tensor._base)} - {id(None)}
    for module in modules:
        if id(module) not in inner:
            for names in (module.named_parameters, module.named_buffers):
                for name, found in names(remove_duplicate=False):
                    if id(found) in wanted:
                        return f"{name} of {type(module).__name__}"
    return None
