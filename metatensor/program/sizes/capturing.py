"""Traces at several sizes, in which the sizes of tensors can know their expressions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture
from metatensor._core.size import observe
from metatensor._core.tensor import Tensor
from metatensor.nn._referenced import referenced_modules
from metatensor.program.program import Program
from metatensor.program.sizes.dims import Named, ranges_of
from metatensor.program.sizes.expressions import evaluate
from metatensor.program.sizes.program import SizedProgram, found
from metatensor.program.sizes.tracking import Notes, followed

__all__ = ["trace_sizes"]


def trace_sizes(
    run: Callable[..., Program], fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any], sizes: Any, dims: Any
) -> SizedProgram:
    """Trace a callable with named sizes. ``run(fn, args, kwargs, observing)`` traces it once."""
    ranges = ranges_of(sizes)
    named = Named(fn, args, kwargs, dims, ranges)
    modules = [module for _, module in referenced_modules(fn, args, kwargs)]

    def make(at: dict[str, int], notes: Notes | None = None, expressions: Mapping[int, Any] | None = None) -> Program:
        if notes is None:
            given, keywords = named.at(at)
            with _as_before(modules):
                return run(fn, given, keywords, None)
        given, keywords = named.at(at, lambda e, s: followed(evaluate(e, s), e, notes))

        @contextmanager
        def observing(capture: Capture) -> Iterator[None]:
            known = _inputs(named, capture, given, keywords) if expressions is None else _Layouts(expressions)
            observe(lambda tensor, numbers, stride: known.read(capture.known(tensor), numbers, stride, notes))
            try:
                yield
            finally:
                observe(None)

        with _as_before(modules):
            return run(fn, given, keywords, observing)

    return found(make, ranges, named.base)


class _Layouts:
    """Expressions of the sizes and strides of values, by their numbers."""

    def __init__(self, expressions: Mapping[int, Any]) -> None:
        self.expressions = expressions
        self.starts: list[int] = [0]
        self.by_number: dict[int, Mapping[int, Any]] = {}

    def read(self, value: Any, numbers: Any, stride: bool, notes: Notes) -> Any:
        """Return sizes or strides as ints that know their expressions."""
        if value is None:
            return numbers
        start = self._start(value)
        if start is None:
            return numbers
        start += 1 + (len(numbers) if stride else 0)
        of = self.expressions
        if not any(start + i in of for i in range(len(numbers))):
            return numbers
        made = [followed(n, of[start + i], notes) if start + i in of else n for i, n in enumerate(numbers)]
        return tuple(made) if stride else mt.Size(made)

    def _start(self, value: Any) -> int | None:
        """Return the position of the first number of a value: values have their numbers in the order in which they were made."""
        number = value.number
        if number == len(self.starts) - 1:
            self.starts.append(self.starts[-1] + 1 + 2 * len(value.shape))
        return self.starts[number] if number < len(self.starts) else None


class _Given(_Layouts):
    """Expressions of the sizes of arguments only."""

    def __init__(self, by_value: Mapping[int, tuple[Any, ...]]) -> None:
        self.by_value = by_value

    def read(self, value: Any, numbers: Any, stride: bool, notes: Notes) -> Any:
        """Return sizes as ints that know their expressions, and strides as they are."""
        spec = None if value is None or stride else self.by_value.get(value.number)
        if spec is None:
            return numbers
        return mt.Size([n if e is None else followed(n, e, notes) for n, e in zip(numbers, spec)])


def _inputs(named: Named, capture: Capture, args: tuple, kwargs: dict[str, Any]) -> _Given:
    found: dict[int, tuple[Any, ...]] = {}

    def visit(spec: Any, value: Any) -> None:
        if isinstance(spec, tuple):
            known = capture.known(value) if isinstance(value, Tensor) else None
            if known is not None:
                found[known.number] = spec
        elif isinstance(spec, dict):
            for key, inner in spec.items():
                visit(inner, value[key] if isinstance(value, (list, tuple, dict)) else getattr(value, key))

    for key, spec in named.specs.items():
        visit(spec, args[key] if isinstance(key, int) else kwargs[key])
    return _Given(found)


@contextmanager
def _as_before(modules: list[Any]) -> Iterator[None]:
    """Return a context that restores modules, gradients and random numbers on exit, and in which no cycles are collected."""
    parts = [part for module in modules for part in module.modules()]
    kept = [(part, dict(vars(part)), {name: dict(vars(part)[name]) for name in ("_parameters", "_buffers", "_modules")}) for part in parts]
    tensors = {id(t): t for _, _, tables in kept for table in ("_parameters", "_buffers") for t in tables[table].values() if t is not None}
    grads = [(t, t.grad) for t in tensors.values()]
    data = [(t, t.detach().clone()) for t in tensors.values() if not t.is_meta]
    state, collecting = mt.get_rng_state(), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        mt.set_rng_state(state)
        for part, attributes, tables in kept:
            vars(part).clear()
            vars(part).update(attributes)
            for name, table in tables.items():
                vars(part)[name].clear()
                vars(part)[name].update(table)
        for t, grad in grads:
            t.grad = grad
        for t, saved in data:
            t.data.copy_(saved)


