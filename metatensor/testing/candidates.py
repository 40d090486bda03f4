"""Candidate values for an argument, chosen by its type and name. The meta kernel determines which of them are valid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from metatensor._core.dtype import dtype_by_name
from metatensor.testing.samples import Sample, Spec

__all__ = ["NOT_VARIED", "required_values", "optional_values"]

# Arguments that do not change the values. They choose the device or layout of the result, or are kept only for
# compatibility.
NOT_VARIED = {"device", "pin_memory", "layout", "requires_grad", "inplace", "non_blocking", "copy", "sparse", "generator",
              "memory_format", "check_errors", "_stacklevel", "size_average", "reduce", "sparse_grad", "use_fast_accum",
              "compute_mode", "driver", "scale_grad_by_freq", "return_indices", "recompute_scale_factor", "assume_unique",
              "as_tuple"}  # fmt: skip

INF = float("inf")
WORDS = {
    "reduction": ["none", "sum", "mean"], "rounding_mode": ["floor", "trunc"], "approximate": ["tanh", "none"],
    "interpolation": ["lower", "higher", "midpoint", "nearest", "linear"], "padding": ["same", "valid"],
    "padding_mode": ["border", "reflection", "zeros"], "UPLO": ["U", "L"], "side": ["right", "left"],
    "reduce": ["sum", "prod", "mean", "amax", "amin", "add", "multiply"],
    "mode": ["sum", "mean", "max", "constant", "reflect", "replicate", "circular", "nearest", "nearest-exact", "linear", "bilinear",
             "bicubic", "trilinear", "area", "complete", "reduced", "r"],
}  # fmt: skip
LISTS = [(1,), (0,), (-1,), (2,), (0, 1), (1, 0), (-2, -1), (2, 1), (1, 2), (2, 3), (3, 2), (3,), (1, 1), (2, 2), (3, 3), (2, 2, 2),
         (1, 2, 1), (3, 1, 2), (1, 1, 1, 1), (2, 1, 0, 1), (1, 0, 0, 1, 1, 0), (6,), (1, 2, 6, 6), (2, 1, 3), (4,)]  # fmt: skip


def required_values(argument: Any) -> list[Any]:
    """Return candidate values for a required argument that is not a tensor."""
    base = argument.type.rstrip("?").partition("[")[0]
    name = argument.name
    if "[" in argument.type:
        if base in ("float", "bool"):
            return [(2.0, 2.0)] if base == "float" else [(False, True)]
        return [(0,), (1,), (2,), (2, 3), (0, 1), (1, 0), (1, 1, 1, 1), (3, 3), (2, 2, 2), (6,), (1, 2, 6, 6), (3, 2)]
    if base == "str":
        return WORDS.get(name, []) + ["sum", "add", "mean"]
    by_type: dict[str, list[Any]] = {
        "int": [1, 0, 2, 3] + [-1, -2] * name.startswith("dim"), "float": [0.5, 2.0], "Scalar": [2, 0.5], "bool": [False, True],
        "dtype": [dtype_by_name("float32")],
        # The type `any` does not tell which values the kernel accepts. Arguments for sizes are recognized by name.
        "any": [2, (2, 2), (3, 3, 3)] if name.endswith("size") else [],
    }
    return by_type.get(base, [])


def optional_values(argument: Any, sample: Sample) -> Iterator[Any]:
    """Yield values for an argument that differ from its value in `sample`, the most promising ones first."""
    current = sample.arguments.get(argument.name, None if argument.required else argument.default)
    for value in _values(argument, sample):
        if type(value) is not type(current) or value != current:
            yield value


def _values(argument: Any, sample: Sample) -> Iterator[Any]:
    name, kind = argument.name, argument.type.rstrip("?").partition("(")[0]
    default = None if argument.required else argument.default
    if kind == "bool":
        yield from (True, False)
    elif kind == "int":
        yield from _ints(name, default)
    elif kind in ("float", "Scalar"):
        yield from _numbers(name, default, kind)
    elif kind == "str":
        yield from dict.fromkeys(WORDS.get(name, []) or itertools.chain(*WORDS.values()))
    elif kind == "dtype":
        yield from map(dtype_by_name, ("float64", "complex128", "int64", "float32", "float16"))
    elif kind.startswith("int["):
        yield from _lists(argument, default)
    elif kind == "float[]":
        yield from ((-1.0, 1.0), (0.0, 0.5), (-0.5, 2.0, 0.0, 1.0))
    elif kind == "any":
        yield from (2, 3, (2, 3), (3, 2, 2), 1.5, 2.0, (0.5, 0.7), (0.6, 0.5, 0.7), 1, INF, "nuc", -1, -2, -INF, (1, 2, 3, 4))
    elif kind in ("Tensor", "Tensor|Scalar"):
        if kind == "Tensor|Scalar":
            yield from (2, 0.5, True, -1, 0.25)
        yield from _tensors(name, sample)


def _ints(name: str, default: Any) -> Iterator[int]:
    if name.startswith(("dim", "axis")):
        yield from (0, 1, -1, -2, 2)
    elif isinstance(default, int):
        yield from (default + 1, 1, 2, 0, 3, -1, default + 2, 5)
    else:
        yield from (1, 2, 0, 3, 4, -1)


def _numbers(name: str, default: Any, kind: str) -> Iterator[float]:
    if kind == "Scalar" and isinstance(default, int):
        yield from (2, 3, -1)
    if name in ("p", "ord", "norm_type"):
        yield from (1, 3.0, INF, 0, -INF, 0.5)
    if isinstance(default, (int, float)):
        yield from (default * 2 + 1, default / 2 + 0.125)
    yield from (0.5, 2.0, 0.125, -0.5, 1.5, 30.0, 0.0, 5.0)


def _lists(argument: Any, default: Any) -> Iterator[Any]:
    if isinstance(default, int):  # one number per spatial dimension
        count = int(argument.type.rstrip("?").partition("[")[2][:-1] or 1)
        yield tuple(range(default + 1, default + 1 + count))
        yield default + 1
        yield tuple(range(default + count, default, -1))
        yield tuple([default + 1] * (count - 1) + [default])
        yield tuple([default + 2] * count)
    yield from LISTS


def _tensors(name: str, sample: Sample) -> Iterator[Spec]:
    shapes: dict[tuple[int, ...], None] = {}
    for _, spec in sample.specs():
        shapes[spec.shape] = None
        for size in spec.shape:
            shapes[size,] = None
    for spec in [spec for _, spec in sample.specs()]:
        for pair in itertools.combinations(spec.shape, 2):
            shapes[pair] = None
        shapes[spec.shape[:-1]] = shapes[spec.shape[1:]] = None
    shapes[(1, 2, 3)] = shapes[(1, 2, 2)] = shapes[()] = None
    floats = [spec.dtype for _, spec in sample.specs() if spec.dtype.startswith(("float", "complex"))]
    first = floats[0] if floats else "float32"
    if name in ("sorter", "offsets", "offs"):
        kinds = [("int64", "index"), ("int32", "sorted")]
    elif "mask" in name:
        kinds = [("bool", "values"), (first, "fine")]
    else:
        kinds = [(first, "positive"), (first, "unit"), ("int64", "index"), ("bool", "values")]
    for dtype, role in kinds:
        for shape in shapes:
            yield Spec(shape, dtype, 7, role)
