"""Gradients of sampling by a grid, and of bags of embeddings."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops

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
    """Return the pixels at whole positions, 0 outside. `image` is (N, C, sizes...), `places` has one (N, P) for each dimension."""
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
    """Return the weights of four neighbours, for the fraction `t` of the way from the second to the third."""
    a = -0.75
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(image: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    """Sample in steps that can be differentiated."""
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
    """Differentiate `grid_sample`. If gradients are recorded, so is this."""
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


def embedding_bag(grad: Any, input: Any, weight: Any, offsets: Any, scale_grad_by_freq: bool, mode: str, per_sample_weights: Any,
                  padding_idx: Any, result: Any, wanted: Any) -> Any:  # fmt: skip
    """Gradients of the table and of the weights of the samples."""
    index = input.reshape(-1).to(mt.int64)
    rows, n = weight.shape[0], index.shape[0]
    place = mt.arange(n, device=index.device)
    if input.dim() == 2:
        bag = place.div(max(input.shape[1], 1), rounding_mode="floor")
    else:
        bag = mt.searchsorted(offsets.to(mt.int64).contiguous(), place, right=True) - 1
        bag = bag.clamp_max(grad.shape[0] - 1)
    counted = None if padding_idx is None else index != padding_idx % rows
    spread = grad.index_select(0, bag)
    if counted is not None:
        spread = spread.masked_fill(~counted.unsqueeze(1), 0)
    first = second = None
    if len(wanted) > 1 and wanted[1]:
        second = (spread * weight.index_select(0, index)).sum(1).reshape(input.shape)
    if wanted[0]:
        if per_sample_weights is not None:
            spread = spread * per_sample_weights.reshape(-1, 1)
        elif mode == "mean":
            ones = mt.ones_like(index) if counted is None else counted.to(mt.int64)
            sizes = mt.zeros(grad.shape[0], dtype=mt.int64, device=index.device).index_add(0, bag, ones)
            spread = spread / sizes.clamp_min(1).index_select(0, bag).unsqueeze(1)
        elif mode == "max":
            best = weight.index_select(0, index) == result.index_select(0, bag)
            if counted is not None:
                best = best & counted.unsqueeze(1)
            rank = mt.where(best, place.unsqueeze(1), n)
            earliest = mt.full(grad.shape, n, dtype=mt.int64, device=index.device).scatter_reduce(
                0, bag.unsqueeze(1).expand(rank.shape), rank, "amin")  # fmt: skip
            spread = spread.masked_fill(rank != earliest.index_select(0, bag), 0)
        if scale_grad_by_freq:
            counts = mt.zeros(rows, dtype=mt.int64, device=index.device).index_add(0, index, mt.ones_like(index))
            spread = spread / counts.index_select(0, index).unsqueeze(1)
        first = mt.zeros_like(weight).index_add(0, index, spread.to(weight.dtype))
    return (first, second) if len(wanted) > 1 else (first,)
