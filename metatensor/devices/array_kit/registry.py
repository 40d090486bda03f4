"""The table of kernels: op name to the function that computes its values on NumPy-like arrays.

A family of ops has one file beside this one, with the basename of its ``ops/<family>.pyx``. A kernel in it
serves every device of the array kit::

    from metatensor.devices.array_kit.registry import kernel

    @kernel("add")
    def add(kit, out, input, other, alpha):
        return kit.xp.add(input, other * alpha)

``kit`` is the `ArrayBackend` that runs it, ``out`` the result's array, allocated, and the rest are the op's
arguments in schema order with tensors as arrays. The kernel fills ``out``, or returns the values, which are
stored in it. `metatensor.devices.array_kit.backend` says what becomes of half precision, of several results,
and of results whose shape depends on the data.

A device with better routines of its own makes a `KernelTable` over this one; what it holds comes first.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Kernel", "KernelTable", "families", "kernel"]

HALF_MODES = ("upcast", "native", "tensors")


@dataclass(frozen=True)
class Kernel:
    """One entry: the function, how it takes half precision, and who registered it."""

    function: Callable[..., Any]
    half: str
    owner: str


class KernelTable:
    """Kernels by op name, optionally over a ``parent`` that is asked for the names this one lacks.

    ``owner`` names the table in messages. A second kernel for one name, here or in the parent, raises `RuntimeError`
    unless ``override=True`` says that it replaces the first.
    """

    def __init__(self, owner: str, parent: KernelTable | None = None) -> None:
        self.owner = owner
        self.parent = parent
        self.entries: dict[str, Kernel] = {}

    def kernel(self, *names: str, half: str = "upcast", override: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function for each of ``names``, and return it as it is.

        A name is an op's qualified one: ``"add"``, ``"max.dim"``, ``"nn.functional.conv2d"``; ValueError for one that no
        op has. (An op of one's own, ``"acme::rope"``, may come later, unless others of its namespace are there.) With
        ``half="upcast"`` arrays of half precision come and go as float32 (complex64); with ``half="native"``
        they come as they are stored. With ``half="tensors"`` the kernel is given tensors in place of arrays, all of
        them, and fills ``out`` by methods of the kit.
        """
        if half not in HALF_MODES:
            raise ValueError(f"half must be one of {HALF_MODES}, got {half!r}")
        if not names:
            raise TypeError("kernel() needs at least one op name")

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            owner = getattr(function, "__module__", None) or self.owner
            for name in names:
                _check_name(name, owner)
                taken = None if override else self.entries.get(name) or (self.parent and self.parent.find(name))
                if taken is not None:
                    raise RuntimeError(
                        f"{self.owner} already has a kernel for {name!r}, from {taken.owner}; {owner} defines a second. "
                        "If it is to replace the first, say override=True"
                    )
            for name in names:
                self.entries[name] = Kernel(function, half, owner)
                _forget(name)
            return function

        return register

    def find(self, name: str) -> Kernel | None:
        """The kernel for ``name`` here or in a parent, or None."""
        entry = self.entries.get(name)
        if entry is None and self.parent is not None:
            return self.parent.find(name)
        return entry

    def names(self) -> set[str]:
        """Every op name that `find` answers."""
        inherited = self.parent.names() if self.parent is not None else set()
        return inherited | set(self.entries)


def _check_name(name: str, owner: str) -> None:
    """ValueError for a name that is certainly no op's."""
    from metatensor._core.op import registry

    if not registry:
        return  # the core is being imported
    namespace, own, _ = name.partition("::")
    if own and not any(known.startswith(namespace + "::") for known in registry):
        return  # a plugin's, and not loaded yet
    op, stem = registry.get(name), name.rpartition(".")[0]
    if op is not None and op.name == name and op.functional is op:
        return
    if op is None and stem in registry and any(overload.qualname == name for overload in registry[stem].overloads):
        return
    if op is not None:
        raise ValueError(f"{owner} has a kernel for {name!r}, which is computed by {op.functional.name!r}: give it that name")
    import difflib

    near = difflib.get_close_matches(name, [*registry], 3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{owner} has a kernel for {name!r}, but there is no op of that name{hint}")


def _forget(name: str) -> None:
    """Let an op that is in use ask for its kernel again."""
    from metatensor._core.execute import forget_kernels
    from metatensor._core.op import registry

    op = registry.get(name) or registry.get(name.rpartition(".")[0])
    if op is not None:
        forget_kernels(op)


class _KitTable(KernelTable):
    """The kit's own table: fills itself from the family modules when it is first asked."""

    def __init__(self) -> None:
        super().__init__("array_kit")
        self.failures: dict[str, BaseException] = {}
        self._loaded = False
        self._lock = threading.RLock()

    def load(self) -> None:
        if self._loaded:
            return
        with self._lock:
            if self._loaded:
                return
            for family in families():
                try:
                    importlib.import_module(f"{__package__}.{family}")
                except Exception as error:
                    self.failures[family] = error
            self._loaded = True

    def find(self, name: str) -> Kernel | None:
        self.load()
        entry = self.entries.get(name)
        if entry is None and self.failures:
            # The kernel may be in a file that did not import: say so instead of "no kernel".
            family, error = next(iter(self.failures.items()))
            raise RuntimeError(
                f"no kernel for {name!r}: the kernel file {__package__}.{family} failed to import: {error}"
            ) from error
        return entry

    def names(self) -> set[str]:
        self.load()
        return set(self.entries)


def families() -> Iterator[str]:
    """Names of the modules of the kit: every one is imported before the first look-up."""
    package = importlib.import_module(__package__ or "metatensor.devices.array_kit")
    for module in pkgutil.iter_modules(package.__path__):
        yield module.name


KIT = _KitTable()
kernel = KIT.kernel
