"""Calls that PyTorch may reject: recorded calls, each changed in one or two places.

The encoded form of a call is changed (see ``README.md``), so both libraries get the same arguments. Each generator
yields ``(kind, args, kwargs)``, where ``kind`` describes the change.
"""

import copy
from math import prod

from .records import min_storage

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")
MUCH = 37  # out of range as a size, a dimension or an index


def contiguous(shape):
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return strides


def spec(shape, dtype, strides=None, offset=0, length=None, **more):
    """Return an encoded tensor."""
    tail = [] if length is None else [length]
    return {"T": [list(shape), list(contiguous(shape) if strides is None else strides), dtype, offset, *tail], **more}


def is_spec(x):
    return isinstance(x, dict) and "T" in x


def places(node, at=()):
    """Yield the path and the value of every item in encoded arguments.

    Lists and tuples (``{"t": [...]}``) are entered. Other dicts encode a single value, such as a tensor or a dtype.
    """
    items = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
    for key, item in items:
        yield (*at, key), item
        if isinstance(item, list) or (isinstance(item, dict) and "t" in item):
            yield from places(item, (*at, key))


def get(node, path):
    for key in path:
        node = node[key]
    return node


def put(call, path, value):
    """Return a copy of ``[args, kwargs]`` with the value in one place replaced."""
    made = copy.deepcopy(call)
    get(made, path[:-1])[path[-1]] = value
    return made


def tensor_places(call):
    return [(path, item) for path, item in places(call) if is_spec(item)]


# Arguments ----------------------------------------------------------------------------------------


def _shapes(shape):
    """Yield other shapes for a tensor."""
    yield "a dimension less", shape[1:]
    yield "no dimension", []
    yield "a dimension more", [1, *shape]
    yield "a batch more", [2, *shape]
    if shape:
        yield "last size + 1", [*shape[:-1], shape[-1] + 1]
        yield "first size + 1", [shape[0] + 1, *shape[1:]]
        yield "first size 1", [1, *shape[1:]]
    if len(shape) > 1:
        yield "last dimension less", shape[:-1]


def other_tensors(call):
    """Change the dtype or the shape of one tensor.

    Other calls change the dtype of one tensor and the shape of another one, because the class of the exception may show
    which of the two is checked first.
    """
    found = tensor_places(call)
    for path, item in found:
        shape, _, dtype, *_ = item["T"]
        for other in DTYPES:
            if other != dtype:
                yield f"tensor: {other}", *put(call, path, spec(shape, other))
        for what, new in _shapes(shape):
            if new != shape:
                yield f"tensor: {what}", *put(call, path, spec(new, dtype))
    for i, (path, item) in enumerate(found[:3]):
        for j, (other_path, other) in enumerate(found[:3]):
            if i != j:
                made = put(call, path, spec(item["T"][0], "bool" if item["T"][2] != "bool" else "float32"))
                size = other["T"][0]
                yield "two tensors: dtype and shape", *put(made, other_path, spec([*size[:-1], MUCH] if size else [2, 3], other["T"][2]))
    if len(found) > 1:
        for other in ("bool", "int64", "complex64", "float16"):
            made = call
            for path, item in found:
                made = put(made, path, spec(item["T"][0], other))
            yield f"all tensors: {other}", *made


def other_numbers(call):
    """Replace one number, flag, string or list by an invalid one. In some of the calls, a tensor also has a wrong dtype."""
    tensors = tensor_places(call)
    for path, item in places(call):
        if is_spec(item) or "out" in path:
            continue
        for what, new in _others(item):
            made = put(call, path, new)
            yield f"number: {what}", *made
            if tensors and what in ("out of range", "negative"):
                first, tensor = tensors[0]
                wrong = "bool" if tensor["T"][2] != "bool" else "float32"
                yield f"number {what}, dtype", *put(made, first, spec(tensor["T"][0], wrong))


def _others(x):
    if isinstance(x, bool):
        yield from (("flag as text", "x"), ("flag as number", 2))
    elif isinstance(x, int):
        yield from (("out of range", MUCH), ("negative", -MUCH), ("zero", 0), ("float", 0.5), ("text", "x"), ("none", None))
    elif isinstance(x, float):
        yield from (("negative float", -x - 1), ("text", "x"), ("complex", {"cx": [1, 2]}), ("none", None))
    elif isinstance(x, str):
        yield from (("other text", "nonsense"), ("text as number", 3))
    elif isinstance(x, dict) and "dt" in x:
        yield from ((f"dtype {d}", {"dt": d}) for d in ("bool", "int64", "complex64", "float16"))
    else:
        items = x if isinstance(x, list) else x.get("t", x.get("sz")) if isinstance(x, dict) else None
        if not items or not all(isinstance(i, int) for i in items):
            return
        yield "list longer", [*items, 1]
        yield "list shorter", items[:-1]
        yield "list of equal items", [items[0]] * max(len(items), 2)


# out= ---------------------------------------------------------------------------------------------


