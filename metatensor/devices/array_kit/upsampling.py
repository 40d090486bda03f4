"""Kernels of resampling.

Interpolation is separable: it processes one dimension after the other. Along each dimension, an output element is a
weighted sum of a few input elements. All lines along a dimension use the same indices and weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor.devices.array_kit.convolution import per_dimension
from metatensor.devices.array_kit.registry import kernel

# The parameter of cubic convolution (Keys, 1981): -0.75 for plain interpolation, -0.5 with antialiasing, as in PyTorch.
_CUBIC, _CUBIC_ANTIALIAS = -0.75, -0.5


def _triangle(x: Any) -> Any:
    return np.maximum(0, 1 - np.abs(x))


def _cubic(a: float) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return value


def _lanczos(x: Any) -> Any:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


def _ratio(size: int, new: int, factor: float | None, corners: bool) -> float:
    """Return the distance between neighbouring output elements, in input elements."""
    if corners:
        return (size - 1) / (new - 1) if new > 1 else 0.0
    return 1 / factor if factor else size / new


def _taps(size: int, new: int, mode: str, ratio: float, corners: bool, antialias: bool) -> tuple[Any, Any]:
    """Return the input indices and weights of each output element along one dimension. Both have shape (new, taps)."""
    place = np.arange(new)
    if mode.startswith("nearest"):
        # Compute in single precision, like PyTorch. If a product is close to an integer, its rounding decides which
        # element is nearest.
        at = (place + (0.5 if mode == "nearest-exact" else 0)) * np.float32(ratio)
        return np.minimum(at.astype(np.float32).astype(np.int64), size - 1)[:, None], None
    centre = place * ratio if corners else (place + 0.5) * ratio - 0.5
    if antialias:
        shape, reach = {
            "bilinear": (_triangle, 1), "bicubic": (_cubic(_CUBIC_ANTIALIAS), 2), "lanczos": (_lanczos, 3),
        }[mode]  # fmt: skip
        stretch = max(ratio, 1.0)
        centre = (place + 0.5) * ratio
        radius = reach * stretch
        first = np.maximum((centre - radius + 0.5).astype(np.int64), 0)
        last = np.minimum((centre + radius + 0.5).astype(np.int64), size)
        index = first[:, None] + np.arange(int(math.ceil(radius)) * 2 + 1)
        weight = shape((index - centre[:, None] + 0.5) / stretch) * (index < last[:, None])
        return np.minimum(index, size - 1), weight / weight.sum(axis=1, keepdims=True)
    if mode == "bicubic":
        base = np.floor(centre).astype(np.int64)
        index = base[:, None] + np.arange(-1, 3)
        return np.clip(index, 0, size - 1), _cubic(_CUBIC)(centre[:, None] - index)
    centre = np.maximum(centre, 0)
    base = np.minimum(np.floor(centre).astype(np.int64), size - 1)
    part = np.minimum(centre - base, 1.0)
    return np.stack([base, np.minimum(base + 1, size - 1)], axis=1), np.stack([1 - part, part], axis=1)


def _along(xp: Any, values: Any, axis: int, index: Any, weight: Any) -> Any:
    """Return the weighted sums along one dimension. They accumulate one tap (index and weight) at a time."""
    index = xp.asarray(index)
    if weight is None:
        return values.take(index[:, 0], axis=axis)
    shape = [-1 if d == axis else 1 for d in range(values.ndim)]
    weight = xp.asarray(weight.astype(values.dtype))
    total = 0
    for tap in range(index.shape[1]):
        total = total + values.take(index[:, tap], axis=axis) * weight[:, tap].reshape(shape)
    return total


def _along_bytes(xp: Any, values: Any, axis: int, index: Any, weight: Any) -> Any:
    """Compute the same as `_along` for uint8, with 16-bit weights and rounding to uint8 after each dimension."""
    # Combine taps that are clamped to the same border element.
    same = index[:, :, None] == index[:, None, :]
    weight = (same * weight[:, None, :]).sum(axis=2) * ~np.tril(same, -1).any(axis=2)
    bits = 0
    while bits < 22 and int(0.5 + weight.max() * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = weight * (1 << bits)
    weight = xp.asarray(np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int32))
    index = xp.asarray(index)
    shape = [-1 if d == axis else 1 for d in range(values.ndim)]
    total = (1 << bits) >> 1
    for tap in range(index.shape[1]):
        total = total + values.take(index[:, tap], axis=axis).astype(np.int32) * weight[:, tap].reshape(shape)
    return xp.clip(total >> bits, 0, 255).astype(np.uint8)


@kernel("nn.functional.interpolate")
def interpolate(
    kit: Any, out: Any, input: Any, size: Any, scale_factor: Any, mode: str, align_corners: bool | None,
    recompute_scale_factor: bool | None, antialias: bool,
) -> Any:  # fmt: skip
    n = input.ndim - 2
    if mode == "area":
        find = kit.table.find(f"nn.functional.adaptive_avg_pool{n}d")
        return find.function(kit, out, input, out.shape[2:])
    factors = (None,) * n if scale_factor is None or recompute_scale_factor else per_dimension(scale_factor, n)
    whole = input.dtype.kind not in "fc"
    along = _along_bytes if input.dtype == np.uint8 and mode in ("bilinear", "bicubic") else _along
    values = input if mode.startswith("nearest") or not whole or along is not _along else input.astype(np.float32)
    for d in range(input.ndim - 1, 1, -1):
        old, new = input.shape[d], out.shape[d]
        corners = bool(align_corners)
        ratio = _ratio(old, new, factors[d - 2], corners)
        if old == new and (mode.startswith("nearest") or ratio == 1) and not antialias:
            continue
        values = along(kit.xp, values, d, *_taps(old, new, mode, ratio, corners, antialias))
    if whole and values.dtype.kind == "f":
        limits = np.iinfo(out.dtype)
        values = kit.xp.clip(kit.xp.rint(values), limits.min, limits.max)
    return values


# Sampling at coordinates ------------------------------------------------------------------------


def _reflect(xp: Any, x: Any, low: float, high: float) -> Any:
    """Reflect coordinates back into [low, high]."""
    span = high - low
    if span <= 0:
        return xp.zeros_like(x)
    x = xp.abs(x - low) % (2 * span)
    return xp.where(x > span, 2 * span - x, x) + low


def _bring_in(xp: Any, x: Any, size: int, padding: str, corners: bool, lost: int) -> Any:
    """Apply a padding mode to coordinates. NaN, which is also the reflection of infinity, is replaced by ``lost``."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflect(xp, x, 0, size - 1) if corners else _reflect(xp, x, -0.5, size - 0.5)
    return xp.clip(xp.where(xp.isnan(x), lost, x), 0, size - 1)


