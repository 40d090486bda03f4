"""Discrete Fourier transforms: the standard's `fft` extension.

`norm` determines the scaling by the number of points N. "backward" scales the inverse transforms by 1/N, "forward"
scales the forward transforms by 1/N, and "ortho" scales both by 1/sqrt(N).
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the Fourier transform along one axis, which is truncated or zero-padded to `n` elements if `n` is given.
    """
    return mt.fft.fft(array(x), n=n, dim=axis, norm=norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the inverse of `fft`."""
    return mt.fft.ifft(array(x), n=n, dim=axis, norm=norm)


def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """Return the Fourier transform along several axes, which are truncated or zero-padded to the sizes `s` if given.

    `axes` defaults to the last ``len(s)`` axes, or to all axes if `s` is not given either.
    """
    return mt.fft.fftn(array(x), s=s, dim=axes, norm=norm)


def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """Return the inverse of `fftn`."""
    return mt.fft.ifftn(array(x), s=s, dim=axes, norm=norm)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the Fourier transform of a real tensor along one axis.

    Only the n // 2 + 1 nonnegative frequencies are returned. The elements at negative frequencies are the complex
    conjugates of those at the corresponding positive ones.
    """
    return mt.fft.rfft(array(x), n=n, dim=axis, norm=norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the inverse of `rfft`, a real tensor with `n` elements along `axis`.

    `n` defaults to 2 * (m - 1), where m is the size of `axis`.
    """
    return mt.fft.irfft(array(x), n=n, dim=axis, norm=norm)


def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """Return the Fourier transform of a real tensor along several axes.

    Along the last of them, only the nonnegative frequencies are returned.
    """
    return mt.fft.rfftn(array(x), s=s, dim=axes, norm=norm)


def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """Return the inverse of `rfftn`, a real tensor of the sizes `s` along `axes`."""
    return mt.fft.irfftn(array(x), s=s, dim=axes, norm=norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the real Fourier transform of a Hermitian signal, given its nonnegative half."""
    return mt.fft.hfft(array(x), n=n, dim=axis, norm=norm)


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """Return the inverse of `hfft`, the nonnegative half of a Hermitian signal."""
    return mt.fft.ihfft(array(x), n=n, dim=axis, norm=norm).resolve_conj()


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the elements of an `fft` of `n` samples at spacing `d`, as a vector."""
    return mt.fft.fftfreq(n, d=d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the elements of an `rfft` of `n` samples at spacing `d`, as a vector."""
    return mt.fft.rfftfreq(n, d=d, dtype=dtype, device=device)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Return `x` with frequency 0 moved to the centre of `axes`. The default is all axes."""
    return mt.fft.fftshift(array(x), dim=axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Return the inverse of `fftshift`."""
    return mt.fft.ifftshift(array(x), dim=axes)
