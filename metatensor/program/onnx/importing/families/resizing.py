"""Resizing and sampling of images."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []

MAX_SIZE = 1 << 18
"""Largest size of a dimension that is resized with weights computed here."""


class _Axis:
    """Positions and weights along one dimension.

    Parameters
    ----------
    node : Node
        The node, whose attributes determine how coordinates are transformed.
    size, out : int
        Sizes before and after.
    scale : float
        Their ratio.
    roi : tuple of float
        Start and end of the region, as fractions of the size.
    """

    def __init__(self, node: Node, size: int, out: int, scale: float, roi: tuple[float, float]) -> None:
        if max(size, out) > MAX_SIZE:
            raise OnnxError(f"a dimension of size {max(size, out):,} is too large")
        self.node, self.size, self.out, self.scale, self.roi = node, size, out, scale, roi
        mode = node.get("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
        self.cropping = mode == "tf_crop_and_resize"
        node.run.spend(out // 16)
        self.places = [self._place(i, mode) for i in range(out)]

    def _place(self, i: int, mode: str) -> float:
        """Return the position in the input of an element of the output."""
        n, s = self.size, self.scale
        whole = s * n
        if mode == "half_pixel":
            return (i + 0.5) / s - 0.5
        if mode == "half_pixel_symmetric":
            return n / 2 * (1 - self.out / whole) + (i + 0.5) / s - 0.5
        if mode == "pytorch_half_pixel":
            return (i + 0.5) / s - 0.5 if whole > 1 else 0.0
        if mode == "align_corners":
            return i * (n - 1) / (whole - 1) if whole != 1 else 0.0
        if mode == "asymmetric":
            return i / s
        if mode == "tf_half_pixel_for_nn":
            return (i + 0.5) / s
        if mode == "tf_crop_and_resize":
            begin, end = self.roi
            if self.out > 1:
                return begin * (n - 1) + i * (end - begin) * (n - 1) / (self.out - 1)
            return 0.5 * (begin + end) * (n - 1)
        raise OnnxError(f"the coordinate_transformation_mode {mode!r} is not known")

    def nearest(self) -> list[int]:
        """Return the index that is nearest to each position."""
        mode = self.node.get("nearest_mode", "round_prefer_floor" if self.node.version >= 11 else "floor")
        rounds = {"floor": floor, "ceil": ceil, "round_prefer_floor": lambda x: ceil(x - 0.5),
                  "round_prefer_ceil": lambda x: floor(x + 0.5)}  # fmt: skip
        if mode not in rounds:
            raise OnnxError(f"the nearest_mode {mode!r} is not known")
        return [min(max(rounds[mode](x), 0), self.size - 1) for x in self.places]

    def weighted(self, cubic: bool) -> tuple[list[list[int]], list[list[float]]]:
        """Return the indices that contribute to each position, and their weights."""
        scale = min(self.scale, 1.0) if self.node.get("antialias", 0) else 1.0
        radius = 2 if cubic else 1
        begin = floor(-radius / scale) + 1
        offsets = range(begin, 2 - begin)
        self.node.run.spend(len(offsets) * self.out // 16)
        a = self.node.get("cubic_coeff_a", -0.75)
        indices, weights = [], []
        for x in self.places:
            base = floor(x)
            far = [scale * (k - (x - base)) for k in offsets]
            own = [_cubic(d, a) if cubic else max(1 - abs(d), 0.0) for d in far]
            at = [base + k for k in offsets]
            if self.node.get("exclude_outside", 0):
                own = [w if 0 <= i < self.size else 0.0 for w, i in zip(own, at, strict=True)]
            if scale < 1 or self.node.get("exclude_outside", 0):
                total = sum(own)
                own = [w / total for w in own] if total else own
            indices.append([min(max(i, 0), self.size - 1) for i in at])
            weights.append(own)
        return indices, weights

    def outside(self) -> list[bool]:
        """Return whether each position is outside of the input."""
        return [x < 0 or x > self.size - 1 for x in self.places]


def _cubic(x: float, a: float) -> float:
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def _known_to_interpolate(node: Node, x: Tensor, out: list[int], scales: list[float], mode: str) -> Tensor | None:
    """Return the result of metatensor's own operator if it computes the same, else None."""
    if x.ndim not in (3, 4, 5) or list(x.shape[:2]) != out[:2] or any(o != n * s for o, n, s in zip(out, x.shape, scales, strict=True)):
        return None
    how = node.get("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    if node.get("exclude_outside", 0) or node.get("antialias", 0) or min(out) < 1 or not x.is_floating_point():
        return None
    size = out[2:]
    if mode == "nearest":
        if how == "asymmetric" and node.get("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor") == "floor":
            return F.interpolate(x, size, mode="nearest")
        return None
    if mode == "cubic" and (x.ndim != 4 or node.get("cubic_coeff_a", -0.75) != -0.75):
        return None
    if how not in ("half_pixel", "align_corners", "pytorch_half_pixel") or how == "pytorch_half_pixel" and 1 in size:
        return None
    name = "bicubic" if mode == "cubic" else ("linear", "bilinear", "trilinear")[x.ndim - 3]
    return F.interpolate(x, size, mode=name, align_corners=how == "align_corners")


def _resized(node: Node, x: Tensor, out: list[int], scales: list[float], rois: list[tuple[float, float]], axes: list[int]) -> Tensor:
    mode = node.get("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic", "bilinear"):
        raise OnnxError(f"the mode {mode!r} is not known")
    if any(n < 0 for n in out):
        raise OnnxError(f"a size in {out} is negative")
    found = _known_to_interpolate(node, x, out, scales, "linear" if mode == "bilinear" else mode)
    if found is not None:
        return found
    y = x if x.is_floating_point() and x.dtype.itemsize >= 4 else x.to(mt.float32)
    outside: Tensor | None = None
    for d in axes:
        if out[d] == x.shape[d] and scales[d] == 1 and rois[d] == (0.0, 1.0):
            continue
        axis = _Axis(node, x.shape[d], out[d], scales[d], rois[d])
        if mode == "nearest":
            y = y.index_select(d, node.tensor(axis.nearest(), mt.int64))
        else:
            indices, weights = axis.weighted(mode == "cubic")
            view = [1] * y.ndim
            view[d] = out[d]
            total = None
            for column, share in zip(zip(*indices, strict=True), zip(*weights, strict=True), strict=True):
                part = y.index_select(d, node.tensor(list(column), mt.int64)) * node.tensor(list(share), y.dtype).reshape(view)
                total = part if total is None else total + part
            y = y.index_select(d, node.tensor([], mt.int64)) if total is None else total
        if axis.cropping:
            view = [1] * y.ndim
            view[d] = out[d]
            mask = node.tensor(axis.outside(), mt.bool).reshape(view)
            outside = mask if outside is None else outside | mask
    if outside is not None:
        y = mt.where(outside, mt.full((), node.get("extrapolation_value", 0.0), dtype=y.dtype, device=y.device), y)
    if not x.is_floating_point() and mode != "nearest":
        y = mt.round(y)
        info = mt.iinfo(x.dtype)
        y = mt.clamp(y, info.min, info.max)
    return y.to(x.dtype)


@operator("Resize", host=(1, 2, 3))
def _resize(node: Node, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    if node.version < 11:
        roi, scales, sizes = None, roi, None
    axes = [d % x.ndim for d in node.get("axes") or range(x.ndim)]
    factors = node.numbers(scales, "scales") if scales is not None else []
    out, ratio = list(x.shape), [1.0] * x.ndim
    if factors:
        if len(factors) != len(axes) or min(factors) <= 0:
            raise OnnxError(f"the scales {factors} do not fit {len(axes)} dimensions")
        for d, s in zip(axes, factors, strict=True):
            ratio[d], out[d] = s, floor(x.shape[d] * s)
    elif sizes is not None:
        wanted = node.ints(sizes, "sizes")
        if len(wanted) != len(axes):
            raise OnnxError(f"{len(wanted)} sizes for {len(axes)} dimensions")
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        each = [n / x.shape[d] if x.shape[d] else 1.0 for d, n in zip(axes, wanted, strict=True)]
        if policy != "stretch":
            common = min(each) if policy == "not_larger" else max(each)
            each = [common] * len(each)
            wanted = [floor(common * x.shape[d] + 0.5) for d in axes]
        for d, s, n in zip(axes, each, wanted, strict=True):
            ratio[d], out[d] = s, n
    else:
        raise OnnxError("neither scales nor sizes are given")
    rois = [(0.0, 1.0)] * x.ndim
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        ends = node.numbers(roi, "the region")
        for i, d in enumerate(axes):
            rois[d] = ends[i], ends[i + len(axes)]
    return _resized(node, x, out, ratio, rois, axes)


@operator("Upsample", host=(1,))
def _upsample(node: Node, x: Tensor, scales: Any = None) -> Tensor:
    factors = node.numbers(scales, "scales") if scales is not None else node.get("scales")
    if factors is None:
        factors = [1.0, 1.0, node.need("height_scale"), node.need("width_scale")]
    if len(factors) != x.ndim or min(factors) <= 0:
        raise OnnxError(f"the scales {factors} do not fit a tensor of {x.ndim} dimensions")
    out = [floor(n * s) for n, s in zip(x.shape, factors, strict=True)]
    return _resized(node, x, out, list(factors), [(0.0, 1.0)] * x.ndim, list(range(x.ndim)))


_SAMPLING = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "cubic": "bicubic"}


@operator("GridSample")
def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    mode = node.get("mode", "linear")
    if mode not in _SAMPLING:
        raise OnnxError(f"the mode {mode!r} is not known")
    return F.grid_sample(x, grid, _SAMPLING[mode], node.get("padding_mode", "zeros"), bool(node.get("align_corners", 0)))


@operator("AffineGrid", host=(1,))
def _affine_grid(node: Node, theta: Tensor, size: Any) -> Tensor:
    return F.affine_grid(theta, node.ints(size, "the size"), align_corners=bool(node.get("align_corners", 0)))
