"""Variants of a call: other values, sizes, layouts and dtypes, and other kinds of arguments.

A call is ``(args, kwargs)`` with PyTorch's tensors. Each family is a function that yields ``(label, call)``. A variant
need not be valid; PyTorch decides that.
"""

import itertools

import torch

from .twins import tensors, tree_map

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (torch.bool, *INTEGERS, *UNSIGNED, *FLOATS, torch.complex32, torch.complex64, torch.complex128)
NUMBERS = (2, 2.5, True, 1 + 2j, -1, 0)
# Operators whose integers determine the size of the result. The largest integers would exhaust the memory.
COUNTING = {"bincount", "one_hot", "repeat_interleave", "tensor_split", "unravel_index", "tile", "repeat", "unique",
"histc"}


def changed(call, function):
    """Return the call with each tensor replaced by ``function(number, tensor)``. Tensors are numbered in order."""
    number = itertools.count()
    return tree_map(lambda x: function(next(number), x) if isinstance(x, torch.Tensor) else x, (tuple(call[0]), dict(call[1])))


def _each(call, label, function):
    """Yield calls with ``function`` applied to one of the first three tensors, and to all tensors."""
    n = len(tensors(call))
    targets = [{i} for i in range(min(n, 3))] + ([set(range(n))] if n > 1 else [])
    for numbers in targets:
        new = changed(call, lambda i, t, numbers=numbers: function(t) if i in numbers else t)
        if any(a is not b for a, b in zip(tensors(new), tensors(call))):
            yield f"{label} of {'all' if len(numbers) > 1 else min(numbers)}", new


def _is_float(t):
    return t.is_floating_point() or t.is_complex()


# Values -----------------------------------------------------------------------------------------------------------

_NAN, _INF = float("nan"), float("inf")


def special_values(dtype, number=0):
    """Return the limits of a dtype, values near zero, infinities and NaN. ``number`` is that of the tensor."""
    if dtype.is_complex:
        parts = [0.0, -0.0, 1.0, -2.5, _INF, -_INF, _NAN]
        return [complex(a, b) for a in parts for b in parts[number % 2 :: 2]]
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        least = info.smallest_normal
        return [_NAN, _INF, -_INF, 0.0, -0.0, least / 2, -least, info.max, info.min, 1.0, -1.0, 0.5, 2.5, -3.5, info.eps]
    info = torch.iinfo(dtype)
    # Dividing the smallest integer by -1 crashes PyTorch too.
    return [info.min, info.max, 0, 1, -1 if info.min else 1, 2, 7] if number == 0 else [info.max, 1, 2, 3, 5]


