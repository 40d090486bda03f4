"""Operators on small tensors, computed with Python's numbers if no device is installed.

They serve tensors on meta that follow from constants (see `known`). Sums and functions such as `exp` are rounded once, so
their last bit can differ from a device's. Other operators need a device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import metatensor as mt
from metatensor._core.constants import Known, Place, made_of_bytes
from metatensor._core.errors import DataDependentError
from metatensor._core.host import decode_numbers, encode_numbers
from metatensor.deferred.constants import KERNELS, Call, Unsupported, elements, encoded, offsets

__all__ = ["known_on_host", "result_on_host"]


class Array:
    """A small tensor as a list of Python numbers in C order."""

    def __init__(self, values: list[Any], dtype: Any, size: tuple[int, ...]) -> None:
        self.values, self.dtype, self.size = values, dtype, size

    def broadcast(self, size: tuple[int, ...]) -> list[Any]:
        """Return the elements of the array, broadcast to a shape."""
        if size == self.size:
            return self.values
        lead = len(size) - len(self.size)
        stride = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(self.size, _strides(self.size), strict=True))
        return [self.values[at] for at in offsets(size, stride, 0)]


def _strides(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(size[i + 1 :]) for i in range(len(size)))


def _array(place: Place) -> Array:
    if place.flags:
        raise Unsupported
    data = bytes(place.nbytes) if place.known is None else place.known.data
    block = elements(data, place.dtype, place.size, place.stride, place.offset)
    return Array(decode_numbers(block, place.dtype, (math.prod(place.size),)), place.dtype, place.size)


def _arrays(value: Any) -> Any:
    if isinstance(value, Place):
        return _array(value)
    return [_arrays(v) for v in value] if type(value) is list else value


def known_on_host(known: Known) -> Any:
    """Return the bytes of a `Known`, or those of all results of its call, computed with Python's numbers.

    Raises
    ------
    DataDependentError
        If there is no implementation of the operator here.
    """
    name = known.name
    try:
        args = _arrays(list(known.args))
        if not known.writes:
            if isinstance(known.result, Place):
                return _computed(name, known.result, args, bytes(known.result.nbytes))
            kernel = _SEVERAL.get(name)
            if kernel is None:
                raise Unsupported
            return tuple(_laid_out(place, values, bytes(place.nbytes)) for place, values in zip(known.result, kernel(*args), strict=True))
        place = known.result
        before = bytes(place.nbytes) if place.known is None else place.known.data
        kinds = [a for a in args if isinstance(a, Array) and a.size]
        if name not in ("copy_", "fill") and any(a.dtype is not place.dtype for a in kinds) and name not in _WRITERS:
            raise Unsupported  # the operator computes in another dtype than that of the tensor that it changes
        return _computed(name, place, args, before)
    except (Unsupported, ZeroDivisionError, OverflowError, ValueError, TypeError, IndexError) as error:
        raise _unavailable(name) from error


def _unavailable(name: str) -> DataDependentError:
    return DataDependentError(
        f"{name}(): the values of a tensor on meta that is made of constants are computed on the cpu for this operator, but no such "
        "device is installed (the package is metatensor-cpu)"
    )


def _computed(name: str, place: Place, args: list[Any], before: bytes) -> bytes:
    call = HostCall(place)
    count = math.prod(place.size)
    kernel = _WRITERS.get(name) or _ONE.get(name)
    if kernel is not None:
        return _laid_out(place, kernel(call, *args), before)
    if name not in KERNELS:
        raise Unsupported
    rest = args[1:] if name in ("copy_", "fill", "zero") else args
    return _laid_out(place, KERNELS[name](call, count, *rest), before)


def _laid_out(place: Place, values: Any, before: bytes) -> bytes:
    """Return the bytes of a storage that holds a tensor with these values."""
    data = values if isinstance(values, bytes) else encoded(values, place.dtype)
    made, n = bytearray(before), place.dtype.itemsize
    for i, at in enumerate(offsets(place.size, place.stride, place.offset)):
        made[at * n : at * n + n] = data[i * n : i * n + n]
    return bytes(made)


class HostCall(Call):
    """A call whose arguments are arrays."""

    def __init__(self, result: Place) -> None:
        super().__init__(result, {})

    def read(self, value: Any) -> list[Any]:
        """Return an operand's elements, broadcast to the result's shape, in the dtype of the computation."""
        if isinstance(value, Array):
            return self.round(value.broadcast(self.result.size))
        return super().read(value)

    def plain(self, value: Any) -> list[Any]:
        """Return an operand's elements, broadcast to the result's shape, unconverted."""
        size = self.result.size
        return value.broadcast(size) if isinstance(value, Array) else [value] * math.prod(size)


def _common(*operands: Any) -> Any:
    """Return the dtype in which an operator computes, by PyTorch's rules for tensors and numbers."""

    def category(dtype: Any) -> int:
        return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == mt.bool else 1

    found: list[Any] = [None, None, None]  # of tensors with dimensions, of 0-d tensors, of numbers
    for each in operands:
        if isinstance(each, Array):
            at, dtype = (0 if each.size else 1), each.dtype
        else:
            at = 2
            dtype = mt.bool if isinstance(each, bool) else mt.int64 if isinstance(each, int) else mt.get_default_dtype()
        found[at] = dtype if found[at] is None else mt.promote_types(found[at], dtype)
    result = None
    for dtype in found:
        if dtype is not None and (result is None or category(dtype) > category(result)):
            result = dtype
    return result


