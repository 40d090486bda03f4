"""Functions of Python that read ints and floats in C. During a capture they are replaced by versions that follow expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.program.sizes.expressions import Expression, Real
from metatensor.program.sizes.tracking import Followed, FollowedFloat, made_float, made_int, plain

__all__ = ["following"]

_REAL = ("sqrt", "log", "log2", "log10", "exp", "sin", "cos", "tanh")
"""Functions of `math` with one argument that expressions have."""
_KNOWN = (Followed, FollowedFloat)


class _Kind(type):
    """The class of replacements for classes: their instances and subclasses are those of the class itself."""

    of: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.of)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.of)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.of

    def __hash__(cls) -> int:
        return hash(cls.of)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.of, name)

    def __repr__(cls) -> str:
        return repr(cls.of)


class _Int(metaclass=_Kind):
    of = int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return an int, with its expression if it has one."""
        if len(args) == 1 and isinstance(args[0], _KNOWN):
            return args[0].__trunc__()
        return int(*args, **kwargs)


class _Float(metaclass=_Kind):
    of = float

    def __new__(cls, *args: Any) -> Any:
        """Return a float, with its expression if it has one."""
        if len(args) == 1 and isinstance(args[0], Followed):
            a = args[0]
            return made_float(float(a._number()), Real("float", a.expression), a.notes)
        return args[0] if len(args) == 1 and isinstance(args[0], FollowedFloat) else float(*args)


class _Range(metaclass=_Kind):
    of = range

    def __new__(cls, *args: Any) -> Any:
        """Return a range, after noting its length where that depends on sizes."""
        if not any(isinstance(a, Followed) for a in args):
            return range(*args)
        bare = [a._number() if isinstance(a, Followed) else a for a in args]
        made = range(*bare)
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if isinstance(step, int) and not isinstance(step, Followed):  # the items are plain numbers, and so is how many there are
            length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
            if isinstance(length, Followed):
                bool(length == len(made) if made else length <= 0)
        for one, what in ((start, "start"), (step, "step"), *([(stop, "end")] if isinstance(step, Followed) else [])):
            if isinstance(one, Followed):
                one.notes.hide(one.expression, f"as the {what} of a range")
        return made


def _math(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        given = [a for a in args if isinstance(a, _KNOWN)]
        if not given:
            return inner(*args, **kwargs)
        first = given[0]
        bare = [a._number() if isinstance(a, _KNOWN) else a for a in args]
        value = inner(*bare, **kwargs)
        whole = all(isinstance(plain(a), (int, Expression)) for a in args)
        if name in _REAL and len(args) == 1:
            return made_float(value, Real(name, plain(args[0])), first.notes)
        if name == "log" and len(args) == 2:
            parts = [Real("log", plain(a)) if isinstance(a, _KNOWN) else inner(a) for a in args]
            return made_float(value, Real("/", *parts), first.notes)
        if name in ("gcd", "isqrt") and whole and len(args) == (2 if name == "gcd" else 1):
            return made_int(value, Expression({((name, *map(plain, args)),): 1}), first.notes)
        for one in given:
            one.notes.hide(one.expression, f"in math.{name}")
        return value

    function.__name__ = name
    return function


_ROUNDING = ("ceil", "floor", "trunc", "prod")
"""Functions that call methods of their arguments, which follow."""
_FUNCTIONS: dict[int, Any] = {
    id(inner): _math(name, inner) for name, inner in vars(math).items()
    if callable(inner) and not name.startswith("_") and name not in _ROUNDING
}  # fmt: skip
_ORIGINAL = {name: inner for name, inner in vars(math).items() if id(inner) in _FUNCTIONS}
_CLASSES = {"int": _Int, "float": _Float, "range": _Range}


@contextmanager
def following(tables: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Return a context in which the functions of `math`, and in modules also `int`, `float` and `range`, follow expressions.

    `tables` are the dicts of these modules. Numbers without an expression are treated as always.
    """
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, inner in _ORIGINAL.items():
            replaced.append((vars(math), name, inner))
            vars(math)[name] = _FUNCTIONS[id(inner)]
        for table in tables:
            for name, value in list(table.items()):
                made = _FUNCTIONS.get(id(value))
                if made is not None:
                    replaced.append((table, name, value))
                    table[name] = made
            for name, kind in _CLASSES.items():
                if name not in table:
                    replaced.append((table, name, None))
                    table[name] = kind
        yield
    finally:
        for table, name, value in reversed(replaced):
            if value is None:
                table.pop(name, None)
            else:
                table[name] = value
