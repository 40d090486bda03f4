"""Conversions of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

import metatensor as mt
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.products import with_batch, without_batch
from metatensor.program.onnx.exporting.table import Declined, conversion, pair
from metatensor.program.onnx.exporting.views import sliced

__all__: list[str] = []

_PARTS = 64
"""Maximum number of windows of different sizes that are exported one by one."""


def _windows(a: Any, n: int, sizes: Any, out: Any, dilation: list[int]) -> tuple[list[int], list[int], list[int], bool]:
    """Return the sizes of windows, steps and padding, and whether windows go beyond the padding, which is then enlarged.

    `sizes` and `out` are the spatial sizes of the input and the result.
    """
    kernel, padding = pair(a.kernel_size, n), pair(a.padding, n)
    stride = kernel if a.stride is None or a.stride == () else pair(a.stride, n)
    after = list(padding)
    beyond = False
    if a.ceil_mode:
        for i in range(n):
            needed = (out[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - sizes[i] - padding[i]
            beyond |= needed > padding[i]
            after[i] = max(needed, padding[i])
    return kernel, stride, padding + after, beyond


@conversion(*[f"nn.functional.max_pool{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_with_indices")], "max_pool1d_with_indices")
def _max_pool(g: Graph, a: Any, result: Any) -> Any:
    n = int(a.overload.partition("max_pool")[2][0])
    several = isinstance(result, (tuple, list))
    out = (result[0] if several else result).shape[-n:]
    sizes = a.input.shape[-n:]
    dilation = pair(a.dilation, n)
    kernel, stride, pads, _ = _windows(a, n, sizes, out, dilation)
    options: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": pads, "dilations": dilation}
    x, lacked = with_batch(g, a.input, n)
    if not several:
        return without_batch(g, g.op("MaxPool", x, **options), lacked)
    values, places = g.ops("MaxPool", x, dtypes=[x.dtype, mt.int64], **options)
    plane = 1
    for size in sizes:
        plane *= size
    places = g.op("Mod", places, g.number(plane, mt.int64))  # ONNX counts through the whole batch
    return without_batch(g, values, lacked), without_batch(g, places, lacked)


@conversion("nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d")
def _avg_pool(g: Graph, a: Any, result: Any) -> Var:
    n = int(a.overload.partition("avg_pool")[2][0])
    if getattr(a, "divisor_override", None) is not None:
        raise Declined("divisor_override")
    kernel, stride, pads, beyond = _windows(a, n, a.input.shape[-n:], result.shape[-n:], [1] * n)
    counted = bool(a.count_include_pad) and any(pair(a.padding, n))
    x, lacked = with_batch(g, a.input, n)
    if beyond and counted:
        before, after = pads[:n], pads[n:]
        x = g.op("Pad", x, g.ints([0, 0, *before, 0, 0, *after]))
        found = g.op("AveragePool", x, kernel_shape=kernel, strides=stride)
        found = g.op("Mul", found, g.constant(_counted(a, kernel, stride, before, result.shape[-n:]), x.dtype))
        return without_batch(g, found, lacked)
    found = g.op("AveragePool", x, kernel_shape=kernel, strides=stride, pads=pads, count_include_pad=int(counted))
    return without_batch(g, found, lacked)


def _counted(a: Any, kernel: list[int], stride: list[int], padding: list[int], out: Any) -> np.ndarray:
    """Return factors for averages over whole windows, which correct for elements beyond the padding."""
    found = np.ones(())
    for size, k, s, p, o in zip(a.input.shape[-len(kernel) :], kernel, stride, padding, out):
        begin = np.arange(o) * s - p
        found = found[..., None] * (k / (np.minimum(begin + k, size + p) - begin))
    return found


def _adaptive(a: Any, n: int) -> tuple[list[int], list[int]] | None:
    """Return the windows and steps of adaptive pooling; None where the result has one element in each dimension."""
    sizes = a.input.shape[-n:]
    out = [size if o is None else o for size, o in zip(sizes, pair(a.output_size, n))]
    if all(o == 1 for o in out):
        return None
    if any(o == 0 or size % o for size, o in zip(sizes, out)):
        raise Declined("windows of several sizes")
    kernel = [size // o for size, o in zip(sizes, out)]
    return kernel, kernel


@conversion("nn.functional.adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d")
def _adaptive_avg_pool(g: Graph, a: Any, result: Any) -> Var:
    n = int(a.overload.partition("avg_pool")[2][0])
    windows = _adaptive(a, n)
    if windows is None:
        return g.op("ReduceMean", a.input, g.ints(range(-n, 0)), keepdims=1)
    if all(k == 1 for k in windows[0]):
        return a.input  # type: ignore[no-any-return]
    x, lacked = with_batch(g, a.input, n)
    return without_batch(g, g.op("AveragePool", x, kernel_shape=windows[0], strides=windows[1]), lacked)


def _uneven(g: Graph, x: Var, shape: Any, n: int) -> Var:
    """Return the maxima of windows of different sizes, computed one dimension after the other."""
    rank = len(shape)
    if sum(shape[-n:]) > _PARTS:
        raise Declined(f"more than {_PARTS} windows of several sizes")
    sizes = x.shape or ()
    for axis in range(rank - n, rank):
        size, out = sizes[axis], shape[axis]
        ends = [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
        parts = [g.op("ReduceMax", sliced(g, x, axis, begin, end), g.ints([axis]), keepdims=1) for begin, end in ends]
        x = g.op("Concat", *parts, axis=axis)
    return x


@conversion(*[f"nn.functional.adaptive_max_pool{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_with_indices")], "adaptive_max_pool1d")
def _adaptive_max_pool(g: Graph, a: Any, result: Any) -> Any:
    n = int(a.overload.partition("max_pool")[2][0])
    several = isinstance(result, (tuple, list))
    if not several and any(o and size % o for size, o in zip(a.input.shape[-n:], result.shape[-n:])):
        return _uneven(g, a.input, result.shape, n)
    windows = _adaptive(a, n)
    if windows is None and not several:
        return g.op("ReduceMax", a.input, g.ints(range(-n, 0)), keepdims=1)
    kernel = list(a.input.shape[-n:]) if windows is None else windows[0]
    x, lacked = with_batch(g, a.input, n)
    if not several:
        return without_batch(g, g.op("MaxPool", x, kernel_shape=kernel, strides=kernel), lacked)
    values, places = g.ops("MaxPool", x, dtypes=[x.dtype, mt.int64], kernel_shape=kernel, strides=kernel)
    plane = 1
    for size in a.input.shape[-n:]:
        plane *= size
    places = g.op("Mod", places, g.number(plane, mt.int64))
    return without_batch(g, values, lacked), without_batch(g, places, lacked)
