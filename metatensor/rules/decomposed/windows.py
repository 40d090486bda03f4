"""Convolution and pooling, computed over windows that are views of the padded image."""

from __future__ import annotations

import itertools
import math
from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import decomposition, numeric


def _padded(x: Any, before: Any, after: Any, value: Any) -> Any:
    """Pad the last dimensions of the image. `before` and `after` hold one size for each of them."""
    if not any(before) and not any(after):
        return x
    return mt.constant_pad_nd(x, [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair], value)


def _windows(x: Any, size: Any, step: Any, dilation: Any, count: Any = None) -> Any:
    """Return a view of all windows of an image: (N, C, position of the window..., position in the window...)."""
    d = len(size)
    first = x.dim() - d
    for i in range(d):
        reach = (size[i] - 1) * dilation[i] + 1
        x = x.unfold(first + i, reach, step[i])
        if count is not None:
            x = x.narrow(first + i, 0, count[i])
    for i in range(d):
        at = x.dim() - d + i
        x = x[(slice(None),) * at + (slice(None, None, dilation[i]),)]
    return x


@numeric("convolution", complex=True)
def convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
                groups: int) -> Any:  # fmt: skip
    d = weight.dim() - 2
    stride, padding, dilation, output_padding = (tuple(v) * d if len(v) == 1 else tuple(v)
                                                 for v in (stride, padding, dilation, output_padding))  # fmt: skip
    alone = x.dim() == d + 1
    x = x.unsqueeze(0) if alone else x
    out = _transposed(x, weight, stride, padding, dilation, output_padding, groups) if transposed else \
        _correlated(_padded(x, padding, padding, 0), weight, stride, dilation, groups)  # fmt: skip
    if bias is not None:
        out = out + bias.reshape(-1, *(1,) * d)
    return out.squeeze(0) if alone else out


