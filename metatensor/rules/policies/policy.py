"""Kernel policies: which operators are one kernel on a kind of device, what they save for backward, and their temporary memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from metatensor._core.units import bytes_text

__all__ = ["Kernel", "KernelPolicy", "Workspace"]


class Workspace(NamedTuple):
    """Memory that a kernel needs besides its inputs and results."""

    what: str
    """A description, with the operators that use it."""
    nbytes: int | None
    """Its size in bytes, or None if it is unknown."""
    source: str
    """Where the figure comes from, or why there is none."""


class Kernel(NamedTuple):
    """The way in which a policy computes one operator. All functions take the operator's arguments in schema order."""

    parts: Callable[..., Any] | None = None
    """Creates the temporary tensors and the result if no gradients are recorded, as in `metatensor.rules.parts`. None: one kernel
    without temporaries."""
    recorded: Callable[..., Any] | None = None
    """Computes the operator by others, whose nodes are recorded. It may return NotImplemented. None: the same as under other policies."""
    about: str = ""
    """A description of the kernel, and of the values that it saves for backward."""
    source: str = ""
    """The source: a document or an observation."""


class KernelPolicy:
    """A table that says how a device computes operators.

    Parameters
    ----------
    name : str
        Its name, as `metatensor.analysis.policy` takes it.
    about : str
        One sentence that describes whose kernels these are.
    kernels : dict of Kernel
        Kernels by names of operators or overloads. Other operators are computed as under `base`.
    formulas : dict
        How gradient formulas are computed, as in `metatensor.rules.parts.FORMULAS`.
    workspaces : iterable of Workspace
        Memory that reports list as excluded or unknown.
    base : KernelPolicy, optional
        The policy for all other operators. Default: `meta`.
    sums_in_place : bool
        Whether a sum of gradients is written in place into a gradient that nothing else references. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.rules.policies import Kernel, KernelPolicy
    >>> fused = KernelPolicy("fused-norm", "Softmin in one kernel.", {"nn.functional.softmin": Kernel()})
    >>> x = mt.empty(256, device="meta")
    >>> with mt.analysis.policy(fused), mt.analysis.MemoryTracker() as memory:
    ...     y = mt.nn.functional.softmin(x, 0)
    >>> memory.peak
    1024
    """

    def __init__(
        self, name: str, about: str, kernels: Mapping[str, Kernel] | None = None, *, formulas: Mapping[str, Any] | None = None,
        workspaces: Iterable[Workspace] = (), base: KernelPolicy | None = None, sums_in_place: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.about, self.base, self.sums_in_place = name, about, base, sums_in_place
        self.kernels: dict[str, Kernel] = dict(kernels or {})
        self.formulas: dict[str, Any] = dict(formulas or {})
        self.workspaces = tuple(workspaces)
        self.known_parts: dict[str, Any] = {}
        self._recorded: dict[str, Callable[..., Any] | None] = {}
        self.known_formulas: dict[tuple[str, str | None, Any], Any] = {}

    def __repr__(self) -> str:
        return f"KernelPolicy({self.name!r})"

    def notes(self) -> list[str]:
        """Return lines that describe the policy and the memory that it leaves out."""
        sizes = ((space, "unknown" if space.nbytes is None else bytes_text(space.nbytes)) for space in self.workspaces)
        return [f"kernels: {self.name}. {self.about}", *(f"not included: {space.what}, {size} ({space.source})" for space, size in sizes)]

    def kernel(self, name: str) -> Kernel | None:
        """Return the entry for an overload, or None if the operator is computed as under the policy `meta`.

        An entry for an operator applies to its overloads without an entry.
        """
        found = self.kernels.get(name)
        if found is None and "." in name:
            found = self.kernels.get(name.rpartition(".")[0])
        return found if found is not None or self.base is None else self.base.kernel(name)

    # Queries of the core, which looks into `known_parts` and `known_formulas` first -----------------------------

    def parts_of(self, name: str) -> Any:
        """Return the function that creates the temporaries of an overload, or False; see `metatensor.rules.parts.parts_of`."""
        found = self.known_parts.get(name)
        if found is None:
            from metatensor.rules import parts

            kernel = self.kernel(name)
            found = self.known_parts[name] = parts.parts_of(name) if kernel is None else kernel.parts or False
        return found

    def recorded_as(self, name: str) -> Callable[..., Any] | None:
        """Return the function that computes an overload while gradients are recorded, or None."""
        if name not in self._recorded:
            kernel = self.kernel(name)
            self._recorded[name] = None if kernel is None else kernel.recorded
        return self._recorded[name]

    def formula_of(self, name: str, argument: str | None, body: Callable[..., Any]) -> Any:
        """Return how the memory of a gradient formula is counted; see `metatensor.rules.parts.formula_of`."""
        key = (name, argument, body)
        found = self.known_formulas.get(key)
        if found is None:
            from metatensor.rules import parts

            found = self._own_formula(name, argument)
            if found is None:
                found = parts.formula_of(name, argument, body)
            self.known_formulas[key] = found
        return found

    def _own_formula(self, name: str, argument: str | None) -> Any:
        for key in (f"{name}:{argument}", name):
            if key in self.formulas:
                return self.formulas[key]
        return None if self.base is None else self.base._own_formula(name, argument)
