"""Run a script as Python does: as ``__main__``, with its arguments, exit status and traceback."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from types import ModuleType, TracebackType

__all__ = ["run_script"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RUNPY = ("<frozen runpy>", runpy.__file__)


def run_script(script: str, arguments: tuple[str, ...], as_module: bool = False) -> int:
    """Run a file, or a module by name, and return its exit status. An exception is passed to `sys.excepthook`.

    SystemExit is not caught. The status of an interrupted script is 130.
    """
    sys.argv = [script, *arguments]
    try:
        if as_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            _run_file(script)
    except SystemExit:
        raise
    except BaseException as error:
        seen: set[int] = set()
        _trim(error, seen)
        try:
            sys.stdout.flush()
        except OSError:
            pass
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run_file(path: str) -> None:
    module = ModuleType("__main__")
    vars(module).update(__file__=path, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.modules["__main__"] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with io.open_code(os.path.abspath(path)) as file:
        source = file.read()
    exec(compile(source, path, "exec"), vars(module))


def _trim(error: BaseException | None, seen: set[int]) -> None:
    """Remove the frames of this package and of `runpy` from the tracebacks of an error and its causes."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _without_ours(error.__traceback__)
    _trim(error.__cause__, seen)
    _trim(error.__context__, seen)
    for inner in getattr(error, "exceptions", ()):
        if isinstance(inner, BaseException):
            _trim(inner, seen)


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if not file.startswith(_HERE) and file not in _RUNPY:
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