def _pick(xp: Any, image: Any, coordinates: list[Any]) -> Any:
    """Return the elements (N, C, ...) at integer coordinates (N, ...). Outside the image they are zero."""
    inside: Any = True
    clipped = []
    for x, size in zip(coordinates, image.shape[2:], strict=True):
        inside = inside & (x >= 0) & (x < size)
        clipped.append(xp.clip(xp.nan_to_num(x), 0, size - 1).astype(np.int64))
    batch = xp.arange(len(image)).reshape(-1, *[1] * (clipped[0].ndim - 1))
    found = xp.moveaxis(image[(batch, slice(None)) + tuple(clipped)], -1, 1)
    return xp.where(inside[:, None], found, image.dtype.type(0))


@kernel("nn.functional.grid_sample")
def grid_sample(kit: Any, out: Any, input: Any, grid: Any, mode: str, padding_mode: str, align_corners: Any) -> Any:
    xp, corners, sizes = kit.xp, bool(align_corners), input.shape[2:]
    places = []
    for d, size in enumerate(sizes):
        # The grid stores the last dimension's coordinate first.
        x = grid[..., len(sizes) - 1 - d]
        places.append((x + 1) / 2 * (size - 1) if corners else ((x + 1) * size - 1) / 2)
    if mode == "bicubic":
        base = [xp.floor(x) for x in places]
        shape, total = _cubic(_CUBIC), 0
        for steps in itertools.product(range(-1, 3), repeat=2):
            weight: Any = 1
            at = []
            for x, b, step, size in zip(places, base, steps, sizes, strict=True):
                part = xp.asarray(shape(kit.download(x - b - step)))
                weight = weight * xp.where(xp.isnan(x - b), np.nan, part)
                at.append(_bring_in(xp, b + step, size, padding_mode, corners, 0))
            total = total + _pick(xp, input, at) * weight[:, None].astype(input.dtype)
        return total
    # PyTorch replaces NaN coordinates by the last position in volumes and by the first one in images.
    volume = len(sizes) == 3
    places = [
        _bring_in(xp, x, size, padding_mode, corners, size - 1 if volume else 0)
        for x, size in zip(places, sizes, strict=True)
    ]
    if mode == "nearest":
        return _pick(xp, input, [xp.rint(x) for x in places])
    base, total = [xp.floor(x) for x in places], 0
    for steps in itertools.product(range(2), repeat=len(sizes)):
        weight = 1
        for x, b, step in zip(places, base, steps, strict=True):
            weight = weight * (x - b if step else 1 - (x - b))
        if volume:  # NaN weights count as zero in volumes, but as NaN in images
            weight = xp.where(xp.isnan(weight), 0, weight)
        total = total + _pick(xp, input, [b + step for b, step in zip(base, steps, strict=True)]) * weight[:, None]
    return total


@kernel("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(kit: Any, out: Any, input: Any, grid: Any, mode: int, padding_mode: int, align_corners: bool) -> Any:
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return grid_sample(kit, out, input, grid, modes[mode], paddings[padding_mode], align_corners)


@kernel("nn.functional.affine_grid", "affine_grid_generator")
def affine_grid(kit: Any, out: Any, theta: Any, size: Any, align_corners: bool | None) -> Any:
    xp, space = kit.xp, out.shape[1:-1]
    axes = []
    for length in space:
        line = xp.linspace(-1, 1, length, dtype=theta.dtype) if length > 1 else xp.zeros(1, theta.dtype)
        axes.append(line if align_corners else line * theta.dtype.type((length - 1) / length))
    grids = xp.meshgrid(*axes, indexing="ij")
    base = xp.stack([*reversed(grids), xp.ones(space, theta.dtype)], axis=-1).reshape(-1, len(space) + 1)
    return xp.matmul(base, theta.swapaxes(1, 2)).reshape(out.shape)
