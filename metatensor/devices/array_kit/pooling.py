"""Kernels of pooling. They pass over the image once for each position in the window, so patches are never copied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metatensor.devices.array_kit.convolution import Window, per_dimension
from metatensor.devices.array_kit.registry import kernel


def _batched(array: Any, n: int) -> Any:
    return array if array.ndim == n + 2 else array[None]


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _flat(xp: Any, coordinates: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return flat indices into an image of ``sizes``, given one vector of coordinates per dimension."""
    n = len(sizes)
    index = xp.zeros((), np.int64)
    for d, values in enumerate(coordinates):
        index = index * sizes[d] + values.reshape([-1 if i == d else 1 for i in range(n)])
    return index


# Windows of fixed size -----------------------------------------------------------------------


def maxima(xp: Any, out: Any, image: Any, window: Window, indices: Any = None) -> None:
    """Write the maximum of each window to ``out`` and its flat position in the image to ``indices``."""
    sizes, positions = image.shape[2:], [(0, size) for size in out.shape[2:]]
    offsets = list(window.offsets())
    first = window.overlap(offsets[0], sizes, positions)
    begun = int(first is not None and first[0] == (..., *(slice(*position) for position in positions)))
    out[...] = image[first[1]] if first is not None and begun else _lowest(out.dtype)
    # Small numbers of the offsets of the maxima, from 1: writing positions under a mask would take far longer.
    numbers = None if indices is None else xp.full(out.shape, begun, np.uint8 if len(offsets) < 255 else np.int32)
    # If an element is NaN, so is the maximum. Other devices would have to synchronize to find out, which costs more.
    nans = image.dtype.kind == "f" and bool(xp is not np or (image.size and np.isnan(image.max())))
    for number, offset in enumerate(offsets[begun:], 1 + begun):
        found = window.overlap(offset, sizes, positions)
        if found is None:
            continue
        current, candidate = out[found[0]], image[found[1]]
        if numbers is not None:
            if xp is np:  # several passes over contiguous memory are faster, even with the copy
                candidate = np.ascontiguousarray(candidate)
            better = candidate > current
            if nans:
                better |= candidate != candidate
            chosen = numbers[found[0]]
            xp.maximum(chosen, better.astype(numbers.dtype) * numbers.dtype.type(number), out=chosen)
        xp.maximum(current, candidate, out=current)
    if indices is not None:
        _write_positions(xp, indices, numbers, offsets, sizes, window)


def _write_positions(xp: Any, indices: Any, numbers: Any, offsets: list, sizes: Sequence[int], window: Window) -> None:
    """Write flat positions in the image, given for each window the number of an offset, or 0 for its first position."""
    n = len(sizes)
    scale = [math.prod(sizes[d + 1 :]) for d in range(n)]
    shifts = [sum(k * step * unit for k, step, unit in zip(offset, window.dilation, scale, strict=True)) for offset in offsets]
    starts = [xp.arange(indices.shape[d + 2]) * window.stride[d] - window.before[d] for d in range(n)]
    xp.add(xp.take(xp.asarray([0, *shifts], np.int64), numbers), _flat(xp, starts, sizes), out=indices)
    first = numbers == 0
    if xp is not np or first.any():
        inside = [xp.where(start < 0, start % window.dilation[d], start) for d, start in enumerate(starts)]
        xp.copyto(indices, _flat(xp, inside, sizes), where=first)


def _max_pool(n: int, always: bool) -> Any:
    def run(
        kit: Any, out: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
        return_indices: bool,
    ) -> None:  # fmt: skip
        lengths = per_dimension(kernel_size, n)
        window = Window(
            lengths, per_dimension(stride, n) if stride not in (None, (), []) else lengths,
            per_dimension(padding, n), per_dimension(dilation, n),
        )  # fmt: skip
        if always or return_indices:
            maxima(kit.xp, _batched(out[0], n), _batched(input, n), window, _batched(out[1], n))
        else:
            maxima(kit.xp, _batched(out, n), _batched(input, n), window)

    return run


for _n in (1, 2, 3):
    kernel(f"nn.functional.max_pool{_n}d")(_max_pool(_n, False))
    kernel(f"nn.functional.max_pool{_n}d_with_indices")(_max_pool(_n, True))
kernel("max_pool1d_with_indices")(_max_pool(1, True))


