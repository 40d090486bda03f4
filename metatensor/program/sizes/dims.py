"""The named sizes of arguments, and the creation of arguments of other sizes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.capture import Value
from metatensor._core.tensor import Tensor
from metatensor.program.argument_names import label, parameters_of
from metatensor.program.sizes.expressions import FUNCTIONS, Expression, ExpressionError, evaluate, names_in, parse

__all__ = ["Named", "by_place", "pairs", "range_text", "ranges_of", "resized", "solved"]


def ranges_of(sizes: Any) -> dict[str, range]:
    """Return the range of each name. Raise TypeError or ValueError if `sizes` is invalid."""
    if not isinstance(sizes, Mapping) or not sizes:
        raise TypeError(f"trace: sizes must be a dict of names and ranges, such as {{'batch': (1, 64)}}, got {sizes!r:.80}")
    found = {}
    for name, given in sizes.items():
        if not isinstance(name, str) or not name.isidentifier() or name in FUNCTIONS:
            raise ValueError(f"trace: the name of a size must be an identifier, got {name!r:.60}")
        if isinstance(given, range):
            made = given if given.step > 0 else given[::-1]
        elif isinstance(given, (tuple, list)) and len(given) == 2 and all(type(n) is int for n in given):
            made = range(given[0], given[1] + 1)
        else:
            raise TypeError(f"trace: the size {name!r} needs a range, or its least and its greatest value, got {given!r:.60}")
        if not made or made[0] < 0:
            raise ValueError(f"trace: the range of the size {name!r} must have values, none of them negative, got {given!r:.60}")
        found[name] = made
    return found


class Named:
    """Arguments of a call in which some sizes have names.

    Parameters
    ----------
    fn : callable
        The callable; `dims` may use the names of its parameters.
    args, kwargs : tuple and dict
        The arguments.
    dims : dict or sequence
        For each argument, by name or position, the names of its sizes.
    ranges : dict of range
        The sizes that each name may have.
    """

    def __init__(self, fn: Any, args: tuple, kwargs: dict[str, Any], dims: Any, ranges: Mapping[str, range]) -> None:
        self.args, self.kwargs, self.ranges = args, kwargs, ranges
        self._names = parameters_of(fn)
        specs = by_place(fn, args, kwargs, dims)
        self.specs = {key: _spec(spec, args[key] if isinstance(key, int) else kwargs[key], self._shown(key), ranges)
                      for key, spec in specs.items()}  # fmt: skip
        _shared([(self.specs.get(key), value, self._shown(key)) for key, value in (*enumerate(args), *kwargs.items())])
        found = list(self._constraints())
        used = {name for expression, _, _ in found for name in names_in(expression)}
        for name in ranges:
            if name not in used:
                raise ValueError(f"trace: no dimension in dims has the size {name!r}")
        try:
            self.base = solved(found, ranges)
        except ValueError as error:
            raise ValueError(f"trace: {error}") from None
        for name, size in self.base.items():
            if size not in ranges[name]:
                raise ValueError(f"trace: the arguments have {name}={size}, which is not in {range_text(ranges[name])}")

    def _constraints(self) -> Iterator[tuple[Any, int, str]]:
        for key, spec in self.specs.items():
            yield from _equations(spec, self.args[key] if isinstance(key, int) else self.kwargs[key], self._shown(key))

    def _shown(self, key: Any) -> str:
        """Return an argument with the name of the parameter that takes it."""
        return f"argument {self._names[key] if isinstance(key, int) and key < len(self._names) else key!r}"

    def at(self, sizes: Mapping[str, Any], number: Any = evaluate) -> tuple[tuple, dict[str, Any]]:
        """Return arguments of the given sizes. `number` converts the expression of an int argument to the argument."""
        args, kwargs = list(self.args), dict(self.kwargs)
        made: dict[int, Tensor] = {}
        for key, spec in self.specs.items():
            if isinstance(key, int):
                args[key] = _at(spec, args[key], sizes, number, made)
            else:
                kwargs[key] = _at(spec, kwargs[key], sizes, number, made)
        return tuple(args), kwargs


def range_text(sizes: range) -> str:
    """Return a range as text, with both ends."""
    return f"{sizes[0]}..{sizes[-1]}" + (f" step {sizes.step}" if sizes.step != 1 else "")


def by_place(fn: Any, args: tuple, kwargs: Mapping[str, Any], dims: Any) -> dict[Any, Any]:
    """Return `dims` as a dict keyed by the index or keyword of each argument."""
    if isinstance(dims, (list, tuple)):
        if len(dims) > len(args):
            raise ValueError(f"trace: dims has {len(dims)} entries for {len(args)} positional arguments")
        return {i: spec for i, spec in enumerate(dims) if spec is not None}
    if not isinstance(dims, Mapping):
        raise TypeError("trace: dims must say which dimensions have names, such as dims={'x': ['batch', None]}, "
                        f"got {type(dims).__name__}")  # fmt: skip
    names = parameters_of(fn)
    found: dict[Any, Any] = {}
    for key, spec in dims.items():
        place = key if isinstance(key, int) or key in kwargs else names.index(key) if key in names else -1
        if isinstance(place, int) and not 0 <= place < len(args):
            known = ", ".join([*names[: len(args)], *kwargs])
            raise ValueError(f"trace: dims names {key!r}, which is not an argument of the call{f'; these are {known}' if known else ''}")
        if spec is not None:
            found[place] = spec
    return found


def _expression(given: Any, where: str, ranges: Mapping[str, range]) -> Any:
    """Return the expression of one size, or None if it is fixed."""
    if given is None or type(given) is int:
        return None
    if not isinstance(given, (str, Expression)):
        raise TypeError(f"trace: dims of {where}: expected the name of a size, an expression or None, got {given!r:.60}")
    try:
        found = parse(given) if isinstance(given, str) else given
    except ExpressionError as error:
        raise ValueError(f"trace: dims of {where}: {error}") from None
    if not isinstance(found, Expression):
        raise ValueError(f"trace: dims of {where}: {given!r:.60} has no name of a size")
    for name in names_in(found):
        if name not in ranges:
            raise ValueError(f"trace: dims of {where}: there is no size {name!r} in sizes, which has {', '.join(ranges)}")
    return found


def _spec(spec: Any, value: Any, where: str, ranges: Mapping[str, range]) -> Any:
    """Return a description with expressions: a tuple for a tensor, an expression for an int, a dict or list for others."""
    if spec is None:
        return None
    if isinstance(value, Tensor):
        items = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else None
        if items is None:
            raise TypeError(f"trace: dims of {where} must be a list with an entry for each dimension, or a dict, got {spec!r:.60}")
        if not isinstance(spec, Mapping) and len(items) != value.dim():
            raise ValueError(f"trace: dims of {where} has {len(items)} entries for {value.dim()} dimensions")
        made: list[Any] = [None] * value.dim()
        for dim, given in items.items():
            if type(dim) is not int or not -value.dim() <= dim < value.dim():
                raise ValueError(f"trace: dims of {where}: there is no dimension {dim!r:.20} in a tensor of {value.dim()}")
            made[dim] = _expression(given, where, ranges)
        return tuple(made)
    if type(value) is int:
        return _expression(spec, where, ranges)
    items = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else None
    if items is None:
        raise TypeError(f"trace: dims of {where}: {spec!r:.60} does not describe an object of class {type(value).__name__}")
    found = {}
    for key, inner in items.items():
        try:
            item = _item(value, key)
        except (KeyError, IndexError, AttributeError, TypeError):
            raise ValueError(f"trace: dims of {where}: there is no {key!r:.40} in it") from None
        found[key] = _spec(inner, item, f"{where}[{key!r}]", ranges)
    return found


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        return value[key]
    return getattr(value, key)


def _equations(spec: Any, value: Any, where: str) -> Iterator[tuple[Any, int, str]]:
    """Yield expressions, the numbers that they must equal, and where they occur."""
    if isinstance(spec, tuple):
        for dim, expression in enumerate(spec):
            if expression is not None:
                yield expression, int(value.shape[dim]), f"size {dim} of {where}"
    elif isinstance(spec, Expression):
        yield spec, value, where
    elif isinstance(spec, dict):
        for key, inner in spec.items():
            yield from _equations(inner, _item(value, key), f"{where}[{key!r}]")


def _shared(given: list[tuple[Any, Any, str]]) -> None:
    """Raise ValueError if a tensor that is given several times has other names in one place than in another."""
    seen: dict[int, tuple[Any, str]] = {}

    def visit(spec: Any, value: Any, where: str) -> None:
        if isinstance(value, Tensor):
            spec = spec or (None,) * value.dim()
            other, place = seen.setdefault(id(value), (spec, where))
            if other != spec:
                raise ValueError(f"trace: {where} is the same tensor as {place}, and must have the same names in dims")
        elif isinstance(value, (list, tuple, dict)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                visit(spec.get(key) if isinstance(spec, dict) else None, item, f"{where}[{key!r}]")

    for one in given:
        visit(*one)


def _at(spec: Any, value: Any, sizes: Mapping[str, int], number: Any, known: dict[int, Tensor]) -> Any:
    """Return an argument at sizes. `known` maps the id of a tensor to the tensor that replaces it."""
    if spec is None:
        return value
    if isinstance(spec, tuple):
        if id(value) not in known:
            known[id(value)] = resized(value, [n if e is None else evaluate(e, sizes) for e, n in zip(spec, value.shape)])
        return known[id(value)]
    if isinstance(spec, Expression):
        return number(spec, sizes)
    made = copy.copy(value)
    if isinstance(value, (list, tuple)):
        items = [_at(spec.get(i), item, sizes, number, known) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    for key, inner in spec.items():
        now = _at(inner, _item(value, key), sizes, number, known)
        if isinstance(made, dict):
            made[key] = now
        if not isinstance(made, dict) or dataclasses.is_dataclass(made):
            object.__setattr__(made, key, now)
    return made


def resized(t: Tensor, shape: list[int]) -> Tensor:
    """Return a tensor of another shape with the values of `t`, repeated where it is larger, and `t`'s memory order of dimensions."""
    if list(t.shape) == shape:
        return t
    strides = t.stride()
    order = sorted(range(t.dim()), key=lambda dim: (-strides[dim], dim))
    if t.is_contiguous():
        order = list(range(t.dim()))
    made = mt.empty([shape[dim] for dim in order], dtype=t.dtype, device=t.device)
    made = made.permute([order.index(dim) for dim in range(t.dim())])
    if not t.is_meta:
        with mt.no_grad():
            data = t.detach()
            for dim, n in enumerate(shape):
                if n != t.shape[dim]:
                    if not t.shape[dim]:
                        raise ValueError("trace: a sample with data must have elements in dimensions with names")
                    data = data.index_select(dim, mt.arange(n, device=t.device) % t.shape[dim])
            made.copy_(data)
    return made.requires_grad_() if t.requires_grad else made


