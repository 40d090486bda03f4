"""Parse inputs and arguments: ``int64[1,1024]``, ``mask=bool[1,1,8,8]``, ``12, width=768``.

A value is written as in Python. In addition, ``dtype[size, size, ...]`` is a meta tensor (``float32[]`` has no
dimensions). It can be used anywhere in a value, also inside lists, tuples and dicts. Where sizes have names, a size or a
number may be an expression of them, such as ``batch``, ``2*h+1``, ``(h+26)//30``, ``ceil(h/16)`` or ``min(h, 512)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import metatensor as mt
from metatensor.program.sizes.expressions import FUNCTIONS, ExpressionError, evaluate, parse

__all__ = ["InputError", "dims_of", "names_in", "parse_arguments", "parse_input", "parse_value"]

SHORT = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
}  # fmt: skip
"""Short names of dtypes, in addition to metatensor's names."""

_NO_SIZES = re.compile(r"\b([A-Za-z_]\w*)\s*\[\s*\]")
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)")


class InputError(ValueError):
    """The text of an input is invalid. The message shows the place and what was expected."""


Sizes = Mapping[str, int]
_NONE: Sizes = {}


def parse_input(text: str, sizes: Sizes = _NONE) -> tuple[str | None, Any]:
    """Parse an ``--input``. Return the name of the argument, or None, and the value."""
    named = _NAMED.match(text)
    if named is None:
        return None, parse_value(text, sizes)
    return named[1], parse_value(text[named.end() :], sizes)


def parse_value(text: str, sizes: Sizes = _NONE) -> Any:
    """Parse a Python literal that may contain meta tensors ``dtype[sizes]``. Raise `InputError` if it is invalid."""
    if not text.strip():
        raise InputError("an input is empty; expected something like int64[1,1024]")
    try:
        return _value(_parse(text), text, sizes)
    except RecursionError:
        raise InputError(f"{_shown(text)} is nested too deeply") from None


def parse_arguments(text: str, sizes: Sizes = _NONE) -> tuple[list[Any], dict[str, Any]]:
    """Parse the positional and keyword arguments of a call, such as ``12, width=768``."""
    call = _parse(f"f({text})", text)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InputError(f"{_shown(text)} is not a list of arguments such as 12, width=768")
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(arg, ast.Starred) for arg in call.args):
        raise InputError(f"{_shown(text)}: * and ** are not supported")
    names = [keyword.arg for keyword in call.keywords]
    if len(set(names)) < len(names):
        raise InputError(f"{_shown(text)} names an argument twice")
    try:
        return ([_value(arg, text, sizes) for arg in call.args],
                {str(word.arg): _value(word.value, text, sizes) for word in call.keywords})
    except RecursionError:
        raise InputError(f"{_shown(text)} is nested too deeply") from None


def _parse(source: str, text: str | None = None) -> ast.expr:
    text = source if text is None else text
    if len(text) > 10_000:
        raise InputError(f"{_shown(text)}: an input may have at most 10,000 characters, got {len(text):,}")
    try:
        return ast.parse(_NO_SIZES.sub(r"\1[()]", source.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        raise InputError(f"{_shown(text)} cannot be read: {reason}; expected something like int64[1,1024]") from None


def names_in(text: str) -> set[str]:
    """Return the names in an ``--input`` or a call that are neither dtypes nor names of arguments."""
    named = _NAMED.match(text)
    tree = _parse(f"f({text[named.end():] if named else text})", text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {"f"}
    return {name for name in names if dtype_named(name) is None and name not in ("torch", "metatensor", *FUNCTIONS)}


def dims_of(text: str) -> tuple[str | None, Any]:
    """Return the argument name in an ``--input``, or None, and its named sizes in the form of `trace`'s `dims`."""
    named = _NAMED.match(text)
    node = _parse(text[named.end() :] if named else text)
    try:
        return (named[1] if named else None), _dims(node)
    except RecursionError:
        raise InputError(f"{_shown(text)} is nested too deeply") from None


def _dims(node: ast.expr) -> Any:
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [None if isinstance(item, ast.Constant) else ast.unparse(item) for item in items]
    if isinstance(node, (ast.Name, ast.BinOp, ast.Call)):
        return ast.unparse(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        return dict(enumerate(map(_dims, node.elts)))
    if isinstance(node, ast.Dict):
        return {ast.literal_eval(key): _dims(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    return None


def _value(node: ast.expr, text: str, sizes: Sizes) -> Any:
    if isinstance(node, ast.Subscript):
        return _tensor(node, text, sizes)
    if sizes and isinstance(node, (ast.Name, ast.BinOp, ast.Call)):
        size = _size(node, sizes)
        if size is not None:
            return size
    if isinstance(node, ast.Constant) and node.value is not Ellipsis:
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(item, text, sizes) for item in node.elts)
    if isinstance(node, ast.List):
        return [_value(item, text, sizes) for item in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = [(_value(key, text, sizes), _value(value, text, sizes)) for key, value in zip(node.keys, node.values, strict=True) if key]
        try:
            return dict(pairs)
        except TypeError as error:
            raise InputError(f"{_shown(text)}: a key of a dict must be hashable: {error}") from None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        number = _value(node.operand, text, sizes)
        if isinstance(number, (int, float, complex)):
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, (ast.Name, ast.Attribute)) and dtype_named(name := ast.unparse(node)) is not None:
        raise InputError(f"{_shown(text)}: {name} lacks a shape; write {name}[1,1024] for a tensor, or {name}[] for a single number")
    raise InputError(
        f"{_shown(text)}: {ast.unparse(node)!r} is neither a tensor such as int64[1,1024] nor a plain Python value; "
        "a string needs quotes"
    )


def _size(node: ast.expr, sizes: Sizes) -> int | None:
    """Return the value of an expression of named sizes and integers, or None if it is not such an expression."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    try:
        found = evaluate(parse(ast.unparse(node)), sizes)
    except (ExpressionError, KeyError, RecursionError):
        return None
    return found if type(found) is int else None


def _tensor(node: ast.Subscript, text: str, sizes: Sizes) -> mt.Tensor:
    name = ast.unparse(node.value)
    dtype = dtype_named(name)
    if dtype is None and not isinstance(node.value, ast.Name):
        raise InputError(f"{_shown(text)}: {name!r} is not the name of a dtype")
    if dtype is None:
        raise InputError(f"{_shown(text)}: {name!r} is not a dtype; there are float32, bfloat16, int64, bool and more")
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape = []
    for item in items:
        size = _size(item, sizes)
        if size is None or (not isinstance(item, ast.Constant) and not sizes):
            known = f" or an expression of {', '.join(sizes)}" if sizes else ""
            hint = "; --where gives names their values" if isinstance(item, ast.Name) and not sizes else ""
            raise InputError(f"{_shown(text)}: the size {ast.unparse(item)!r} must be a non-negative integer{known}{hint}")
        shape.append(size)
    try:
        return mt.empty(shape, dtype=dtype, device="meta")
    except (RuntimeError, TypeError, OverflowError) as error:
        raise InputError(f"{_shown(text)}: {error}") from None


def _shown(text: str) -> str:
    """Return a text for a message, truncated to 60 characters."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def dtype_named(name: str) -> Any:
    """Return the dtype with a short or long name, with or without ``torch.``, or None."""
    module, dot, rest = name.partition(".")
    if dot and module in ("torch", "metatensor"):
        name = rest
    found = getattr(mt, SHORT.get(name, name), None)
    return found if isinstance(found, mt.dtype) else None