def averages(xp: Any, out: Any, image: Any, window: Window, include_pad: bool = True, divisor: int | None = None) -> None:
    """Write the sum of each window divided by the number of its elements, or by ``divisor``, to ``out``."""
    sizes, positions = image.shape[2:], [(0, size) for size in out.shape[2:]]
    out[...] = 0
    for offset in window.offsets():
        found = window.overlap(offset, sizes, positions)
        if found is not None:
            out[found[0]] += image[found[1]]
    count: Any = divisor
    if divisor is None:
        count = xp.ones((), np.int64)
        for d, size in enumerate(sizes):
            start = xp.arange(out.shape[d + 2]) * window.stride[d] - window.before[d]
            # Padding counts as part of a window, but positions beyond the padding do not.
            stop = xp.minimum(start + window.kernel[d], size + window.before[d])
            inside = xp.minimum(stop, size) - xp.maximum(start, 0)
            count = count[..., None] * (stop - start if include_pad else inside)
    if out.dtype.kind == "f":
        out /= count if divisor is None else float(divisor)
    else:
        out[...] = xp.where((out < 0) != (count < 0), -(abs(out) // abs(count)), abs(out) // abs(count))


def _avg_pool(n: int) -> Any:
    def run(
        kit: Any, out: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
        count_include_pad: bool, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        lengths = per_dimension(kernel_size, n)
        steps = per_dimension(stride, n) if stride not in (None, (), []) else lengths
        window = Window(lengths, steps, per_dimension(padding, n), (1,) * n)
        averages(kit.xp, _batched(out, n), _batched(input, n), window, count_include_pad, divisor_override)

    return run


def _lp_pool(n: int) -> Any:
    def run(kit: Any, out: Any, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
        lengths = per_dimension(kernel_size, n)
        steps = per_dimension(stride, n) if stride not in (None, (), []) else lengths
        window = Window(lengths, steps, (0,) * n, (1,) * n)
        exact = input.dtype.kind in "biu" and not isinstance(norm_type, float)  # powers and averages are integers
        image = _batched(input, n).astype(np.int64 if exact else out.dtype)
        if math.isinf(norm_type):  # the largest magnitude, or for -inf the smallest
            maxima(kit.xp, _batched(out, n), abs(image) if norm_type > 0 else -abs(image), window)
            return out if norm_type > 0 else -out
        means = kit.xp.empty(out.shape, np.int64) if exact else out
        averages(kit.xp, _batched(means, n), image**norm_type, window)
        return (means * math.prod(lengths)).astype(out.dtype) ** (1.0 / norm_type)

    return run


for _n in (1, 2, 3):
    kernel(f"nn.functional.avg_pool{_n}d")(_avg_pool(_n))
    kernel(f"nn.functional.lp_pool{_n}d")(_lp_pool(_n))


# Windows fitted to an output size ---------------------------------------------------------------


def _bins(size: int, parts: int) -> list[tuple[int, int]]:
    """Return ``parts`` ranges of nearly equal length that cover ``size`` elements. Neighbours may overlap."""
    return [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]


def _adaptive_avg(n: int) -> Any:
    def run(kit: Any, out: Any, input: Any, output_size: Any) -> Any:
        """Average along one dimension after the other, which equals the average of the whole box."""
        xp, values = kit.xp, input
        for d in range(out.ndim - n, out.ndim):
            if values.shape[d] == out.shape[d]:
                continue
            before = (slice(None),) * d
            parts = [values[before + (slice(*part),)].mean(axis=d) for part in _bins(values.shape[d], out.shape[d])]
            if not parts:
                return xp.empty(out.shape, out.dtype)
            values = xp.stack(parts, axis=d)
        return values

    return run


for _n in (1, 2, 3):
    kernel(f"nn.functional.adaptive_avg_pool{_n}d")(_adaptive_avg(_n))


def _best(xp: Any, values: Any, index: Any, axis: int) -> tuple[Any, Any]:
    """Return the maximum along ``axis`` and the index of its first occurrence. NaN counts as the largest value."""
    at = xp.expand_dims(values.argmax(axis=axis), axis)
    return xp.take_along_axis(values, at, axis), xp.take_along_axis(index, at, axis)


def _windows(xp: Any, image: Any, ranges: Sequence[Any], values: Any, indices: Any) -> None:
    """Write the maxima over boxes and their flat indices. ``ranges`` holds the boxes' ranges in each dimension."""
    n = len(ranges)
    best = image
    index = xp.broadcast_to(xp.arange(math.prod(image.shape[2:]), dtype=np.int64).reshape(image.shape[2:]), image.shape)
    for d in range(image.ndim - 1, image.ndim - 1 - n, -1):
        pairs = [
            _best(xp, best[(slice(None),) * d + (slice(*r),)], index[(slice(None),) * d + (slice(*r),)], d)
            for r in ranges[d - (image.ndim - n)]
        ]
        if not pairs:
            return
        best = xp.concatenate([pair[0] for pair in pairs], axis=d)
        index = xp.concatenate([pair[1] for pair in pairs], axis=d)
    values[...] = best
    if indices is not None:
        indices[...] = index


def _adaptive_max(n: int, always: bool) -> Any:
    def run(kit: Any, out: Any, input: Any, output_size: Any, return_indices: bool = False) -> None:
        values, indices = out if always or return_indices else (out, None)
        values, indices = _batched(values, n), None if indices is None else _batched(indices, n)
        image = _batched(input, n)
        ranges = [_bins(size, parts) for size, parts in zip(image.shape[2:], values.shape[2:], strict=True)]
        _windows(kit.xp, image, ranges, values, indices)

    return run


for _n in (1, 2, 3):
    kernel(f"nn.functional.adaptive_max_pool{_n}d")(_adaptive_max(_n, False))
    kernel(f"nn.functional.adaptive_max_pool{_n}d_with_indices")(_adaptive_max(_n, True))
kernel("adaptive_max_pool1d")(_adaptive_max(1, True))


def _starts(sample: float, size: int, parts: int, length: int) -> list[tuple[int, int]]:
    """Return the positions of pseudo-random windows: Graham, "Fractional Max-Pooling", 2014."""
    if parts <= 1:
        return [(size - length, size)] * parts
    step = (size - length) / (parts - 1)
    first = [int((i + sample) * step) - int(sample * step) for i in range(parts - 1)]
    return [(start, start + length) for start in [*first, size - length]]


def _fractional(n: int, always: bool) -> Any:
    def run(
        kit: Any, out: Any, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
        samples: Any, ticket: Any,
    ) -> None:  # fmt: skip
        values, indices = out if always or return_indices else (out, None)
        values, indices = _batched(values, n), None if indices is None else _batched(indices, n)
        image, lengths = _batched(input, n), per_dimension(kernel_size, n)
        if samples is None:
            samples = kit.random(ticket).uniform(image.shape[0] * image.shape[1] * n)
            samples = samples.reshape(*image.shape[:2], n)
        samples = kit.download(samples)
        for i in range(image.shape[0]):
            for j in range(image.shape[1]):
                # In two dimensions the first random number belongs to the width.
                draw = samples[i, j][::-1] if n == 2 else samples[i, j]
                ranges = [_starts(float(draw[d]), image.shape[d + 2], values.shape[d + 2], lengths[d]) for d in range(n)]
                here = (slice(i, i + 1), slice(j, j + 1))
                _windows(kit.xp, image[here], ranges, values[here], None if indices is None else indices[here])

    return run


for _n in (2, 3):
    kernel(f"nn.functional.fractional_max_pool{_n}d")(_fractional(_n, False))
    kernel(f"nn.functional.fractional_max_pool{_n}d_with_indices")(_fractional(_n, True))


def _unpool(n: int) -> Any:
    def run(kit: Any, out: Any, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
        area = math.prod(out.shape[out.ndim - n :])
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= area):
            raise RuntimeError(
                f"max_unpool{n}d(): indices must lie in [0, {area}) for an output of {tuple(out.shape[out.ndim - n :])}, "
                f"got {int(indices.min())} to {int(indices.max())}"
            )
        planes, places = math.prod(input.shape[: input.ndim - n]), math.prod(input.shape[input.ndim - n :])
        result = kit.xp.zeros((planes, area), out.dtype)
        rows = kit.xp.arange(planes)[:, None]
        result[rows, indices.reshape(planes, places)] = input.reshape(planes, places)
        return result.reshape(out.shape)

    return run


for _n in (1, 2, 3):
    kernel(f"nn.functional.max_unpool{_n}d")(_unpool(_n))
