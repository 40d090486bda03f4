"""Settings for loading and saving checkpoints, and the allow-list of names in pickles.

By default `metatensor.load` never imports or calls anything that a file names, except the few constructors that tensors
need. `add_safe_globals` extends that list. A file calls an allowed class or function with any arguments it likes, and
passes any state to ``__setstate__`` of its instances. Allow only what is harmless for every argument.
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
    """Allow checkpoints to name and call these classes and functions.

    Parameters
    ----------
    safe_globals : iterable of callable or (callable, str)
        The classes and functions to allow. A pair gives the name, ``"module.name"``, under which files refer to the
        callable. The default is its own module and qualified name.

    Raises
    ------
    ValueError
        If an item would let a file do anything, such as ``eval`` or ``os.system``, or if a name has no module.
    TypeError
        If an item is not callable.

    Examples
    --------
    >>> import metatensor as mt
    >>> from argparse import Namespace
    >>> mt.serialization.add_safe_globals([Namespace])
    >>> mt.serialization.get_safe_globals()
    [<class 'argparse.Namespace'>]
    >>> mt.serialization.clear_safe_globals()
    """
    found = dict(_named(item) for item in safe_globals)
    _safe.update(found)
    _refresh()


def get_safe_globals() -> list[Allowed]:
    """Return the allowed classes and functions, as passed to `add_safe_globals`."""
    return [item if _own_name(item) == name else (item, name) for name, item in _safe.items()]


def clear_safe_globals() -> None:
    """Remove everything that `add_safe_globals` has allowed."""
    _safe.clear()
    _refresh()


@contextmanager
def safe_globals(safe_globals: Iterable[Allowed]) -> Iterator[None]:
    """Return a context manager that allows these classes and functions inside its block.

    Parameters
    ----------
    safe_globals : iterable of callable or (callable, str)
        As for `add_safe_globals`.
    """
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)
        _refresh()


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | BinaryIO) -> list[str]:
    """Return the names in a pickled checkpoint that are neither built in nor allowed, in file order.

    Parameters
    ----------
    f : str, path or binary file
        The checkpoint, as for `metatensor.load`. The list is empty for a format without a pickle.

    Raises
    ------
    CheckpointError, OSError
        As `metatensor.load` does.
    """
    from metatensor.checkpoint import inspect

    return [name for name in inspect(f).metadata.get("unknown names", "").split(", ") if name]


def allowed_names() -> dict[bytes, Any]:
    """Return the allowed objects, keyed by ``b"module\\nname"``."""
    return _snapshot


# Devices ----------------------------------------------------------------------------

_packages: list[tuple[int, Any, Any]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Register how PyTorch's formats tag and restore the storages of a device.

    Parameters
    ----------
    priority : int
        Packages are tried in ascending order of priority. Packages with a priority below 10 are tried for every
        storage, the others only for device types that are not built in.
    tagger : callable
        Called with each storage that is saved. Returns the text that records its device in the file, or None to leave
        the storage to other packages.
    deserializer : callable
        Called for each storage that is loaded, with a placeholder for the storage and with the recorded text. The
        placeholder has ``to`` and ``device``. Returns the placeholder moved to its device, or None if the text belongs
        to another package.

    Raises
    ------
    TypeError
        If ``tagger`` or ``deserializer`` is not callable.
    """
    if not callable(tagger) or not callable(deserializer):
        raise TypeError("register_package: tagger and deserializer must be callable")
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


KNOWN_LOCATIONS = ("cpu", "meta", "cuda", "mps", "xpu", "hpu", "xla", "mtia")
"""Device types that need no package."""
FIRST_KNOWN = 10
"""Packages with a lower priority are tried for the device types in `KNOWN_LOCATIONS` too."""