def _filled(t, values):
    if not t.numel():
        return t
    flat = torch.tensor(values, dtype=torch.complex128).to(t.dtype) if t.is_complex() else torch.tensor(values, dtype=t.dtype)
    return flat.repeat(-(-t.numel() // len(flat)))[: t.numel()].reshape(t.shape)


def _with_one(t, number):
    """Return a float tensor with one element replaced."""
    if not _is_float(t) or not t.numel():
        return t
    flat = t.detach().reshape(-1).clone()
    flat[flat.numel() // 2] = number
    return flat.reshape(t.shape)


def values(call, name=""):
    floats = [_is_float(t) for t in tensors(call)]
    # If some tensors are floats, the others are indices or masks, whose values stay.
    fixed = (any(floats) and not all(floats)) or name.rpartition(".")[2] in COUNTING

    def usable(t):
        return _is_float(t) or (not fixed and t.dtype is not torch.bool)

    for shift in (0, 1, 5, 9):

        def special(i, t, shift=shift):
            found = special_values(t.dtype, i) if usable(t) else []
            k = (3 * i + shift) % max(len(found), 1)
            return _filled(t, found[k:] + found[:k]) if found else t

        yield f"special {shift}", changed(call, special)
    for label, number in (("nan", _NAN), ("inf", _INF), ("-0", -0.0)):
        yield from _each(call, label, lambda t, number=number: _with_one(t, number))
    few = [1, 0, 1, 2, 0]
    yield "ties", changed(call, lambda i, t: _filled(t, few) if usable(t) else t)
    yield "equal", changed(call, lambda i, t: torch.ones_like(t) if usable(t) else t)


# Sizes ------------------------------------------------------------------------------------------------------------


def sizes(call):
    found = tensors(call)
    if not found:
        return
    shape = found[0].shape
    for d, n in enumerate(shape):
        yield from _each(call, f"empty {d}", lambda t, d=d: t.narrow(d, 0, 0).clone() if d < t.dim() and t.shape[d] else t)
        if n > 1:
            yield f"empty alike {d}", changed(call, lambda i, t, n=n: t.new_zeros([0 if m == n else m for m in t.shape]))
    if shape:
        yield "empty last", changed(call, lambda i, t: t.narrow(-1, 0, 0).clone() if t.dim() and t.shape[-1] else t)
        yield "empty everywhere", changed(call, lambda i, t: t.new_zeros([0] * t.dim()))
    yield from _each(call, "0-d", lambda t: t.reshape(-1)[0].clone() if t.dim() and t.numel() else t)
    yield from _each(call, "(0,)", lambda t: t.new_zeros(0) if tuple(t.shape) != (0,) else t)
    yield from _each(call, "(1,)", lambda t: t.reshape(-1)[:1].clone() if t.dim() != 1 and t.numel() else t)
    yield from _each(call, "size 1", lambda t: t[(slice(0, 1),) * t.dim()].clone() if t.dim() and t.numel() > 1 else t)
    yield from _each(call, "batched", lambda t: t.unsqueeze(0).clone())
    yield from _each(call, "stacked", lambda t: torch.stack([t, t]))


# Layouts ----------------------------------------------------------------------------------------------------------


def _reversed(t):
    """Return a tensor with the same values and the order of dimensions in memory reversed."""
    order = tuple(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order) if t.dim() > 1 else t


def _gaps(t):
    return torch.stack([t, t], -1)[..., 0] if t.numel() > 1 else t


def _channels_last(t):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


def _expanded(t, d):
    return t.narrow(d, 0, 1).expand(t.shape) if t.dim() > d and t.shape[d] > 1 else t


def _lazy(t):
    if t.is_complex():
        return t.conj_physical().conj()
    return t.neg()._neg_view() if t.is_floating_point() else t


LAYOUTS = {
    "reversed": _reversed,
    "rolled": lambda t: t.movedim(0, -1).contiguous().movedim(-1, 0) if t.dim() > 2 else t,
    "channels last": _channels_last,
    "gaps": _gaps,
    "offset": lambda t: torch.cat([t.new_ones(3), t.reshape(-1)])[3:].view(t.shape),
    "expanded 0": lambda t: _expanded(t, 0),
    "expanded 1": lambda t: _expanded(t, 1),
    "lazy": _lazy,
    "gaps, reversed": lambda t: _gaps(_reversed(t)),
}


def layouts(call):
    for label, function in LAYOUTS.items():
        yield from _each(call, label, function)


# Kinds of arguments -----------------------------------------------------------------------------------------------


def dtypes(call):
    for dtype in DTYPES:
        yield from _each(call, compact(dtype), lambda t, dtype=dtype: t.to(dtype) if t.dtype is not dtype else t)


def indices(call):
    """Yield variants with integer tensors of each integer dtype."""
    for dtype in INTEGERS:
        new = changed(call, lambda i, t, dtype=dtype: t.to(dtype) if t.dtype in (torch.int32, torch.int64) else t)
        if any(a is not b and a.dtype is not b.dtype for a, b in zip(tensors(new), tensors(call))):
            yield compact(dtype), new


def compact(dtype):
    return str(dtype).removeprefix("torch.")


def _put(call, where, value):
    args, kwargs = call
    if isinstance(where, int):
        return (*args[:where], value, *args[where + 1 :]), kwargs
    return args, {**kwargs, where: value}


def scalars(call):
    """Replace tensors by numbers, and numbers by tensors or by numbers of other types."""
    for where, value in (*enumerate(call[0]), *call[1].items()):
        if isinstance(value, torch.Tensor):
            yield from ((f"{number!r} for {where}", _put(call, where, number)) for number in NUMBERS[:4])
        elif isinstance(value, (bool, int, float, complex)):
            yield f"0-d tensor for {where}", _put(call, where, torch.tensor(value))
            for number in NUMBERS:
                if type(number) is not type(value) or number != value:
                    yield f"{number!r} for {where}", _put(call, where, number)
        elif isinstance(value, (tuple, list)) and value and all(type(n) is int for n in value):
            yield f"one int for {where}", _put(call, where, value[0])
            yield f"list for {where}", _put(call, where, list(value))
            yield f"() for {where}", _put(call, where, ())


def absent(call):
    """Omit optional arguments or pass None, change dimensions, and pass one tensor for all arguments."""
    args, kwargs = call
    for where, value in (*enumerate(args), *kwargs.items()):
        if where != 0 and value is not None:
            yield f"None for {where}", _put(call, where, None)
    yield from ((f"without {where}", (args, {k: v for k, v in kwargs.items() if k != where})) for where in kwargs)
    yield from ((f"first {n}", (args[:n], kwargs)) for n in range(1, len(args)))
    if "dim" in kwargs or (len(args) > 1 and isinstance(args[1], (int, tuple, list))):
        yield "keepdim", (args, {**kwargs, "keepdim": True})
        yield from ((f"dim {d}", _put(call, "dim" if "dim" in kwargs else 1, d)) for d in (0, -1))
    if args and isinstance(args[0], torch.Tensor):
        yield "one tensor", (tuple(args[0] if isinstance(a, torch.Tensor) else a for a in args), kwargs)


def gradients(call):
    yield from _each(call, "grad", lambda t: t.detach().clone().requires_grad_() if _is_float(t) else t)


FAMILIES = {f.__name__: f for f in (values, sizes, layouts, dtypes, indices, scalars, absent, gradients)}


def variants(call, name, families=tuple(FAMILIES)):
    """Yield ``(family, label, call)`` for every variant of a call of operator ``name`` that can be constructed."""
    for family in families:
        made = values(call, name) if family == "values" else FAMILIES[family](call)
        while True:
            try:
                label, new = next(made)
            except StopIteration:
                break
            except RuntimeError:  # PyTorch cannot fill or copy this dtype: skip the rest of the family
                break
            if name.startswith("torch.ops.") and label.startswith(("True for", "False for")):
                continue  # the dispatcher takes them for 1 and 0, the functions of both libraries take no bool for an int
            yield family, label, new
