"""Batching rules for operators whose results depend on values: counts, histograms, ranges, positions and repeats.

Where the shape of a result depends on values, these are read once for the whole batch, and must give one shape for all
members. Operators that have no such form raise `NoBatch`, as PyTorch's do.
"""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor._core.thread import DisableTorchFunctionSubclass
from metatensor.func._batched import Level, NoBatch, wrap
from metatensor.func._rules import _rule, each, expanded, is_batch, named, view, written

__all__ = ["spaced"]


# Shapes that depend on values ---------------------------------------------------------------------------------------------


@named("nonzero unique unique_consecutive")
def _refused(func: Any, level: Level, given: dict[str, Any]) -> Any:
    raise NoBatch(f"vmap: the shape of the result of {func.name} depends on values, so it may differ between members of the batch")


@_rule("narrow tensor_split")
def _by_numbers(func: Any, level: Level, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Raise if positions that differ between members choose a view."""
    if any(is_batch(y, level) for y in (*args[1:], *kwargs.values())):
        raise NoBatch(f"vmap: {func.name} needs positions as Python numbers, but they differ between members of the batch; use "
                      "index_select or gather")
    return view(func, level, args, kwargs)


def _same(counts: Any, what: str) -> int:
    """Return the common value of a vector with one number for each member."""
    found = set(counts.reshape(-1).tolist())
    if len(found) > 1:
        raise NoBatch(f"vmap: the shape of the result of {what} differs between the members of the batch: {sorted(found)}")
    return found.pop() if found else 0


@named("argwhere")
def _argwhere(func: Any, level: Level, given: dict[str, Any]) -> Any:
    value = given["input"].value
    n = _same((value != 0).reshape(level.size, -1).sum(1), "argwhere")
    return wrap(func(value).reshape(level.size, n, value.dim())[:, :, 1:], level)


@named("nonzero_static")
def _nonzero_static(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, size = given["input"], given["size"]
    flags = x.value.reshape(level.size, -1) != 0
    if not x.dim() or not x.numel():
        return mt.full((size, x.dim()), given["fill_value"], dtype=mt.int64, device=x.device)
    order = flags.logical_not().to(mt.uint8).sort(stable=True, dim=1).indices[:, :size]
    missing = size - order.shape[1]
    order = mt.nn.functional.pad(order, (0, missing)) if missing else order
    valid = mt.arange(size, device=x.device) < flags.sum(1, keepdim=True)
    found = mt.stack(list(mt.unravel_index(order, tuple(x.shape))), -1)
    return wrap(found.masked_fill(valid.logical_not().unsqueeze(-1), given["fill_value"]), level)


@named("nn.functional.one_hot")
def _one_hot(func: Any, level: Level, given: dict[str, Any]) -> Any:
    if given["num_classes"] == -1:
        raise NoBatch("vmap: one_hot needs num_classes, because the largest value may differ between members of the batch")
    return wrap(func(given["input"].value, given["num_classes"]), level)


@named("masked_select")
def _masked_select(func: Any, level: Level, given: dict[str, Any]) -> Any:
    if is_batch(given["mask"], level):
        raise NoBatch("vmap: the number of elements that masked_select finds may differ between members of the batch")
    x, mask = given["input"], given["mask"]
    shape = mt.broadcast_shapes(x.shape, mask.shape)
    return x.expand(shape).reshape(-1)[mask.expand(shape).reshape(-1).nonzero().squeeze(1)]


@named("repeat_interleave _repeat_interleave_by")
def _repeat_interleave(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Find the element at each place of the result by the running sum of the repeats."""
    repeats, size = given["repeats"], given["output_size"]
    if not is_batch(repeats, level):
        return NotImplemented
    x = given.get("input")
    dim = given.get("dim")
    if x is None:
        x = mt.arange(repeats.shape[0], dtype=repeats.dtype, device=repeats.device)
    if dim is None or not x.dim():
        x, dim = x.reshape(-1), 0
    if repeats.dim() > 1 or repeats.numel() not in (1, x.shape[dim]):
        return NotImplemented
    repeats = repeats.reshape(-1).expand(x.shape[dim])
    if size is None:
        if bool((repeats.value < 0).any()):
            raise RuntimeError("repeat_interleave(): repeats must not be negative")
        size = _same(repeats.value.sum(1), "repeat_interleave")
    ends = repeats.cumsum(0)
    at = mt.searchsorted(ends, mt.arange(size, dtype=ends.dtype, device=ends.device), right=True)
    return x.index_select(dim, at.clamp_max(max(x.shape[dim] - 1, 0)))


# Counts -------------------------------------------------------------------------------------------------------------------


def _tallied(place: Any, inside: Any, weight: Any, bins: int) -> Any:
    """Count the values of each row, (B, n), or add their weights up, by bin."""
    weight = mt.ones_like(place, dtype=mt.float64) if weight is None else weight.to(mt.float64)
    weight = weight if inside is None else mt.where(inside, weight, 0.0)
    return weight.new_zeros((place.shape[0], bins)).scatter_add(1, place, weight)


@named("bincount")
def _bincount(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, weights, least = given["input"], given["weights"], given["minlength"]
    if x.dim() != 1 or least < 0 or x.is_floating_point() or weights is not None and weights.shape != x.shape:
        return NotImplemented
    rows = expanded(x, level).to(mt.int64)
    if x.numel() and bool((rows < 0).any()):
        raise RuntimeError("bincount(): input must not have negative elements")
    bins = _same(rows.amax(1).add(1).clamp_min(least), "bincount") if rows.numel() else least
    if weights is None:
        return wrap(rows.new_zeros((level.size, bins)).scatter_add(1, rows, mt.ones_like(rows)), level)
    dtype = weights.dtype if weights.dtype in (mt.float32, mt.float64) else mt.float64
    return wrap(_tallied(rows, None, expanded(weights, level), bins).to(dtype), level)


def _ends(values: Any, widen: float) -> tuple[Any, Any]:
    """Return the range of each row, widened if it is a single point."""
    low, high = values.amin(1), values.amax(1)
    flat = low == high
    return mt.where(flat, low - widen, low), mt.where(flat, high + widen, high)


def _between(low: Any, high: Any, widen: float, like: Any) -> tuple[Any, Any]:
    """Return a range given by numbers as one range for each row."""
    low, high = (low - widen, high + widen) if low == high else (low, high)
    ends = [mt.full((like.shape[0],), end, dtype=like.dtype, device=like.device) for end in (low, high)]
    return ends[0], ends[1]


def _finite(*ends: Any) -> None:
    for end in ends:
        if mt.is_grad_enabled() and end.requires_grad:
            end = end.detach()
        if end.device.type != "meta" and not bool(end.isfinite().all()):
            raise RuntimeError("the range of a histogram is not finite")


@named("histc")
def _histc(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, bins, low, high = (given[name] for name in ("input", "bins", "min", "max"))
    values = x.value.reshape(level.size, -1).detach()
    values = values.to(mt.float64) if x.dtype is mt.bfloat16 else values
    if not values.is_floating_point() or bins <= 0:
        return NotImplemented
    if low == high and x.numel():
        low, high = _ends(values, 1)
    else:
        low, high = _between(low, high, 1, values)
    _finite(low, high)
    low, high = low.unsqueeze(1), high.unsqueeze(1)
    inside = (values >= low) & (values <= high)
    place = mt.where(inside, (values - low) * bins / (high - low), 0).to(mt.int64).clamp_max(bins - 1)
    return wrap(_tallied(place, inside, None, bins).to(x.dtype), level)


def spaced(start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """Return rows of evenly spaced numbers. Each is computed from the nearer end, so that both ends are exact."""
    exact = dtype if dtype.is_floating_point or dtype.is_complex else mt.float64
    start, end = start.to(dtype).to(exact).unsqueeze(-1), end.to(dtype).to(exact).unsqueeze(-1)
    if steps < 2:
        return start.expand(*start.shape[:-1], steps)
    step = (end - start) / (steps - 1)
    i = mt.arange(steps, device=start.device)
    return mt.where(i < steps // 2, start + step * i.to(exact), end - step * (steps - 1 - i).to(exact))


def _edges(values: Any, bins: int, range: Any, dtype: Any) -> Any:
    """Return the edges of bins of equal width over the range of each row."""
    if range is None and values.shape[1]:
        low, high = _ends(values, 0.5)
    else:
        first, last = range or (0.0, 1.0)
        low, high = _between(first, last, 0.5, values)
    _finite(low, high)
    return spaced(low, high, bins + 1, dtype)


def _histogram(columns: list[Any], edges: list[Any], weight: Any, density: bool, dtype: Any) -> Any:
    """Count points with coordinates (B, n) between edges (B, m)."""
    index: Any = 0
    inside: Any = True
    sizes = [limits.shape[1] - 1 for limits in edges]
    for values, limits in zip(columns, edges, strict=True):
        found = mt.searchsorted(limits.contiguous(), values.contiguous(), right=True) - 1
        index = index * (limits.shape[1] - 1) + found.clamp(0, limits.shape[1] - 2)
        inside = (values >= limits[:, :1]) & (values <= limits[:, -1:]) & inside
    result = _tallied(index, inside, weight, math.prod(sizes)).unflatten(1, tuple(sizes))
    if density:
        result = result / result.flatten(1).sum(1).reshape(-1, *(1,) * len(sizes))
        for axis, limits in enumerate(edges):
            width = limits[:, 1:] - limits[:, :-1]
            result = result / width.reshape(-1, *[n if i == axis else 1 for i, n in enumerate(sizes)])
    return result.to(dtype)


@named("histogram")
def _histogram_of(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, bins, weight = given["input"], given["bins"], given["weight"]
    values = expanded(x, level).reshape(level.size, -1).detach()
    if weight is not None:
        weight = expanded(weight, level).reshape(level.size, -1)
    edges = expanded(bins, level) if isinstance(bins, Tensor) else _edges(values, bins, given["range"], x.dtype)
    return each((_histogram([values], [edges], weight, given["density"], x.dtype), edges), level)


def _columns(x: Any, level: Level) -> list[Any]:
    points = expanded(x, level).detach().reshape(level.size, -1, x.shape[-1] or 1)
    return [points[:, :, i] for i in range(x.shape[-1])]


@named("_histogramdd_bin_edges")
def _bin_edges(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, bins, ends = given["input"], given["bins"], given["range"]
    return tuple(
        wrap(_edges(values, bins[i], None if ends is None else tuple(ends[2 * i : 2 * i + 2]), x.dtype), level)
        for i, values in enumerate(_columns(x, level))
    )


@named("_histogramdd_from_bin_tensors")
def _points_between(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, weight = given["input"], given["weight"]
    edges = [expanded(b, level) for b in given["bins"]]
    if not edges:
        return NotImplemented
    weight = None if weight is None else expanded(weight, level).reshape(level.size, -1)
    return wrap(_histogram(_columns(x, level), edges, weight, given["density"], x.dtype), level)


@named("cov")
def _cov(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Compute weighted covariances. The signs of the weights are checked for all members together."""
    x, correction, counts, weights = (given[name] for name in ("input", "correction", "fweights", "aweights"))
    if not is_batch(counts, level) and not is_batch(weights, level):
        return NotImplemented
    for name, w in (("fweights", counts), ("aweights", weights)):
        if is_batch(w, level) and w.device.type != "meta" and bool((w.value < 0).any()):
            raise RuntimeError(f"cov(): {name} must not be negative")
    x = x.reshape(1, -1) if x.dim() < 2 else x
    w = weights if counts is None else counts if weights is None else counts * weights
    total = w.sum()
    mean = (x * w).sum(1) / total
    if correction == 0:
        factor = total
    elif weights is not None:
        factor = (total - (w * weights).sum() / total * correction).clamp_min(0)
    else:
        factor = (total - correction).clamp_min(0)
    x = x - mean.unsqueeze(1)
    return ((x @ (x * w).mT.conj()) / factor).squeeze()


# Ranges -------------------------------------------------------------------------------------------------------------------


@named("linspace logspace")
def _ranges(func: Any, level: Level, given: dict[str, Any]) -> Any:
    steps, dtype = given["steps"], given["dtype"] or mt.get_default_dtype()
    tensors = [x for x in (given["start"], given["end"]) if isinstance(x, Tensor)]
    if any(x.dim() for x in tensors) or steps < 0:
        return NotImplemented
    start, end = (
        expanded(x, level).detach() if isinstance(x, Tensor) else mt.full((level.size,), x, device=tensors[0].device, dtype=dtype)
        for x in (given["start"], given["end"])
    )
    made = spaced(start, end, steps, dtype)
    made = made if func.name == "linspace" else mt.pow(given["base"], made)
    return wrap(made.to(dtype).to(given["device"] or made.device), level)


# Positions ----------------------------------------------------------------------------------------------------------------


@named("_unravel_index")
def _unravelled(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return wrap(func(given["indices"].value, given["shape"]), level)


@named("as_strided_scatter")
def _as_strided_scatter(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Write to places of the members' storages, then read their elements."""
    x, src = given["input"], given["src"]
    size, stride, offset = given["size"], given["stride"], given["storage_offset"]
    if tuple(src.shape) != tuple(size):
        return NotImplemented
    offset = x.storage_offset() if offset is None else offset
    extent = max(1 + o + sum((n - 1) * s for n, s in zip(ns, ss, strict=True)) if all(ns) else 0
                 for ns, ss, o in ((x.shape, x.stride(), x.storage_offset()), (size, stride, offset)))
    places = mt.arange(extent, device=x.device)
    read = places.as_strided(x.shape, x.stride(), x.storage_offset()).reshape(1, -1).expand(level.size, x.numel())
    put = places.as_strided(size, stride, offset).reshape(1, -1).expand(level.size, src.numel())
    storage = mt.zeros((level.size, extent), dtype=x.dtype, device=x.device)
    storage = storage.scatter(1, read, expanded(x, level).reshape(level.size, -1))
    storage = storage.scatter(1, put, expanded(src, level).reshape(level.size, -1).to(x.dtype))
    return wrap(storage.gather(1, read).reshape(level.size, *x.shape), level)


@named("index_put")
def _index_put(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return written(given["input"], level).index_put_(given["indices"], given["values"], given["accumulate"])


def _put_by_masks(x: Any, indices: list[Any], dims: list[int], values: Any, accumulate: bool, level: Level) -> Any:
    """Write one value where a mask, which differs between members, is True."""
    mask = indices[0]
    if len(indices) > 1 or values.numel() != 1 and values.dim() > x.dim() - dims[0] - mask.dim():
        raise NoBatch("vmap: the number of elements that a mask chooses may differ between members of the batch; write one value "
                      "for all of them, or use where")
    mask = mask.reshape(*mask.shape, *(1,) * (x.dim() - dims[0] - mask.dim()))
    values = values.reshape(()) if values.numel() == 1 else values
    values = values.to(x.dtype)
    return x.copy_(mt.where(mask, x + values if accumulate else values, x))


@named("_index_put_ _index_put_accumulate_")
def _put_at(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Write at positions. The indexed dimensions are moved to the front first."""
    x, indices, dims, values = given["input"], list(given["indices"]), list(given["dims"]), given["values"]
    accumulate = func.name == "_index_put_accumulate_"
    if any(i.dtype in (mt.bool, mt.uint8) and is_batch(i, level) for i in indices):
        return _put_by_masks(x, indices, dims, values, accumulate, level)
    picks: list[Any] = []
    where: list[int] = []
    for index, dim in zip(indices, dims, strict=True):
        masks = index.dtype in (mt.bool, mt.uint8)
        columns = index.nonzero().unbind(1) if masks else (index,)
        picks += columns
        where += range(dim, dim + max(len(columns), 1)) if index.dim() or not masks else ()
    if len(where) != len(picks):
        return NotImplemented
    rest = [d for d in range(x.dim()) if d not in where]
    shape = mt.broadcast_shapes(*(p.shape for p in picks))
    rank = len(shape)
    adjacent = where == list(range(where[0], where[0] + len(where)))
    target = x.value.permute(0, *(d + 1 for d in where + rest))
    full = (*shape, *(x.shape[d] for d in rest))
    seen = (*full[rank : rank + where[0]], *shape, *full[rank + where[0] :]) if adjacent else full
    values = values.to(x.dtype).expand(seen)
    if adjacent and rank and where[0]:
        values = values.movedim(list(range(where[0], where[0] + rank)), list(range(rank)))
    own = values.value if is_batch(values, level) else values
    every = mt.arange(level.size, device=x.device).reshape(-1, *(1,) * rank)
    whole = [p.value.reshape(level.size, *(1,) * (rank - p.dim()), *p.shape) if is_batch(p, level) else p for p in picks]
    func(target, [every, *whole], tuple(range(len(whole) + 1)), own)
    return x


# In place -----------------------------------------------------------------------------------------------------------------


@named("resize_ resize_as_")
def _resized(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Give the members another shape, in memory of their own if it differs."""
    x = given["input"]
    shape = tuple(given["the_template"].shape if func.name == "resize_as_" else given["size"])
    if not is_batch(x, level) or given["memory_format"] not in (None, mt.contiguous_format):
        return NotImplemented
    if shape == tuple(x.shape):
        return x
    n, before = math.prod(shape), x.numel()
    flat = x.value.reshape(level.size, before)
    made = x.value.new_empty((level.size, n))
    made[:, : min(n, before)].copy_(flat[:, : min(n, before)])
    x.value = made.reshape(level.size, *shape)
    with DisableTorchFunctionSubclass():
        x.set_(x.value.detach().select(0, 0) if level.size else x.value.new_empty(shape))
    return x


@named("embedding_renorm_")
def _renormed(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Scale rows of the table of each member."""
    table, index = given["input"], given["indices"]
    n = table.shape[0]
    shift = mt.arange(level.size, device=index.device, dtype=index.dtype).reshape(level.size, *(1,) * index.dim()) * n
    rows = table.value.reshape(-1, table.shape[-1])
    func(rows, expanded(index, level) + shift, given["max_norm"], given["norm_type"])
    if rows.untyped_storage() is not table.value.untyped_storage():
        table.value.copy_(rows.reshape(table.value.shape))
    return table