def location_tag(storage: Any) -> str:
    """Return the text that records a storage's device in PyTorch's formats: "cpu", "cuda:0", or what a package returns.

    The text is "cpu" for a device that neither PyTorch nor a package knows, so that PyTorch can load the file.
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
    """Return a storage moved to the device that a registered package chooses for ``location``.

    Return None if no package accepts ``location``.
    """
    known = location.partition(":")[0] in KNOWN_LOCATIONS
    for priority, _, deserializer in _packages:
        if priority < FIRST_KNOWN or not known:
            found = deserializer(storage, location)
            if found is not None:
                return found
    return None


# Settings -----------------------------------------------------------------------------


class LoadEndianness(Enum):
    """Byte order of the numbers in a file."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order set by `set_default_load_endianness`. None means little-endian."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order to assume for PyTorch zip files that do not record theirs.

    Parameters
    ----------
    endianness : LoadEndianness or None
        None, the initial setting, means little-endian.

    Raises
    ------
    TypeError
        If ``endianness`` is neither a `LoadEndianness` nor None.
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    _endianness = endianness


def default_byte_order() -> str:
    """Return the byte order, "little" or "big", to assume for a file that does not record its own."""
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
    """Return True if this thread saves PyTorch's zip files with checksums, the default."""
    return bool(_settings.checksums)


def set_crc32_options(compute_crc32: bool) -> None:
    """Choose whether this thread saves PyTorch's zip files with checksums.

    Python's `zipfile` cannot read a file without them, but `metatensor.load` can.
    """
    _settings.checksums = compute_crc32


def get_default_mmap_options() -> int:
    """Return the `mmap.mmap` flag with which ``load(..., mmap=True)`` maps files in this thread."""
    import mmap

    return mmap.MAP_PRIVATE if _settings.mmap_flags is None else _settings.mmap_flags


class set_default_mmap_options:
    """The flag with which ``load(..., mmap=True)`` maps files in this thread.

    The constructor sets it. As a context manager, the object restores the previous flag at the end of the block.

    Parameters
    ----------
    flags : int
        ``mmap.MAP_PRIVATE``, the default: writing to a loaded tensor does not change the file. ``mmap.MAP_SHARED``: it
        does.

    Raises
    ------
    ValueError
        If ``flags`` is any other value.
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
    """Return a context manager inside which `save` and `load` skip the data of tensors.

    Inside the block, `save` in PyTorch's formats writes zeros, and `load` returns tensors with uninitialized memory.

    Parameters
    ----------
    materialize_fake_tensors : bool, default False
        Save fake tensors too, as if they held data.
    """
    before = _settings.skipping, _settings.materialize_fake
    _settings.skipping, _settings.materialize_fake = True, bool(materialize_fake_tensors)
    try:
        yield
    finally:
        _settings.skipping, _settings.materialize_fake = before


def skips_data(fake: bool = False) -> bool:
    """Return True if this thread is inside `skip_data`.

    If ``fake`` is True, the block must have been entered with ``materialize_fake_tensors=True``.
    """
    return bool(_settings.skipping and (_settings.materialize_fake or not fake))


# The allowlist ------------------------------------------------------------------------


def _refresh() -> None:
    global _snapshot
    from metatensor.checkpoint.torch_naming import name_in_torch

    table = {}
    for name, item in _safe.items():
        module = getattr(item, "__module__", "") or ""
        # A nested class is "module\nOuter.Inner". Its __module__ tells where to split the name.
        cut = len(module) if name.startswith(module + ".") else name.rindex(".")
        table[f"{name[:cut]}\n{name[cut + 1 :]}".encode()] = item
        theirs = name_in_torch(item) if name == _own_name(item) else None
        if theirs is not None:  # PyTorch has this object too, and files refer to it by PyTorch's name
            table["\n".join(theirs).encode()] = item
    _snapshot = table


def _own_name(item: Any) -> str:
    return f"{getattr(item, '__module__', None)}.{getattr(item, '__qualname__', None)}"


def _named(item: Any) -> tuple[str, Any]:
    """Return the name under which files refer to an item, and the callable itself."""
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
