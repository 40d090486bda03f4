"""Settings of loading and saving, and the allowlist of classes and functions for pickled checkpoints.

Loading imports and calls only what tensors need and what is on the allowlist. A file chooses the arguments of the calls
and the state passed to ``__setstate__``. Allow only what is harmless with any arguments and any state.
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

# Modules and builtins that would let a file run arbitrary code. They can never be allowed.
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
    """Allow pickled checkpoints to use the given classes and functions.

    Parameters
    ----------
    safe_globals : iterable of callable or (callable, str)
        Classes and functions. A pair also gives the name, ``"module.name"``, that files use for the object.

    Raises
    ------
    ValueError
        If an object would let a file run arbitrary code, such as ``eval`` or ``os.system``, or if a name has no module.
    TypeError
        If an object is not callable.
    """
    found = dict(_named(item) for item in safe_globals)
    _safe.update(found)
    _refresh()


def get_safe_globals() -> list[Allowed]:
    """Return the objects on the allowlist, in the form in which they were added."""
    return [item if _own_name(item) == name else (item, name) for name, item in _safe.items()]


def clear_safe_globals() -> None:
    """Empty the allowlist."""
    _safe.clear()
    _refresh()


@contextmanager
def safe_globals(safe_globals: Iterable[Allowed]) -> Iterator[None]:
    """Return a context manager that extends the allowlist inside its block. See `add_safe_globals`."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)
        _refresh()


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | BinaryIO) -> list[str]:
    """Return the names in a pickled checkpoint that are neither built in nor on the allowlist.

    Parameters
    ----------
    f : path or binary file
        The checkpoint, in any form that `metatensor.load` takes.

    Returns
    -------
    list of str
        The names in the order of the file. It is empty for formats that contain no pickle.
    """
    from metatensor.checkpoint import inspect

    return [name for name in inspect(f).metadata.get("unknown names", "").split(", ") if name]


def allowed_names() -> dict[bytes, Any]:
    """Return the allowlist as a dict from ``b"module\\nname"`` to the object."""
    return _snapshot


# Devices ----------------------------------------------------------------------------

_packages: list[tuple[int, Any, Any]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Register functions that save and restore the device of storages in PyTorch's formats.

    Parameters
    ----------
    priority : int
        Packages are tried in ascending order of priority. Those below 10 take precedence over the built-in devices.
    tagger : callable
        ``tagger(storage)`` is called for each storage that is saved. It returns the location tag to write, or None
        if the device belongs to another package.
    deserializer : callable
        ``deserializer(storage, tag)`` is called for each storage that is loaded. The storage is a placeholder with
        the attributes ``to`` and ``device``. The function returns the storage on its device, or None if the tag
        belongs to another package.

    Raises
    ------
    TypeError
        If `tagger` or `deserializer` is not callable.
    """
    if not callable(tagger) or not callable(deserializer):
        raise TypeError("register_package: tagger and deserializer must be callable")
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


KNOWN_LOCATIONS = ("cpu", "meta", "cuda", "mps", "xpu", "hpu", "xla", "mtia")
"""The device types of PyTorch."""
FIRST_KNOWN = 10
"""The priority of the built-in devices."""


def location_tag(storage: Any) -> str:
    """Return the location tag of a storage in PyTorch's formats: "cpu", "cuda:0", or the tag from a registered package.

    The tag of a device that neither PyTorch nor a package knows is "cpu", so that PyTorch can load the file.
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
    """Return `storage` as restored by the first registered package that accepts the tag `location`, or None."""
    known = location.partition(":")[0] in KNOWN_LOCATIONS
    for priority, _, deserializer in _packages:
        if priority < FIRST_KNOWN or not known:
            found = deserializer(storage, location)
            if found is not None:
                return found
    return None


# Settings -----------------------------------------------------------------------------


class LoadEndianness(Enum):
    """The byte order of the numbers in a file."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order set by `set_default_load_endianness`; None means little-endian."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order to assume for zip files of PyTorch that do not state their own.

    Parameters
    ----------
    endianness : LoadEndianness or None
        None means little-endian.

    Raises
    ------
    TypeError
        If `endianness` is anything else.
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    _endianness = endianness


def default_byte_order() -> str:
    """Return the byte order, "little" or "big", to assume for a file that does not state its own."""
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
    """Return True if zip files in PyTorch's format are saved with CRC-32 checksums."""
    return bool(_settings.checksums)


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether zip files in PyTorch's format are saved with CRC-32 checksums.

    A file without checksums is readable by `load` but not by Python's `zipfile`.
    """
    _settings.checksums = compute_crc32


def get_default_mmap_options() -> int:
    """Return the flag that ``load(..., mmap=True)`` passes to `mmap.mmap`."""
    import mmap

    return mmap.MAP_PRIVATE if _settings.mmap_flags is None else _settings.mmap_flags


class set_default_mmap_options:
    """Set the flag that ``load(..., mmap=True)`` passes to `mmap.mmap`.

    It takes effect at once. As a context manager it restores the previous flag on exit.

    Parameters
    ----------
    flags : int
        With ``mmap.MAP_PRIVATE``, the initial setting, writes to a loaded tensor do not change the file. With
        ``mmap.MAP_SHARED`` they do.

    Raises
    ------
    ValueError
        If `flags` is anything else.
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
    """Return a context manager that leaves out the data of tensors in PyTorch's formats.

    Inside its block `save` writes zeros for the data of tensors, and `load` leaves tensors uninitialized.

    Parameters
    ----------
    materialize_fake_tensors : bool
        Whether `save` also accepts fake tensors, as if they had data. Default False.
    """
    before = _settings.skipping, _settings.materialize_fake
    _settings.skipping, _settings.materialize_fake = True, bool(materialize_fake_tensors)
    try:
        yield
    finally:
        _settings.skipping, _settings.materialize_fake = before


def skips_data(fake: bool = False) -> bool:
    """Return True inside `skip_data`. For a ``fake`` tensor, `materialize_fake_tensors` must have been set too."""
    return bool(_settings.skipping and (_settings.materialize_fake or not fake))


# The allowlist ------------------------------------------------------------------------


def _refresh() -> None:
    global _snapshot
    table = {}
    for name, item in _safe.items():
        module = getattr(item, "__module__", "") or ""
        # A nested class is named "module\nOuter.Inner", so its module cannot be found from the dots alone.
        cut = len(module) if name.startswith(module + ".") else name.rindex(".")
        table[f"{name[:cut]}\n{name[cut + 1 :]}".encode()] = item
    _snapshot = table


def _own_name(item: Any) -> str:
    return f"{getattr(item, '__module__', None)}.{getattr(item, '__qualname__', None)}"


def _named(item: Any) -> tuple[str, Any]:
    """Return the name that files use for an object, and the object. Raise if it cannot be allowed."""
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
