"""Ints and floats that know their expressions during a capture, and note comparisons and uses that cannot be followed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from metatensor.program.sizes.expressions import Expression, Real, quotient, rounded
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.lookups import integers_of

__all__ = ["Followed", "FollowedFloat", "Notes", "followed", "made_float", "made_int", "plain"]

_KEYS = 64
"""Keys of a dict or set with which a size is compared. Of larger ones only the key that is found is noted."""
_int, _float = int.__int__, float.__float__


class Notes:
    """What a run with named sizes recorded: comparisons, expressions that it computed, and uses that cannot be followed."""

    __slots__ = ("expressions", "guards", "hidden", "tables")

    def __init__(self) -> None:
        self.guards: dict[Guard, str | None] = {}
        self.expressions: dict[Any, None] = {}
        self.hidden: dict[Any, str] = {}
        """Expressions whose numbers went where nothing is noted, such as into a string, and how and where that was."""
        self.tables: dict[int, dict[str, Any]] = {}
        """The namespaces of the modules whose code computes with sizes."""

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.guards, self.expressions, self.hidden, self.tables):
            table.clear()

    def note(self, expression: Any) -> None:
        """Note an expression that the code computed."""
        self.expressions[expression] = None
        frame = _frame()
        if frame is not None:
            self.tables[id(frame.f_globals)] = frame.f_globals

    def compared(self, left: Any, relation: str, right: Any, truth: bool) -> None:
        """Record the outcome of a comparison, and its source line."""
        guard = Guard(left, relation, right) if truth else Guard(left, relation, right).negated()
        if guard not in self.guards and not _in_kernel():
            self.guards[guard] = _place()

    def hide(self, expression: Any, use: str) -> None:
        """Note a use that cannot be followed. `use` says what it is."""
        if expression not in self.hidden and not _in_kernel():
            place = _place()
            self.hidden[expression] = use if place is None else f"{use} ({place})"


def _frame() -> Any:
    """Return the frame of the code, outside of this package, that uses a number."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("metatensor.program.sizes"):
        frame = frame.f_back
    return frame


def _in_kernel() -> bool:
    """Return True in kernels of devices, which compute the values of a call that is captured."""
    frame = _frame()
    return frame is not None and frame.f_globals.get("__name__", "").startswith(("metatensor.devices.", "metatensor_"))


def _place() -> str | None:
    frame = _frame()
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def plain(value: Any) -> Any:
    """Return the expression of a number if it has one, else the number."""
    return value.expression if isinstance(value, (Followed, FollowedFloat)) else value


def made_int(value: int, expression: Any, notes: Notes) -> Any:
    """Return an int that knows its expression; a plain one if the expression is a number."""
    if not isinstance(expression, Expression):
        return _int(value)
    notes.note(expression)
    made = int.__new__(Followed, value)
    made.expression, made.notes = expression, notes
    return made


followed = made_int


def made_float(value: float, expression: Real, notes: Notes) -> Any:
    """Return a float that knows its expression."""
    made = float.__new__(FollowedFloat, value)
    made.expression, made.notes = expression, notes
    notes.note(expression)
    return made


