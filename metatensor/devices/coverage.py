"""Which operators a device computes, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from metatensor._core.op import registry
from metatensor.devices.base import DeviceBackend
from metatensor.library import find_kernel
from metatensor.rules.core import CORE
from metatensor.rules.decompositions import decompositions

__all__ = ["Coverage", "coverage"]


class Coverage(NamedTuple):
    """One schema of an operator: its qualified name and how a device computes it.

    `how` is ``"kernel"``, ``"decomposition"`` (into operators of `metatensor.rules.core`, or others that decompose),
    ``"fallback"`` (by the cpu) or ``"missing"``. `core` says whether the operator is a core operator itself.
    """

    name: str
    how: str
    core: bool = False


def coverage(backend: DeviceBackend) -> list[Coverage]:
    """How a device computes each schema of each operator, by name.

    Left out is what needs no kernel: views, ops that are made of others, and those that metadata answer.
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
