"""Compute small constants with Python's numbers when no device plugin is installed.

This module supports constructors such as `arange`, `linspace` and ``tensor([...])``, the four arithmetic operations,
and conversions. The results equal those of the cpu device bit for bit, because after each step numbers are rounded to
the dtype in which that device computes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.host import decode_numbers, encode_numbers
from metatensor._core.recording import Recipe, Ref, Step

__all__ = ["KERNELS", "Call", "Unsupported", "bytes_on_host", "elements", "encoded", "offsets"]

_HALVES = ("float16", "bfloat16")
_FLOATS = (*_HALVES, "float32", "float64")


class Unsupported(Exception):
    """Raised for a step that is not supported here."""


def bytes_on_host(recipe: Recipe, steps: list[Step]) -> bytearray | None:
    """Return the bytes of a recorded storage after these steps, or None if only a device can compute them."""
    memory: dict[Recipe, bytearray] = {}
    try:
        for step in steps:
            _carry_out(step, memory)
    except (Unsupported, ZeroDivisionError, OverflowError, ValueError):
        return None
    return memory.get(recipe)


def elements(data: bytes | bytearray, dtype: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> bytes:
    """Return the bytes of a layout's elements in C order."""
    n = dtype.itemsize
    return b"".join(bytes(data[at * n : at * n + n]) for at in offsets(size, stride, offset))


def offsets(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Iterator[int]:
    """Yield the positions of a layout's elements in C order."""
    for index in itertools.product(*map(range, size)):
        yield offset + sum(i * step for i, step in zip(index, stride, strict=True))


def _carry_out(step: Step, memory: dict[Recipe, bytearray]) -> None:
    result = step.result
    if not isinstance(result, Ref) or result.flags:
        raise Unsupported
    kernel = KERNELS.get(step.name)
    if kernel is None:
        raise Unsupported
    count = math.prod(result.size)
    values = kernel(Call(result, memory), count, *(step.args[1:] if step.name in ("copy", "copy_", "fill", "zero") else step.args))
    data = values if isinstance(values, bytes) else encoded(values, result.dtype)
    n = result.dtype.itemsize
    there = memory.setdefault(result.recipe, bytearray(result.recipe.nbytes))
    for i, at in enumerate(offsets(result.size, result.stride, result.offset)):
        there[at * n : at * n + n] = data[i * n : i * n + n]


def encoded(values: list[Any], dtype: Any) -> bytes:
    """Return the bytes of numbers that are converted to a dtype."""
    name = name_of(dtype)
    if name not in _FLOATS and name != "bool":
        if not name.lstrip("u").startswith("int"):
            raise Unsupported
        bits = 8 * dtype.itemsize
        low = -(1 << (bits - 1)) if dtype.is_signed else 0
        if any(isinstance(v, float) and not low <= v < low + (1 << bits) for v in values):
            raise Unsupported  # the result of this conversion depends on the processor
        values = [(int(v) - low) % (1 << bits) + low for v in values]
    return bytes(encode_numbers(values, dtype)[2])


def name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class Call:
    """One step: its result, and the bytes computed so far."""

    def __init__(self, result: Ref, memory: dict[Recipe, bytearray]) -> None:
        self.result, self.memory = result, memory
        self.dtype = mt.float32 if name_of(result.dtype) in _HALVES else result.dtype  # devices compute half types in float32

    def read(self, value: Any) -> list[Any]:
        """Return an operand's elements, broadcast to the result's shape, in the dtype of the computation."""
        if isinstance(value, (bool, int, float)):
            return self.round([value]) * math.prod(self.result.size)
        if not isinstance(value, Ref) or value.flags or value.recipe not in self.memory:
            raise Unsupported
        lead = len(self.result.size) - len(value.size)
        stride = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(value.size, value.stride, strict=True))
        block = elements(self.memory[value.recipe], value.dtype, self.result.size, stride, value.offset)
        return self.round(decode_numbers(block, value.dtype, (math.prod(self.result.size),)))

    def round(self, values: list[Any]) -> list[Any]:
        """Return numbers rounded to the dtype of the computation."""
        return decode_numbers(encoded(values, self.dtype), self.dtype, (len(values),))


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
    def kernel(call: Call, count: int, one: Any, other: Any, alpha: Any = 1) -> list[Any]:
        if alpha != 1 or call.dtype is mt.bool:
            raise Unsupported
        return call.round([function(a, b) for a, b in zip(call.read(one), call.read(other), strict=True)])

    return kernel


def _div(call: Call, count: int, one: Any, other: Any, rounding_mode: Any = None) -> list[Any]:
    if rounding_mode is not None:
        raise Unsupported
    return _pairwise(lambda a, b: a / b)(call, count, one, other)


def _arange(call: Call, count: int, *_: Any) -> list[Any]:
    return list(range(count))


def _arange_start(call: Call, count: int, start: Any, end: Any, step: Any = 1, *_: Any) -> list[Any]:
    if not call.result.dtype.is_floating_point:
        start, step = int(start), int(step)
    return [i * step + start for i in range(count)]


def _linspace(call: Call, count: int, start: Any, end: Any, *_: Any) -> list[Any]:
    if not call.dtype.is_floating_point or not all(isinstance(v, (int, float)) for v in (start, end)):
        raise Unsupported
    first, last = call.round([start, end])
    if count < 2:
        return [first] * count
    step = call.round([call.round([last - first])[0] / (count - 1)])[0]
    ups = call.round([step * i for i in range(count)])
    return call.round([first + ups[i] if i < count // 2 else last - ups[count - 1 - i] for i in range(count)])


def _from_host(call: Call, count: int, data: Any, *_: Any) -> bytes:
    return bytes(data)


def _same(call: Call, count: int, value: Any, *_: Any) -> list[Any]:
    if getattr(value, "dtype", None) is mt.float64 and name_of(call.result.dtype) in _HALVES:
        raise Unsupported  # rounding twice may give a different number
    return call.read(value)


KERNELS: dict[str, Callable[..., Any]] = {
    "arange": _arange, "arange.start": _arange_start, "linspace": _linspace, "_from_host": _from_host,
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), lambda call, count, *_: [0] * count),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), lambda call, count, *_: [1] * count),
    **dict.fromkeys(("full", "full_like"), lambda call, count, _, value, *rest: call.read(value)),
    **dict.fromkeys(("scalar_tensor", "fill", "clone", "copy", "copy_", "_to_copy", "_to_copy.move"), _same),
    "add": _pairwise(lambda a, b: a + b), "sub": _pairwise(lambda a, b: a - b), "rsub": _pairwise(lambda a, b: b - a),
    "mul": _pairwise(lambda a, b: a * b), "div": _div,
    "reciprocal": lambda call, count, value, *_: [1 / v for v in call.read(value)],
    "neg": lambda call, count, value, *_: [-v for v in call.read(value)],
}  # fmt: skip
