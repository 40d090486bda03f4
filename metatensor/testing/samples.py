"""Sample arguments for any operator, found from its schema alone: the meta kernel says which ones are valid.

Every argument without a default gets candidates by its type and name; combinations are tried on the meta device,
where a wrong one is an error within microseconds, and those that pass are the samples.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from metatensor._core.dtype import dtype_by_name
from metatensor._core.schema import parse
from metatensor.testing.values import from_values

__all__ = ["Sample", "Spec", "find_samples"]


class Spec(NamedTuple):
    """A tensor argument: its values follow from its shape, its dtype and its seed."""

    shape: tuple[int, ...]
    dtype: str
    seed: int = 0
    role: str = "values"

    def array(self) -> np.ndarray:
        """The values. All different where the dtype allows it, so that sorting has one answer, and exact in half precision."""
        size = int(np.prod(self.shape))
        rng = np.random.default_rng([size, self.seed])
        if self.role == "index":
            values = rng.integers(0, 2, size)
        elif self.dtype == "bool":
            values = rng.integers(0, 2, size).astype(bool)
        else:
            values = rng.permutation(size) - size // 3
            if self.dtype.startswith("uint"):
                values = np.abs(values)
            elif not self.dtype.startswith("int"):
                values = values / 8
            if self.dtype.startswith("complex"):
                values = values + 1j * values[::-1]
        return values.reshape(self.shape)

    def tensor(self, device: str, strided: bool = False) -> Any:
        """The tensor on a device, with memory laid out in another order if ``strided``."""
        return from_values(device, self.array(), self.dtype, strided=strided)


class Sample(NamedTuple):
    """The arguments of one call by name; tensors are Specs."""

    arguments: dict[str, Any]
    factory: bool = False
    """Whether there is a ``device`` argument to say where the result goes."""

    def on(self, device: str, strided: bool = False) -> dict[str, Any]:
        """The arguments with tensors in place of Specs, all on ``device``."""
        placed = {name: _place(value, device, strided) for name, value in self.arguments.items()}
        return placed | {"device": device} if self.factory else placed

    def change(self, **arguments: Any) -> Sample:
        """The same call with some arguments changed or added."""
        return self._replace(arguments=self.arguments | arguments)

    def __str__(self) -> str:
        return ", ".join(f"{name}={_show(value)}" for name, value in self.arguments.items())


def _place(value: Any, device: str, strided: bool) -> Any:
    if isinstance(value, Spec):
        return value.tensor(device, strided)
    if isinstance(value, list):
        return [_place(item, device, strided) for item in value]
    return value


def _show(value: Any) -> str:
    if isinstance(value, Spec):
        return f"{value.dtype}{list(value.shape)}"
    return f"[{', '.join(map(_show, value))}]" if isinstance(value, list) else repr(value)


# Shapes to try together, by the number of tensors: alike, broadcasting, matrix products, convolutions.
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    0: [()],
    1: [((2, 3),), ((4,),), ((),), ((3, 3),), ((2, 3, 4),), ((1, 2, 6, 6),), ((1, 2, 4, 4, 4),), ((0, 3),), ((3, 2),), ((1, 2, 3),)],
    2: [
        ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), (3, 4)), ((3, 3), (3,)), ((3,), (3,)), ((2, 3, 4), (2, 4, 3)),
        ((1, 2, 6), (4, 2, 3)), ((1, 2, 6), (2, 2, 3)), ((1, 2, 6, 6), (4, 2, 3, 3)), ((1, 2, 6, 6), (2, 2, 3, 3)),
        ((1, 2, 4, 4, 4), (2, 2, 3, 3, 3)), ((2, 3), ()), ((), (2, 3)), ((3, 3), (3, 3)), ((3,), (4, 3)), ((1, 2, 4, 4), (1, 4, 4, 2)),
        ((1, 2, 3, 3),) * 2, ((1, 2, 2, 2, 2),) * 2, ((4,), (3, 2)), ((), ()), ((2, 3), (2,)), ((1, 2, 4, 4, 4), (1, 2, 2, 2, 3)),
    ],
    3: [
        ((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), (2, 1)), ((2, 4), (2, 3), (3, 4)), ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        ((2,), (2, 3), (3,)), ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)), ((2, 3), (2,), (3,)), ((2, 3), (3,), (3,)),
        ((1, 2, 6, 6), (4, 2, 3, 3), (4,)), ((2, 3), (2, 2), (2, 2)), ((3, 5), (2, 3, 4), (2, 4, 5)), ((2, 3), (2, 3), ()),
        ((2, 3), (2,), (2, 3)), ((2, 3), (2,), ()), ((2, 3), (2, 3), (2,)),
        ((2, 3), (2, 4), (5, 3, 4)), ((5, 2, 3), (3, 3, 4), (4,)),
    ],
}
MORE = [((2, 3),) * 8, ((3,),) * 8, ((2, 3, 4), *((3,),) * 7)]

LISTS: list[tuple[tuple[int, ...], ...]] = [((2, 3), (2, 3)), ((3,), (3,)), ((2, 3), (3, 4))]

INDEX_NAMES = {"index", "indices", "indices1", "indices2"}
# What a sample leaves alone: where a result goes, and what changes nothing about its values.
NOT_VARIED = {"device", "pin_memory", "layout", "requires_grad", "inplace", "non_blocking", "copy", "sparse"}
FIRST_DTYPES = ("float32", "target alike", "int64", "bool", "complex64", "index first")
ATTEMPTS = 600


def _candidates(argument: Any) -> list[Any]:
    """Values to try for an argument that is no tensor."""
    base = argument.type.rstrip("?").partition("[")[0]
    by_type: dict[str, list[Any]] = {
        "int": [1, 0, 2, 3], "float": [0.5, 2.0], "Scalar": [2, 0.5], "bool": [False, True], "str": ["sum", "add", "mean"],
        "dtype": [dtype_by_name("float32")],
        # Only the kernel knows what it takes; sizes go by their name.
        "any": [2, (2, 2), (3, 3, 3)] if argument.name.endswith("size") else [],
    }
    if "[" in argument.type:
        if base in ("float", "bool"):
            return [(2.0, 2.0)] if base == "float" else [(False, True)]
        return [(0,), (1,), (2,), (2, 3), (0, 1), (1, 0), (1, 1, 1, 1), (3, 3), (2, 2, 2), (6,), (1, 2, 6, 6), (3, 2)]
    return by_type.get(base, [])


def find_samples(op: Any, text: str, dtypes: tuple[str, ...], limit: int = 4) -> list[Sample]:
    """Samples for the schema ``text`` of ``op``: ``limit`` different results, then variants of the first one.

    The variants are in each of ``dtypes``, with numbers for tensors where the schema takes both, and with each option
    changed. Empty where no combination that was tried is valid on the meta device.
    """
    schema = parse(text)
    found: list[Sample] = []
    seen = set()
    for dtype in FIRST_DTYPES:
        for sample in itertools.islice(_combinations(schema, dtype), ATTEMPTS):
            result = _on_meta(op, sample)
            if result is None or result in seen:
                continue
            seen.add(result)
            found.append(sample)
            if len(found) == limit:
                break
        if found:
            break
    if not found:
        return []
    variants = itertools.chain((_with_dtype(found[0], dtype) for dtype in dtypes), _with_options(schema, found[0]))
    return found + [sample for sample in variants if sample not in found and _on_meta(op, sample) is not None]


def _combinations(schema: Any, dtype: str) -> Iterator[Sample]:
    """Arguments to try: required ones alone first, then with each optional tensor too."""
    required = [argument for argument in schema.arguments if argument.required]
    optional = [a for a in schema.arguments if not a.required and a.type in ("Tensor?", "Tensor|Scalar?")]
    for extra in [[], *([argument] for argument in optional)]:
        arguments = required + extra
        tensors = [a for a in arguments if a.type.startswith("Tensor") and "[]" not in a.type]
        others = [a for a in arguments if a not in tensors]
        choices = [_tensor_lists(dtype) if a.type.startswith("Tensor") else _candidates(a) for a in others]
        groups = SHAPES.get(len(tensors), MORE)
        # Shapes vary fastest: most ops take the first candidates of their other arguments.
        for values in itertools.product(*choices):
            for group in groups:
                specs = [_spec(a.name, shape, dtype, seed) for seed, (a, shape) in enumerate(zip(tensors, group))]
                pairs = zip([*tensors, *others], [*specs, *values], strict=False)
                yield Sample({a.name: value for a, value in pairs}, any(a.name == "device" for a in schema.arguments))


def _tensor_lists(dtype: str) -> list[list[Spec]]:
    dtype = "float32" if " " in dtype else dtype
    return [[Spec(shape, dtype, seed) for seed, shape in enumerate(shapes)] for shapes in LISTS]


def _spec(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Spec:
    if dtype == "index first":
        return Spec(shape, "float32", seed) if seed else Spec(shape, "int64", seed, "index")
    if name in INDEX_NAMES or (name == "target" and dtype != "target alike"):
        return Spec(shape, "int64", seed, "index")
    if name in ("mask", "condition"):
        return Spec(shape, "bool", seed)
    if dtype == "target alike":
        return Spec(shape, "float32", seed)
    return Spec(shape, dtype, seed)


def _with_dtype(sample: Sample, dtype: str) -> Sample:
    """The sample with its value tensors in another dtype."""

    def change(value: Any) -> Any:
        if isinstance(value, Spec):
            return value._replace(dtype=dtype) if value.role == "values" and value.dtype != "bool" else value
        return [change(item) for item in value] if isinstance(value, list) else value

    return sample.change(**{name: change(value) for name, value in sample.arguments.items()})


def _with_options(schema: Any, sample: Sample) -> Iterator[Sample]:
    """The sample with one optional argument given or changed, or a number in place of one tensor."""
    for argument in schema.arguments:
        name, kind = argument.name, argument.type.rstrip("?")
        if name in NOT_VARIED:
            continue
        if kind == "bool" and not argument.required:
            yield sample.change(**{name: not argument.default})
        elif kind == "int" and not argument.required:
            yield sample.change(**{name: 0 if argument.default else 1})
        elif kind in ("Scalar", "float") and not argument.required:
            yield sample.change(**{name: 0.5 if argument.default is None else argument.default * 2 + 1})
        elif kind.startswith("int[") and not argument.required:
            yield sample.change(**{name: (0,)})
        elif kind == "dtype":
            yield sample.change(**{name: dtype_by_name("float64")})
        elif kind == "Tensor|Scalar" and isinstance(sample.arguments.get(name), Spec):
            for number in (2, 0.5, True):
                yield sample.change(**{name: number})


def _on_meta(op: Any, sample: Sample) -> Any:
    """What tells a sample from others of the same op, or None where the meta kernel refuses it."""
    from metatensor import DataDependentError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op(**sample.on("meta"))
    except DataDependentError:
        return tuple(value for value in sample.arguments.values() if isinstance(value, Spec))
    except Exception:
        return None
    results = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(tuple(item.shape) if hasattr(item, "shape") else item for item in results)
