"""Fourier transforms and windows."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []


def _complex(x: Tensor) -> Tensor:
    """Return the complex numbers whose parts are in the last dimension."""
    if x.shape[-1] == 1:
        return x.squeeze(-1)
    if x.shape[-1] != 2:
        raise OnnxError(f"the last dimension must have size 1 or 2, got {x.shape[-1]}")
    return mt.view_as_complex(x.contiguous())


@operator("DFT", host=(1, 2))
def _dft(node: Node, x: Tensor, length: Any = None, axis: Any = None) -> Tensor:
    dim = int(node.number(axis, "the axis", -2)) if node.version >= 20 else node.get("axis", 1)
    dim = dim % x.ndim
    n = None if length is None else int(node.number(length, "the length"))
    one, back = bool(node.get("onesided", 0)), bool(node.get("inverse", 0))
    wide = x.to(mt.float32) if x.dtype.itemsize < 4 else x
    z = _complex(wide)
    if back and one:
        y = mt.fft.irfft(z, n if n is not None else 2 * (z.shape[dim] - 1), dim)
        return y.unsqueeze(-1).to(x.dtype)
    if back:
        y = mt.fft.ifft(z, n, dim)
    elif one and not z.is_complex():
        y = mt.fft.rfft(z, n, dim)
    else:
        y = mt.fft.fft(z, n, dim)
        if one:
            y = y.narrow(dim, 0, y.shape[dim] // 2 + 1)
    return mt.view_as_real(y).to(x.dtype)


@operator("STFT", host=(1, 3))
def _stft(node: Node, signal: Tensor, step: Any, window: Tensor | None = None, length: Any = None) -> Tensor:
    hop = int(node.number(step, "the step"))
    n = int(node.number(length, "the length", 0 if window is None else window.shape[0]))
    if hop < 1 or n < 1:
        raise OnnxError(f"the signal cannot be split into frames of {n} elements every {hop} elements")
    z = _complex(signal)
    frames = z.unfold(1, n, hop)
    if window is not None:
        low = (n - window.shape[0]) // 2
        window = mt.nn.functional.pad(window, [low, n - window.shape[0] - low])
        frames = frames * window
    if not node.get("onesided", 1) or z.is_complex():
        y = mt.fft.fft(frames)
        y = y[..., : n // 2 + 1] if node.get("onesided", 1) else y
    else:
        y = mt.fft.rfft(frames)
    return mt.view_as_real(y).to(signal.dtype)


@operator("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def _mel_weights(node: Node, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Tensor:
    from math import floor, log10

    count, n = int(node.number(bins, "the number of bins")), int(node.number(length, "the length"))
    hertz = node.number(rate, "the rate")
    ends = [2595 * log10(1 + float(node.number(edge, "a frequency")) / 700) for edge in (low, high)]
    rows = n // 2 + 1
    if count < 1 or rows * count > 1 << 24:
        raise OnnxError(f"{n} frequencies cannot be divided into {count} bins")
    node.run.spend(rows * count // 64)
    step = (ends[1] - ends[0]) / (count + 2)
    edges = [floor((n + 1) * (700 * (10 ** ((ends[0] + i * step) / 2595) - 1)) / hertz) for i in range(count + 2)]
    table = [[0.0] * count for _ in range(rows)]
    for i in range(count):
        begin, centre, end = edges[i : i + 3]
        if centre == begin:
            table[centre][i] = 1.0
        else:
            for j in range(begin, centre + 1):
                table[j][i] = (j - begin) / (centre - begin)
        if end > centre:
            for j in range(centre, end):
                table[j][i] = (end - j) / (end - centre)
    return node.tensor(table, node.dtype("output_datatype", 1))
