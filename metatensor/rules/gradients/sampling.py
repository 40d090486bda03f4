"""Gradients of grid sampling and embedding bags."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import no_sparse
from metatensor._core.gradients import functional, ops
from metatensor._core.sharded import DistributedTensor

__all__ = []

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _reflected(x: Any, low: float, high: float) -> Any:
    """Reflect positions at two bounds until they lie between them."""
    if low == high:
        return mt.zeros_like(x)
    span = high - low
    distance = (x - low).abs()
    turns = (distance / span).floor().detach()
    rest = distance - turns * span
    return mt.where(turns.remainder(2) == 0, rest + low, high - rest)


def _position(x: Any, size: int, padding: str, align: bool, cubic: bool) -> Any:
    """Return the position in pixels for coordinates from -1 to 1."""
    x = (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2
    return x if cubic else _bounded(x, size, padding, align)


def _bounded(x: Any, size: int, padding: str, align: bool) -> Any:
    if padding == "reflection":
        x = _reflected(x, 0, size - 1) if align else _reflected(x, -0.5, size - 0.5)
    if padding != "zeros":
        x = x.clamp(0, size - 1)
    return x


def _picked(image: Any, places: Any) -> Any:
    """Return the pixels of `image` (N, C, sizes...) at integer positions, and 0 outside the image.

    `places` holds one tensor (N, P) for each spatial dimension.
    """
    n, channels = image.shape[:2]
    flat, inside = None, None
    for place, size in zip(places, image.shape[2:]):
        within = (place >= 0) & (place <= size - 1)
        whole = place.detach().clamp(0, size - 1).to(mt.int64)
        flat = whole if flat is None else flat * size + whole
        inside = within if inside is None else inside & within
    assert flat is not None
    assert inside is not None
    values = image.reshape(n, channels, -1).gather(2, flat.unsqueeze(1).expand(n, channels, flat.shape[1]))
    return values.masked_fill(~inside.unsqueeze(1), 0)


def _cubic(t: Any) -> list:
    """Return the weights of four neighbours for a position at fraction `t` between the second and the third."""
    a = -0.75
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(image: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    """Sample an image in differentiable steps."""
    n, channels, *sizes = image.shape
    dims = len(sizes)
    points = grid.reshape(n, -1, dims)
    places = [_position(points[..., dims - 1 - d], sizes[d], padding, align, mode == "bicubic") for d in range(dims)]
    if mode == "nearest":
        result = _picked(image, [p.detach().round() for p in places])
    else:
        low = [p.detach().floor() for p in places]
        cubic = mode == "bicubic"
        weights = [_cubic(p - b) if cubic else [b + 1 - p, p - b] for p, b in zip(places, low)]
        result = 0
        for corner in range(len(weights[0]) ** dims):
            factor, at = 1, []
            for d in range(dims):
                k, corner = corner % len(weights[0]), corner // len(weights[0])
                factor = factor * weights[d][k]
                place = low[d] + (k - 1 if cubic else k)
                at.append(_bounded(place, sizes[d], padding, align) if cubic else place)
            result = result + _picked(image, at) * ops.unsqueeze(factor, 1)
    return result.reshape(n, channels, *grid.shape[1:-1])


def _options(mode: Any, padding: Any, align: Any) -> tuple:
    return mode if isinstance(mode, str) else _MODES[mode], padding if isinstance(padding, str) else _PADDINGS[padding], bool(align)


def grid_node(input: Any) -> str:
    return f"GridSampler{input.dim() - 2}DBackward0"


def grid_sample_gradients(grad: Any, input: Any, grid: Any, mode: Any, padding_mode: Any, align_corners: Any, wanted: Any) -> Any:
    return ops._grid_sampler_backward(grad, input, grid, *_options(mode, padding_mode, align_corners), list(wanted))


def grid_sampler_gradients(
    grad: Any, input: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any, wanted: Any
) -> Any:
    return ops._grid_sampler_backward(grad, input, grid, *_options(interpolation_mode, padding_mode, align_corners), list(wanted))


def grid_sampler_backward(grad: Any, input: Any, grid: Any, mode: str, padding: str, align: bool, mask: Any) -> Any:
    """Return the gradients of `grid_sample`. If gradients are recorded, this computation is recorded too."""
    create = mt.is_grad_enabled()
    with mt.enable_grad():
        if not create:
            input, grid = (t.detach().requires_grad_() for t in (input, grid))
        else:
            input, grid = (t if t.requires_grad else t.detach().requires_grad_() for t in (input, grid))
        result = grid_sample(input, grid, mode, padding, align)
        wanted = [t for t, m in zip((input, grid), mask) if m]
        found = iter(mt.autograd.grad(result, wanted, grad, create_graph=create, allow_unused=True))
    made = [next(found) if m else None for m in mask]
    return tuple(t * 0 if m and g is None else g for g, m, t in zip(made, mask, (input, grid)))


def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    sizes = [int(s) for s in size][2:]
    axes = []
    for length in reversed(sizes):
        line = (
            mt.linspace(-1, 1, length, dtype=theta.dtype, device=theta.device)
            if length > 1
            else mt.zeros(1, dtype=theta.dtype, device=theta.device)
        )
        axes.append(line if align_corners else line * ((length - 1) / length))
    n = len(sizes)
    base = mt.ones((*sizes, n + 1), dtype=theta.dtype, device=theta.device)
    for i, line in enumerate(axes):
        base[..., i] = line.view(*(-1 if d == n - 1 - i else 1 for d in range(n)))
    rows = base.view(1, -1, n + 1).expand(theta.shape[0], math.prod(sizes), n + 1)
    return rows.bmm(theta.transpose(1, 2)).view(theta.shape[0], *sizes, n)


# embedding_bag -----------------------------------------------------------------------------------------------


def embedding_bag(
    input: Any, weight: Any, offsets: Any, max_norm: Any, norm_type: float, scale_grad_by_freq: bool, mode: str, sparse: bool,
    per_sample_weights: Any, include_last_offset: bool, padding_idx: Any,
) -> Any:  # fmt: skip
    """Compute bags, and save the values that their gradient needs. The call has been checked, and a plain table renormalized."""
    if max_norm is not None and isinstance(weight, DistributedTensor):
        ops.embedding_renorm_(weight.detach(), input.reshape(-1), max_norm, norm_type)
    if input.dim() == 2:
        offsets = mt.arange(0, input.numel(), max(input.shape[1], 1), dtype=input.dtype, device=input.device)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dtype is not offsets.dtype:
        input, offsets = input.to(mt.int64), offsets.to(mt.int64)
    return ops._embedding_bag(weight, input.reshape(-1).contiguous(), offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                              include_last_offset, padding_idx)[0]  # fmt: skip


def bag_parts(
    weight: Any, indices: Any, offsets: Any, scale: bool, mode: str, sparse: bool, per_sample_weights: Any, last: bool, padding_idx: Any
) -> Any:
    """Compute the results of `_embedding_bag`."""
    result = functional.embedding_bag(indices, weight, offsets, None, 2.0, False, mode, False, per_sample_weights, last, padding_idx)
    bags, n = result.shape[0], indices.shape[0]
    place = mt.arange(n, dtype=indices.dtype, device=indices.device)
    bag = mt.searchsorted(offsets[:bags].contiguous(), place, right=True).to(indices.dtype) - 1 if bags else mt.zeros_like(place)
    counted = mt.ones_like(indices) if padding_idx is None else (indices != padding_idx % weight.shape[0]).to(indices.dtype)
    sizes = mt.zeros_like(offsets).index_add(0, bag, counted)
    if mode != "max":
        return result, bag, sizes, indices.new_empty((0,))
    chosen = (weight.index_select(0, indices) == result.index_select(0, bag)) & (counted != 0).unsqueeze(1)
    rank = mt.where(chosen, place.unsqueeze(1), n)
    first = mt.full(result.shape, n, dtype=indices.dtype, device=indices.device).scatter_reduce(
        0, bag.to(mt.int64).unsqueeze(1).expand(rank.shape), rank, "amin")  # fmt: skip
    found = indices.index_select(0, first.clamp(0, max(n - 1, 0)).reshape(-1)).reshape(result.shape) if n else mt.zeros_like(first)
    return result, bag, sizes, found


def _rows_of(grad: Any, bag: Any, indices: Any, padding_idx: Any, rows: int) -> Any:
    """Return, for each index, the gradient of its bag, or zeros for the padding index."""
    spread = grad.index_select(0, bag)
    return spread if padding_idx is None else spread.masked_fill((indices == padding_idx % rows).unsqueeze(1), 0)


def bag_weight(
    grad: Any, weight_meta: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool, mode: str, sparse: bool,
    per_sample_weights: Any, padding_idx: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any,
) -> Any:  # fmt: skip
    if sparse:
        raise no_sparse("embedding_bag")
    return ops._embedding_bag_backward(grad, indices, offset2bag, bag_size, maximum_indices, per_sample_weights, weight_meta.shape[0],
                                       scale_grad_by_freq, mode, padding_idx)  # fmt: skip


def bag_gradient(
    grad: Any, indices: Any, bag: Any, sizes: Any, chosen: Any, per_sample_weights: Any, rows: int, scale: bool, mode: str, padding_idx: Any
) -> Any:
    """Compute the gradient of embedding bags for the table."""
    whole = mt.zeros((rows, grad.shape[1]), dtype=grad.dtype, device=grad.device)
    if mode == "max":
        empty = sizes.narrow(0, 0, grad.shape[0]) == 0
        return whole.scatter_add(0, chosen.to(mt.int64), grad.masked_fill(empty.unsqueeze(1), 0))
    spread = _rows_of(grad, bag, indices, padding_idx, rows)
    if per_sample_weights is not None:
        spread = spread * per_sample_weights.unsqueeze(1)
    elif mode == "mean":
        spread = spread / sizes.clamp_min(1).index_select(0, bag).unsqueeze(1)
    if scale:
        counts = mt.zeros(rows, dtype=indices.dtype, device=indices.device).index_add(0, indices, mt.ones_like(indices))
        spread = spread / counts.index_select(0, indices).unsqueeze(1)
    return whole.index_add(0, indices, spread.to(grad.dtype))


def bag_sample_weights(grad: Any, weight: Any, indices: Any, offsets: Any, padding_idx: Any, offset2bag: Any) -> Any:
    return ops._embedding_bag_weights_backward(grad, weight, indices, offset2bag, padding_idx)


def bag_weights_gradient(grad: Any, weight: Any, indices: Any, bag: Any, padding_idx: Any) -> Any:
    """Compute the gradient of embedding bags for the per-sample weights."""
    return (_rows_of(grad, bag, indices, padding_idx, weight.shape[0]) * weight.index_select(0, indices)).sum(1)