def outs(call, results):
    """Yield the call with ``out=`` of every kind. ``results`` are the encoded results of the call."""
    args, kwargs = call
    several = isinstance(results, list)
    results = [r["T"][:4] for r in (results if several else [results])]

    def given(kind, first, *rest):
        """Pass ``first``, then ``rest``, then valid tensors for the remaining results."""
        made = [first, *rest, *(spec(r[0], r[2], r[1]) for r in results[1 + len(rest):])]
        return f"out: {kind}", *copy.deepcopy([args, {**kwargs, "out": {"t": made} if several else made[0]}])

    shape, strides, dtype, _ = results[0]
    fitting = spec(shape, dtype)
    yield given("fitting", fitting)
    for other in DTYPES:
        if other != dtype:
            yield given(f"dtype {other}", spec(shape, other))
    if several and len(results) > 1:
        last = results[-1]
        for other in DTYPES:
            if other != last[2]:
                rest = [*(spec(r[0], r[2]) for r in results[1:-1]), spec(last[0], other)]
                yield given(f"last dtype {other}", fitting, *rest)
        if last[:3] == results[0][:3]:
            index = sum(1 for _ in tensor_places(call))
            yield given("one tensor twice", fitting, *(spec(r[0], r[2]) for r in results[1:-1]), {"in": index})
        yield "out: one too few", *copy.deepcopy([args, {**kwargs, "out": {"t": [spec(r[0], r[2]) for r in results[:-1]]}}])
        yield "out: one for several", *copy.deepcopy([args, {**kwargs, "out": fitting}])
        yield "out: list", *copy.deepcopy([args, {**kwargs, "out": [spec(r[0], r[2]) for r in results]}])
    else:
        yield "out: in a tuple", *copy.deepcopy([args, {**kwargs, "out": {"t": [fitting]}}])
    yield from (given(*item) for item in _shaped(shape, strides, dtype))
    yield from (given(kind, first) for kind, first in _aliased(call, shape, dtype))


def _shaped(shape, strides, dtype):
    """Yield tensors of other shapes and layouts for ``out=``."""
    total = prod(shape)
    yield "empty", spec([0], dtype)
    yield "empty with dimensions", spec([0, 2], dtype)
    yield "larger", spec([s + 1 for s in shape] or [2], dtype)
    yield "one dimension", spec([max(total, 1) + 1], dtype)
    yield "empty float16", spec([0], "float16")
    yield "empty int64", spec([0], "int64")
    yield "wrong shape float16", spec([*shape, 2], "float16")
    gaps = [2 * s for s in contiguous(shape)]
    yield "gaps", spec(shape, dtype, gaps, 1, 2 * total + 2)
    yield "offset", spec(shape, dtype, None, 3, total + 5)
    yield "wrong shape, a view", spec([*shape, 2], dtype, [2 * s for s in contiguous([*shape, 2])], 1, 4 * total + 4)
    yield "wrong shape, inside a storage", spec([max(total - 1, 1)], dtype, [2], 2, 3 * total + 9)
    if len(shape) > 1:
        yield "transposed", spec(shape, dtype, contiguous(shape[::-1])[::-1])
    if total > 1:
        yield "all one element", spec(shape, dtype, [0] * len(shape), 0, 1)
        large = max(range(len(shape)), key=lambda i: shape[i])
        yield "expanded", spec(shape, dtype, [0 if i == large else s for i, s in enumerate(contiguous(shape))])


def _aliased(call, shape, dtype):
    """Yield tensors for ``out=`` that share memory with an argument of the call."""
    total = prod(shape)
    for k, (_, item) in enumerate(tensor_places(call)[:3]):
        size, strides, kind, offset, *_ = item["T"]
        if kind != dtype or "a" in item or not prod(size) or item.get("c") or item.get("n"):
            continue
        yield f"argument {k + 1}", {"in": k}
        room = min_storage(size, strides, offset)
        if total + 1 <= room:
            yield f"part of argument {k + 1}", spec(shape, dtype, None, 1, a=k)
        if total <= room and size != list(shape):
            yield f"start of argument {k + 1}", spec(shape, dtype, None, 0, a=k)
        if len(shape) > 1 and shape[0] > 1 and size == list(shape) == size[::-1] and room == total:
            yield f"argument {k + 1} transposed", spec(shape, dtype, contiguous(shape)[::-1], 0, a=k)


# In place -----------------------------------------------------------------------------------------


def targets(call):
    """Yield in-place calls in which targets and arguments share memory."""
    found = tensor_places(call)
    if not found or found[0][0] != (0, 0):
        return
    path, target = found[0]
    shape, _, dtype, *_ = target["T"]
    total = prod(shape)
    yield "in place", *copy.deepcopy(call)
    for other in DTYPES:
        if other != dtype:
            yield f"in place: target {other}", *put(call, path, spec(shape, other))
    if total > 1:
        yield "in place: all one element", *put(call, path, spec(shape, dtype, [0] * len(shape), 0, 1))
        large = max(range(len(shape)), key=lambda i: shape[i])
        yield "in place: expanded", *put(call, path, spec(shape, dtype, [0 if i == large else s for i, s in enumerate(contiguous(shape))]))
        yield "in place: gaps", *put(call, path, spec(shape, dtype, [2 * s for s in contiguous(shape)], 0, 2 * total))
    for other_path, other in found[1:4]:
        size, _, kind, *_ = other["T"]
        if kind != dtype:
            made = put(call, path, spec(shape, kind, None, 0, total + prod(size) + 1))
        else:
            made = put(call, path, spec(shape, dtype, None, 0, total + prod(size) + 1))
        name = f"argument {found.index((other_path, other)) + 1}"
        same = " (target changed to the dtype of the argument)" if kind != dtype else ""
        if size == shape:
            yield f"in place: {name} is also the target{same}", *put(made, other_path, {"in": 0})
            yield f"in place: {name} is a view of the target{same}", *put(made, other_path, spec(size, kind, None, 0, a=0))
        if total > 1:
            yield f"in place: {name} overlaps the target{same}", *put(made, other_path, spec(size, kind, None, 1, a=0))
            yield f"in place: {name} is at the start of the target{same}", *put(made, other_path, spec(size, kind, None, 0, a=0))
        yield f"in place: {name} is behind the target in its storage{same}", *put(made, other_path, spec(size, kind, None, total, a=0))
