"""TorchScript's functions on numbers, strings, lists and dicts, and those that query properties of a tensor.

Each takes the interpreter's budget first. Integers have 64 bits. A result that can be large is charged to the budget before it is created.
"""

from __future__ import annotations

import cmath
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.aten.codes import dtype_code

__all__ = ["CONTAINERS", "PRIM", "SCALARS"]

SCALARS: dict[str, Callable[..., Any]] = {}
"""Functions in ``torch.*`` that are called if the first argument is not a tensor."""
CONTAINERS = frozenset((
    "append", "extend", "insert", "pop", "clear", "remove", "reverse", "copy", "list", "__getitem__", "_set_item", "Delete", "keys",
    "values", "items", "get", "setdefault", "update", "popitem", "dict", "__contains__", "len", "index", "count", "__is__", "__isnot__",
))  # fmt: skip
"""The subset that is called even if another argument is a tensor."""
PRIM: dict[str, Callable[..., Any]] = {}
"""Functions in ``ops.prim.*``."""


def _into(table: dict[str, Callable[..., Any]], function: Callable[..., Any], *names: str) -> None:
    for name in names:
        table[name] = function


def _scalar(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _into(SCALARS, function, *names)
        return function

    return decorate


def _prim(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _into(PRIM, function, *names)
        return function

    return decorate


def wrapped(value: Any) -> Any:
    """Return an integer with 64 bits, and any other value unchanged."""
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return value


# Numbers ---------------------------------------------------------------------------------------------


@_scalar("add", "add_")
def _add(budget: Any, a: Any, b: Any) -> Any:
    if isinstance(a, (list, str)):
        budget.grow(len(a) + len(b))
    if isinstance(a, list) != isinstance(b, list) or isinstance(a, str) != isinstance(b, str):
        raise TypeError(f"add: {type(a).__name__} and {type(b).__name__}")
    return wrapped(a + b)


@_scalar("mul", "mul_")
def _mul(budget: Any, a: Any, b: Any) -> Any:
    if isinstance(b, (list, str)):
        a, b = b, a
    if isinstance(a, (list, str)):
        if type(b) is not int:
            raise TypeError("mul: a list is repeated by an int")
        budget.grow(len(a) * max(b, 0))
    return wrapped(a * b)


@_scalar("pow")
def _pow(budget: Any, a: Any, b: Any) -> Any:
    if isinstance(a, complex) or isinstance(b, complex):
        return a**b
    if type(a) is int and type(b) is int:
        return float(a) ** b
    return math.pow(a, b)


@_prim("pow")
def _pow_int(budget: Any, a: Any, b: Any) -> Any:
    return _pow(budget, a, b)


@_scalar("__lshift__")
def _shift_left(budget: Any, a: int, b: int) -> Any:
    return wrapped(a << b) if 0 <= b < 64 else 0


@_scalar("factorial")
def _factorial(budget: Any, a: int) -> int:
    if not 0 <= a <= 20:
        raise RuntimeError(f"factorial of {a} is not an integer of 64 bits")
    return math.factorial(a)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda budget, *args: wrapped(function(*args))


def _divided(a: Any, b: Any) -> Any:
    if b == 0 and not isinstance(a, complex) and not isinstance(b, complex):
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _rounded(a: Any, digits: int | None = None) -> float:
    return float(round(a) if digits is None else round(a, digits)) if math.isfinite(a) else a


_PLAIN: dict[str, Callable[..., Any]] = {
    "sub": operator.sub, "div": _divided, "floordiv": operator.floordiv, "remainder": operator.mod, "fmod": math.fmod, "neg": operator.neg,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_, "__or__": operator.or_,
    "__xor__": operator.xor, "__rshift__": lambda a, b: a >> min(b, 63) if b >= 0 else 0, "__not__": operator.not_,
    "bitwise_not": operator.invert,
    "abs": abs, "floor": math.floor, "ceil": math.ceil, "round": _rounded, "divmod": divmod, "gcd": math.gcd, "copysign": math.copysign,
    "mathremainder": math.remainder, "modf": math.modf, "frexp": math.frexp, "ldexp": math.ldexp, "fabs": math.fabs, "atan2": math.atan2,
    "isnan": lambda a: a != a, "isinf": lambda a: abs(a) == math.inf, "isfinite": lambda a: a == a and abs(a) != math.inf,
    "degrees": math.degrees, "radians": math.radians, "Int": int, "Float": float, "Bool": bool, "Complex": complex,
    "real": lambda a: a.real, "imag": lambda a: a.imag, "angle": cmath.phase, "polar": cmath.rect, "ScalarImplicit": lambda a: a,
    "IntImplicit": int, "FloatImplicit": float, "is_floating_point": lambda a: isinstance(a, float),
}  # fmt: skip
for _name, _function in _PLAIN.items():
    _into(SCALARS, _plain(_function), _name)


def _math(name: str) -> Callable[..., Any]:
    def function(budget: Any, *args: Any) -> Any:
        if any(isinstance(a, complex) for a in args):
            return getattr(cmath, name)(*args)
        try:
            return getattr(math, name)(*args)
        except OverflowError:
            return math.inf

    return function


for _name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
              "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma"):  # fmt: skip
    _into(SCALARS, _math(_name), _name)


@_scalar("__range_length")
def _range_length(budget: Any, lo: int, hi: int, step: int) -> int:
    return len(range(lo, hi, step))


_into(SCALARS, lambda budget, index, start, step: wrapped(start + index * step), "__derive_index")


# Comparisons -----------------------------------------------------------------------------------------


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, mt.Tensor) or isinstance(b, mt.Tensor):
        return a is b or (isinstance(a, mt.Tensor) and isinstance(b, mt.Tensor) and bool((a == b).all()))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


