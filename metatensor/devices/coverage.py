"""Which operators a device computes, and how."""

from __future__ import annotations

from typing import NamedTuple

from metatensor._core.op import registry
from metatensor.devices.base import DeviceBackend
from metatensor.library import find_kernel
from metatensor.rules.decompositions import TABLE

__all__ = ["Coverage", "coverage"]


class Coverage(NamedTuple):
    """One schema of an operator: its qualified name and ``"kernel"``, ``"decomposition"`` or ``"missing"``."""

    name: str
    how: str


def coverage(backend: DeviceBackend) -> list[Coverage]:
    """How a device computes each schema of each operator, by name.

    Left out is what needs no kernel: views, ops that are made of others, and those that metadata answer.
    """
    found = {}
    for op in list(registry.values()):
        for overload in op.functional.overloads:
            if overload.is_view or overload.is_composite or overload.is_host:
                continue
            name = overload.qualname
            if name not in found:
                held = find_kernel(name, backend.type, backend)
                found[name] = "kernel" if held else "decomposition" if name in TABLE else "missing"
    return [Coverage(name, how) for name, how in sorted(found.items())]
