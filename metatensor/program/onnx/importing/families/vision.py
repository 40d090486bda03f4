"""Regions of images, and convolutions at shifted positions."""

from __future__ import annotations

from math import ceil, floor, prod
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator

__all__: list[str] = []


def _bilinear(flat: Tensor, h: int, w: int, y: Tensor, x: Tensor, most: bool = False) -> Tensor:
    """Return values between pixels.

    Parameters
    ----------
    flat : Tensor
        ``(n, c, h * w)``.
    h, w : int
        Height and width.
    y, x : Tensor
        Positions, ``(n, k)``. Neighbours outside of the image count as zeros.
    most : bool
        Whether the result is the greatest of the four weighted neighbours instead of their sum.

    Returns
    -------
    Tensor
        ``(n, c, k)``.
    """
    top, left = mt.floor(y), mt.floor(x)
    parts = []
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = top + dy, left + dx
            weight = (1 - mt.abs(y - row)) * (1 - mt.abs(x - column))
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
            place = (mt.clamp(row, 0, h - 1) * w + mt.clamp(column, 0, w - 1)).to(mt.int64)
            value = mt.gather(flat, 2, place[:, None, :].expand(-1, flat.shape[1], -1))
            parts.append(value * mt.where(inside, weight, mt.zeros_like(weight)).to(flat.dtype)[:, None])
    if most:
        return mt.maximum(mt.maximum(parts[0], parts[1]), mt.maximum(parts[2], parts[3]))
    return parts[0] + parts[1] + parts[2] + parts[3]


@operator("RoiAlign")
def _roi_align(node: Node, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    rows, columns = node.get("output_height", 1), node.get("output_width", 1)
    ratio, scale = node.get("sampling_ratio", 0), node.get("spatial_scale", 1.0)
    half = node.version >= 16 and node.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    mode = node.get("mode", "avg")
    if ratio < 1:  # as many samples as pixels, for each region
        sizes = ((rois[:, 2:] - rois[:, :2]) * scale).tolist()
        least = 0.0 if half else 1.0
        counts = [(max(ceil(max(b, least) / rows), 1), max(ceil(max(a, least) / columns), 1)) for a, b in sizes]
        parts = [_aligned(x, rois[i : i + 1], batch[i : i + 1], (rows, columns), n, scale, half, mode) for i, n in enumerate(counts)]
        return mt.cat(parts) if parts else x.new_zeros((0, x.shape[1], rows, columns))
    return _aligned(x, rois, batch, (rows, columns), (ratio, ratio), scale, half, mode)


def _aligned(
    x: Tensor, rois: Tensor, batch: Tensor, out: tuple[int, int], ratio: tuple[int, int], scale: float, half: bool, mode: str,
) -> Tensor:  # fmt: skip
    n, c, (h, w) = rois.shape[0], x.shape[1], x.shape[2:]
    corners = rois * scale - (0.5 if half else 0.0)
    begin, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    if not half:
        size = mt.clamp(size, min=1.0)
    (rows, columns), (down, across) = out, ratio

    def positions(start: Tensor, length: Tensor, bins: int, per: int, limit: int) -> tuple[Tensor, Tensor]:
        steps = (mt.arange(bins * per, device=x.device).to(x.dtype) + 0.5) / per
        at = start[:, None] + length[:, None] / bins * steps
        return mt.clamp(at, 0, limit - 1), (at < -1) | (at > limit)

    ys, far_y = positions(begin[:, 1], size[:, 1], rows, down, h)
    xs, far_x = positions(begin[:, 0], size[:, 0], columns, across, w)
    grid = (n, rows * down, columns * across)
    y, z = ys[:, :, None].expand(grid).reshape(n, -1), xs[:, None, :].expand(grid).reshape(n, -1)
    flat = x.index_select(0, batch.to(mt.int64)).reshape(n, c, h * w)
    values = _bilinear(flat, h, w, y, z, mode == "max")
    far = (far_y[:, :, None] | far_x[:, None, :]).reshape(n, 1, -1)
    values = mt.where(far, mt.zeros_like(values), values).reshape(n, c, rows, down, columns, across)
    return values.amax((3, 5)) if mode == "max" else values.mean((3, 5))


@operator("MaxRoiPool", host=(1,))
def _max_roi_pool(node: Node, x: Tensor, rois: Any) -> Tensor:
    rows, columns = node.need("pooled_shape")
    scale = node.get("spatial_scale", 1.0)
    rois = node.lift(rois)
    found = []
    for number, *ends in rois.tolist():
        left, top, right, bottom = (floor(end * scale + 0.5) for end in ends)
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i in range(rows):
            for j in range(columns):
                y = [min(max(v + top, 0), x.shape[2]) for v in (floor(i * height / rows), ceil((i + 1) * height / rows))]
                z = [min(max(v + left, 0), x.shape[3]) for v in (floor(j * width / columns), ceil((j + 1) * width / columns))]
                part = x[int(number), :, y[0] : y[1], z[0] : z[1]]
                found.append(part.amax((1, 2)) if part.numel() else x.new_zeros(x.shape[1]))
    if not found:
        return x.new_zeros((0, x.shape[1], rows, columns))
    return mt.stack(found).reshape(-1, rows, columns, x.shape[1]).permute(0, 3, 1, 2)


@operator("DeformConv")
def _deform_conv(node: Node, x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    (n, c, h, width), kernel = x.shape, list(w.shape[2:])
    strides, dilations = node.get("strides") or [1, 1], node.get("dilations") or [1, 1]
    pads, groups, parts = node.get("pads") or [0] * 4, node.get("group", 1), node.get("offset_group", 1)
    rows, columns = offset.shape[2:]
    points = prod(kernel)
    shifts = offset.reshape(n, parts, points, 2, rows, columns)
    down = mt.arange(rows, device=x.device) * strides[0] - pads[0]
    across = mt.arange(columns, device=x.device) * strides[1] - pads[1]
    ky = mt.arange(kernel[0], device=x.device).repeat_interleave(kernel[1]) * dilations[0]
    kx = mt.arange(kernel[1], device=x.device).repeat(kernel[0]) * dilations[1]
    y = shifts[:, :, :, 0] + (ky[:, None, None] + down[:, None]).to(x.dtype)
    z = shifts[:, :, :, 1] + (kx[:, None, None] + across).to(x.dtype)
    flat = x.reshape(n * parts, c // parts, h * width)
    values = _bilinear(flat, h, width, y.reshape(n * parts, -1), z.reshape(n * parts, -1))
    values = values.reshape(n, parts, c // parts, points, rows * columns)
    if mask is not None:
        values = values * mask.reshape(n, parts, 1, points, rows * columns)
    columns_of = values.reshape(n, groups, c // groups * points, rows * columns)
    out = mt.matmul(w.reshape(groups, w.shape[0] // groups, -1), columns_of).reshape(n, w.shape[0], rows, columns)
    return out if b is None else out + b.reshape(-1, 1, 1)
