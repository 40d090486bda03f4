"""Ints that carry their expressions during a capture, and record comparisons."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from metatensor.program.sizes.expressions import Expression, Real, quotient
from metatensor.program.sizes.guards import Guard

__all__ = ["Followed", "FollowedFloat", "Notes", "followed", "plain"]


class Notes:
    """The records of a run with named sizes: comparisons, and computed expressions."""

    def __init__(self) -> None:
        self.guards: dict[Guard, str | None] = {}
        self.expressions: dict[Any, None] = {}

    def compared(self, left: Any, relation: str, right: Any, truth: bool) -> None:
        """Record the outcome of a comparison, and its source line."""
        guard = Guard(left, relation, right) if truth else Guard(left, relation, right).negated()
        if guard not in self.guards:
            self.guards[guard] = _place()


def _place() -> str | None:
    """Return the file and line of the innermost code outside of this package."""
    frame: Any = sys._getframe(3)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("metatensor.program.sizes"):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def plain(value: Any) -> Any:
    """Return the expression of a number if it has one, else the number."""
    return value.expression if isinstance(value, (Followed, FollowedFloat)) else value


def _int(value: int, expression: Any, notes: Notes) -> Any:
    if not isinstance(expression, Expression):
        return int(value)
    notes.expressions[expression] = None
    made = int.__new__(Followed, value)
    made.expression, made.notes = expression, notes
    return made


def _float(value: float, expression: Real, notes: Notes) -> Any:
    made = float.__new__(FollowedFloat, value)
    made.expression, made.notes = expression, notes
    notes.expressions[expression] = None
    return made


class _Compared:
    """Comparison operators that record their outcome. The number itself is compared."""

    expression: Any
    notes: Notes

    def __bool__(self) -> bool:
        truth = self._number() != 0
        self.notes.compared(self.expression, "!=", 0, truth)
        return truth

    def _number(self) -> Any:
        raise NotImplementedError

    def __hash__(self) -> int:
        return hash(self._number())


def _comparison(base: type, method: str, relation: str) -> Callable[[Any, Any], Any]:
    inner = getattr(base, method)

    def compare(self: Any, other: Any) -> Any:
        truth = inner(self, other)
        if truth is NotImplemented:
            other_base = float if isinstance(other, float) else None
            if other_base is None or base is float:
                return truth
            truth = getattr(float, method)(float(int(self)), other)
        if isinstance(truth, bool) and isinstance(other, (int, float)):
            self.notes.compared(self.expression, relation, plain(other), truth)
        return truth

    compare.__name__ = method
    return compare


class Followed(_Compared, int):
    """An int that carries its expression of sizes."""

    def _number(self) -> int:
        return int.__int__(self)

    def __truediv__(self, other: Any) -> Any:
        return self._real("/", int.__truediv__(self, int(other)) if isinstance(other, int) else float(int(self)) / other
                          if isinstance(other, float) else NotImplemented, self, other)  # fmt: skip

    def __rtruediv__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self._real("/", other / int(self), other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None or not isinstance(other, (int, float)):
            return NotImplemented if modulo is None else pow(int(self), other, modulo)
        if type(other) is int and 0 <= other <= 8:
            made: Any = 1
            for _ in range(other):
                made = self * made
            return made
        return self._real("**", int(self) ** other, self, other)

    def __float__(self) -> float:
        return float(int.__int__(self))

    def _real(self, op: str, value: Any, *args: Any) -> Any:
        if value is NotImplemented or not isinstance(value, float):
            return value
        return _float(value, Real(op, *map(plain, args)), self.notes)

    def __neg__(self) -> Any:
        return _int(-int.__int__(self), -self.expression, self.notes)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    __copy__ = __ceil__

    def __reduce__(self) -> Any:
        return int, (int.__int__(self),)


class FollowedFloat(_Compared, float):
    """A float that carries its expression of sizes."""

    def _number(self) -> float:
        return float.__float__(self)

    def __ceil__(self) -> Any:
        return self._whole(math.ceil(self._number()), True)

    def __floor__(self) -> Any:
        return self._whole(math.floor(self._number()), False)

    def _whole(self, value: int, up: bool) -> Any:
        """Return a quotient that is rounded, as an expression if its operands are ints."""
        real = self.expression
        if real.op == "/" and all(isinstance(a, (int, Expression)) for a in real.args):
            a, b = real.args
            return _int(value, -quotient(-a, b) if up and not isinstance(b, int) else quotient(a + (b - 1), b) if up else quotient(a, b),
                        self.notes)  # fmt: skip
        return value

    def __reduce__(self) -> Any:
        return float, (float.__float__(self),)


def _operation(method: str, function: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    inner = getattr(int, method)

    def operate(self: Any, other: Any) -> Any:
        value = inner(self, other)
        if value is NotImplemented:
            if not isinstance(other, float):
                return value
            sign = {"add": "+", "radd": "+", "sub": "-", "rsub": "-", "mul": "*", "rmul": "*"}.get(method.strip("_"))
            found = getattr(float, method)(float(int(self)), other)
            return found if sign is None else self._real(sign, found, *((other, self) if swapped else (self, other)))
        a, b = plain(self), plain(other)
        if isinstance(other, bool):
            b = int(b)
        return _int(value, function(b, a) if swapped else function(a, b), self.notes)

    operate.__name__ = method
    return operate


def _float_operation(method: str, op: str, swapped: bool) -> Callable[[Any, Any], Any]:
    inner = getattr(float, method)

    def operate(self: Any, other: Any) -> Any:
        value = inner(self, other)
        if not isinstance(value, float) or not isinstance(other, (int, float)):
            return value
        return _float(value, Real(op, *map(plain, (other, self) if swapped else (self, other))), self.notes)

    operate.__name__ = method
    return operate


def _remainder(a: Any, b: Any) -> Any:
    return a % b if isinstance(a, Expression) else Expression({(("%", a, b),): 1})


for _name, _function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b),
                         ("floordiv", quotient), ("mod", _remainder)):  # fmt: skip
    setattr(Followed, f"__{_name}__", _operation(f"__{_name}__", _function, False))
    setattr(Followed, f"__r{_name}__", _operation(f"__r{_name}__", _function, True))
for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("pow", "**")):
    setattr(FollowedFloat, f"__{_name}__", _float_operation(f"__{_name}__", _sign, False))
    setattr(FollowedFloat, f"__r{_name}__", _float_operation(f"__r{_name}__", _sign, True))
for _name, _sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    setattr(Followed, f"__{_name}__", _comparison(int, f"__{_name}__", _sign))
    setattr(FollowedFloat, f"__{_name}__", _comparison(float, f"__{_name}__", _sign))


def followed(value: int, expression: Any, notes: Notes) -> Any:
    """Return an int that carries its expression, or a plain int if the expression is a number."""
    return _int(value, expression, notes)


