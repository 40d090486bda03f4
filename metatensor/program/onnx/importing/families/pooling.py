"""Pooling."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.families.convolutions import paddings
from metatensor.program.onnx.importing.families.shaping import padded
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_WITH_INDICES = {1: F.max_pool1d_with_indices, 2: F.max_pool2d_with_indices, 3: F.max_pool3d_with_indices}
_ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
_MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class _Windows:
    """The positions and sizes of pooling windows."""

    def __init__(self, node: Node, x: Tensor) -> None:
        self.rank = x.ndim - 2
        if self.rank < 1:
            raise OnnxError(f"pooling of a tensor of {x.ndim} dimensions")
        ones = [1] * self.rank
        self.kernel = list(node.need("kernel_shape"))
        self.strides = list(node.get("strides") or ones)
        self.dilations = list(node.get("dilations") or ones)
        if not len(self.kernel) == len(self.strides) == len(self.dilations) == self.rank:
            raise OnnxError(f"the kernel, strides and dilations must have {self.rank} numbers")
        if min(*self.kernel, *self.strides, *self.dilations) < 1:
            raise OnnxError("the kernel, strides and dilations must be positive")
        self.sizes = list(x.shape[2:])
        self.begins, self.ends = paddings(node, self.sizes, self.kernel, self.strides, self.dilations)
        self.up = bool(node.get("ceil_mode", 0))
        self.wide = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        self.counts = []
        for n, w, s, low, high in zip(self.sizes, self.wide, self.strides, self.begins, self.ends, strict=True):
            steps = (n + low + high - w) / s
            count = (ceil(steps) if self.up else int(steps // 1)) + 1
            if self.up and (count - 1) * s >= n + low:
                count -= 1
            if count < 1:
                raise OnnxError(f"a window of {w} elements does not fit a dimension of {n}")
            self.counts.append(count)

    @property
    def simple(self) -> bool:
        """Whether the operators of metatensor support these windows."""
        fits = all(0 <= p <= k // 2 for p, k in zip(self.begins, self.kernel, strict=True))
        return self.rank in _MAX and self.begins == self.ends and fits

    def of(self, x: Tensor, value: Any) -> Tensor:
        """Return the windows: the number of windows along each dimension, then one more dimension for their elements."""
        needed = [(c - 1) * s + w for c, s, w in zip(self.counts, self.strides, self.wide, strict=True)]
        ends = [m - n - low for m, n, low in zip(needed, self.sizes, self.begins, strict=True)]
        x = padded(x, [0, 0, *self.begins], [0, 0, *ends], value=value)
        for i in range(self.rank):
            x = x.unfold(2 + i, self.wide[i], self.strides[i])
        if any(d > 1 for d in self.dilations):
            index: list[Any] = [..., *(slice(None, None, d) for d in self.dilations)]
            x = x[tuple(index)]
        return x.flatten(2 + self.rank)


@operator("MaxPool")
def _max_pool(node: Node, x: Tensor) -> Any:
    windows = _Windows(node, x)
    plane = prod(windows.sizes)
    if windows.simple and x.is_floating_point():
        options = windows.kernel, windows.strides, windows.begins, windows.dilations, windows.up
        if not node.wants(1):
            return _MAX[windows.rank](x, *options)
        y, places = _WITH_INDICES[windows.rank](x, *options)
    else:
        lowest = float("-inf") if x.is_floating_point() else mt.iinfo(x.dtype).min
        parts = windows.of(x, lowest)
        y = parts.amax(-1)
        if not node.wants(1):
            return y
        own = mt.arange(plane, device=x.device).reshape((1, 1, *windows.sizes))
        positions = windows.of(own, 0).expand(parts.shape)
        places = mt.gather(positions, -1, parts.argmax(-1, True)).squeeze(-1)
    if node.get("storage_order", 0):
        rest, total = places, mt.zeros_like(places)
        step = plane
        for n in reversed(windows.sizes):  # the first dimension varies fastest
            step //= n
            total = total + mt.remainder(rest, n) * step
            rest = mt.div(rest, n, rounding_mode="floor")
        places = total
    planes = (mt.arange(x.shape[0] * x.shape[1], device=x.device) * plane).reshape((*x.shape[:2], *([1] * windows.rank)))
    return y, places + planes


@operator("AveragePool")
def _average_pool(node: Node, x: Tensor) -> Tensor:
    windows = _Windows(node, x)
    whole = bool(node.get("count_include_pad", 0))
    if windows.simple and all(d == 1 for d in windows.dilations):
        return _MEAN[windows.rank](x, windows.kernel, windows.strides, windows.begins, windows.up, whole)
    ones = mt.ones((1, 1, *windows.sizes), dtype=x.dtype, device=x.device)
    if whole:
        ones = padded(ones, [0, 0, *windows.begins], [0, 0, *windows.ends], value=1)
        shifted = _Windows(node, x)
        shifted.sizes = [n + low + high for n, low, high in zip(windows.sizes, windows.begins, windows.ends, strict=True)]
        shifted.begins = shifted.ends = [0] * windows.rank
        counts = shifted.of(ones, 0).sum(-1)
    else:
        counts = windows.of(ones, 0).sum(-1)
    return windows.of(x, 0).sum(-1) / counts


@operator("LpPool")
def _lp_pool(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    return _root(mt.pow(mt.abs(_Windows(node, x).of(x, 0)), p).sum(-1), p)


def _root(x: Tensor, p: float) -> Tensor:
    return x if p == 1 else mt.sqrt(x) if p == 2 else mt.pow(x, 1.0 / p)


@operator("GlobalAveragePool")
def _global_average(node: Node, x: Tensor) -> Tensor:
    pool = _ADAPTIVE.get(x.ndim - 2)
    return mt.mean(x, list(range(2, x.ndim)), True) if pool is None else pool(x, 1)


@operator("GlobalMaxPool")
def _global_max(node: Node, x: Tensor) -> Tensor:
    return mt.amax(x, list(range(2, x.ndim)), True)


@operator("GlobalLpPool")
def _global_lp(node: Node, x: Tensor) -> Tensor:
    p = node.get("p", 2)
    return _root(mt.sum(mt.pow(mt.abs(x), p), list(range(2, x.ndim)), True), p)


@operator("MaxUnpool", host=(2,))
def _max_unpool(node: Node, x: Tensor, places: Tensor, shape: Any = None) -> Tensor:
    rank = x.ndim - 2
    kernel = node.need("kernel_shape")
    strides = node.get("strides") or [1] * rank
    pads = node.get("pads") or [0] * (2 * rank)
    own = [(n - 1) * s - pads[i] - pads[i + rank] + k for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))]
    inner = [*x.shape[:2], *own]
    flat = mt.zeros(prod(inner), dtype=x.dtype, device=x.device).scatter(0, places.reshape(-1), x.reshape(-1))
    y = flat.reshape(inner)
    if shape is None:
        return y
    sizes = node.ints(shape, "the output's shape")
    return padded(y, [0] * y.ndim, [m - n for m, n in zip(sizes, inner, strict=True)])
