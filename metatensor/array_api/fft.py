"""The Fourier transforms of the standard."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform along one axis, of `n` elements: cut off or filled with zeros."""
    return mt.fft.fft(array(x), n=n, dim=axis, norm=norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse of `fft`."""
    return mt.fft.ifft(array(x), n=n, dim=axis, norm=norm)


def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The transform along several axes, of the sizes `s`."""
    return mt.fft.fftn(array(x), s=s, dim=axes, norm=norm)


def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The inverse of `fftn`."""
    return mt.fft.ifftn(array(x), s=s, dim=axes, norm=norm)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform of real numbers: the half of it that the other follows from."""
    return mt.fft.rfft(array(x), n=n, dim=axis, norm=norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse of `rfft`, with `n` elements."""
    return mt.fft.irfft(array(x), n=n, dim=axis, norm=norm)


def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The transform of real numbers along several axes: half of it along the last."""
    return mt.fft.rfftn(array(x), s=s, dim=axes, norm=norm)


def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The inverse of `rfftn`, of the sizes `s`."""
    return mt.fft.irfftn(array(x), s=s, dim=axes, norm=norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform, real, of a Hermitian signal of which half is given."""
    return mt.fft.hfft(array(x), n=n, dim=axis, norm=norm)


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse of `hfft`."""
    return mt.fft.ihfft(array(x), n=n, dim=axis, norm=norm).resolve_conj()


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `fft` of `n` samples at distance `d`."""
    return mt.fft.fftfreq(n, d=d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `rfft` of `n` samples at distance `d`."""
    return mt.fft.rfftfreq(n, d=d, dtype=dtype, device=device)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle."""
    return mt.fft.fftshift(array(x), dim=axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return mt.fft.ifftshift(array(x), dim=axes)
