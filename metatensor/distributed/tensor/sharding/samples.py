"""Sample calls for trying rules: those of `metatensor.testing`, with more dimensions and other sizes, and recorded calls."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import metatensor as mt
from metatensor._core.schema import parse
from metatensor._core.tensor import Tensor
from metatensor.testing.device_kernels import overloads
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.search import _options, base_samples, on_meta

__all__ = ["described", "samples_for"]

MOST = 56  # samples of one overload
INDICES = ("int64", "int32")


def samples_for(op: Any, overload: Any) -> list[Sample]:
    """Return sample calls of an overload whose shapes differ in ranks, sizes and options."""
    bases = MORE.get(overload.qualname, []) + base_samples(op, overload)
    calls = recorded().get(overload.qualname, [])
    if not bases or (calls and overload.qualname.endswith("_backward")):
        return [*calls, *_toggled(parse(overload.text), calls[:2])][:MOST]
    schema = parse(overload.text)
    bases = [*bases, *_views(schema)]
    options = list(_options(op, schema, bases, "cpu"))[:24]
    found = [*bases, *calls[:4], *options, *_negated(schema, bases[0]), *_toggled(schema, bases[:2]), *_pairs(bases, options)]
    unique: dict[str, Sample] = {}
    for sample in found:
        if all(0 not in spec.shape for _, spec in sample.specs()) and on_meta(op, sample) is not None:
            unique.setdefault(str(sample), sample)
    for number, sample in enumerate(list(unique.values())[:16]):
        if number >= len(bases) + 4 or sample not in calls:  # the shapes of a recorded call belong together
            for other in itertools.islice(_reshaped(sample), 6 if number < 4 else 2):
                if str(other) not in unique and on_meta(op, other) is not None:
                    unique[str(other)] = other
    return list(unique.values())[:MOST]


def _toggled(schema: Any, bases: list[Sample]) -> Iterator[Sample]:
    """Yield the samples with each flag inverted, and with each kind of reduction, which the samples for devices do not vary."""
    for argument, sample in itertools.product(schema.arguments, bases):
        value = sample.arguments.get(argument.name, None if argument.required else argument.default)
        if argument.type == "bool":
            yield sample.change(**{argument.name: not value})
        elif argument.name == "reduce" and argument.type == "str":
            yield from (sample.change(reduce=word) for word in ("sum", "prod", "mean", "amax", "amin"))


def _pairs(bases: list[Sample], options: list[Sample]) -> Iterator[Sample]:
    """Yield calls that change two arguments, each as in one of the options."""
    changes: dict[str, list[Any]] = {}
    for sample in options:
        for base in bases:
            differing = [name for name, value in sample.arguments.items() if repr(base.arguments.get(name, "")) != repr(value)]
            if len(differing) == 1:
                values = changes.setdefault(differing[0], [])
                if len(values) < 2 and all(repr(one) != repr(sample.arguments[differing[0]]) for one in values):
                    values.append(sample.arguments[differing[0]])
    for (first, firsts), (second, seconds) in itertools.islice(itertools.combinations(changes.items(), 2), 12):
        for a, b in itertools.product(firsts, seconds):
            yield bases[0].change(**{first: a, second: b})


def _negated(schema: Any, sample: Sample) -> Iterator[Sample]:
    """Yield the sample with a negative value for each argument that is a number."""
    for argument in schema.arguments:
        if argument.type.rstrip("?") in ("Scalar", "float", "Tensor|Scalar"):
            yield sample.change(**{argument.name: -1.5})
            yield sample.change(**{argument.name: -1})


def _views(schema: Any) -> list[Sample]:
    """Return calls that give a tensor another shape, if the operator takes a tensor and a shape."""
    names = [one.name for one in schema.arguments if one.required]
    if len(names) != 2 or names[1] not in ("size", "shape"):
        return []
    pairs = [((2, 6), (12,)), ((12,), (2, 6)), ((4, 6), (6, 4)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)), ((6, 4), (2, 3, 4)),
             ((4, 6), (4, 6)), ((4, 4), (4, 4)), ((4, 2), (-1,)), ((2, 6), (2, -1, 3)), ((1, 6), (6,)), ((6,), (2, 1, 3)),
             ((2, 2, 3, 4), (4, 3, 2, 2)), ((6, 3), (3, 2, 3)), ((4, 3), (3, 4))]  # fmt: skip
    return [Sample({names[0]: Spec(shape, "float32"), names[1]: size}) for shape, size in pairs]


def _windows() -> dict[str, list[Sample]]:
    """Return calls whose windows overlap the borders, so that the size of the result is that of the input."""
    found = {}
    for dims in (1, 2, 3):
        image = Spec((2, 4, *(4, 6, 5)[:dims]), "float64", 0, "fine")
        call = {"input": image, "kernel_size": (3,) * dims, "stride": (1,) * dims, "padding": (1,) * dims}
        for name in ("max_pool", "avg_pool"):
            found[f"nn.functional.{name}{dims}d"] = [Sample(call), Sample({**call, "input": image._replace(shape=image.shape[1:])})]
        found[f"nn.functional.max_pool{dims}d_with_indices"] = found[f"nn.functional.max_pool{dims}d"]
        weight = Spec((4, 4, *(3,) * dims), "float64", 1, "fine")
        ones = (1,) * dims
        convolution = {"input": image, "weight": weight, "bias": None, "stride": ones, "padding": ones, "dilation": ones}
        found[f"nn.functional.conv{dims}d"] = [Sample(convolution)]
        found.setdefault("convolution", []).extend(
            Sample({**convolution, "transposed": transposed, "output_padding": (0,) * dims, "groups": groups,
                    "weight": weight._replace(shape=(4, 4 // groups, *weight.shape[2:])), "bias": bias})
            for transposed in (False, True) for groups in (1, 2) for bias in (None, Spec((4,), "float64", 2, "fine")))  # fmt: skip
    return found


# Calls in addition to those of `metatensor.testing`.
MORE: dict[str, list[Sample]] = {
    **_windows(),
    "nn.functional.embedding": [
        Sample({"input": Spec((6,), "int64", 0, "classes"), "weight": Spec((6, 4), "float64", 1, "fine")}),
        Sample({"input": Spec((2, 2, 3), "int64", 0, "index"), "weight": Spec((3, 6), "float64", 1, "fine")}),
    ],
}


def _reshaped(sample: Sample) -> Iterator[Sample]:
    """Yield the sample with more dimensions and with larger sizes."""
    specs = sample.specs()
    ones = any(1 in spec.shape for _, spec in specs)
    if ones:
        yield sample.map(lambda name, spec: spec._replace(shape=tuple(2 if size == 1 else size for size in spec.shape)))
        for position in range(max(len(spec.shape) for _, spec in specs)):
            yield sample.map(partial(_set, position))
    rank = max((len(spec.shape) for _, spec in specs), default=0)
    if rank and all(spec.shape != (0,) for _, spec in specs):
        yield sample.map(lambda name, spec: spec._replace(shape=(3, *spec.shape)))
        yield sample.map(lambda name, spec: spec._replace(shape=(3, *spec.shape)) if len(spec.shape) == rank else spec)
        first = specs[0][0]
        yield sample.map(lambda name, spec: spec._replace(shape=(3, *spec.shape)) if name == first else spec)
        yield sample.map(lambda name, spec: spec._replace(shape=(4, 3, *spec.shape)))


def _set(position: int, name: str, spec: Spec) -> Spec:
    """Return the tensor with size 2 instead of 1 in a dimension."""
    if position < len(spec.shape) and spec.shape[position] == 1:
        return spec._replace(shape=(*spec.shape[:position], 2, *spec.shape[position + 1 :]))
    return spec


# Calls of backward operators ----------------------------------------------------------------------------


class _Recorder(mt.DispatchMode):
    """Collects the calls of overloads for which there are no samples."""

    def __init__(self, found: dict[str, list[Sample]]) -> None:
        self.found = found

    def dispatch(self, op: Any, args: Any, kwargs: Any) -> Any:
        from metatensor._core.dispatch import bound_arguments

        bound = bound_arguments(op, tuple(args), dict(kwargs))
        if bound is not None:
            overload, arguments = bound
            sample = described(arguments)
            calls = self.found.setdefault(overload.qualname, [])
            if len(calls) < 14 and all(str(sample) != str(other) for other in calls):
                calls.append(sample)
        return op(*args, **kwargs)


# Arguments whose values are in order.
ORDERED = {"sorted_sequence": "sorted", "boundaries": "sorted", "bins": "sorted", "sorter": "ordered"}


def described(arguments: Mapping[str, Any]) -> Sample:
    """Return a call as a sample: its arguments, with specs of the same shape and dtype in place of tensors."""

    def spec(name: str, value: Any, seed: int) -> Any:
        if isinstance(value, Tensor):
            role = "index" if value.dtype.name in INDICES else "values" if value.dtype.name == "bool" else "fine"
            return Spec(tuple(value.shape), value.dtype.name, seed, ORDERED.get(name, role))
        if isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value):
            return [spec(name, one, seed + position) for position, one in enumerate(value)]
        return value

    return Sample({name: spec(name, value, number) for number, (name, value) in enumerate(arguments.items())
                   if not (name == "generator" and value is None)})  # fmt: skip


@functools.lru_cache(maxsize=1)
def recorded() -> dict[str, list[Sample]]:
    """Return the calls that forward and backward passes through all samples make, on meta, by qualified name."""
    found: dict[str, list[Sample]] = {}
    for op, overload in overloads():
        if "Tensor" not in overload.text.rpartition("->")[2]:
            continue
        for sample in base_samples(op, overload):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    arguments = {name: _requiring(value) for name, value in sample.on("meta").items()}
                    with _Recorder(found):
                        result = op(**arguments)
                        leaves = [one for one in (result if isinstance(result, (list, tuple)) else [result])
                                  if isinstance(one, Tensor) and one.requires_grad]  # fmt: skip
                        if leaves:
                            mt.autograd.backward(leaves, [mt.ones_like(one) for one in leaves])
                except Exception:
                    continue
    return found


def _requiring(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype.is_floating_point:
        return value.requires_grad_()
    return [_requiring(one) for one in value] if isinstance(value, list) else value