_into(SCALARS, lambda budget, a, b: _equal(a, b), "eq")
_into(SCALARS, lambda budget, a, b: not _equal(a, b), "ne")


def _is(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (int, float, str)) and a == b)


_into(SCALARS, lambda budget, a, b: _is(a, b), "__is__")
_into(SCALARS, lambda budget, a, b: not _is(a, b), "__isnot__")


# Lists and dicts --------------------------------------------------------------------------------------


@_scalar("append")
def _append(budget: Any, a: list, b: Any) -> list:
    a.append(b)
    return a


@_scalar("extend")
def _extend(budget: Any, a: list, b: Any) -> None:
    budget.grow(len(b))
    a.extend(b)


@_scalar("pop")
def _pop(budget: Any, a: Any, *rest: Any) -> Any:
    if isinstance(a, list) and not rest:
        rest = (-1,)
    return a.pop(*rest)


@_scalar("_set_item")
def _set_item(budget: Any, a: Any, key: Any, value: Any) -> Any:
    a[key] = value
    return a


@_scalar("Delete")
def _delete(budget: Any, a: Any, key: Any) -> None:
    del a[key]


@_scalar("__contains__")
def _contains(budget: Any, a: Any, b: Any) -> bool:
    if isinstance(a, list):
        budget.grow(len(a))
        return any(_equal(one, b) for one in a)
    return b in a