class _Compared:
    """What followed ints and floats share. Comparisons and uses are noted; the number itself is compared."""

    expression: Any
    notes: Notes

    def __bool__(self) -> bool:
        truth = self._number() != 0
        self.notes.compared(self.expression, "!=", 0, truth)
        return bool(truth)

    def _number(self) -> Any:
        raise NotImplementedError

    def _hidden(self, use: str) -> Any:
        """Return the number for a use that cannot be followed."""
        self.notes.hide(self.expression, use)
        return self._number()

    def __hash__(self) -> int:
        number = self._number()
        keys = integers_of(_frame())
        if keys is None or len(keys) > _KEYS:
            self.notes.hide(self.expression, "as a key")
        else:
            for key in keys:
                self.notes.compared(self.expression, "==", key, number == key)
        return hash(number)

    def __str__(self) -> str:
        return str(self._hidden("in a string"))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self._hidden("in a string"), spec)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy as np

        return np.asarray(self._hidden("in an array"), *args[:1])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*[a._hidden("in an array") if isinstance(a, _Compared) else a for a in inputs], **kwargs)

    def __pos__(self) -> Any:
        return self

    __copy__ = __pos__

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __abs__(self: Any) -> Any:
        return -self if self < 0 else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _comparison(base: Any, method: str, relation: str) -> Callable[[Any, Any], Any]:
    inner = getattr(base, method)

    def compare(self: Any, other: Any) -> Any:
        truth = inner(self, other)
        if truth is NotImplemented:
            if not isinstance(other, float) or base is float:
                return truth
            truth = getattr(float, method)(float(_int(self)), other)
            if truth is NotImplemented:
                return truth
        if isinstance(truth, bool) and isinstance(other, (int, float)):
            self.notes.compared(self.expression, relation, plain(other), truth)
        return truth

    compare.__name__ = method
    return compare