def _rounded(values: Iterable[Any], dtype: Any) -> list[Any]:
    listed = list(values)
    return decode_numbers(encoded(listed, dtype), dtype, (len(listed),))


# One result of the shape of the operands --------------------------------------------------------------


def _compare(function: Callable[[Any, Any], bool]) -> Callable[..., list[Any]]:
    def kernel(call: HostCall, one: Any, other: Any) -> list[Any]:
        dtype = _common(one, other)
        return [function(a, b) for a, b in zip(_rounded(call.plain(one), dtype), _rounded(call.plain(other), dtype), strict=True)]

    return kernel


def _logical(function: Callable[..., bool]) -> Callable[..., list[Any]]:
    return lambda call, *operands: [function(*map(bool, row)) for row in zip(*map(call.plain, operands), strict=True)]


def _integral(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    def kernel(call: HostCall, *operands: Any) -> list[Any]:
        if call.dtype.is_floating_point:
            raise Unsupported
        return [function(*row) for row in zip(*map(call.read, operands), strict=True)]

    return kernel


def _exactly(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return the kernel of a function that computes an element from elements of the operands in the dtype of the result."""

    def kernel(call: HostCall, *operands: Any) -> list[Any]:
        return call.round([function(*row) for row in zip(*map(call.read, operands), strict=True)])

    return kernel


def _real(function: Callable[[float], float]) -> Callable[..., list[Any]]:
    """Return the kernel of a function of real numbers. Outside its domain and on overflow, a device is needed."""

    def kernel(call: HostCall, value: Any) -> list[Any]:
        if not call.dtype.is_floating_point:
            raise Unsupported
        return call.round([function(v) for v in call.read(value)])

    return kernel


def _power(call: HostCall, base: Any, exponent: Any) -> list[Any]:
    pairs = list(zip(call.read(base), call.read(exponent), strict=True))
    if any(isinstance(b, int) and b < 0 for _, b in pairs):
        raise Unsupported
    bits = 8 * call.dtype.itemsize
    found = [math.pow(a, b) if isinstance(a, float) else pow(int(a), int(b), 1 << bits) for a, b in pairs]  # integers wrap around
    return call.round(found)


def _floored(call: HostCall, one: Any, other: Any) -> list[Any]:
    if call.dtype.is_floating_point:
        raise Unsupported
    return [a // b for a, b in zip(call.read(one), call.read(other), strict=True)]


def _divided(call: HostCall, one: Any, other: Any, rounding_mode: Any = None) -> list[Any]:
    if rounding_mode is None:
        found: list[Any] = KERNELS["div"](call, 0, one, other)
        return found
    if rounding_mode == "floor":
        return _floored(call, one, other)
    if call.dtype.is_floating_point:
        raise Unsupported
    pairs = list(zip(call.read(one), call.read(other), strict=True))
    return [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]


def _remainder(call: HostCall, one: Any, other: Any) -> list[Any]:
    pairs = list(zip(call.read(one), call.read(other), strict=True))
    return call.round([a % b for a, b in pairs])


def _round(call: HostCall, value: Any, decimals: int = 0) -> list[Any]:
    if decimals:
        raise Unsupported
    return [math.copysign(round(v), v) if isinstance(v, float) and math.isfinite(v) else v for v in call.read(value)]


def _whole(function: Callable[[float], int]) -> Callable[..., list[Any]]:
    def kernel(call: HostCall, value: Any) -> list[Any]:
        return [math.copysign(float(function(v)), v) if isinstance(v, float) and math.isfinite(v) else v for v in call.read(value)]

    return kernel


def _sign(value: Any) -> Any:
    return (value > 0) - (value < 0)  # 0 for NaN


def _greater(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


def _smaller(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _fmod(a: Any, b: Any) -> Any:
    return math.fmod(a, b) if isinstance(a, float) else abs(a) % abs(b) * (-1 if a < 0 else 1)


def _clamp(call: HostCall, value: Any, low: Any = None, high: Any = None) -> list[Any]:
    found = call.read(value)
    if not call.dtype.is_floating_point and any(b is not None and call.read(b) != call.plain(b) for b in (low, high)):
        raise Unsupported  # a bound beyond the range of the integers
    if low is not None:
        found = [_greater(a, b) for a, b in zip(found, call.read(low), strict=True)]
    if high is not None:
        found = [_smaller(a, b) for a, b in zip(found, call.read(high), strict=True)]
    return found


def _where(call: HostCall, condition: Any, one: Any, other: Any) -> list[Any]:
    rows = zip(call.plain(condition), call.read(one), call.read(other), strict=True)
    return [a if yes else b for yes, a, b in rows]


def _masked_fill(call: HostCall, value: Any, mask: Any, other: Any) -> list[Any]:
    return _where(call, mask, other, value)


# Other shapes ---------------------------------------------------------------------------------------------


def _dims(dim: Any, ndim: int) -> list[int]:
    if dim is None or dim == ():
        return list(range(ndim))
    return sorted({d % ndim if ndim else 0 for d in (dim if isinstance(dim, (list, tuple)) else (dim,))})


def _lines(a: Array, dim: Any) -> list[list[Any]]:
    """Return the groups of elements that a reduction over dimensions combines, one list for each element of the result."""
    reduced = [d for d in _dims(dim, len(a.size)) if d < len(a.size)]
    kept = [d for d in range(len(a.size)) if d not in reduced]
    strides = _strides(a.size)
    inner = list(offsets(tuple(a.size[d] for d in reduced), tuple(strides[d] for d in reduced), 0))
    outer = offsets(tuple(a.size[d] for d in kept), tuple(strides[d] for d in kept), 0)
    return [[a.values[at + i] for i in inner] for at in outer]


def _reduced(function: Callable[[list[Any]], Any], converted: bool = True) -> Callable[..., list[Any]]:
    def kernel(call: HostCall, value: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> list[Any]:
        if converted and not _as_wide(call.dtype, value.dtype):
            raise Unsupported
        lines = _lines(Array(call.round(value.values) if converted else value.values, value.dtype, value.size), dim)
        found = [function(line) for line in lines]
        return call.round(found) if converted else found

    return kernel


def _as_wide(dtype: Any, other: Any) -> bool:
    """Whether a conversion to a dtype keeps all values of another one."""
    return bool(mt.promote_types(dtype, other) == dtype)


def _total(line: list[Any]) -> Any:
    return math.fsum(line) if line and isinstance(line[0], float) else sum(line)


def _most(choose: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda line: next((v for v in line if v != v), None) or choose(line)


def _place_of(choose: Callable[..., Any]) -> Callable[[list[Any]], int]:
    return lambda line: line.index(choose(line)) if all(v == v for v in line) else next(i for i, v in enumerate(line) if v != v)


def _scan(function: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
    def kernel(call: HostCall, value: Array, dim: int, dtype: Any = None) -> list[Any]:
        if not value.size:
            return call.round(value.values)
        dim %= len(value.size)
        values, strides, found = call.round(value.values), _strides(value.size), [None] * len(value.values)
        for start in offsets(tuple(1 if d == dim else n for d, n in enumerate(value.size)), strides, 0):
            total: Any = None
            for i in range(value.size[dim]):
                at = start + i * strides[dim]
                total = values[at] if total is None else call.round([function(total, values[at])])[0]
                found[at] = total
        return found

    return kernel


def _picked(call: HostCall, source: Callable[[tuple[int, ...]], Any]) -> list[Any]:
    """Return ``source(index)`` for all indices of the result."""
    return call.round([source(index) for index in itertools.product(*map(range, call.result.size))])


def _at(a: Array, index: Iterable[int]) -> Any:
    position = 0
    for i, n in zip(index, a.size, strict=True):
        if not -n <= i < n:
            raise IndexError(i)
        position = position * n + i % n
    return a.values[position]


def _cat(call: HostCall, tensors: list[Array], dim: int = 0) -> list[Any]:
    parts = [t for t in tensors if t.size != (0,)]
    dim %= len(call.result.size)

    def source(index: tuple[int, ...]) -> Any:
        i = index[dim]
        for part in parts:
            if i < part.size[dim]:
                return _at(part, (*index[:dim], i, *index[dim + 1 :]))
            i -= part.size[dim]
        raise Unsupported

    return _picked(call, source)


def _stack(call: HostCall, tensors: list[Array], dim: int = 0) -> list[Any]:
    dim %= len(call.result.size)
    return _picked(call, lambda index: _at(tensors[index[dim]], index[:dim] + index[dim + 1 :]))


def _flip(call: HostCall, a: Array, dims: Any) -> list[Any]:
    turned = {d % len(a.size) for d in (dims if isinstance(dims, (list, tuple)) else (dims,))}
    return _picked(call, lambda index: _at(a, [-1 - i if d in turned else i for d, i in enumerate(index)]))


def _repeat(call: HostCall, a: Array, repeats: Any) -> list[Any]:
    return _picked(call, lambda index: _at(a, [i % n for i, n in zip(index[len(index) - len(a.size) :], a.size, strict=True)]))


def _triangle(keeps: Callable[[int, int], bool]) -> Callable[..., list[Any]]:
    return lambda call, a, diagonal=0: _picked(call, lambda index: _at(a, index) if keeps(index[-1] - index[-2], diagonal) else 0)


def _eye(call: HostCall, *_: Any) -> list[Any]:
    rows, columns = call.result.size
    return [int(i == j) for i in range(rows) for j in range(columns)]


def _pointed(a: Array, indices: list[Array], dims: Any) -> tuple[tuple[int, ...], list[int]]:
    """Return the shape of ``a[indices]``, and the positions of its elements among those of `a`."""
    found: list[tuple[int, Array]] = []
    for dim, index in zip(dims, indices, strict=True):
        if index.dtype in (mt.bool, mt.uint8):
            hits = [at for at, v in zip(itertools.product(*map(range, index.size)), index.values, strict=True) if v]
            found += [(dim + d, Array([at[d] for at in hits], mt.int64, (len(hits),))) for d in range(len(index.size))]
        else:
            found.append((dim, index))
    shape = tuple(mt.broadcast_shapes(*(index.size for _, index in found)))
    used = [dim for dim, _ in found]
    adjacent = used == list(range(used[0], used[0] + len(used)))
    front = [d for d in range(len(a.size)) if d < used[0]] if adjacent else []
    back = [d for d in range(len(a.size)) if d not in used and d not in front]
    strides = _strides(a.size)
    middle = []
    for at in zip(*(index.broadcast(shape) for _, index in found), strict=True):
        if any(not -a.size[d] <= i < a.size[d] for d, i in zip(used, at, strict=True)):
            raise IndexError(at)
        middle.append(sum(i % a.size[d] * strides[d] for d, i in zip(used, at, strict=True)))

    def kept(which: list[int]) -> list[int]:
        return list(offsets(tuple(a.size[d] for d in which), tuple(strides[d] for d in which), 0))

    size = (*(a.size[d] for d in front), *shape, *(a.size[d] for d in back))
    return size, [x + y + z for x in kept(front) for y in middle for z in kept(back)]


def _index(call: HostCall, a: Array, indices: list[Array], dims: Any) -> list[Any]:
    return call.round([a.values[at] for at in _pointed(a, indices, dims)[1]])


def _index_select(call: HostCall, a: Array, dim: int, index: Array) -> list[Any]:
    dim %= max(len(a.size), 1)
    return _picked(call, lambda at: _at(a, (*at[:dim], index.values[at[dim]], *at[dim + 1 :])))


def _gather(call: HostCall, a: Array, dim: int, index: Array, sparse_grad: bool = False) -> list[Any]:
    dim %= max(len(a.size), 1)
    return _picked(call, lambda at: _at(a, (*at[:dim], _at(index, at), *at[dim + 1 :])))


def _sorted_lines(a: Array, dim: int, descending: bool) -> tuple[list[Any], list[int]]:
    if any(v != v for v in a.values):
        raise Unsupported
    size = a.size or (1,)
    dim %= len(size)
    strides = _strides(size)
    values: list[Any] = [None] * len(a.values)
    places = [0] * len(a.values)
    for start in offsets(tuple(1 if d == dim else n for d, n in enumerate(size)), strides, 0):
        line = [a.values[start + i * strides[dim]] for i in range(size[dim])]
        order = sorted(range(len(line)), key=line.__getitem__, reverse=descending)
        for k, i in enumerate(order):
            values[start + k * strides[dim]], places[start + k * strides[dim]] = line[i], i
    return values, places


def _sort(a: Array, dim: int = -1, descending: bool = False) -> tuple[list[Any], list[int]]:
    values, places = _sorted_lines(a, dim, descending)
    if descending and len(set(a.values)) < len(a.values):
        raise Unsupported  # the order of equal elements
    return values, places


def _most_of(choose: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(a: Array, dim: int, keepdim: bool = False) -> tuple[list[Any], list[int]]:
        lines = _lines(a, dim)
        places = [_place_of(choose)(line) for line in lines]
        return [line[i] for line, i in zip(lines, places, strict=True)], places

    return kernel


def _matmul(call: HostCall, a: Array, b: Array, *_: Any) -> list[Any]:
    if len(a.size) not in (1, 2) or len(b.size) not in (1, 2):
        raise Unsupported
    rows, inner = (1, *a.size)[-2:]
    columns = b.size[1] if len(b.size) == 2 else 1
    return call.round([_total([a.values[i * inner + k] * b.values[k * columns + j] for k in range(inner)])
                       for i in range(rows) for j in range(columns)])  # fmt: skip


def _set_at(call: HostCall, a: Array, indices: list[Array], dims: Any, values: Array) -> list[Any]:
    size, places = _pointed(a, indices, dims)
    found = list(a.values)
    for at, value in zip(places, values.broadcast(size), strict=True):
        found[at] = value
    return found


def _broadcast_shape(sizes: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(mt.broadcast_shapes(*sizes))


def _one_hot(call: HostCall, a: Array, classes: int = -1) -> list[Any]:
    if any(not 0 <= v < call.result.size[-1] for v in a.values):
        raise Unsupported
    return [int(v == i) for v in a.values for i in range(call.result.size[-1])]


def _interleaved_by(call: HostCall, a: Array, repeats: Array, dim: int, length: int) -> list[Any]:
    source = [i for i, n in enumerate(repeats.values) for _ in range(n)]
    dim %= max(len(a.size), 1)
    return _picked(call, lambda at: _at(a, (*at[:dim], source[at[dim]], *at[dim + 1 :])))


def _interleaved(call: HostCall, a: Array, repeats: int, dim: int, length: int) -> list[Any]:
    dim %= max(len(a.size), 1)
    return _picked(call, lambda at: _at(a, (*at[:dim], at[dim] // repeats, *at[dim + 1 :])))


_ONE: dict[str, Callable[..., Any]] = {
    "eq": _compare(lambda a, b: a == b), "ne": _compare(lambda a, b: a != b), "lt": _compare(lambda a, b: a < b),
    "le": _compare(lambda a, b: a <= b), "gt": _compare(lambda a, b: a > b), "ge": _compare(lambda a, b: a >= b),
    "logical_and": _logical(lambda a, b: a and b), "logical_or": _logical(lambda a, b: a or b),
    "logical_xor": _logical(lambda a, b: a is not b), "logical_not": _logical(lambda a: not a),
    "bitwise_and": _integral(lambda a, b: a & b), "bitwise_or": _integral(lambda a, b: a | b), "bitwise_xor": _integral(lambda a, b: a ^ b),
    "bitwise_not": _integral(lambda a: not a if isinstance(a, bool) else ~a),
    "isnan": lambda call, a: [v != v for v in a.values], "isinf": lambda call, a: [not math.isfinite(v) and v == v for v in a.values],
    "isfinite": lambda call, a: [math.isfinite(v) for v in a.values],
    "abs": _exactly(abs), "sign": _exactly(_sign), "square": _exactly(lambda a: a * a), "maximum": _exactly(_greater),
    "minimum": _exactly(_smaller), "max.other": _exactly(_greater), "min.other": _exactly(_smaller),
    "relu": _exactly(lambda a: _greater(a, 0)),
    "clamp": _clamp, "clamp_min": _clamp, "clamp_max": lambda call, a, high: _clamp(call, a, None, high),
    "where": _where, "masked_fill": _masked_fill, "pow": _power, "div": _divided, "floor_divide": _floored, "remainder": _remainder,
    "fmod": _exactly(_fmod), "round": _round, "floor": _whole(math.floor), "ceil": _whole(math.ceil), "trunc": _whole(math.trunc),
    **{name: _real(getattr(math, name)) for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh")},
    "rsqrt": _real(lambda a: 1 / math.sqrt(a)), "exp2": _real(lambda a: 2.0**a), "sigmoid": _real(lambda a: 1 / (1 + math.exp(-a))),
    "sum": _reduced(_total), "prod": _reduced(math.prod), "mean": _reduced(lambda line: _total(line) / len(line)),
    "any": _reduced(any, False), "all": _reduced(all, False), "count_nonzero": _reduced(lambda line: sum(map(bool, line)), False),
    "max": _reduced(_most(max), False), "min": _reduced(_most(min), False), "amax": _reduced(_most(max), False),
    "amin": _reduced(_most(min), False), "argmax": _reduced(_place_of(max), False), "argmin": _reduced(_place_of(min), False),
    "cumsum": _scan(lambda a, b: a + b), "cumprod": _scan(lambda a, b: a * b),
    "cat": _cat, "stack": _stack, "flip": _flip, "repeat": _repeat, "eye": _eye, "eye.m": _eye,
    "tril": _triangle(lambda above, diagonal: above <= diagonal), "triu": _triangle(lambda above, diagonal: above >= diagonal),
    "_index": _index, "index_select": _index_select, "gather": _gather, "_repeat_interleave": _interleaved,
    "_repeat_interleave_by": _interleaved_by, "nn.functional.one_hot": _one_hot,
    "argsort": lambda call, *args: _sort(*args)[1], "matmul": _matmul, "mm": _matmul, "mv": _matmul, "dot": _matmul,
    "outer": lambda call, a, b: call.round([x * y for x in call.round(a.values) for y in call.round(b.values)]),
    "new_full": lambda call, like, size, value, *_: call.read(value),
}  # fmt: skip
"""Operators with one result."""

_WRITERS: dict[str, Callable[..., Any]] = {"_index_put_": _set_at, "masked_fill": _masked_fill}
"""Operators that write to a tensor and take tensors of other dtypes."""

_SEVERAL: dict[str, Callable[..., Any]] = {"sort": _sort, "max.dim": _most_of(max), "min.dim": _most_of(min)}
"""Operators with several results."""


# Sizes that depend on values ---------------------------------------------------------------------------------


def _tensor(values: list[Any], size: tuple[int, ...], dtype: Any) -> Any:
    return made_of_bytes(encode_numbers(values, dtype)[2] if values else b"", size, dtype)


def _nonzero(a: Array, as_tuple: bool = False) -> Any:
    found = [index for index, v in zip(itertools.product(*map(range, a.size)), a.values, strict=True) if v]
    if as_tuple:
        rows = found if a.size else [(0,)] * len(found)
        return tuple(_tensor([row[d] for row in rows], (len(rows),), mt.int64) for d in range(max(len(a.size), 1)))
    return _tensor([i for index in found for i in index], (len(found), len(a.size)), mt.int64)


def _masked_select(a: Array, mask: Array) -> Any:
    size = _broadcast_shape([a.size, mask.size])
    found = [v for v, yes in zip(a.broadcast(size), mask.broadcast(size), strict=True) if yes]
    return _tensor(found, (len(found),), a.dtype)


def _unique(a: Array, sorted_: bool = True, inverse: bool = False, counts: bool = False, dim: Any = None) -> Any:
    if dim is not None or any(v != v for v in a.values):
        raise Unsupported
    found = sorted(set(a.values))
    results = [_tensor(found, (len(found),), a.dtype)]
    if inverse:
        results.append(_tensor([found.index(v) for v in a.values], a.size, mt.int64))
    if counts:
        results.append(_tensor([a.values.count(v) for v in found], (len(found),), mt.int64))
    return results[0] if len(results) == 1 else tuple(results)


def _bincount(a: Array, weights: Any = None, minlength: int = 0) -> Any:
    if weights is not None or any(v < 0 for v in a.values):
        raise Unsupported
    length = max(minlength, *a.values, -1) + 1 if a.values and max(a.values) >= minlength else minlength
    return _tensor([a.values.count(i) for i in range(length)], (length,), mt.int64)


def _close(a: Array, b: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    size = _broadcast_shape([a.size, b.size])
    rows = zip(a.broadcast(size), b.broadcast(size), strict=True)
    return all(x == y or (x != x and y != y and equal_nan) or math.isfinite(x - y) and abs(x - y) <= atol + rtol * abs(y) for x, y in rows)


def _is_nonzero(a: Array) -> bool:
    if len(a.values) != 1:
        raise RuntimeError(f"is_nonzero(): the tensor must have one element, got {len(a.values)}")
    return bool(a.values[0])


_SIZES: dict[str, Callable[..., Any]] = {
    "nonzero": _nonzero, "argwhere": _nonzero, "where.indices": lambda a: list(_nonzero(a, True)), "masked_select": _masked_select,
    "unique": _unique, "bincount": _bincount, "equal": lambda a, b: a.size == b.size and a.values == b.values, "allclose": _close,
    "is_nonzero": _is_nonzero,
}  # fmt: skip


def result_on_host(name: str, args: tuple[Any, ...]) -> Any:
    """Return the result of an operator whose size depends on values, computed with Python's numbers. Its tensors are on meta.

    Raises
    ------
    DataDependentError
        If there is no implementation of the operator here.
    """
    try:
        if name not in _SIZES:
            raise Unsupported
        return _SIZES[name](*_arrays(list(args)))
    except (Unsupported, ValueError, TypeError) as error:
        raise _unavailable(name) from error
