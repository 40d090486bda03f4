"""What pickled checkpoints may name beyond what tensors need: classes and functions that the user trusts.

Nothing else in a file is ever imported or called. What is allowed here is called with whatever arguments a file has
for it, and its instances' ``__setstate__`` with whatever state: allow what is harmless with any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "safe_globals"]

Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

# Modules and functions that turn into anything at all, whoever calls them.
_NEVER_MODULES = frozenset({
    "os", "posix", "nt", "sys", "subprocess", "shutil", "importlib", "runpy", "pty", "socket", "ctypes", "_ctypes", "code", "pickle",
    "_pickle", "marshal", "multiprocessing", "builtins.open", "io", "_io", "webbrowser", "pdb", "bdb", "timeit", "operator", "_operator",
    "functools", "_functools",
})  # fmt: skip
_NEVER_BUILTINS = frozenset({
    "eval", "exec", "compile", "open", "input", "__import__", "getattr", "setattr", "delattr", "globals", "locals", "vars", "breakpoint",
    "map", "filter", "apply", "type", "super", "memoryview",
})  # fmt: skip

_safe: dict[str, Any] = {}
_snapshot: dict[bytes, Any] = {}


def add_safe_globals(safe_globals: Iterable[Allowed]) -> None:
    """Let checkpoints name these classes and functions, and call them.

    Each is a class or function, or a pair of one and the name, ``"module.name"``, that files have for it.
    Raises ValueError for what would let a file do anything (``eval``, ``os.system``), TypeError for what is no callable.
    """
    found = dict(_named(item) for item in safe_globals)
    _safe.update(found)
    _refresh()


def get_safe_globals() -> list[Allowed]:
    """What checkpoints may name, as it was given."""
    return [item if _own_name(item) == name else (item, name) for name, item in _safe.items()]


def clear_safe_globals() -> None:
    """Forget all that `add_safe_globals` was given."""
    _safe.clear()
    _refresh()


@contextmanager
def safe_globals(safe_globals: Iterable[Allowed]) -> Iterator[None]:
    """Inside, checkpoints may name these too; see `add_safe_globals`."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)
        _refresh()


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | BinaryIO) -> list[str]:
    """Names that a pickled checkpoint has and that are neither known nor allowed, in the order of the file.

    Takes and raises what `metatensor.load` does; formats without a pickle have none.
    """
    from metatensor.checkpoint import inspect

    return [name for name in inspect(f).metadata.get("unknown names", "").split(", ") if name]


def allowed_names() -> dict[bytes, Any]:
    """``b"module\\nname"`` to what is allowed under that name."""
    return _snapshot


def _refresh() -> None:
    global _snapshot
    table = {}
    for name, item in _safe.items():
        module = getattr(item, "__module__", "") or ""
        # A nested class is called "module\nOuter.Inner": where its module ends is known from the class.
        cut = len(module) if name.startswith(module + ".") else name.rindex(".")
        table[f"{name[:cut]}\n{name[cut + 1 :]}".encode()] = item
    _snapshot = table


def _own_name(item: Any) -> str:
    return f"{getattr(item, '__module__', None)}.{getattr(item, '__qualname__', None)}"


def _named(item: Any) -> tuple[str, Any]:
    """What a file calls it, and it."""
    name = None
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise TypeError("add_safe_globals: a pair must be a class or function and its name")
        item, name = item
    if not callable(item):
        raise TypeError(f"add_safe_globals: expected a class or function, got {type(item).__name__}")
    module = getattr(item, "__module__", None) or ""
    own = getattr(item, "__qualname__", getattr(item, "__name__", ""))
    if module.partition(".")[0] in _NEVER_MODULES or (module == "builtins" and own.partition(".")[0] in _NEVER_BUILTINS):
        raise ValueError(f"add_safe_globals: {module}.{own} would let a file do anything; it cannot be allowed")
    name = name or _own_name(item)
    if "." not in name:
        raise ValueError(f"add_safe_globals: the name {name!r} has no module")
    return name, item
