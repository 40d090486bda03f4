"""Sizes that vary in exported programs: conversion of dynamic shapes to names of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from metatensor.program import Program
from metatensor.program.sizes.capturing import trace_sizes
from metatensor.program.sizes.dims import by_place
from metatensor.program.sizes.expressions import names_in, parse
from metatensor.program.tracing import _run
from metatensor.torch_api.torch.export import Dim, _DimHint

__all__ = ["Dims", "named_dims", "trace_dims"]

_TRIED = 24
"""Smallest upper bound of the sizes that are tried."""
_LARGEST = 1 << 40
"""Upper bound of sizes for which none is given."""


class Dims(NamedTuple):
    """Which sizes vary, and within which bounds."""

    ranges: dict[str, range]
    dims: dict[Any, Any]
    tried: dict[str, range]
    """Sizes at which the module is run."""
    explicit: list[str]
    """The names that must be able to vary."""


def named_dims(mod: Any, args: tuple, kwargs: dict[str, Any], shapes: Any) -> Dims | None:
    """Return the sizes that a description of dynamic shapes names, or None if it names none."""
    ranges: dict[str, range] = {}
    samples: dict[str, int] = {}
    explicit: list[str] = []

    def of(spec: Any, value: Any) -> Any:
        if spec is None:
            return None
        if hasattr(value, "shape"):
            given = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
            made = {dim: text for dim, one in given if (text := size(one, int(value.shape[dim]))) is not None}
            return made or None
        if isinstance(spec, (list, tuple)):
            items = {i: of(one, value[i]) for i, one in enumerate(spec)}
        elif isinstance(spec, Mapping):
            items = {key: of(one, value[key]) for key, one in spec.items()}
        else:
            raise TypeError(f"torch.export.export: dynamic_shapes has {spec!r:.60} for an argument of class {type(value).__name__}")
        return {key: item for key, item in items.items() if item is not None} or None

    def size(one: Any, sample: int) -> str | None:
        if one is None or isinstance(one, int) or isinstance(one, _DimHint) and one.name == "STATIC":
            return None
        if isinstance(one, _DimHint):
            if sample < 2 and one.name == "AUTO":
                return None
            name = f"s{len(ranges)}"
            ranges[name], samples[name] = range(1, _LARGEST), sample
            explicit.extend([name] if one.name == "DYNAMIC" else [])
            return name
        if not isinstance(one, Dim):
            raise TypeError(f"torch.export.export: dynamic_shapes must have Dim objects for sizes that vary, got {one!r:.60}")
        root = one._root
        ranges[root.__name__] = range(root.min, _LARGEST if root.max is None else root.max + 1)
        if one is root:
            samples[root.__name__] = sample
        if root.__name__ not in explicit:
            explicit.append(root.__name__)
        return one.__name__

    found = {key: made for key, spec in by_place(mod, args, kwargs, shapes).items()
             if (made := of(spec, args[key] if isinstance(key, int) else kwargs[key])) is not None}  # fmt: skip
    if not found:
        return None
    tried = {}
    for name, sizes in ranges.items():
        sample = samples.get(name, 4)
        tried[name] = range(max(sizes.start, 1), min(sizes.stop, max(2 * sample, _TRIED) + 1))
    return Dims(ranges, found, tried, explicit)


def trace_dims(mod: Any, args: tuple, kwargs: dict[str, Any], found: Dims, complete: Callable[[Program], Program]) -> Any:
    """Return the program with named sizes. Raise RuntimeError if one of them that must vary cannot."""
    program = trace_sizes(_run, mod, args, kwargs, found.ranges, found.dims, found.tried, complete)
    for guard in program.guards:
        if guard.relation == "==" and isinstance(guard.right, int) and len({*names_in(guard.left)}) == 1:
            for name in found.explicit:
                if guard.left == parse(name):
                    place = program.places.get(guard)
                    raise RuntimeError(f"torch.export.export: the size {name} cannot vary: the module needs {guard}"
                                       f"{'' if place is None else f' ({place})'}")  # fmt: skip
    return program
