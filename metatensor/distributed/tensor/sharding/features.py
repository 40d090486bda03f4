"""Properties of an axis by which rules tell axes apart, whatever the ranks and sizes of a call.

They are used twice: when rules are made from the axes of samples, and when the rules are applied to the axes of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite, prod
from typing import Any

from metatensor._core.dtype import DType
from metatensor._core.schema import parse
from metatensor.distributed.tensor.sharding.axes import Axis, Shapes

__all__ = ["LENGTH", "POSITIONS", "dims_of", "members", "options", "position", "size_arguments"]

# Properties of position, the preferred ones first.
POSITIONS = ("lead", "equal", "first", "batch1", "batch2", "batch3", "batch4", "batch5", "right", "left")


# Ends the name of a property that is the length of a tuple among the arguments.
LENGTH = "_length"

# Arguments that hold sizes of tensors. Rules do not depend on their values.
SIZES = frozenset("size sizes shape normalized_shape output_size input_size input_sizes N C HxW num_weights".split())


@cache
def schema(text: str) -> Any:
    return parse(text)


@cache
def written_arguments(text: str) -> tuple[str, ...]:
    """Return the names of the arguments that a schema declares as changed by the call."""
    return tuple(one.name for one in schema(text).arguments if one.mutated)


@cache
def size_arguments(text: str) -> tuple[str, ...]:
    """Return the names of the arguments of a schema that may hold sizes: ints that are not dimensions."""
    return tuple(one.name for one in schema(text).arguments if one.type.startswith(("int", "any")) and not _names_dims(one.name))


@cache
def dim_arguments(text: str) -> tuple[tuple[str, Any], ...]:
    """Return the names and defaults of the arguments of a schema that hold dimensions."""
    return tuple((one.name, None if one.required else one.default) for one in schema(text).arguments
                 if one.type.startswith(("int", "any")) and _names_dims(one.name))  # fmt: skip


def _names_dims(name: str) -> bool:
    return name.startswith(("dim", "axis")) or name.endswith("_dim")


def dims_of(text: str, arguments: Mapping[str, Any], ndim: int) -> frozenset[int]:
    """Return the dimensions of a tensor of ``ndim`` dimensions that the arguments of a call name. None and () name all."""
    found: set[int] = set()
    for name, default in dim_arguments(text):
        value = arguments.get(name, default)
        if value is None or value == ():
            return frozenset(range(ndim))
        for dim in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(dim, int) and -ndim <= dim < ndim:
                found.add(dim % ndim)
    return frozenset(found)


def members(text: str, arguments: Mapping[str, Any], axis: Axis, shapes: Shapes) -> tuple[str, ...]:
    """Return the places of an axis by name: ``input``, or ``input[dim]`` for a dimension that an argument names."""
    names: dict[str, None] = {}
    for place in axis.places:
        if place.number:
            names[f"{place.name}()"] = None
            continue
        named = place.dim in dims_of(text, arguments, len(shapes.tensors[place.name, place.item]))
        token = place.name + "[dim]" * named
        again = any(other is not place and (other.name, other.item) == (place.name, place.item) and not other.number
                    for other in axis.places)  # fmt: skip
        names[token + "*" * again] = None
    return tuple(sorted(names))


def position(axis: Axis, shapes: Shapes, results: list[tuple[int, ...]]) -> dict[str, Any]:
    """Return the properties in `POSITIONS`.

    * ``lead``: the product of the sizes before the dimension is the same in the first argument and in each result;
    * ``equal``: all sizes are equal;
    * ``first``: the dimension is the first one of each tensor;
    * ``batch1`` to ``batch5``: it is not one of the last 1 to 5 dimensions of any argument;
    * ``right`` and ``left``: its position in each argument, counted from the right and from the left.
    """
    dims = axis.dims
    ranks = [len(shapes.tensors[place.name, place.item]) for place in dims]
    right = [place.dim - rank for place, rank in zip(dims, ranks, strict=True)]
    leads = {prod(shapes.tensors[place.name, place.item][: place.dim]) for place in dims[:1]}
    leads |= {prod(shape[:dim]) for shape, dim in zip(results, axis.outputs, strict=True) if dim >= 0}
    sizes = {place.size for place in axis.places}
    sizes |= {shape[dim] for shape, dim in zip(results, axis.outputs, strict=True) if dim >= 0}
    found: dict[str, Any] = {
        "lead": len(leads) == 1, "equal": len(sizes) == 1, "first": all(place.dim == 0 for place in dims),
        "right": tuple(dict.fromkeys(right)), "left": tuple(dict.fromkeys(place.dim for place in dims)),
    }  # fmt: skip
    for count in range(1, 6):
        found[f"batch{count}"] = all(one < -count for one in right)
    return found


def options(text: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the properties by which rules may differ: words, booleans, dtypes, numbers, which tensors are given, lengths of tuples."""
    for one in schema(text).arguments:
        value = arguments.get(one.name, None if one.required else one.default)
        if one.type.startswith("Tensor"):
            if one.type.endswith("?") or "|" in one.type:
                yield one.name, "number" if isinstance(value, (int, float, complex)) else "none" if value is None else "tensor"
        elif one.name not in SIZES and one.type.rstrip("?") not in ("Device", "Generator", "Layout", "MemoryFormat"):
            yield one.name, plain(value)
            if isinstance(value, (tuple, list)):
                yield one.name + LENGTH, len(value)


def plain(value: Any) -> Any:
    """Return a value as it is written in a table of rules."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return "none" if value is None else value if isinstance(value, (bool, int, float, str)) else repr(value)