def _correlated(x: Any, weight: Any, stride: Any, dilation: Any, groups: int) -> Any:
    """Multiply the windows by the weights, with one matrix product per group."""
    d, outputs, each = weight.dim() - 2, weight.shape[0], weight.shape[1]
    windows = _windows(x, weight.shape[2:], stride, dilation)
    batch, places = x.shape[0], tuple(windows.shape[2 : 2 + d])
    count, reach = math.prod(places), each * math.prod(weight.shape[2:])
    windows = windows.movedim(1, 1 + d).reshape(batch * count, groups, reach).transpose(0, 1)
    weights = weight.reshape(groups, outputs // groups, reach).transpose(1, 2)
    products = mt.cat([mt.mm(windows[g], weights[g]) for g in range(groups)], 1) if groups > 1 else mt.mm(windows[0], weights[0])
    return products.reshape(batch, *places, outputs).movedim(-1, 1)


def _transposed(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, more: Any, groups: int) -> Any:
    """Compute a transposed convolution with one matrix product per kernel position and group.

    The product of an input element and the weights at a kernel position is added to the result at that position of the
    element's window.
    """
    d, inputs, each = weight.dim() - 2, weight.shape[0], weight.shape[1]
    batch, places, sizes = x.shape[0], tuple(x.shape[2:]), weight.shape[2:]
    whole = [(places[i] - 1) * stride[i] + dilation[i] * (sizes[i] - 1) + 1 + max(more[i], 0) for i in range(d)]
    out = mt.zeros((batch, groups * each, *whole), dtype=x.dtype, device=x.device)
    rows = x.movedim(1, -1).reshape(batch * math.prod(places), groups, inputs // groups)
    for at in itertools.product(*map(range, sizes)):
        index = (slice(None), slice(None), *at)
        share = weight[index].reshape(groups, inputs // groups, each)
        shares = mt.cat([mt.mm(rows[:, g], share[g]) for g in range(groups)], 1)
        starts = [at[i] * dilation[i] for i in range(d)]
        spans = (slice(first, first + (count - 1) * step + 1, step) for first, count, step in zip(starts, places, stride))
        index = (slice(None), slice(None), *spans)
        out[index].add_(shares.reshape(batch, *places, groups * each).movedim(-1, 1))
    for i in range(d):
        out = out.narrow(2 + i, padding[i], whole[i] - 2 * padding[i])
    return out


def _conv(d: int) -> None:
    @decomposition(f"nn.functional.conv{d}d")
    def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return mt.convolution(x, weight, bias, stride, padding, dilation, False, (0,) * d, groups)

    @decomposition(f"nn.functional.conv{d}d.padding")
    def conv_padded(x: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
        if padding == "same":
            total = [dilation[i] * (weight.shape[2 + i] - 1) for i in range(d)]
            x = _padded(x, [n // 2 for n in total], [n - n // 2 for n in total], 0)
        return mt.convolution(x, weight, bias, stride, (0,) * d, dilation, False, (0,) * d, groups)

    @decomposition(f"nn.functional.conv_transpose{d}d")
    def conv_transpose(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any) -> Any:
        return mt.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)


def _counts(shape: Any, size: Any, step: Any, padding: Any, dilation: Any, ceil: bool) -> list[int]:
    """Return the number of windows per dimension.

    If `ceil`, the last window may extend past the padded image, but must start inside the image or its left padding.
    """
    found = []
    for n, k, s, p, w in zip(shape, size, step, padding, dilation, strict=True):
        room = n + 2 * p - w * (k - 1) - 1
        count = -(-room // s) + 1 if ceil else room // s + 1
        if ceil and (count - 1) * s >= n + p:
            count -= 1
        found.append(count)
    return found


def _pool_windows(x: Any, size: Any, step: Any, padding: Any, dilation: Any, ceil: bool, value: Any) -> tuple[Any, list[int]]:
    """Return the pooling windows, with the elements of a window in the last dimension, and the numbers of windows."""
    shape = x.shape[x.dim() - len(size) :]
    counts = _counts(shape, size, step, padding, dilation, ceil)
    after = [max((c - 1) * s + w * (k - 1) + 1 - n - p, 0)
             for c, s, w, k, n, p in zip(counts, step, dilation, size, shape, padding, strict=True)]  # fmt: skip
    windows = _windows(_padded(x, padding, after, value), size, step, dilation, counts)
    return windows.reshape(*windows.shape[: windows.dim() - len(size)], math.prod(size)), counts


def _max_pool(d: int) -> None:
    def both(x: Any, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: bool) -> Any:
        step = size if stride is None or not stride else stride
        low = -math.inf if x.is_floating_point() else mt.iinfo(x.dtype).min
        windows, _ = _pool_windows(x, size, step, padding, dilation, ceil, low)
        shape = x.shape[x.dim() - d :]
        numbers = mt.arange(math.prod(shape), device=x.device).reshape(shape)
        at, _ = _pool_windows(numbers, size, step, padding, dilation, ceil, -1)
        # Padding is never the maximum: if all elements are -inf, the first one inside the image is.
        inside = at.expand(windows.shape) >= 0
        best = mt.argmax(windows, -1, True)
        if x.is_floating_point():  # the last NaN is the maximum
            lost = windows.isnan()
            last = windows.shape[-1] - 1 - mt.argmax(lost.flip(-1).to(mt.uint8), -1, True)
            best = mt.where(lost.any(-1, True), last, best)
        best = mt.where(inside.gather(-1, best), best, mt.argmax(inside.to(mt.uint8), -1, True))
        return windows.gather(-1, best).squeeze(-1), at.expand(windows.shape).gather(-1, best).squeeze(-1)

    decomposition(f"nn.functional.max_pool{d}d")(lambda *args: both(*args)[0])
    decomposition(f"nn.functional.max_pool{d}d_with_indices")(both)
    if d == 1:
        decomposition("max_pool1d_with_indices")(both)


def _avg_pool(d: int) -> None:
    @numeric(f"nn.functional.avg_pool{d}d")
    def avg_pool(x: Any, size: Any, stride: Any, padding: Any, ceil: bool, include: bool, divisor: Any = None) -> Any:
        step = size if stride is None or not stride else stride
        ones = (1,) * d
        windows, counts = _pool_windows(x, size, step, padding, ones, ceil, 0)
        total = windows.sum(-1)
        if divisor is not None:
            return total / divisor if x.is_floating_point() or x.is_complex() else mt.div(total, divisor, rounding_mode="trunc")
        # Count the elements in each window. Elements of the padding count only if `include`.
        shape = x.shape[x.dim() - d :]
        covered = mt.ones((), dtype=mt.int64, device=x.device)
        for i in range(d):
            low, high = (-padding[i], shape[i] + padding[i]) if include else (0, shape[i])
            starts = [c * step[i] - padding[i] for c in range(counts[i])]
            each = [min(s + size[i], high) - max(s, low) for s in starts]
            covered = covered.unsqueeze(-1) * mt.tensor(each, dtype=mt.int64, device=x.device)
        exact = not (x.is_floating_point() or x.is_complex())
        return mt.div(total, covered, rounding_mode="trunc") if exact else total / covered.to(total.dtype)

    @numeric(f"nn.functional.lp_pool{d}d")
    def lp_pool(x: Any, p: float, size: Any, stride: Any, ceil: bool) -> Any:
        step = size if stride is None or not stride else stride
        if math.isinf(p):  # the largest magnitude, or for -inf the smallest
            sign = 1 if p > 0 else -1
            return sign * getattr(mt.nn.functional, f"max_pool{d}d")(sign * x.abs(), size, step, 0, 1, ceil)
        means = getattr(mt.nn.functional, f"avg_pool{d}d")(x**p, size, step, 0, ceil)
        return (means * math.prod(size)) ** (1.0 / p)


def _spans(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive(d: int) -> None:
    @numeric(f"nn.functional.adaptive_avg_pool{d}d")
    def adaptive(x: Any, output_size: Any) -> Any:
        sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * d
        for i, count in enumerate(sizes):
            dim = x.dim() - d + i
            count = x.shape[dim] if count is None else count
            parts = [x.narrow(dim, a, b - a).mean(dim, True) for a, b in _spans(x.shape[dim], count)]
            x = mt.cat(parts, dim) if parts else x.narrow(dim, 0, 0)
        return x


for _d in (1, 2, 3):
    _conv(_d)
    _max_pool(_d)
    _avg_pool(_d)
    _adaptive(_d)


@decomposition("nn.functional.unfold")
def unfold(x: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    alone = x.dim() == 3
    x = _padded(x.unsqueeze(0) if alone else x, padding, padding, 0)
    windows = _windows(x, size, stride, dilation)
    out = windows.permute(0, 1, 4, 5, 2, 3).reshape(x.shape[0], x.shape[1] * math.prod(size), math.prod(windows.shape[2:4]))
    return out.squeeze(0) if alone else out
