# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from metatensor._core.device import Device as _device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.formats import LayoutTag as _layout, MemoryFormatTag as _memory_format
from metatensor._core.random import Generator as _Generator
from metatensor._core.tensor import Tensor, _Number

def fft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional discrete Fourier transform over `dim`."""
def fft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional discrete Fourier transform over `dim`."""
def fftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Sample frequencies of `fft.fft` for `n` points that are `d` apart, as a vector of `n` elements. The negative frequencies come last."""
def fftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional discrete Fourier transform over `dim`. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
def fftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """Move the zero frequency to the center by rolling each of the dimensions `dim` (default: all) by half of its size."""
def hfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional Fourier transform over `dim` of a Hermitian-symmetric signal, with a real result. `input` holds the first half of the signal. By default, the last transformed dimension grows from size m to `2 * (m - 1)`."""
def hfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional Fourier transform over `dim` of a Hermitian-symmetric signal, with a real result. `input` holds the first half of the signal. By default, the last transformed dimension grows from size m to `2 * (m - 1)`."""
def hfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional Fourier transform over `dim` of a Hermitian-symmetric signal, with a real result. `input` holds the first half of the signal. By default, the last transformed dimension grows from size m to `2 * (m - 1)`. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
def ifft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional inverse discrete Fourier transform over `dim`."""
def ifft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional inverse discrete Fourier transform over `dim`."""
def ifftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional inverse discrete Fourier transform over `dim`. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
def ifftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """Inverse of `fft.fftshift`."""
def ihfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional inverse Fourier transform of real input over `dim`: the inverse of `hfft`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n."""
def ihfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional inverse Fourier transform of real input over `dim`: the inverse of `hfft2`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n."""
def ihfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional inverse Fourier transform of real input over `dim`: the inverse of `hfftn`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
def irfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional inverse Fourier transform over `dim` with a real result: the inverse of `rfft`. By default, the last transformed dimension grows from size m to `2 * (m - 1)`."""
def irfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional inverse Fourier transform over `dim` with a real result: the inverse of `rfft2`. By default, the last transformed dimension grows from size m to `2 * (m - 1)`."""
def irfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional inverse Fourier transform over `dim` with a real result: the inverse of `rfftn`. By default, the last transformed dimension grows from size m to `2 * (m - 1)`. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
def rfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """One-dimensional Fourier transform of real input over `dim`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n. The others follow by Hermitian symmetry."""
def rfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Two-dimensional Fourier transform of real input over `dim`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n. The others follow by Hermitian symmetry."""
def rfftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Sample frequencies of `fft.rfft` for `n` points that are `d` apart, as a vector of `n // 2 + 1` elements."""
def rfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Multi-dimensional Fourier transform of real input over `dim`. In the last transformed dimension, the result has only the first half of the points: n // 2 + 1 of n. The others follow by Hermitian symmetry. `dim` defaults to the last `len(s)` dimensions, or to all if `s` is None."""
