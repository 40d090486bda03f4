"""Kernels of convolution: gather a tile of patches from the input, then multiply it by the weight matrix.

A tile holds the patches at some window positions of some images. Padding needs no memory: elements of a patch outside
the image are set to zero in the tile. Besides the result, a convolution needs memory for one tile and for the product
of the tile and the weight, which is no larger than the result. It also needs a copy of the weight if the weight is not
contiguous or has a half dtype. Half dtypes are converted tile by tile. Transposed convolutions are the exception: they
accumulate, so they keep a result of a half dtype in float32 until it is complete.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from metatensor.devices.array_kit.copy import cast, store
from metatensor.devices.array_kit.registry import kernel

__all__ = ["Window", "per_dimension", "spans"]

# Number of elements in a tile. On the host a tile should fit in the cache. On other devices, large tiles save kernel
# launches.
HOST_TILE = 1 << 19
DEVICE_TILE = 1 << 24
# The least number of elements of a part of a patch. Products of fewer elements take longer than the copies they save.
LEAST_PART = 32
_ALL = slice(None)
_EACH = (_ALL, _ALL)  # the whole batch and all channels


def per_dimension(value: Any, n: int) -> tuple[int, ...]:
    """Return one value for each of ``n`` spatial dimensions, given a number or a list of 1 or ``n`` values."""
    if isinstance(value, (tuple, list)):
        return tuple(value) * n if len(value) == 1 else tuple(value)
    return (value,) * n


class Window:
    """A window that slides over an image: kernel size, stride, leading padding and dilation, one value per dimension.

    The indices that the methods return begin with an ellipsis, so they apply to the last dimensions.
    """

    def __init__(self, kernel: Sequence[int], stride: Sequence[int], before: Sequence[int], dilation: Sequence[int]) -> None:
        self.kernel, self.stride, self.before, self.dilation = kernel, stride, before, dilation

    @property
    def shares_rows(self) -> bool:
        """Whether every row of the image is seen from two or more positions of the kernel's first dimension."""
        return self.kernel[0] >= 2 * self.stride[0]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Return the positions in the kernel."""
        return itertools.product(*map(range, self.kernel))

    def overlap(
        self, offset: Sequence[int], sizes: Sequence[int], positions: Sequence[tuple[int, int]]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Return which window positions cover the image at one kernel position.

        ``positions`` are ranges of window positions. Return two indices that select arrays of the same shape: one for
        the positions (counted from the start of each range), one for an image with the given ``sizes``. Return None
        if the kernel position covers only padding.
        """
        at: list[Any] = [...]
        image: list[Any] = [...]
        for d, (first, last) in enumerate(positions):
            stride, shift = self.stride[d], self.dilation[d] * offset[d] - self.before[d]
            low = max(first, -(shift // stride))
            high = min(last, (sizes[d] - 1 - shift) // stride + 1)
            if low >= high:
                return None
            at.append(slice(low - first, high - first))
            image.append(slice(low * stride + shift, (high - 1) * stride + shift + 1, stride))
        return tuple(at), tuple(image)

    def gather(self, patches: Any, image: Any, positions: Sequence[tuple[int, int]], images: slice = slice(None)) -> None:
        """Copy the patches of ``image`` (N, C, spatial...) at ``positions`` to (N, C, kernel..., positions...)."""
        for offset in self.offsets():
            part, found = patches[_EACH + offset], self.overlap(offset, image.shape[2:], positions)
            if found is None:
                part[...] = 0
                continue
            for axis, inside in enumerate(found[0][1:], 2):
                if inside.start > 0:
                    part[(_ALL,) * axis + (slice(0, inside.start),)] = 0
                if inside.stop < part.shape[axis]:
                    part[(_ALL,) * axis + (slice(inside.stop, None),)] = 0
            part[found[0]] = image[(images, _ALL) + found[1][1:]]

    def scatter(self, image: Any, patches: Any, positions: Sequence[tuple[int, int]]) -> None:
        """Add the patches (N, C, kernel..., positions...) to the image (N, C, spatial...) at their positions."""
        for offset in self.offsets():
            found = self.overlap(offset, image.shape[2:], positions)
            if found is not None:
                image[found[1]] += patches[_EACH + offset][found[0]]


class Converted:
    """An array with a half dtype. Parts of it are decoded when read and encoded when written."""

    def __init__(self, kit: Any, tensor: Any) -> None:
        self.xp, self.array, self.format = kit.xp, kit.asarray(tensor), kit.format(tensor.dtype)
        self.shape, self.size, self.dtype = self.array.shape, self.array.size, self.format.compute

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        return self.format.decode(self.xp, self.array[index])

    def __setitem__(self, index: Any, values: Any) -> None:
        store(self.xp, self.array[index], self.format, values)


def tiles(kit: Any, images: int, sizes: Sequence[int], elements: int) -> Iterator[tuple[slice, list[tuple[int, int]]]]:
    """Divide the window positions of ``images`` into tiles. Each position has ``elements`` elements in a tile.

    Yield (slice of images, range of positions per dimension).
    """
    room = max(1, (HOST_TILE if kit.on_host else DEVICE_TILE) // max(1, elements))
    at_once = max(1, room // max(1, math.prod(sizes)))
    steps: list[int] = []
    for size in reversed(sizes):
        steps.insert(0, max(1, min(size, room)))
        room //= steps[0]
    for image in range(0, images, at_once):
        for starts in itertools.product(*map(range, itertools.repeat(0), sizes, steps)):
            ranges = [(start, min(size, start + step)) for start, size, step in zip(starts, sizes, steps, strict=True)]
            yield slice(image, min(images, image + at_once)), ranges


def spans(images: slice, ranges: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    """Return the index of a tile in an array (N, C, positions...)."""
    return (images, _ALL, *(slice(*each) for each in ranges))


def outweighs(kit: Any, outer: Any, rows: int) -> bool:
    """Return True if it pays to copy a kernel with this number of ``rows`` in another order.

    The cost of the copy is proportional to the rows, its benefit to the positions of the array (N, C, positions...) ``outer``.
    """
    return bool(kit.on_host and len(outer) * math.prod(outer.shape[2:]) >= 8 * rows)


class Patches:
    """The patches of an image (N, C, spatial...) as matrices (N, groups, C / groups * kernel, positions), tile by tile.

    With ``split``, a patch is split along the first kernel dimension if that pays: the parts at one position of the
    kernel are a slice of the parts at another, shifted by rows of the image, so that a single copy serves several of them.
    """

    def __init__(self, kit: Any, image: Any, dtype: Any, window: Window, groups: int, split: bool) -> None:
        self.xp, self.image, self.dtype, self.window, self.groups = kit.xp, image, dtype, window, groups
        self.rest = tuple(window.kernel[1:])
        self.channels = image.shape[1] // groups
        split = split and window.shares_rows and self.channels * math.prod(self.rest) >= LEAST_PART
        self.parts = window.kernel[0] if split else 1
        self.depth = self.channels * math.prod(window.kernel) // self.parts
        self.buffer = kit.xp.empty(0, dtype)

    def weights(self, weight: Any) -> Any:
        """Return the weight (R, C / groups, kernel...) as matrices (parts, groups, R / groups, depth)."""
        split = weight.reshape(self.groups, -1, self.channels, self.parts, self.depth // self.channels)
        return split.transpose(3, 0, 1, 2, 4).reshape(self.parts, self.groups, -1, self.depth)

    def matrices(self, images: slice, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each part of the patches at these positions, and its matrix. It is valid until the next."""
        (first, last), window = ranges[0], self.window
        if self.parts == 1:
            yield 0, self._matrix(images, ranges, window)
            return
        stride, dilation = window.stride[0], window.dilation[0]
        line = math.prod(b - a for a, b in ranges[1:])
        # Positions of the kernel whose distance is a multiple of the stride see the same rows of the image, and share them. They do not if
        # the tile has so few rows that most rows between the first and the last position are used by one position only.
        apart = stride if dilation * (self.parts - 1) <= (last - first) * stride else dilation * self.parts
        for phase in range(min(apart, dilation * self.parts)):
            rows = {part: (dilation * part - phase) // stride for part in range(self.parts) if dilation * part % apart == phase}
            if rows:
                low, high = min(rows.values()), max(rows.values())
                one = Window((1, *self.rest), window.stride, (window.before[0] - phase, *window.before[1:]), window.dilation)
                matrix = self._matrix(images, [(first + low, last + high), *ranges[1:]], one)
                for part, row in rows.items():
                    yield part, matrix[..., (row - low) * line : (row - low + last - first) * line]

    def _matrix(self, images: slice, ranges: Sequence[tuple[int, int]], window: Window) -> Any:
        count, lengths = images.stop - images.start, [b - a for a, b in ranges]
        shape = (count, self.image.shape[1], *window.kernel, *lengths)
        if self.buffer.size < math.prod(shape):
            self.buffer = self.xp.empty(math.prod(shape), self.dtype)
        patches = self.buffer[: math.prod(shape)].reshape(shape)
        window.gather(patches, self.image, ranges, images)
        return patches.reshape(count, self.groups, -1, math.prod(lengths))


def correlate(kit: Any, out: Any, image: Any, weight: Any, bias: Any, window: Window, groups: int) -> None:
    """Compute the convolution of (N, C, spatial...) into ``out``. As in neural networks, the kernel is not flipped."""
    xp, places = kit.xp, math.prod(window.kernel)
    channels = weight.shape[1]
    if not out.size:
        return
    shift = 0 if bias is None else bias.reshape(-1, *[1] * (weight.ndim - 2))
    plain = places == 1 and set(window.stride) == {1} and not any(window.before) and not isinstance(image, Converted)
    if not weight.size:
        out[...] = xp.broadcast_to(xp.asarray(shift, out.dtype), out.shape[1:])
    elif plain and image.flags.c_contiguous and out.flags.c_contiguous and image.dtype == out.dtype:
        matrix = weight.reshape(groups, len(weight) // groups, channels)
        product = out.reshape(len(out), groups, matrix.shape[1], -1)
        xp.matmul(matrix, image.reshape(len(image), groups, channels, -1), out=product)
        if bias is not None:
            out += shift
    else:
        patches = Patches(kit, image, out.dtype, window, groups, outweighs(kit, out, len(weight) // groups))
        weights = patches.weights(weight)
        elements = image.shape[1] * places + (out.shape[1] if patches.parts > 1 else 0)
        if isinstance(out, Converted):
            # The product is wider than the stored result, so count it as part of the tile.
            elements += 2 * image.shape[1] + 2 * out.shape[1]
        for images, ranges in tiles(kit, len(out), out.shape[2:], elements):
            lengths = [b - a for a, b in ranges]
            where, shape = spans(images, ranges), (images.stop - images.start, out.shape[1], *lengths)
            whole = tuple(lengths[1:]) == out.shape[3:] and not isinstance(out, Converted) and out.flags.c_contiguous
            product = out[where] if whole else xp.empty(shape, out.dtype)
            matrix = product.reshape(len(product), groups, -1, math.prod(lengths))
            for number, (part, columns) in enumerate(patches.matrices(images, ranges)):
                if number == 0:
                    xp.matmul(weights[part], columns, out=matrix)
                else:
                    matrix += xp.matmul(weights[part], columns)
            if bias is not None:
                product += shift
            if not whole:
                out[where] = product
            del product, matrix


def correlate_back(kit: Any, out: Any, image: Any, weight: Any, bias: Any, window: Window, groups: int) -> None:
    """Compute the transposed convolution: add a scaled copy of the kernel to ``out`` for each element of the image."""
    xp, n = kit.xp, weight.ndim - 2
    channels, places = weight.shape[1], math.prod(window.kernel)
    direct = outweighs(kit, image, channels) and weight.size and image.size and len(weight) <= 4 * out.shape[1]
    if direct and set(window.stride) == {1} and np.isfinite(weight.sum()):
        # This is the convolution with the flipped kernel. It saves the products that are added to the image. Its padding
        # would make NaN of infinite weights.
        flipped = xp.flip(weight, tuple(range(2, n + 2))).reshape(groups, -1, channels, *window.kernel).swapaxes(1, 2)
        before = [step * (size - 1) - pad for step, size, pad in zip(window.dilation, window.kernel, window.before, strict=True)]
        turned = Window(window.kernel, window.stride, before, window.dilation)
        correlate(kit, out, image, flipped.reshape(-1, len(weight) // groups, *window.kernel), bias, turned, groups)
        return
    out[...] = 0 if bias is None else bias.reshape(-1, *[1] * n)
    if not weight.size or not image.size:
        return
    matrix = weight.reshape(groups, -1, channels * places).swapaxes(1, 2)
    for images, ranges in tiles(kit, len(image), image.shape[2:], 2 * image.shape[1] + out.shape[1] * places):
        part = image[spans(images, ranges)].astype(out.dtype, copy=False)
        product = xp.matmul(matrix, part.reshape(len(part), groups, -1, math.prod(part.shape[2:])))
        patches = product.reshape(len(part), out.shape[1], *window.kernel, *part.shape[2:])
        window.scatter(out[images], patches, ranges)
        del part, product, patches


# These kernels take tensors, so that half dtypes can be converted in parts.


def _batched(array: Any, n: int) -> Any:
    return array if array.ndim == n + 2 else array[None]


def _operands(kit: Any, *tensors: Any) -> Iterator[Any]:
    """Yield the operands, each with a batch dimension. A half dtype is converted only in the last operand."""
    n = tensors[-1].dim()
    for tensor in tensors[:-1]:
        tensor = tensor if tensor.dim() == n else tensor.unsqueeze(0)
        yield Converted(kit, tensor) if kit.format(tensor.dtype).half else kit.asarray(tensor)
    yield kit.values(tensors[-1])


def _bias(kit: Any, bias: Any) -> Any:
    return None if bias is None else kit.values(bias)


@kernel(*[f"nn.functional.conv{n}d{form}" for n in (1, 2, 3) for form in ("", ".padding")], half="tensors")
def conv(kit: Any, out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    result, image, kernels = _operands(kit, out, input, weight)
    n = kernels.ndim - 2
    steps = per_dimension(dilation, n)
    if padding == "same":
        # If the total padding is odd, the larger half follows the image.
        before = tuple(step * (size - 1) // 2 for step, size in zip(steps, kernels.shape[2:], strict=True))
    else:
        before = per_dimension(0 if padding == "valid" else padding, n)
    window = Window(kernels.shape[2:], per_dimension(stride, n), before, steps)
    correlate(kit, result, image, kernels, _bias(kit, bias), window, groups)


@kernel(*[f"nn.functional.conv_transpose{n}d" for n in (1, 2, 3)], half="tensors")
def conv_transpose(
    kit: Any, out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> None:  # fmt: skip
    result, image, kernels = _operands(kit, out, input, weight)
    n = kernels.ndim - 2
    window = Window(kernels.shape[2:], *(per_dimension(value, n) for value in (stride, padding, dilation)))
    if not isinstance(result, Converted):
        correlate_back(kit, result, image, kernels, _bias(kit, bias), window, groups)
        return
    total = kit.xp.empty(result.shape, result.dtype)
    correlate_back(kit, total, image, kernels, _bias(kit, bias), window, groups)
    for images, ranges in tiles(kit, len(total), total.shape[2:], 2 * total.shape[1]):
        result[spans(images, ranges)] = total[spans(images, ranges)]


@kernel("convolution", half="tensors")
def convolution(
    kit: Any, out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> None:  # fmt: skip
    if transposed:
        conv_transpose(kit, out, input, weight, bias, stride, padding, output_padding, groups, dilation)
    else:
        conv(kit, out, input, weight, bias, stride, padding, dilation, groups)


@kernel("conv_tbc")
def conv_tbc(kit: Any, out: Any, input: Any, weight: Any, bias: Any, pad: int) -> None:
    window, bias = Window(weight.shape[:1], (1,), (pad,), (1,)), cast(bias, out.dtype)
    correlate(kit, out.transpose(1, 2, 0), input.transpose(1, 2, 0), weight.transpose(2, 1, 0), bias, window, 1)


@kernel("nn.functional.unfold")
def unfold(kit: Any, out: Any, input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    image = _batched(input, 2)
    kernel_size, dilation, padding, stride = (per_dimension(v, 2) for v in (kernel_size, dilation, padding, stride))
    positions = [
        (0, (size + 2 * pad - step * (length - 1) - 1) // jump + 1)
        for size, pad, step, length, jump in zip(image.shape[2:], padding, dilation, kernel_size, stride, strict=True)
    ]
    patches = kit.xp.empty((*image.shape[:2], *kernel_size, *(last for _, last in positions)), out.dtype)
    Window(kernel_size, stride, padding, dilation).gather(patches, image, positions)
    return patches.reshape(out.shape)


@kernel("nn.functional.fold")
def fold(kit: Any, out: Any, input: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
    kernel_size, dilation, padding, stride = (per_dimension(v, 2) for v in (kernel_size, dilation, padding, stride))
    image = _batched(out, 2)
    positions = [
        (0, (size + 2 * pad - step * (length - 1) - 1) // jump + 1)
        for size, pad, step, length, jump in zip(image.shape[2:], padding, dilation, kernel_size, stride, strict=True)
    ]
    out[...] = 0
    patches = input.reshape(*image.shape[:2], *kernel_size, *(last for _, last in positions))
    Window(kernel_size, stride, padding, dilation).scatter(image, patches, positions)
