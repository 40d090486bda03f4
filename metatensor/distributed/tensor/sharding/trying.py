"""Try whether an operator can run on parts of its arguments, by values on the cpu device.

A trial cuts an axis (`axes`) of a sample call into parts, runs the operator on each part, joins the results and compares
with the result of the whole call. `Trial.cut` returns the joins that give the whole. `Trial.passes` tries whether the
operator commutes with a reduction, so that a `Partial` argument gives a `Partial` result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.distributed.tensor.sharding.axes import Axis, Shapes, find_axes
from metatensor.distributed.tensor.sharding.features import written_arguments
from metatensor.distributed.tensor.sharding.joins import ALIKE, JOINS, equal, reduced
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.search import MATRICES
from metatensor.testing.values import from_values

__all__ = ["Trial", "gcd_of"]


def gcd_of(axis: Axis) -> int:
    """Return the number of equal units into which all places of an axis can be divided."""
    return int(np.gcd.reduce([place.size for place in axis.places]))


class Trial:
    """A sample call of one overload, with its axes.

    Parameters
    ----------
    op : Op
        The operator.
    overload : Overload
        The overload that the sample calls.
    sample : Sample
        The arguments. Numbers in arguments whose names are in ``numbers`` may be sizes.
    numbers : collection of str
        Names of the arguments that may hold sizes.
    """

    def __init__(self, op: Any, overload: Any, sample: Sample, numbers: Sequence[str]) -> None:
        self.op, self.overload, self.sample = op, overload, sample
        self.numbers = [name for name in numbers if _is_sizes(sample.arguments.get(name))]
        self.mutated = written_arguments(overload.text)
        self.writes = bool(self.mutated) or bool(sample.arguments.get("inplace"))
        self.definite = op.name.rpartition(".")[2] in MATRICES  # non-finite matrices have no decomposition
        self.returns_list = overload.text.endswith("-> Tensor[]")
        self._rounded = any(spec.dtype.startswith("float8") for _, spec in sample.specs())
        self._whole: Any = None
        self._runs: dict[Any, Any] = {}
        """What runs on parts have given, for trials that differ only in what is done with the results."""
        self._paired: dict[str, dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]] = {}
        self._others: dict[tuple[str | None, str | None], Trial] = {}

    def with_values(self, dtype: str | None = None, role: str | None = None) -> Trial:
        """Return the call with another dtype or role for the tensors that hold numerical data."""
        found = self._others.get((dtype, role))
        if found is None:
            found = self._others[dtype, role] = Trial(self.op, self.overload, self.sample.with_values(dtype, role), self.numbers)
        return found

    def in_double(self) -> Trial:
        """Return the call with floating-point and complex numbers in double precision."""
        change = lambda name, spec: spec._replace(dtype=_DOUBLE.get(spec.dtype, spec.dtype))
        return Trial(self.op, self.overload, self.sample.map(change), self.numbers)

    # Shapes on meta ---------------------------------------------------------------------------------------

    def shapes(self) -> Shapes:
        """Return the sizes in the arguments."""
        tensors = {}
        for name, value in self.sample.arguments.items():
            for item, one in _items(value):
                if isinstance(one, Spec):
                    tensors[name, item] = tuple(one.shape)
        return Shapes(tensors, {name: self.sample.arguments[name] for name in self.numbers})

    def resized(self, shapes: Shapes) -> Trial:
        """Return the same call with other sizes."""

        def one(name: str, item: int, value: Any) -> Any:
            return value._replace(shape=shapes.tensors[name, item]) if isinstance(value, Spec) else value

        arguments = {}
        for name, value in self.sample.arguments.items():
            if isinstance(value, list):
                arguments[name] = [one(name, item, member) for item, member in enumerate(value)]
            else:
                arguments[name] = shapes.numbers.get(name, one(name, -1, value))
        return Trial(self.op, self.overload, self.sample._replace(arguments=arguments), self.numbers)

    def result_shapes(self, shapes: Shapes) -> list[tuple[int, ...]] | None:
        """Return the shapes of the results and of changed arguments, or None if the meta kernel refuses the call."""
        trial = self.resized(shapes)
        try:
            return [tuple(one.shape) for one in trial._outputs(trial.sample.on("meta"))]
        except Exception:
            return None

    def axes(self) -> list[Axis]:
        """Return the axes of the call."""
        return find_axes(self.shapes(), self.result_shapes)

    # Values on the cpu ------------------------------------------------------------------------------------

    def _outputs(self, arguments: dict[str, Any]) -> list[Any]:
        """Call the operator. Return the tensors that it returns, then the arguments that it changes."""
        if self.sample.positional:
            first = [arguments[name] for name in self.sample.positional]
            result = self.op(*first, **{k: v for k, v in arguments.items() if k not in self.sample.positional})
        else:
            result = self.op(**arguments)
        found = _tensors(result)
        for name in self.mutated:
            found += [one for one in _tensors(arguments.get(name)) if all(one is not other for other in found)]
        return found

    def whole(self) -> tuple[dict[str, Any], list[np.ndarray]] | None:
        """Return the arguments on the cpu and the values of the results, or None if the call fails."""
        if self._whole is None:
            arguments = {name: _placed(value) for name, value in self.sample.arguments.items()}
            if self.sample.factory:
                arguments["device"] = "cpu"
            try:
                self._whole = arguments, self.values(arguments)
            except Exception:
                self._whole = ()
        return self._whole or None

    def values(self, arguments: dict[str, Any]) -> list[np.ndarray]:
        """Run the call on copies of the arguments and return the values of the results."""
        arguments = {name: _copied(value) for name, value in arguments.items()} if self.writes else arguments
        found = [np.asarray(one.resolve_conj().resolve_neg().numpy(force=True)) if one.dtype.name not in _ODD else one.double().numpy()
                 for one in self._outputs(arguments)]  # fmt: skip
        # Products of numbers with 8 bits are summed in single precision, whatever the dtype of the result is.
        return [one.astype(np.float32) if self._rounded and one.dtype == np.float64 else one for one in found]

    def _once(self, key: Any, arguments: Callable[[], dict[str, Any]]) -> list[np.ndarray] | None:
        """Return the values of the call with ``arguments()``, which `key` identifies, or None if it fails. It is run once."""
        if key not in self._runs:
            try:
                self._runs[key] = self.values(arguments())
            except Exception:
                self._runs[key] = None
        found: list[np.ndarray] | None = self._runs[key]
        return found

    # Cutting ----------------------------------------------------------------------------------------------

    def cut(self, axis: Axis, units: Sequence[int], zeroed: Sequence[str] = ()) -> list[set[str]] | None:
        """Return, for each result, the joins of the parts' results that give the whole.

        Parameters
        ----------
        axis : Axis
            The axis to cut.
        units : sequence of int
            The sizes of the parts, in units of the greatest common divisor of the axis' sizes.
        zeroed : sequence of str
            Arguments that are not cut, and are zero in all parts but the first.

        Returns
        -------
        list of set of str, or None
            None if the operator fails on a part, or if a result has no join. The list is empty if the values show nothing.
        """
        whole = self.whole()
        if whole is None:
            return None
        arguments, expected = whole
        parts: list[list[np.ndarray]] = []
        total, start = gcd_of(axis), 0
        for count in units:
            zeros = tuple(zeroed) if parts else ()
            made = self._once((axis, start, count, zeros), partial(self._part, axis, arguments, start, count, total, zeros))
            if made is None:
                return None
            parts.append(made)
            start += count
        if any(len(part) != len(expected) for part in parts):
            return None
        found = []
        for number, one in enumerate(expected):
            pieces = [part[number] for part in parts]
            dim = axis.outputs[number]
            names = ("cat",) if dim >= 0 else JOINS
            if dim < 0 and one.size > 1 and not _varies(one):
                return []  # such as the counts of values outside of all bins
            with np.errstate(all="ignore"):
                fitting = {name for name in names if equal(_joined(name, pieces, units, dim), one)}
            if not fitting:
                return None
            found.append({"same"} if dim < 0 and not one.size else fitting)
        return found

    def _part(
        self, axis: Axis, arguments: dict[str, Any], start: int, count: int, total: int, zeroed: Sequence[str]
    ) -> dict[str, Any]:
        """Return the arguments of a part."""
        part: dict[str, Any] = {name: list(value) if isinstance(value, list) else value for name, value in arguments.items()}
        for place in axis.places:
            unit = place.size // total
            if place.number:
                value = part[place.name]
                size = count * unit
                part[place.name] = (*value[: place.dim], size, *value[place.dim + 1 :]) if isinstance(value, tuple) else size
                continue
            whole = part[place.name] if place.item < 0 else part[place.name][place.item]
            piece = whole.narrow(place.dim, start * unit, count * unit).contiguous()
            if place.item < 0:
                part[place.name] = piece
            else:
                part[place.name][place.item] = piece
        for name in zeroed:
            part[name] = mt.zeros_like(part[name])
        return part

    # Partial arguments --------------------------------------------------------------------------------------

    def passes(self, names: Sequence[str], reduction: str) -> list[set[str]] | None:
        """Return the reductions of the results that correspond to a reduction of some arguments.

        Parameters
        ----------
        names : sequence of str
            Arguments that are partial. The other arguments are the same on all processes.
        reduction : str
            How they are reduced.

        Returns
        -------
        list of set of str, or None
            ``same`` means that the result does not depend on the arguments. The list is empty if the values show nothing,
            and None if a result has no reduction.
        """
        whole = self.whole()
        if whole is None:
            return None
        group = tuple(names)
        pairs = {key: pair for name in group for key, pair in self._pairs(name, whole[0][name]).items()}
        together = {key: reduced(reduction, pair) for key, pair in pairs.items()}
        if any(one is None for one in together.values()):
            return None

        def arguments(values: Mapping[tuple[str, int], np.ndarray]) -> dict[str, Any]:
            made = dict(whole[0])
            for (name, item), value in values.items():
                tensor = from_values("cpu", value, (whole[0][name] if item < 0 else whole[0][name][item]).dtype.name)
                made[name] = tensor if item < 0 else [*made[name][:item], tensor, *made[name][item + 1 :]]
            return made

        other = self._once(group, lambda: arguments({key: pair[1] for key, pair in pairs.items()}))
        expected = other and self._once((group, reduction), lambda: arguments(together))
        if other is None or expected is None:
            return None
        got = [whole[1], other]  # the first of each pair is the tensor itself
        if any(len(part) != len(expected) for part in got) or not expected:
            return None
        found = []
        for number, one in enumerate(expected):
            pieces = [part[number] for part in got]
            if not _is_telling(one):
                return []
            with np.errstate(all="ignore"):
                fitting = {name for name in ALIKE[reduction] if equal(reduced(name, pieces), one)}
                fitting |= {"same"} if all(equal(piece, one) for piece in pieces) else set()
            if not fitting:
                return None
            found.append(fitting)
        return found

    def _pairs(self, name: str, value: Any) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
        """Return `_pair` of each tensor of an argument."""
        found = self._paired.get(name)
        if found is None:
            found = self._paired[name] = {(name, item): _pair(one) for item, one in _items(value)}
        return found

    def passes_kind(self, outcome: Sequence[set[str]]) -> bool:
        """Return True if every result that is reduced has floating-point or complex numbers."""
        whole = self.whole()
        return whole is not None and all("same" in one or result.dtype.kind in "fc" for one, result in zip(outcome, whole[1], strict=True))


_DOUBLE = {"float32": "float64", "complex64": "complex128"}
_ODD = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32")


def _joined(name: str, pieces: list[np.ndarray], units: Sequence[int], dim: int) -> Any:
    if name == "cat":
        try:
            return np.concatenate(pieces, axis=dim)
        except ValueError:
            return None
    return JOINS[name](pieces, units)


def _is_telling(whole: np.ndarray) -> bool:
    """Return True if an array has several distinct values, most of them finite. A single number is enough, a single bool is not."""
    if whole.dtype.kind in "fc" and (not whole.size or np.isfinite(whole).mean() < 0.6):
        return False
    return _varies(whole) or (whole.size == 1 and whole.dtype.kind != "b")


def _varies(values: np.ndarray) -> bool:
    """Return True if an array has several distinct values."""
    flat = values.reshape(-1)
    return flat.size > 1 and not bool((flat == flat[0]).all())


def _pair(tensor: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a tensor, and other values of a similar range. No reduction of the two is that of either alone."""
    values = np.asarray(tensor.numpy(force=True))
    other = np.roll(values.reshape(-1), 1).reshape(values.shape)
    if values.dtype.kind in "iu":
        return values, other - (other > values.min())
    return values, other * 0.75 + 0.25 if values.dtype.kind in "fc" else other


def _is_sizes(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(type(one) is int for one in value)
    return type(value) is int


def _items(value: Any) -> Iterator[tuple[int, Any]]:
    """Yield (position, member) for a list, and (-1, value) for anything else."""
    if isinstance(value, list):
        yield from enumerate(value)
    else:
        yield -1, value


def _placed(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.tensor("cpu")
    return [_placed(one) for one in value] if isinstance(value, list) else value


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [value]
    return list(itertools.chain.from_iterable(map(_tensors, value))) if isinstance(value, (list, tuple)) else []

