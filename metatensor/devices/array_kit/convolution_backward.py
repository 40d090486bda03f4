"""The kernel of a convolution's gradients. It uses the same patches as the convolution itself."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.convolution import Window, correlate, correlate_back, spans, tiles
from metatensor.devices.array_kit.registry import kernel

__all__: list[str] = []


def correlate_weight(kit: Any, out: Any, image: Any, rows: Any, window: Window, groups: int) -> None:
    """Write to ``out`` (R, C / groups, kernel...) the products of ``rows`` (N, R, positions...) with the patches of ``image``.

    The image is (N, C, spatial...). The products are summed over the batch and the positions.
    """
    xp, places, channels = kit.xp, math.prod(window.kernel), image.shape[1]
    total = xp.zeros((groups, rows.shape[1] // groups, channels // groups * places), out.dtype)
    for images, ranges in tiles(kit, len(image), rows.shape[2:], channels * places):
        shape = (images.stop - images.start, channels, *window.kernel, *(b - a for a, b in ranges))
        patches = xp.empty(shape, out.dtype)
        window.gather(patches, image, ranges, images)
        columns = patches.reshape(shape[0], groups, channels // groups * places, -1)
        part = rows[spans(images, ranges)].reshape(shape[0], groups, rows.shape[1] // groups, -1)
        total += xp.matmul(part, columns.swapaxes(-1, -2)).sum(0)
    out[...] = total.reshape(out.shape)


def _conj(array: Any) -> Any:
    return array.conj() if array.dtype.kind == "c" else array


@kernel("convolution_backward")
def convolution_backward(
    kit: Any, out: Any, grad_output: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any,
) -> None:  # fmt: skip
    window = Window(weight.shape[2:], stride, padding, dilation)
    if not (grad_output.size and input.size and weight.size):
        for made in out[:2]:
            if made is not None:
                made[...] = 0
    else:
        if output_mask[0]:
            (correlate if transposed else correlate_back)(kit, out[0], grad_output, _conj(weight), None, window, groups)
        if output_mask[1]:
            image, rows = (grad_output, _conj(input)) if transposed else (_conj(input), grad_output)
            correlate_weight(kit, out[1], image, rows, window, groups)
    if output_mask[2]:
        out[2][...] = grad_output.sum((0, *range(2, grad_output.ndim)))
