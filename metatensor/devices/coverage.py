"""A report of the operators that a device computes, and how it computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from metatensor._core.op import operator_flags, registry
from metatensor._core.schema import parse
from metatensor.devices.base import DeviceBackend
from metatensor.library import find_kernel
from metatensor.library.gradients import has_gradient
from metatensor.rules.core import CORE
from metatensor.rules.decompositions import decompositions
from metatensor.rules.undifferentiable import UNDIFFERENTIABLE

__all__ = ["Coverage", "coverage", "without_gradient"]


class Coverage(NamedTuple):
    """How a device computes one schema of an operator.

    Parameters
    ----------
    name : str
        Qualified name of the schema.
    how : str
        ``"kernel"``, ``"decomposition"`` (into the operators of `metatensor.rules.core`, possibly in several steps),
        ``"fallback"`` (computed by the cpu device) or ``"missing"``.
    core : bool
        Whether the operator is one of the core operators.
    """

    name: str
    how: str
    core: bool = False


def coverage(backend: DeviceBackend) -> list[Coverage]:
    """Return how a device computes each schema of each operator, sorted by name.

    The list omits schemas that need no kernel: views, composites of other operators, and those computed from metadata.
    """
    found = {}
    table = decompositions()
    for op in list(registry.values()):
        for overload in op.functional.overloads:
            if overload.is_view or overload.is_composite or overload.is_host:
                continue
            name = overload.qualname
            if name not in found:
                found[name] = _how(name, backend, table)
    return [Coverage(name, how, name in CORE) for name, how in sorted(found.items())]


def _how(name: str, backend: DeviceBackend, table: Mapping[str, Any]) -> str:
    kernel = find_kernel(name, backend.type, backend)
    if kernel is None:
        return "decomposition" if name in table else "missing"
    return "fallback" if getattr(kernel, "is_fallback", False) else "kernel"


def without_gradient() -> list[str]:
    """Return the schemas without a gradient whose operators PyTorch can differentiate, sorted by name.

    Composites are differentiated through their parts. Operators whose name begins with an underscore are parts of others,
    whose gradients may be declared there.
    """
    found = set()
    for op in list(registry.values()):
        for overload in op.functional.overloads:
            name = overload.qualname
            if overload.is_composite or overload.is_host or overload.flags & operator_flags.NO_GRAD:
                continue
            if has_gradient(name) or name in UNDIFFERENTIABLE or name.rpartition(".")[2].startswith("_"):
                continue
            schema = parse(overload.text)
            if any(a.type.startswith("Tensor") for a in schema.arguments) and any(kind.startswith("Tensor") for kind, _ in schema.returns):
                found.add(name)
    return sorted(found)
