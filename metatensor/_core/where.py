"""Which line of the user's code is running, or raised; notes on errors."""

from __future__ import annotations

from types import FrameType, TracebackType

__all__ = ["add_note", "is_ours", "line_of", "location_of", "running_line"]


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
