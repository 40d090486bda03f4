"""Trace a callable at several sizes. Tensor sizes can carry symbolic expressions during a trace."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import is_
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
from metatensor.program.sizes.wrapping import following

__all__ = ["trace_sizes"]


def trace_sizes(
    run: Callable[..., Program], fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any], sizes: Any, dims: Any, tried: Any = None,
    complete: Callable[[Program], Program] = lambda program: program,
) -> SizedProgram:  # fmt: skip
    """Trace a callable with named sizes. ``run(fn, args, kwargs, observing)`` traces it once.

    `tried` restricts the ranges in which captures are made. Default: those of `sizes`. `complete` is applied to each program.
    """
    ranges = ranges_of(sizes)
    named = Named(fn, args, kwargs, dims, ranges)
    state = _State([module for _, module in referenced_modules(fn, args, kwargs)])

    def make(at: dict[str, int], notes: Notes | None = None, expressions: Mapping[int, Any] | None = None) -> Program:
        if notes is None:
            given, keywords = named.at(at)
            with state.kept():
                program = run(fn, given, keywords, None)
            return complete(program)
        given, keywords = named.at(at, lambda e, s: followed(evaluate(e, s), e, notes))

        @contextmanager
        def observing(capture: Capture) -> Iterator[None]:
            known = _inputs(named, capture, given, keywords) if expressions is None else _Layouts(expressions)
            observe(lambda tensor, numbers, stride: known.read(capture.known(tensor), numbers, stride, notes))
            try:
                yield
            finally:
                observe(None)

        while True:
            count = len(tables)
            with state.kept(), following(tables.values()):
                program = run(fn, given, keywords, observing)
            tables.update({key: table for key, table in notes.tables.items() if not _own(table)})
            if len(tables) == count:
                return complete(program)
            notes.clear()

    tables: dict[int, dict[str, Any]] = {}
    collecting = gc.isenabled()
    gc.disable()  # captures keep many small objects, which the collector would traverse repeatedly
    try:
        return found(make, ranges, named.base, tried)
    finally:
        if collecting:
            gc.enable()


def _own(table: Mapping[str, Any]) -> bool:
    """Return True for a namespace of metatensor's own code, which requires plain ints."""
    return str(table.get("__name__")).partition(".")[0] == "metatensor"


class _Layouts:
    """Look up expressions for a value's sizes and strides by the value's index."""

    def __init__(self, expressions: Mapping[int, Any]) -> None:
        self.expressions = expressions
        self.starts: list[int] = [0]
        self.by_number: dict[int, Mapping[int, Any]] = {}

    def read(self, value: Any, numbers: Any, stride: bool, notes: Notes) -> Any:
        """Return sizes or strides as ints that carry their expressions."""
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
        """Return the position of a value's first number, which precedes its sizes. Values are indexed in order of creation."""
        number = value.number
        if number == len(self.starts) - 1:
            self.starts.append(self.starts[-1] + 1 + 2 * len(value.shape))
        return self.starts[number] if number < len(self.starts) else None


class _Given(_Layouts):
    """Expressions of the sizes of arguments only."""

    def __init__(self, by_value: Mapping[int, tuple[Any, ...]]) -> None:
        self.by_value = by_value

    def read(self, value: Any, numbers: Any, stride: bool, notes: Notes) -> Any:
        """Return sizes as ints that carry their expressions, and strides unchanged."""
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


class _State:
    """The state of modules, gradients and random numbers, restored after each run."""

    def __init__(self, modules: list[Any]) -> None:
        parts = [part for module in modules for part in module.modules()]
        names = ("_parameters", "_buffers", "_modules")
        tables = [vars(part) for part in parts] + [vars(part)[name] for part in parts for name in names]
        self.tables = [(table, dict(table)) for table in tables]
        tensors = {id(t): t for part in parts for name in names[:2] for t in vars(part)[name].values() if t is not None}
        self.grads = [(t, t.grad) for t in tensors.values()]
        self.data = [(t, t.detach().clone()) for t in tensors.values() if not t.is_meta]

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Return a context that restores them on exit, and disables garbage collection inside."""
        state, collecting = mt.get_rng_state(), gc.isenabled()
        versions = [t._version for t, _ in self.data]
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()
            mt.set_rng_state(state)
            for table, saved in self.tables:
                if len(table) != len(saved) or not all(map(is_, table.values(), saved.values())) or table.keys() != saved.keys():
                    table.clear()
                    table.update(saved)
            for t, grad in self.grads:
                if t.grad is not grad:
                    t.grad = grad
            for (t, data), version in zip(self.data, versions):
                if t._version != version:
                    t.data.copy_(data)
