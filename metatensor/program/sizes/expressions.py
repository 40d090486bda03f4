"""Expressions of named sizes: polynomials with integer coefficients of names, quotients, remainders, minima and maxima.

Two expressions that are the same polynomial are equal, however they were written. `Real` holds expressions with a
floating-point result. Its operations stay as written, because rewriting would change the rounding.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union

__all__ = ["MOST", "Expression", "ExpressionError", "Number", "Real", "RealSize", "Size", "bounds", "evaluate", "linear", "name",
           "names_in", "parse", "python", "rounded"]  # fmt: skip

MOST = 1 << 62
"""Sizes must be less than this."""
_TERMS = 4000
"""Maximum number of terms of a product."""
_LONGEST = 4000
"""Maximum length of the text of an expression."""

Atom = Union[str, "tuple[Any, ...]"]  # a name, or an operation and its operands
Number = Union[int, float, "Expression", "Real"]


class ExpressionError(ValueError):
    """Raised for a text that is not an expression of sizes, or an expression that cannot be computed."""


class Expression:
    """A polynomial of names and of operations on expressions, with integer coefficients. Immutable.

    Attributes
    ----------
    terms : dict
        The coefficient of each product. A product is a sorted tuple of atoms: names, or operations with their operands.
    """

    __slots__ = ("_hash", "_text", "terms")

    def __init__(self, terms: Mapping[tuple[Atom, ...], int]) -> None:
        self.terms = {product: factor for product, factor in terms.items() if factor}
        self._hash = hash(frozenset(self.terms.items()))
        self._text: str | None = None

    # Arithmetic -------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _sum(self, other, 1) if isinstance(other, (int, Expression)) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return _sum(self, other, -1) if isinstance(other, (int, Expression)) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return Expression({product: -factor for product, factor in self.terms.items()})

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, Expression)):
            return NotImplemented
        found: dict[tuple[Atom, ...], int] = {}
        if len(self.terms) * len(_terms(other)) > _TERMS:
            raise ExpressionError(f"a product of expressions would have {len(self.terms) * len(_terms(other)):,} terms")
        for one, factor in self.terms.items():
            for two, by in _terms(other).items():
                product = tuple(sorted(one + two, key=_key))
                found[product] = found.get(product, 0) + factor * by
        return _made(found)

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, other)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int) and other and all(factor % other == 0 for factor in self.terms.values()):
            return 0
        return _atom("%", self, other)

    # Comparison and text ----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self._text is None:
            self._text = _text(self)
        return self._text

    def __repr__(self) -> str:
        return f"Expression({str(self)!r})"


class Real:
    """An operation with a floating-point result: ``/``, ``*``, ``+``, ``-``, ``**``, ``sqrt``, ``log``, ``float`` and others. Immutable."""

    __slots__ = ("args", "op")

    def __init__(self, op: str, *args: Number) -> None:
        self.op, self.args = op, args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Real) and (self.op, self.args) == (other.op, other.args)

    def __hash__(self) -> int:
        return hash((self.op, self.args))

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"Real({str(self)!r})"


class Size(int):
    """A number in a program with named sizes: the int of the sample, printed as its expression."""

    expression: Expression

    def __new__(cls, value: int, expression: Expression) -> Size:
        """Return an int with an expression."""
        made = int.__new__(cls, value)
        made.expression = expression
        return made

    def __str__(self) -> str:
        return str(self.expression)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> Any:
        return int, (int(self),)


class RealSize(float):
    """A float in a program with named sizes, printed as its expression."""

    expression: Real

    def __new__(cls, value: float, expression: Real) -> RealSize:
        """Return a float with an expression."""
        made = float.__new__(cls, value)
        made.expression = expression
        return made

    def __repr__(self) -> str:
        return str(self.expression)

    def __reduce__(self) -> Any:
        return float, (float(self),)


def name(text: str) -> Expression:
    """Return the expression that is a name."""
    return Expression({(text,): 1})


def _terms(value: Any) -> Mapping[tuple[Atom, ...], int]:
    return value.terms if isinstance(value, Expression) else {(): value} if value else {}


def _made(terms: Mapping[tuple[Atom, ...], int]) -> Any:
    """Return an expression, or an int if it has no names."""
    made = Expression(terms)
    if not made.terms:
        return 0
    return made.terms[()] if len(made.terms) == 1 and () in made.terms else made


def _sum(a: Any, b: Any, sign: int) -> Any:
    found = dict(_terms(a))
    for product, factor in _terms(b).items():
        found[product] = found.get(product, 0) + sign * factor
    return _made(found)


def _key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom))


def _atom(op: str, *args: Any) -> Any:
    if all(isinstance(a, int) for a in args):
        return _APPLY[op](*args)
    return Expression({((op, *args),): 1})


def quotient(a: Any, b: Any) -> Any:
    """Return ``a // b``. Terms divisible by `b` are split off."""
    if isinstance(b, int) and b > 0 and isinstance(a, Expression):
        common = math.gcd(b, *(factor for product, factor in a.terms.items() if product))
        if common > 1:  # (4*n + 3) // 8 is (n + 0) // 2
            a, b = _made({p: factor // common for p, factor in a.terms.items()}), b // common
        if b > 1 and a.terms and all(factor < 0 for product, factor in a.terms.items() if product):  # (1 - n) // 4 is -(n + 2)//4
            return -quotient(-a + (b - 1), b)
        whole = {p: factor // b for p, factor in a.terms.items()}
        rest = {p: factor - b * whole[p] for p, factor in a.terms.items()}
        if any(whole.values()):
            inner = _made(rest)
            return _sum(_made(whole), inner // b if isinstance(inner, int) else _atom("//", inner, b) if b > 1 else inner, 1)
        if b == 1:
            return a
        inside = [product for product in a.terms if product]
        if len(inside) == 1 and a.terms[inside[0]] == 1 and len(inside[0]) == 1 and not isinstance(inside[0][0], str):
            inner_op, *operands = inside[0][0]
            if inner_op == "//" and isinstance(operands[1], int) and operands[1] > 0:  # (x // a) // b is x // (a*b)
                return quotient(operands[0] + operands[1] * a.terms.get((), 0), operands[1] * b)
    return _atom("//", a, b)


def least(*args: Any) -> Any:
    """Return the minimum of several expressions."""
    return _extreme("min", min, args)


def greatest(*args: Any) -> Any:
    """Return the maximum of several expressions."""
    return _extreme("max", max, args)


def _extreme(op: str, of_numbers: Callable[..., int], args: tuple[Any, ...]) -> Any:
    found = list(dict.fromkeys(args))
    numbers = [a for a in found if isinstance(a, int)]
    found = [a for a in found if not isinstance(a, int)] + ([of_numbers(numbers)] if numbers else [])
    return found[0] if len(found) == 1 else _atom(op, *found)


def rounded(op: str, value: Real) -> Any:
    """Return the int to which a float is rounded by ``ceil``, ``floor``, ``int`` or ``round``. A quotient of ints is computed exactly."""
    if op in ("ceil", "floor") and value.op == "/" and all(isinstance(a, (int, Expression)) for a in value.args):
        b = value.args[1]
        if isinstance(b, int) and b > 0:
            a: Any = value.args[0]
            return quotient(a + (b - 1) if op == "ceil" else a, b)
    return Expression({((op, value),): 1})


def _power(a: Any, b: Any) -> Any:
    if abs(a) > 1 and (abs(b) > 64 or isinstance(a, int) and a.bit_length() * abs(b) > 4096):
        raise ExpressionError(f"{a} ** {b} is too large")
    return a**b


_APPLY: dict[str, Callable[..., Any]] = {
    "//": operator.floordiv, "%": operator.mod, "min": min, "max": max, "/": operator.truediv, "*": operator.mul, "+": operator.add,
    "-": operator.sub, "**": _power, "sqrt": math.sqrt, "log": math.log, "float": float,
    "log2": math.log2, "log10": math.log10, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "ceil": math.ceil,
    "floor": math.floor, "int": int, "round": round, "gcd": math.gcd, "isqrt": math.isqrt,
}  # fmt: skip
MATH = ("sqrt", "log", "log2", "log10", "exp", "sin", "cos", "tanh", "ceil", "floor", "gcd", "isqrt")
"""Names of functions of `math`, in texts of Python."""
ROUNDING = ("ceil", "floor", "int", "round")
"""Functions of a float whose result is an int."""
FUNCTIONS = ("min", "max", "sqrt", "log", "float", "log2", "log10", "exp", "sin", "cos", "tanh", "gcd", "isqrt", *ROUNDING)
"""Names that have a meaning in the text of an expression."""
_REAL = ("sqrt", "log", "float", "log2", "log10", "exp", "sin", "cos", "tanh")


def evaluate(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return the value of an expression at the given sizes.

    Raises
    ------
    ExpressionError
        If it divides by zero, takes a root of a negative number, or is too large for a size.
    KeyError
        If a name has no size.
    """
    if isinstance(value, Expression):
        total = 0
        for product, factor in value.terms.items():
            for atom in product:
                factor *= sizes[atom] if isinstance(atom, str) else _applied(atom[0], atom[1:], sizes)
            total += factor
        if not -MOST < total < MOST:
            raise ExpressionError(f"{_short(value)} is {str(total)[:20]}, which is not a size")
        return total
    if isinstance(value, Real):
        return _applied(value.op, value.args, sizes)
    return value


def _applied(op: str, args: tuple[Any, ...], sizes: Mapping[str, int]) -> Any:
    try:
        return _APPLY[op](*[evaluate(a, sizes) for a in args])
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
        raise ExpressionError(f"{op} of {', '.join(map(_short, args))} cannot be computed: {error}") from None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def names_in(value: Any) -> Iterator[str]:
    """Yield the names in an expression; with repetitions."""
    if isinstance(value, Expression):
        for product in value.terms:
            for atom in product:
                if isinstance(atom, str):
                    yield atom
                else:
                    for a in atom[1:]:
                        yield from names_in(a)
    elif isinstance(value, Real):
        for a in value.args:
            yield from names_in(a)


def linear(expression: Expression) -> tuple[str, int, int] | None:
    """Return the name, the factor and the constant of an expression ``factor*name + constant``, or None for any other expression."""
    names = {*names_in(expression)}
    if len(names) != 1:
        return None
    one = names.pop()
    factor, rest = expression.terms.get((one,), 0), expression.terms.get((), 0)
    return (one, factor, rest) if factor and expression == name(one) * factor + rest else None


# Text ------------------------------------------------------------------------------------------------------


def python(value: Any) -> str:
    """Return an expression as Python source. It uses ``sqrt`` and ``log`` from ``math``."""
    return _text(value, False) if isinstance(value, (Expression, Real)) else repr(value)


def _atom_text(atom: Atom, ceil: bool = True) -> str:
    if isinstance(atom, str):
        return atom
    op, *args = atom
    if op in FUNCTIONS:
        return f"{op}({', '.join(_text(a, ceil) for a in args)})"
    if op == "//" and ceil and isinstance(args[0], Expression) and type(args[1]) is int and args[1] > 1:
        if args[0].terms.get(()) == args[1] - 1:
            return f"ceil({_operand(args[0] - (args[1] - 1))}/{args[1]})"
    return f"{_operand(args[0], ceil)}{op}{_operand(args[1], ceil)}"


def _operand(value: Any, ceil: bool = True) -> str:
    """Return an expression as part of another, in parentheses where it needs them."""
    text = _text(value, ceil)
    return text if re.fullmatch(r"[\w.]+|[a-z]\w*\([^()]*\)", text) else f"({text})"


def _text(value: Any, ceil: bool = True) -> str:
    if isinstance(value, Real):
        shown = [_operand(a, ceil) for a in value.args]
        return f"{value.op}({', '.join(_text(a, ceil) for a in value.args)})" if value.op in FUNCTIONS else f" {value.op} ".join(shown)
    if not isinstance(value, Expression):
        return repr(value)
    parts = []
    for product, factor in sorted(value.terms.items(), key=lambda item: (item[0] == (), item[1] < 0, [_key(a) for a in item[0]])):
        shown = []
        for atom in dict.fromkeys(product):
            text = _atom_text(atom, ceil)
            alone = isinstance(atom, str) or atom[0] in FUNCTIONS or text.startswith("ceil(")
            text = text if alone or (len(product) == 1 and factor == 1) else f"({text})"
            shown += [text] * product.count(atom)
        if abs(factor) != 1 or not product:
            shown.insert(0, str(abs(factor)))
        parts.append(("- " if factor < 0 else "+ ") + "*".join(shown))
    text = " ".join(parts)
    return text[2:] if text.startswith("+ ") else "-" + text[2:]


_BINARY: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/", ast.Pow: "**"}


def parse(text: str) -> Any:
    """Parse the text of an expression to an int, a float, an `Expression` or a `Real`.

    A text has names, numbers, ``+ - * // % / **`` and the functions of `FUNCTIONS`. Nothing is executed.

    Raises
    ------
    ExpressionError
        If the text is not such an expression.

    Examples
    --------
    >>> from metatensor.program.sizes.expressions import parse
    >>> print(parse("2*(seq + 1) - seq"), parse("ceil(seq/16)*heads"))
    seq + 2 heads*ceil(seq/16)
    """
    if len(text) > _LONGEST:
        raise ExpressionError(f"{text[:40]!r}... is longer than {_LONGEST:,} characters")
    try:
        return _parsed(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, ZeroDivisionError, TypeError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"{text[:60]!r} is not an expression of sizes") from None


def _parsed(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name):
        return name(node.id)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _parsed(node.operand, text)
        return Real("*", -1, inner) if isinstance(inner, Real) else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _binary(_BINARY[type(node.op)], _parsed(node.left, text), _parsed(node.right, text))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function, given = node.func.id, node.args
        if function == "ceil" and len(given) == 1 and isinstance(given[0], ast.BinOp) and isinstance(given[0].op, ast.Div):
            a, b = _parsed(given[0].left, text), _parsed(given[0].right, text)
            if isinstance(b, int) and b > 0 and isinstance(a, (int, Expression)):
                return quotient(a + (b - 1), b)
        args = [_parsed(a, text) for a in given]
        if function in ("min", "max") and args and all(isinstance(a, (int, Expression)) for a in args):
            return (least if function == "min" else greatest)(*args)
        if function in _REAL and len(args) == 1:
            return Real(function, args[0])
        if function in ROUNDING and len(args) == 1 and isinstance(args[0], Real):
            return rounded(function, args[0])
        if function == "round" and len(args) == 2 and isinstance(args[0], Real) and type(args[1]) is int:
            return Real("round", *args)
        if len(args) == {"gcd": 2, "isqrt": 1}.get(function) and all(isinstance(a, (int, Expression)) for a in args):
            return _atom(function, *args)
    raise ExpressionError(f"{text[:60]!r} is not an expression of sizes: {ast.unparse(node)[:40]!r} is not understood")


def _binary(op: str, a: Any, b: Any) -> Any:
    whole = isinstance(a, (int, Expression)) and isinstance(b, (int, Expression))
    if op in ("/", "**") or not whole:
        if op == "**" and isinstance(a, Expression) and type(b) is int and 0 < b <= 8:
            made: Any = 1
            for _ in range(b):
                made = made * a
            return made
        return Real(op, a, b)
    if op in ("//", "%"):
        if isinstance(a, int) and isinstance(b, int):
            return _APPLY[op](a, b)
        return quotient(a, b) if op == "//" else a % b if isinstance(a, Expression) else _atom("%", a, b)
    return _APPLY[op](a, b)


# Bounds ----------------------------------------------------------------------------------------------------


def bounds(value: Any, ranges: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    """Return lower and upper bounds of an expression for names within ranges. The bounds need not be tight."""
    if isinstance(value, (int, float)):
        return value, value
    if isinstance(value, Real):
        return _real_bounds(value, ranges)
    low = high = 0.0
    for product, factor in value.terms.items():
        a, b = float(factor), float(factor)
        for atom in product:
            c, d = ranges[atom] if isinstance(atom, str) else _bounds_of(atom, ranges)
            ends = [0.0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]
            a, b = min(ends), max(ends)
        low, high = low + a, high + b
    return low, high


def _real_bounds(value: Real, ranges: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    """Return bounds of a float where an operation grows with its operands."""
    given = [bounds(a, ranges) for a in value.args]
    try:
        if value.op in ("float", "sqrt") and given[0][0] >= 0:
            return _APPLY[value.op](given[0][0]), _APPLY[value.op](given[0][1])
        if value.op in ("+", "*", "/") and (value.op != "/" or given[1][0] > 0):
            ends = [_APPLY[value.op](x, y) for x in given[0] for y in given[1]]
            return (-math.inf, math.inf) if any(map(math.isnan, ends)) else (min(ends), max(ends))
    except (ArithmeticError, ValueError):
        pass
    return -math.inf, math.inf


def _bounds_of(atom: tuple[Any, ...], ranges: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    op, *args = atom
    given = [bounds(a, ranges) for a in args]
    if op in ("min", "max"):
        pick = min if op == "min" else max
        return pick(low for low, _ in given), pick(high for _, high in given)
    if op in ROUNDING:
        (a, b), = given
        return (a if math.isinf(a) else math.floor(a)), (b if math.isinf(b) else math.ceil(b))
    if op in ("gcd", "isqrt"):
        return 0, max(max(abs(low), abs(high)) for low, high in given)
    (a, b), (c, d) = given
    if c <= 0:
        return -math.inf, math.inf
    if op == "%":
        return 0, min(d - 1, b) if a >= 0 else d - 1
    ends = [x if math.isinf(x) else x // y for x in (a, b) for y in (c, d)]
    return min(ends), max(ends)