# The sizes of a call ---------------------------------------------------------------------------------------


def pairs(wanted: Any, got: Any, where: str = "the arguments", names: Sequence[str] = ()) -> Iterator[tuple[Any, Any, str]]:
    """Yield each value or number in a program's arguments with the corresponding argument of a call. Mismatches are skipped.

    `names` has the names of positional arguments.
    """
    if isinstance(wanted, Value):
        if isinstance(got, Tensor) and got.dim() == len(wanted.shape):
            for dim, (n, m) in enumerate(zip(wanted.shape, got.shape)):
                yield n, int(m), f"size {dim} of {where}"
    elif isinstance(wanted, int):
        if isinstance(got, int):
            yield wanted, got, where
    elif isinstance(wanted, dict) and isinstance(got, dict):
        for key in wanted:
            if key in got:
                yield from pairs(wanted[key], got[key], f"argument {key!r}" if where == "the arguments" else f"{where}[{key!r}]")
    elif isinstance(wanted, (list, tuple)) and isinstance(got, (list, tuple)):
        for i, (one, other) in enumerate(zip(wanted, got)):
            yield from pairs(one, other, label(names, i) if where == "the arguments" else f"{where}[{i}]")
    elif hasattr(wanted, "__dict__") and not callable(wanted):
        yield from pairs(vars(wanted), got if isinstance(got, dict) else getattr(got, "__dict__", {}), where)


