"""The kernel of a convolution's gradients. It uses the same patches as the convolution itself."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.convolution import Patches, Window, correlate, correlate_back, outweighs, spans, tiles
from metatensor.devices.array_kit.normalization import channel_sums
from metatensor.devices.array_kit.registry import kernel

__all__: list[str] = []

# OpenBLAS multiplies two small matrices (up to this number of multiplications) in row order faster than by a transposed
# one. From this number of elements of a patch on, that saves more than the transposed copy costs.
SMALL = 1_000_000
LEAST_COPIED = 32


def correlate_weight(kit: Any, out: Any, image: Any, rows: Any, window: Window, groups: int) -> None:
    """Write to ``out`` (R, C / groups, kernel...) the products of ``rows`` (N, R, positions...) with the patches of ``image``.

    The image is (N, C, spatial...). The products are summed over the batch and the positions.
    """
    xp, channels = kit.xp, image.shape[1]
    outputs = rows.shape[1] // groups
    by_columns = outweighs(kit, rows, outputs)
    patches = Patches(kit, image, out.dtype, window, groups, by_columns)
    total = xp.zeros((patches.parts, groups, *((patches.depth, outputs) if by_columns else (outputs, patches.depth))), out.dtype)
    for images, ranges in tiles(kit, len(image), rows.shape[2:], channels * math.prod(window.kernel)):
        factor = rows[spans(images, ranges)]
        factor = factor.reshape(len(factor), groups, outputs, -1)
        turned = factor.swapaxes(-1, -2)
        if by_columns and patches.depth >= LEAST_COPIED and patches.depth * factor[0, 0].size <= SMALL:
            turned = xp.ascontiguousarray(turned)
        for part, columns in patches.matrices(images, ranges):
            product = xp.matmul(columns, turned) if by_columns else xp.matmul(factor, columns.swapaxes(-1, -2))
            total[part] += product.sum(0)
    if by_columns:
        total = total.swapaxes(-1, -2)
    total = total.reshape(patches.parts, groups, outputs, channels // groups, -1)
    out[...] = total.transpose(1, 2, 3, 0, 4).reshape(out.shape)


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
        out[2][...] = channel_sums(kit, grad_output)
