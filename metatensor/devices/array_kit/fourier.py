"""Kernels of Fourier transforms, which call the ``fft`` module of the array library."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.registry import kernel

# The ``norm`` argument of the array library for each normalization code, by direction.
FORWARD = ("backward", "ortho", "forward")
INVERSE = ("forward", "ortho", "backward")


@kernel("_fft_c2c")
def c2c(kit: Any, out: Any, input: Any, dim: Any, normalization: int, forward: bool) -> Any:
    if not dim or not out.size:
        return input
    if forward:
        return kit.xp.fft.fftn(input, axes=dim, norm=FORWARD[normalization])
    return kit.xp.fft.ifftn(input, axes=dim, norm=INVERSE[normalization])


@kernel("_fft_r2c")
def r2c(kit: Any, out: Any, input: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if not out.size:
        return None
    transform = kit.xp.fft.rfftn if onesided else kit.xp.fft.fftn
    return transform(input, axes=dim, norm=FORWARD[normalization])


@kernel("_fft_c2r")
def c2r(kit: Any, out: Any, input: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    if not out.size:
        return None
    sizes = tuple(out.shape[d] for d in dim)
    return kit.xp.fft.irfftn(input, s=sizes, axes=dim, norm=INVERSE[normalization])
