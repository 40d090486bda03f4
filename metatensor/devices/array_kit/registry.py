"""The table of kernels. It maps operator names to functions that compute them on NumPy-like arrays.

Each family of operators has a module beside this one, with the same base name as its ``ops/<family>.pyx``. Its kernels
serve every device of the array kit::

    from metatensor.devices.array_kit.registry import kernel

    @kernel("add")
    def add(kit, out, input, other, alpha):
        return kit.xp.add(input, other * alpha)

``kit`` is the `ArrayBackend` that runs the kernel and ``out`` is the allocated result array. The remaining arguments
are the operator's arguments in schema order, with arrays in place of tensors. The kernel fills ``out``, or returns
values that are then stored in it. `metatensor.devices.array_kit.backend` documents half dtypes, several results, and
results whose shape depends on the data.

A device with better routines of its own creates a `KernelTable` on top of this one. Its entries take precedence.
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
    """One entry of a table: a function, its treatment of half dtypes, and the module that registered it.

    ``ufunc`` optionally names a function of the array library that computes the same as the kernel. It is called
    directly, as ``ufunc(*operands, out)``, if all operands have the result's dtype (any common dtype for a bool result)
    and the arguments that follow the operands equal ``rest``.
    """

    function: Callable[..., Any]
    half: str
    owner: str
    ufunc: str = ""
    rest: tuple[Any, ...] = ()


class KernelTable:
    """Kernels by operator name. Names that are missing here are looked up in ``parent``.

    Parameters
    ----------
    owner : str
        Name of the table, used in messages.
    parent : KernelTable, optional
        The table to fall back on.

    Examples
    --------
    >>> from metatensor.devices.array_kit import KernelTable
    >>> table = KernelTable("acme")
    >>> @table.kernel("add")
    ... def add(kit, out, input, other, alpha):
    ...     return input + alpha * other
    >>> sorted(table.names())
    ['add']
    """

    def __init__(self, owner: str, parent: KernelTable | None = None) -> None:
        self.owner = owner
        self.parent = parent
        self.entries: dict[str, Kernel] = {}

    def kernel(
        self, *names: str, half: str = "upcast", override: bool = False, ufunc: str = "", rest: tuple[Any, ...] = ()
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function as the kernel of each operator in ``names``, and return it unchanged.

        Parameters
        ----------
        names : str
            Qualified operator names: ``"add"``, ``"max.dim"``, ``"nn.functional.conv2d"``. A name in a namespace that
            has no operators yet (``"acme::rope"``) is accepted too.
        half : {"upcast", "native", "tensors"}
            How half dtypes are passed. ``"upcast"``: as float32 or complex64 arrays. ``"native"``: as arrays of the
            stored dtype. ``"tensors"``: the kernel gets tensors instead of arrays and fills ``out`` with methods of the
            kit.
        override : bool
            Whether to replace an existing kernel of the same name, here or in a parent.
        ufunc, rest : str, tuple
            See `Kernel`.

        Raises
        ------
        ValueError
            If there is no operator of that name, or ``half`` is not one of the three values.
        RuntimeError
            If there is already a kernel and ``override`` is false.
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
                        f"{self.owner} already has a kernel for {name!r}, from {taken.owner}. {owner} defines another. "
                        "Pass override=True to replace the first"
                    )
            for name in names:
                self.entries[name] = Kernel(function, half, owner, ufunc, rest)
                _forget(name)
            return function

        return register

    def find(self, name: str) -> Kernel | None:
        """Return the kernel for ``name`` here or in a parent, or None."""
        entry = self.entries.get(name)
        if entry is None and self.parent is not None:
            return self.parent.find(name)
        return entry

    def names(self) -> set[str]:
        """Return every operator name that `find` knows."""
        inherited = self.parent.names() if self.parent is not None else set()
        return inherited | set(self.entries)


def _check_name(name: str, owner: str) -> None:
    """Raise ValueError if ``name`` cannot be the name of an operator."""
    from metatensor._core.op import registry

    if not registry:
        return  # the core is still being imported
    namespace, own, _ = name.partition("::")
    if own and not any(known.startswith(namespace + "::") for known in registry):
        return  # belongs to a plugin that is not loaded yet
    op, stem = registry.get(name), name.rpartition(".")[0]
    if op is not None and op.name == name and op.functional is op:
        return
    if op is None and stem in registry and any(overload.qualname == name for overload in registry[stem].overloads):
        return
    if op is not None:
        raise ValueError(f"{owner} has a kernel for {name!r}, which is computed by {op.functional.name!r}; use that name")
    import difflib

    near = difflib.get_close_matches(name, [*registry], 3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{owner} has a kernel for {name!r}, but there is no op of that name{hint}")


def _forget(name: str) -> None:
    """Discard the cached kernel of an operator, so that it is looked up again."""
    from metatensor._core.compute import forget_kernels
    from metatensor._core.op import registry

    op = registry.get(name) or registry.get(name.rpartition(".")[0])
    if op is not None:
        forget_kernels(op)


class _KitTable(KernelTable):
    """The kit's own table. It imports the modules with kernels on first use."""

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
            # The kernel may be in a module that failed to import. Report that failure instead of a missing kernel.
            family, error = next(iter(self.failures.items()))
            raise RuntimeError(
                f"no kernel for {name!r}: the kernel file {__package__}.{family} failed to import: {error}"
            ) from error
        return entry

    def names(self) -> set[str]:
        self.load()
        return set(self.entries)


def families() -> Iterator[str]:
    """Return the names of the kit's modules. All of them are imported before the first look-up."""
    package = importlib.import_module(__package__ or "metatensor.devices.array_kit")
    for module in pkgutil.iter_modules(package.__path__):
        yield module.name


KIT = _KitTable()
kernel = KIT.kernel
