"""Sizes that vary in exported programs: conversion of dynamic shapes to names of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from metatensor.program import Program
from metatensor.program.sizes.capturing import trace_sizes
from metatensor.program.sizes.dims import by_place
from metatensor.program.sizes.expressions import names_in, parse
from metatensor.program.sizes.pieces import SizesError
from metatensor.program.tracing import _run
from metatensor.torch_api.torch.export import Dim, _DimHint

__all__ = ["LARGEST", "Dims", "named_dims", "trace_dims", "tried_ranges"]

_TRIED = 24
"""Least upper bound of the sizes that are tried."""
LARGEST = 1 << 40
"""Upper bound of sizes without one."""


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
            ranges[name], samples[name] = range(1, LARGEST), sample
            explicit.extend([name] if one.name == "DYNAMIC" else [])
            return name
        if not isinstance(one, Dim):
            raise TypeError(f"torch.export.export: dynamic_shapes must have Dim objects for sizes that vary, got {one!r:.60}")
        root = one._root
        ranges[root.__name__] = range(root.min, LARGEST if root.max is None else root.max + 1)
        if one is root:
            samples[root.__name__] = sample
        if root.__name__ not in explicit:
            explicit.append(root.__name__)
        return one.__name__

    found = {key: made for key, spec in by_place(mod, args, kwargs, shapes).items()
             if (made := of(spec, args[key] if isinstance(key, int) else kwargs[key])) is not None}  # fmt: skip
    if not found:
        return None
    return Dims(ranges, found, tried_ranges(ranges, samples), explicit)


def tried_ranges(ranges: Mapping[str, range], samples: Mapping[str, int]) -> dict[str, range]:
    """Return the sizes at which a module runs to find what depends on them. `samples` has those of the example."""
    return {name: range(max(sizes.start, 1), min(sizes.stop, max(2 * samples.get(name, 4), _TRIED) + 1)) for name, sizes in ranges.items()}


def trace_dims(
    mod: Any, args: tuple, kwargs: dict[str, Any], found: Dims, complete: Callable[[Program], Program] = lambda program: program, *,
    run: Callable[..., Program] = _run, caller: str = "torch.export.export",
) -> Any:  # fmt: skip
    """Return the program with named sizes. ``Dim.AUTO`` sizes that cannot vary are those of the example.

    Raises
    ------
    SizesError
        If one of the sizes that must vary cannot.
    """
    try:
        program = trace_sizes(run, mod, args, kwargs, found.ranges, found.dims, found.tried, complete)
    except SizesError:
        less = _without_hints(mod, args, kwargs, found, run)
        if less is None:
            raise
        if not less.ranges:
            return complete(run(mod, args, kwargs, None))
        return trace_dims(mod, args, kwargs, less, complete, run=run, caller=caller)
    fixed = []
    for guard in program.guards:
        for name in found.ranges:
            if guard.relation == "==" and isinstance(guard.right, int) and guard.left == parse(name):
                if name in found.explicit:
                    place = program.places.get(guard)
                    raise SizesError(f"{caller}: the size {name} cannot vary: the module needs {guard}"
                                       f"{'' if place is None else f' ({place})'}")  # fmt: skip
                fixed.append(name)
    if not fixed:
        return program
    rest = _only(found, [name for name in found.ranges if name not in fixed])
    return trace_dims(mod, args, kwargs, rest, complete, run=run, caller=caller) if rest.ranges else complete(run(mod, args, kwargs, None))


def _without_hints(mod: Any, args: tuple, kwargs: dict[str, Any], found: Dims, run: Callable[..., Program]) -> Dims | None:
    """Return the sizes without those of ``Dim.AUTO`` that cannot vary even alone, or without all if each can. None if there are none."""
    hints = [name for name in found.ranges if name not in found.explicit]
    if not hints:
        return None
    kept = []
    for name in hints if len(hints) > 1 or found.explicit else ():
        alone = _only(found, [*found.explicit, name])
        try:
            trace_sizes(run, mod, args, kwargs, alone.ranges, alone.dims, alone.tried)
            kept.append(name)
        except SizesError:
            pass
    return _only(found, [*found.explicit, *(kept if len(kept) < len(hints) else ())])


def _only(found: Dims, names: list[str]) -> Dims:
    """Return the description with some of the names. Sizes with others are fixed."""
    def of(spec: Any) -> Any:
        if isinstance(spec, dict):
            made = {key: inner for key, item in spec.items() if (inner := of(item)) is not None}
            return made or None
        return spec if {*names_in(parse(spec))}.issubset(names) else None

    dims = {key: spec for key, item in found.dims.items() if (spec := of(item)) is not None}
    return Dims({n: found.ranges[n] for n in names}, dims, {n: found.tried[n] for n in names}, [n for n in found.explicit if n in names])