def solved(equations: Any, names: Mapping[str, Any]) -> dict[str, int]:
    """Solve equations, each an expression and the number that it must equal, for the named sizes.

    Raises
    ------
    ValueError
        If there is no solution, or an expression of several names does not determine them.
    """
    equations = list(equations)
    found: dict[str, int] = {}
    for _ in range(len(names) + 1):
        for expression, number, where in equations:
            unknown = {name for name in names_in(expression) if name not in found}
            if len(unknown) != 1:
                continue
            name = unknown.pop()
            size = _solve(expression, number, name, found)
            if size is not None:
                found[name] = size
            elif expression == parse(name):
                raise ValueError(f"{where} is {number}, which is not a size")
    for name in names:
        if name not in found:
            raise ValueError(f"the size {name!r} is not determined by the arguments; it must be a dimension of its own, or be in a sum "
                             "or product with numbers and other names; quotients and the like alone do not tell it")  # fmt: skip
    for expression, number, where in equations:
        if evaluate(expression, found) != number:
            known = ", ".join(f"{name}={found[name]}" for name in dict.fromkeys(names_in(expression)))
            raise ValueError(f"{where} is {number}, and must be {expression} = {evaluate(expression, found)} with {known}")
    return found


def _solve(expression: Expression, number: int, name: str, found: Mapping[str, int]) -> int | None:
    """Solve a polynomial, which must be linear in `name`, for the name's size. Return None if there is no solution."""
    factor = rest = 0
    for product, by in expression.terms.items():
        if name in product and product.count(name) == 1 and not any(name in names_in(Expression({(a,): 1})) for a in product if a != name):
            others = [a for a in product if a != name]
            factor += evaluate(Expression({tuple(others): by}), found) if others else by
        elif any(name in names_in(Expression({(a,): 1})) for a in product):
            return None
        else:
            rest += evaluate(Expression({product: by}), found) if product else by
    if not factor or (number - rest) % factor or (number - rest) // factor < 0:
        return None
    return (number - rest) // factor
