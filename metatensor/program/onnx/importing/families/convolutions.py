"""Convolutions."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.families.shaping import padded
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__ = ["convolved", "paddings"]

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def paddings(node: Node, sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and after each dimension."""
    rank = len(sizes)
    mode = node.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = node.get("pads") or [0] * (2 * rank)
        if len(pads) != 2 * rank:
            raise OnnxError(f"{len(pads)} numbers of padding for {rank} dimensions")
        return pads[:rank], pads[rank:]
    if mode == "VALID":
        return [0] * rank, [0] * rank
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise OnnxError(f"auto_pad {mode!r} is not known")
    begins, ends = [], []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if mode == "SAME_UPPER" else more)
        ends.append(more if mode == "SAME_UPPER" else less)
    return begins, ends


def _options(node: Node, x: Tensor, w: Tensor) -> tuple[int, list[int], list[int], list[int]]:
    rank = x.ndim - 2
    if rank not in _CONV or w.ndim != x.ndim:
        raise OnnxError(f"a convolution of a tensor of {x.ndim} dimensions with a kernel of {w.ndim} is not supported")
    kernel = node.get("kernel_shape") or list(w.shape[2:])
    if list(kernel) != list(w.shape[2:]):
        raise OnnxError(f"the kernel has the shape {list(w.shape[2:])}, not {list(kernel)}")
    ones = [1] * rank
    strides, dilations = node.get("strides") or ones, node.get("dilations") or ones
    if len(strides) != rank or len(dilations) != rank:
        raise OnnxError(f"strides and dilations must have {rank} numbers")
    return rank, kernel, strides, dilations


def convolved(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None, value: Any = 0) -> Tensor:
    """Return the convolution with a node's attributes. `value` is the padding value."""
    rank, kernel, strides, dilations = _options(node, x, w)
    begins, ends = paddings(node, list(x.shape[2:]), kernel, strides, dilations)
    if begins != ends or value or min(begins, default=0) < 0:
        x = padded(x, [0, 0, *begins], [0, 0, *ends], value=value)
        begins = [0] * rank
    return _CONV[rank](x, w, b, strides, begins, dilations, node.get("group", 1))


@operator("Conv")
def _conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    return convolved(node, x, w, b)


@operator("FusedConv", domain=CONTRIB)
def _fused_conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None) -> Tensor:
    y = convolved(node, x, w, b)
    y = y if z is None else y + z
    activation = node.get("activation", "")
    if activation == "HardSigmoid":
        alpha, beta = (node.get("activation_params") or [0.2, 0.5])[:2]
        return mt.clamp(y * alpha + beta, 0, 1)
    if activation == "Clip":
        low, high = (node.get("activation_params") or [None, None])[:2]
        return mt.clamp(y, low, high)
    table: dict[str, Any] = {"": lambda t: t, "Relu": mt.relu, "Sigmoid": mt.sigmoid, "Tanh": mt.tanh,
                             "LeakyRelu": lambda t: F.leaky_relu(t, (node.get("activation_params") or [0.01])[0])}  # fmt: skip
    if activation not in table:
        raise NotImplementedError(f"the activation {activation} is not supported")
    return table[activation](y)


@operator("ConvTranspose")
def _conv_transpose(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    rank, kernel, strides, dilations = _options(node, x, w)
    more = node.get("output_padding") or [0] * rank
    group = node.get("group", 1)
    full = [s * (n - 1) + (k - 1) * d + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)]
    wanted = node.get("output_shape")
    mode = node.get("auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        wanted = wanted[-rank:]
        begins, ends = [], []
        for n, f, m in zip(wanted, full, more, strict=True):
            total = f + m - n
            half = total // 2 if mode == "SAME_UPPER" else total - total // 2
            begins.append(half)
            ends.append(total - half)
    else:
        begins, ends = paddings(node, list(x.shape[2:]), kernel, strides, dilations)
    limits = [max(s, d) for s, d in zip(strides, dilations, strict=True)]
    if begins == ends and min(begins) >= 0 and all(0 <= m < limit for m, limit in zip(more, limits, strict=True)):
        return _TRANSPOSED[rank](x, w, b, strides, begins, more, group, dilations)
    y = _TRANSPOSED[rank](x, w, None, strides, 0, 0, group, dilations)
    y = padded(y, [0, 0, *(-n for n in begins)], [0, 0, *(m - n for n, m in zip(ends, more, strict=True))])
    return y if b is None else y + b.reshape((-1,) + (1,) * rank)


@operator("Col2Im", host=(1, 2))
def _col2im(node: Node, x: Tensor, image: Any, block: Any) -> Tensor:
    size, kernel = node.ints(image, "the image's shape"), node.ints(block, "the block's shape")
    rank = len(size)
    ones = [1] * rank
    strides, dilations = node.get("strides") or ones, node.get("dilations") or ones
    pads = node.get("pads") or [0] * (2 * rank)
    if rank == 2 and pads[:2] == pads[2:]:
        return F.fold(x, size, kernel, dilations, pads[:2], strides)
    batch, columns, blocks = x.shape
    steps = [n + pads[i] + pads[i + rank] for i, n in enumerate(size)]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(steps, kernel, strides, dilations, strict=True)]
    places = mt.zeros((1, 1), dtype=mt.int64, device=x.device)
    for n, k, s, d, c in zip(steps, kernel, strides, dilations, counts, strict=True):
        own = (mt.arange(k, device=x.device) * d)[:, None] + mt.arange(c, device=x.device) * s
        places = (places[:, None, :, None] * n + own[None, :, None, :]).reshape(places.shape[0] * k, places.shape[1] * c)
    elements = places.numel()
    total = 1
    for n in steps:
        total *= n
    channels = columns * blocks // elements
    values = x.reshape(batch, channels, elements)
    where = places.reshape(1, 1, elements).expand(batch, channels, elements)
    flat = mt.zeros((batch, channels, total), dtype=x.dtype, device=x.device).scatter_add(2, where, values)
    ends = [-n for n in pads[rank:]]
    return padded(flat.reshape((batch, channels, *steps)), [0, 0, *(-n for n in pads[:rank])], [0, 0, *ends])