@_scalar("slice")
def _slice(budget: Any, a: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    budget.grow(len(a))
    return a[start:end:step]


@_scalar("list", "copy")
def _copied(budget: Any, a: Any = ()) -> Any:
    budget.grow(len(a))
    return dict(a) if isinstance(a, dict) else list(a)


@_scalar("dict")
def _dict(budget: Any, a: Any = ()) -> Any:
    budget.grow(len(a))
    return dict(a)


for _name in ("keys", "values", "items"):
    _into(SCALARS, lambda budget, a, name=_name: (budget.grow(len(a)), list(getattr(dict, name)(a)))[1], _name)
for _name in ("insert", "clear", "remove", "reverse", "count", "index", "get", "setdefault", "update", "popitem"):
    _into(SCALARS, lambda budget, a, *rest, name=_name: _method(budget, a, name, rest), _name)


def _method(budget: Any, a: Any, name: str, rest: Any) -> Any:
    if not isinstance(a, (list, dict, str)):
        raise NotImplementedError(f"torch.{name} of {type(a).__name__}")
    budget.grow(len(a))
    if isinstance(a, list) and name in ("remove", "index", "count") and any(isinstance(one, mt.Tensor) for one in a):
        places = [i for i, one in enumerate(a) if _equal(one, rest[0])]
        if name == "count":
            return len(places)
        if not places:
            raise ValueError(f"{name}: the list does not contain the element")
        return places[0] if name == "index" else a.pop(places[0]) and None
    return getattr(type(a), name)(a, *rest)


@_scalar("len")
def _len(budget: Any, a: Any) -> int:
    return len(a)


@_scalar("__getitem__")
def _getitem(budget: Any, a: Any, key: Any) -> Any:
    return a[key]


@_scalar("sort")
def _sort(budget: Any, a: list, reverse: bool = False) -> None:
    budget.grow(len(a))
    a.sort(reverse=reverse)


@_scalar("sorted")
@_prim("sorted")
def _sorted(budget: Any, a: Any, reverse: bool = False) -> list:
    budget.grow(len(a))
    return sorted(a, reverse=reverse)


@_prim("rangelist")
def _rangelist(budget: Any, n: int) -> list:
    budget.grow(max(n, 0))
    return list(range(n))


_into(SCALARS, lambda budget, a: sum(a), "sum")
_into(SCALARS, lambda budget, a: all(a), "all")
_into(SCALARS, lambda budget, a: any(a), "any")
for _name, _function in {"min": min, "max": max}.items():
    _into(PRIM, lambda budget, *args, f=_function: f(*args), _name)
    _into(SCALARS, lambda budget, *args, f=_function: f(*args), _name)


# Strings ------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Return the text of a value, as formatted by TorchScript's ``format`` and ``str``."""
    if isinstance(value, DType):
        return str(dtype_code(value))
    if isinstance(value, float) and value == math.floor(value) and abs(value) < 1e16:
        return f"{value:.1f}"
    return str(value)


@_scalar("format")
def _format(budget: Any, text: str, *values: Any) -> str:
    parts = text.split("{}")
    found = [parts[0]]
    for i, part in enumerate(parts[1:]):
        if i >= len(values):
            raise RuntimeError("format: there are more placeholders than values")
        found += [shown(values[i]), part]
    budget.grow(sum(map(len, found)))
    return "".join(found)


_PERCENT = re.compile(r"%(%|(?:\.\d{1,2})?[sdifgeru])")


@_scalar("percentFormat")
def _percent(budget: Any, text: str, *values: Any) -> str:
    rest = list(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else list(values)

    def one(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        if not rest:
            raise RuntimeError("format: there are more placeholders than values")
        value = rest.pop(0)
        return shown(value) if match[1] == "s" else match[0] % value

    made = _PERCENT.sub(one, text)
    budget.grow(len(made))
    return made


@_scalar("join")
def _join(budget: Any, text: str, parts: list) -> str:
    budget.grow(sum(map(len, parts)) + len(text) * len(parts))
    return text.join(parts)


@_scalar("replace")
def _replace(budget: Any, text: str, old: str, new: str, most: int = -1) -> str:
    budget.grow(len(text) + text.count(old) * len(new))
    return text.replace(old, new, most)


def _padded(name: str) -> Callable[..., Any]:
    def pad(budget: Any, text: str, width: int = 8, *rest: Any) -> str:
        budget.grow(len(text) * (max(width, 1) if name == "expandtabs" else 1) + max(width, 0))
        return str(getattr(str, name)(text, width, *rest))

    return pad


for _name in ("center", "ljust", "rjust", "zfill", "expandtabs"):
    _into(SCALARS, _padded(_name), _name)
for _name in ("upper", "lower", "capitalize", "title", "swapcase", "strip", "lstrip", "rstrip", "startswith", "endswith", "find", "rfind",
              "rindex", "isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "istitle", "isnumeric", "isdecimal",
              "isidentifier", "isprintable", "partition", "rpartition", "split", "rsplit", "splitlines"):  # fmt: skip
    _into(SCALARS, lambda budget, text, *rest, name=_name: (budget.grow(len(text)), getattr(str, name)(text, *rest))[1], _name)
_into(SCALARS, lambda budget, a: ord(a), "ord")
_into(SCALARS, lambda budget, a: chr(a), "chr")
_into(SCALARS, lambda budget, a: hex(a), "hex")
_into(SCALARS, lambda budget, a: oct(a), "oct")
_into(SCALARS, lambda budget, a: bin(a), "bin")
_into(SCALARS, lambda budget, a: shown(a), "str")
_into(SCALARS, lambda budget, a: hash(a), "hash")


# Miscellaneous --------------------------------------------------------------------------------------


@_scalar("warn")
def _warn(budget: Any, message: Any, stacklevel: int = 2) -> None:
    warnings.warn(str(message), stacklevel=2)


@_scalar("_unwrap_optional")
@_prim("unchecked_unwrap_optional")
def _unwrap(budget: Any, value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


@_prim("RaiseException")
def _raise(budget: Any, message: Any = "", kind: str | None = None) -> None:
    kinds = {one.__name__: one for one in (AssertionError, IndexError, KeyError, NotImplementedError, TypeError, ValueError)}
    text = str(message)
    if text.startswith("AssertionError: ") and kind is None:
        raise AssertionError(text.removeprefix("AssertionError: "))
    raise kinds.get((kind or "").rpartition(".")[2], RuntimeError)(text)


@_prim("Print")
def _print(budget: Any, *values: Any) -> None:
    print(*map(shown, values))


@_prim("NumToTensor")
def _tensor(budget: Any, value: Any) -> Any:
    # The dtype is that of Python's number, whatever the default dtype is. It stays on cpu, as it has a value.
    kinds = {bool: mt.bool, int: mt.int64, complex: mt.complex128}
    kind = kinds.get(type(value), mt.float64)
    return mt.tensor(value, dtype=kind, device="cpu")


@_prim("tolist")
def _tolist(budget: Any, value: Any, *kinds: Any) -> Any:
    return value.tolist()


_into(PRIM, lambda budget, x: dtype_code(x.dtype), "dtype")
for _name in ("device", "requires_grad", "grad", "ndim", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_meta", "is_sparse", "is_quantized",
              "is_leaf", "type", "index", "names", "name", "is_mkldnn", "is_nested", "is_xla", "is_xpu", "is_mps", "is_vulkan", "is_ipu",
              "is_maia", "is_hpu", "is_mtia", "is_sparse_csr"):  # fmt: skip
    _into(PRIM, lambda budget, x, name=_name: getattr(x, name, False), _name)
_into(PRIM, lambda budget, x: list(x.shape), "shape")
_into(PRIM, lambda budget, x: 0, "layout")
_into(PRIM, lambda budget, x: x.detach(), "data")
_into(PRIM, lambda budget, x: abs(x), "abs")
_into(PRIM, lambda budget, *x: x[0] if len(x) == 1 else x, "profile")
_into(PRIM, lambda budget, x: x.value, "EnumValue")
_into(PRIM, lambda budget, x: x.name, "EnumName")
_into(PRIM, lambda budget, x: ord(x) if isinstance(x, str) else x, "ord")
