"""Arguments of calls as JSON: numbers, strings, lists, and objects whose only key names their kind."""

from __future__ import annotations

import base64
import binascii
import math
from operator import index
from typing import Any

import metatensor as mt
from metatensor._core.capture import Ticket, Value
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.formats import LayoutTag, MemoryFormatTag
from metatensor.program.structure import Opaque, leaves

__all__ = ["Malformed", "decoded", "dtype_of", "encoded"]

_DEPTH = 64
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_LAYOUTS = ("strided",)


class Malformed(ValueError):
    """Raised if the contents of a file are not a valid program."""


def encoded(argument: Any, where: str | None) -> Any:
    """Return an argument as JSON types.

    If its class is not supported, raise TypeError with `where` in the message, or return an `Opaque` if `where` is None.
    """
    if argument is None or isinstance(argument, (bool, str)) or type(argument) is int:
        return argument
    if isinstance(argument, Value):
        return {"value": argument.number}
    if isinstance(argument, tuple):
        return {"tuple": [encoded(a, where) for a in argument]}
    if isinstance(argument, list):
        return [encoded(a, where) for a in argument]
    if isinstance(argument, float):
        return float(argument) if math.isfinite(argument) else {"float": str(float(argument))}
    if isinstance(argument, int) or hasattr(argument, "__index__"):  # also NumPy's
        return index(argument)
    if isinstance(argument, complex):
        return {"complex": [encoded(argument.real, where), encoded(argument.imag, where)]}
    if isinstance(argument, DType):
        return {"dtype": argument.name}
    if isinstance(argument, Device):
        return {"device": str(argument)}
    if isinstance(argument, MemoryFormatTag):
        return {"memory_format": repr(argument).rpartition(".")[2]}
    if isinstance(argument, LayoutTag):
        return {"layout": repr(argument).rpartition(".")[2]}
    if isinstance(argument, Ticket):
        if argument.generator is not None:
            raise TypeError(f"{where} uses a generator of its own; a saved program has only the default one")
        return {"ticket": argument.number}
    if isinstance(argument, (bytes, bytearray)):
        return {"bytes": base64.b64encode(argument).decode()}
    if isinstance(argument, dict):
        return {"dict": [[encoded(key, where), encoded(item, where)] for key, item in argument.items()]}
    if next(leaves(Value, argument), None) is not None:
        return {"dict": [[key, encoded(item, where)] for key, item in vars(argument).items()]}
    if where is None:
        return {"object": argument.kind if isinstance(argument, Opaque) else type(argument).__name__}
    raise TypeError(f"{where} has an argument of class {type(argument).__name__}, for which a saved program has no form")


def dtype_of(name: Any) -> DType:
    """Return the dtype with a name. Raise `Malformed` if there is none."""
    found = getattr(mt, name, None) if isinstance(name, str) else None
    if not isinstance(found, DType):
        raise Malformed(f"there is no dtype {name!r:.60}")
    return found


def _one_of(names: tuple[str, ...], name: Any, what: str) -> Any:
    if name not in names:
        raise Malformed(f"there is no {what} {name!r:.60}")
    return getattr(mt, name)


def _number(text: Any) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise Malformed(f"{text!r:.60} is not a number")
    return float(text)


def _device(text: Any) -> Device:
    try:
        return mt.device(text)
    except (RuntimeError, TypeError, ValueError):
        raise Malformed(f"{text!r:.60} is not a device") from None


def _data(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Malformed("bytes are not in base64") from None


def decoded(made: Any, values: dict[int, Value], depth: int = 0) -> Any:
    """Return the argument that JSON data encodes. Raise `Malformed` if it encodes none."""
    if depth > _DEPTH:
        raise Malformed(f"arguments are nested more than {_DEPTH} deep")
    if made is None or isinstance(made, (bool, int, float, str)):
        return made
    if isinstance(made, list):
        return [decoded(item, values, depth + 1) for item in made]
    if not isinstance(made, dict) or len(made) != 1:
        raise Malformed(f"{str(made)[:60]!r} is not an argument")
    ((kind, content),) = made.items()
    if kind == "value":
        if type(content) is not int or content not in values:
            raise Malformed(f"there is no value {content!r:.60}")
        return values[content]
    if kind in ("tuple", "complex", "dict"):
        if not isinstance(content, list):
            raise Malformed(f"a {kind} needs a list")
        if kind == "dict":
            if not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
                raise Malformed("a dict needs pairs")
            try:
                return {decoded(key, values, depth + 1): decoded(item, values, depth + 1) for key, item in content}
            except TypeError:
                raise Malformed("a key of a dict cannot be hashed") from None
        items = tuple([decoded(item, values, depth + 1) for item in content])
        if kind == "tuple":
            return items
        if len(items) != 2 or not all(isinstance(item, (int, float)) for item in items):
            raise Malformed("a complex number needs two numbers")
        return complex(*items)
    if kind == "ticket":
        if type(content) is not int or not 0 <= content < 1 << 62:
            raise Malformed(f"{content!r:.60} is not a ticket")
        return Ticket(None, content)
    forms = {"float": _number, "dtype": dtype_of, "device": _device, "bytes": _data}
    if kind in forms:
        return forms[kind](content)
    if kind == "object":
        return Opaque(str(content))
    if kind == "memory_format":
        return _one_of(_FORMATS, content, "memory format")
    if kind == "layout":
        return _one_of(_LAYOUTS, content, "layout")
    raise Malformed(f"there is no argument of kind {kind!r:.60}")