class Followed(_Compared, int):
    """An int that carries its expression of sizes."""

    def _number(self) -> int:
        return _int(self)

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self._real("/", _int(self) / _bare(other), self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self._real("/", _bare(other) / _int(self), other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        if modulo is None and type(other) is int and 0 <= other <= 8:
            made: Any = 1
            for _ in range(other):
                made = self * made
            return made
        if modulo is None and not (isinstance(other, int) and other >= 0):
            return self._real("**", _int(self) ** _bare(other), self, other)
        return pow(self._hidden("as a power"), _bare(other), None if modulo is None else _bare(modulo))

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        if isinstance(other, float):
            return self._real("**", _bare(other) ** _int(self), other, self)
        return pow(_bare(other), self._hidden("as a power"), modulo)

    def __int__(self) -> int:
        return self._hidden("as a plain int")

    def __float__(self) -> float:
        self.notes.expressions[Real("float", self.expression)] = None
        return float(self._hidden("as a plain float"))

    def _real(self, op: str, value: Any, *args: Any) -> Any:
        if not isinstance(value, float):
            self._hidden(f"in {op}")
            return value
        return made_float(value, Real(op, *map(plain, args)), self.notes)

    def __neg__(self) -> Any:
        return made_int(-_int(self), -self.expression, self.notes)

    def __invert__(self) -> Any:
        return -self - 1

    def __lshift__(self, by: Any) -> Any:
        return self * 2**by if type(by) is int and 0 <= by < 62 else self._bits("__lshift__", by)

    def __rshift__(self, by: Any) -> Any:
        return self // 2**by if type(by) is int and 0 <= by < 62 else self._bits("__rshift__", by)

    def __and__(self, mask: Any) -> Any:
        if type(mask) is int and mask >= 0 and not mask & (mask + 1):
            return self % (mask + 1)
        if type(mask) is int and mask < 0 and not -mask & (-mask - 1):
            return self - self % -mask
        return self._bits("__and__", mask)

    __rand__ = __and__

    def _bits(self, method: str, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        for one in (self, other):
            if isinstance(one, Followed):
                one._hidden("in an operation on bits")
        return getattr(int, method)(_int(self), _int(other))

    def bit_length(self) -> int:
        """Return the number of bits. It has no expression."""
        return int.bit_length(self._hidden("in bit_length"))

    def bit_count(self) -> int:
        """Return the number of ones. It has no expression."""
        return self._hidden("in bit_count").bit_count()

    def to_bytes(self, *args: Any, **kwargs: Any) -> bytes:
        """Return the bytes. They have no expression."""
        return self._hidden("as bytes").to_bytes(*args, **kwargs)

    @property
    def real(self) -> Any:
        """The int itself."""
        return self

    numerator = real

    def conjugate(self) -> Any:
        """Return the int itself."""
        return self

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        if digits is None or digits >= 0:
            return self
        return round(self._hidden("in round"), digits)

    def __reduce__(self) -> Any:
        return int, (_int(self),)


class FollowedFloat(_Compared, float):
    """A float with the expression of sizes that it is."""

    def _number(self) -> float:
        return _float(self)

    def __ceil__(self) -> Any:
        return made_int(math.ceil(_float(self)), rounded("ceil", self.expression), self.notes)

    def __floor__(self) -> Any:
        return made_int(math.floor(_float(self)), rounded("floor", self.expression), self.notes)

    def __trunc__(self) -> Any:
        return made_int(math.trunc(_float(self)), rounded("int", self.expression), self.notes)

    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return made_int(round(_float(self)), rounded("round", self.expression), self.notes)
        if isinstance(digits, Followed):
            digits = digits._hidden("in round")
        return made_float(round(_float(self), digits), Real("round", self.expression, digits), self.notes)

    def __int__(self) -> int:
        self.notes.hide(rounded("int", self.expression), "as a plain int")
        self.notes.expressions[rounded("int", self.expression)] = None
        return int(_float(self))

    def __neg__(self) -> Any:
        return self * -1

    def is_integer(self) -> bool:
        """Return whether the float is an integer."""
        return bool(self == self.__trunc__())

    def hex(self) -> str:
        """Return the float as text. It has no expression."""
        return self._hidden("in a string").hex()

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return the float as a fraction. Its parts have no expressions."""
        return self._hidden("as a fraction").as_integer_ratio()

    def __reduce__(self) -> Any:
        return float, (_float(self),)


def _bare(value: Any) -> Any:
    """Return a number without its expression."""
    return value._number() if isinstance(value, _Compared) else value


def _operation(method: str, function: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    inner = getattr(int, method)
    name = method.strip("_")
    sign = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}[name[1:] if swapped else name]

    def operate(self: Any, other: Any) -> Any:
        value = inner(self, other)
        if value is NotImplemented:
            if isinstance(other, (list, tuple, str, bytes, bytearray)) and sign == "*":
                self.notes.hide(self.expression, "as the length of a sequence")
            if not isinstance(other, float):
                return value
            found = getattr(float, method)(float(_int(self)), _float(other))
            return self._real(sign, found, *((other, self) if swapped else (self, other)))
        a, b = plain(self), plain(other)
        if isinstance(other, bool):
            b = _int(b)
        return made_int(value, function(b, a) if swapped else function(a, b), self.notes)

    operate.__name__ = method
    return operate


def _float_operation(method: str, op: str, swapped: bool) -> Callable[[Any, Any], Any]:
    inner = getattr(float, method)

    def operate(self: Any, other: Any, modulo: None = None) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        value = inner(_float(self), _bare(other))
        if not isinstance(value, float):
            self._hidden(f"in {op}")
            return value
        return made_float(value, Real(op, *map(plain, (other, self) if swapped else (self, other))), self.notes)

    operate.__name__ = method
    return operate


def _bitwise(method: str) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        return self._bits(method, other)

    operate.__name__ = method
    return operate


def _remainder(a: Any, b: Any) -> Any:
    return a % b if isinstance(a, Expression) else Expression({(("%", a, b),): 1})


for _name, _function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b),
                         ("floordiv", quotient), ("mod", _remainder)):  # fmt: skip
    setattr(Followed, f"__{_name}__", _operation(f"__{_name}__", _function, False))
    setattr(Followed, f"__r{_name}__", _operation(f"__r{_name}__", _function, True))
for _name in ("or", "xor", "ror", "rxor", "rlshift", "rrshift"):
    setattr(Followed, f"__{_name}__", _bitwise(f"__{_name}__"))
for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("pow", "**"), ("floordiv", "//"), ("mod", "%")):
    setattr(FollowedFloat, f"__{_name}__", _float_operation(f"__{_name}__", _sign, False))
    setattr(FollowedFloat, f"__r{_name}__", _float_operation(f"__r{_name}__", _sign, True))
for _name, _sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    setattr(Followed, f"__{_name}__", _comparison(int, f"__{_name}__", _sign))
    setattr(FollowedFloat, f"__{_name}__", _comparison(float, f"__{_name}__", _sign))
