"""Settings of loading and saving, and what pickled checkpoints may name beyond what tensors need.

Nothing else in a file is ever imported or called. What is allowed here is called with whatever arguments a file has
for it, and its instances' ``__setstate__`` with whatever state: allow what is harmless with any.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, BinaryIO

__all__ = [
    "LoadEndianness", "add_safe_globals", "clear_safe_globals", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "location_tag", "register_package",
    "safe_globals", "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
]  # fmt: skip

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


# Devices ----------------------------------------------------------------------------

_packages: list[tuple[int, Any, Any]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Let PyTorch's formats call a device by a name of its own.

    Parameters
    ----------
    priority
        Packages are asked in ascending order. Those below 10 come before the devices that are known already.
    tagger
        Called with a storage that is saved; returns the text that the file shall have for its device, or None.
    deserializer
        Called with what stands for a storage that is loaded (it has ``to`` and ``device``) and with that text; returns it on
        its device, or None for a text of another package.
    """
    if not callable(tagger) or not callable(deserializer):
        raise TypeError("register_package: tagger and deserializer must be callable")
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


KNOWN_LOCATIONS = ("cpu", "meta", "cuda", "mps", "xpu", "hpu", "xla", "mtia")
"""Device types that PyTorch has."""
FIRST_KNOWN = 10
"""The priority of the devices that are known without a package."""


def location_tag(storage: Any) -> str:
    """Return the text that PyTorch's formats have for the device of a storage: "cpu", "cuda:0", or what a package says.

    It is "cpu" for a device that neither PyTorch nor a package knows, so that PyTorch finds its way with the file.
    """
    device = storage.device
    known = device.type in KNOWN_LOCATIONS
    for priority, tagger, _ in _packages:
        if priority < FIRST_KNOWN or not known:
            found = tagger(storage)
            if found is not None:
                return str(found)
    if not known:
        return "cpu"
    return str(device.type if device.index is None or device.type in ("cpu", "meta") else device)


def restored(storage: Any, location: str) -> Any:
    """Return what a package makes of a storage at ``location``; None where none is asked, or none answers."""
    known = location.partition(":")[0] in KNOWN_LOCATIONS
    for priority, _, deserializer in _packages:
        if priority < FIRST_KNOWN or not known:
            found = deserializer(storage, location)
            if found is not None:
                return found
    return None


# Settings -----------------------------------------------------------------------------


class LoadEndianness(Enum):
    """The byte order of numbers in a file."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """Return what `set_default_load_endianness` set; None means little-endian."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order of PyTorch's zip files that do not say theirs. TypeError for what is no `LoadEndianness`."""
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    _endianness = endianness


def default_byte_order() -> str:
    """Return the byte order, "little" or "big", of a file that does not say its own."""
    if _endianness is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if _endianness is LoadEndianness.BIG else "little"


class _Settings(threading.local):
    checksums = True
    mmap_flags: int | None = None
    skipping = False
    materialize_fake = False


_settings = _Settings()


def get_crc32_options() -> bool:
    """Return whether PyTorch's zip files are saved with checksums."""
    return bool(_settings.checksums)


def set_crc32_options(compute_crc32: bool) -> None:
    """Save PyTorch's zip files with checksums or without. Without them, `zipfile` does not read what is written; `load` does."""
    _settings.checksums = compute_crc32


def get_default_mmap_options() -> int:
    """Return the flag of `mmap.mmap` with which ``load(..., mmap=True)`` maps files."""
    import mmap

    return mmap.MAP_PRIVATE if _settings.mmap_flags is None else _settings.mmap_flags


class set_default_mmap_options:
    """Map files in ``load(..., mmap=True)`` with this flag, or inside a ``with`` block only.

    ``mmap.MAP_PRIVATE``, the default, keeps writes to a tensor from the file; with ``mmap.MAP_SHARED`` they change it.
    ValueError for another flag.
    """

    def __init__(self, flags: int) -> None:
        import mmap

        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}")
        self.before = _settings.mmap_flags
        _settings.mmap_flags = flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        _settings.mmap_flags = self.before


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """Inside, `save` in PyTorch's formats writes zeros for the data of tensors, and `load` leaves tensors uninitialised.

    ``materialize_fake_tensors`` lets `save` write fake tensors too, as if they had data.
    """
    before = _settings.skipping, _settings.materialize_fake
    _settings.skipping, _settings.materialize_fake = True, bool(materialize_fake_tensors)
    try:
        yield
    finally:
        _settings.skipping, _settings.materialize_fake = before


def skips_data(fake: bool = False) -> bool:
    """Return whether this thread is inside `skip_data`; for a ``fake`` tensor, one that takes those too."""
    return bool(_settings.skipping and (_settings.materialize_fake or not fake))


# What files may name ------------------------------------------------------------------


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
