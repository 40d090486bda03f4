"""Which line of the user's code is running, or raised; notes on errors."""

from __future__ import annotations

import gc
import sys
from types import FrameType, TracebackType
from typing import Any

__all__ = ["add_note", "is_ours", "line_of", "location_of", "place_in_module", "running_line"]


def is_ours(frame: FrameType) -> bool:
    """Whether a frame is in metatensor or one of its plugins (compiled code has frames in tracebacks, too)."""
    name = frame.f_globals.get("__name__", "")
    return name == "metatensor" or name.startswith(("metatensor.", "metatensor_"))


def line_of(traceback: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame of a traceback that is not metatensor's."""
    found = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not filename.startswith("<") and not is_ours(traceback.tb_frame):
            found = filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def location_of(traceback: TracebackType | None) -> str | None:
    """The innermost line of a traceback that is not metatensor's, ``file:line``."""
    found = line_of(traceback)
    return None if found is None else f"{found[0]}:{found[1]}"


def running_line(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame, from ``frame`` outwards, that is not metatensor's."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith("<") and not is_ours(frame):
            return filename, frame.f_lineno
        frame = frame.f_back
    return None


def add_note(error: BaseException, note: str) -> None:
    """Add a line to an error's traceback."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif hasattr(error, "__notes__"):  # Python 3.10 has no add_note, but later tools read the attribute
        error.__notes__.append(note)
    else:
        error.__notes__ = [note]  # type: ignore[attr-defined]


def place_in_module(tensor: Any) -> str | None:
    """``encoder.weight of Model`` for a parameter or buffer, or a view of one, of a module that is alive; else None.

    Looks through all objects: it is for messages.
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
