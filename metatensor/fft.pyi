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
    """The discrete Fourier transform."""
def fft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform, in two dimensions."""
def fftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """The frequencies of fft() of `n` points at distances `d`."""
def fftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform, in several dimensions."""
def fftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """Frequencies reordered so that zero is in the middle."""
def hfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of a Hermitian-symmetric signal, given by half of it."""
def hfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of a Hermitian-symmetric signal, given by half of it, in two dimensions."""
def hfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of a Hermitian-symmetric signal, given by half of it, in several dimensions."""
def ifft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse discrete Fourier transform."""
def ifft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse discrete Fourier transform, in two dimensions."""
def ifftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse discrete Fourier transform, in several dimensions."""
def ifftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """fftshift() undone."""
def ihfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of a Hermitian-symmetric signal."""
def ihfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of a Hermitian-symmetric signal, in two dimensions."""
def ihfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of a Hermitian-symmetric signal, in several dimensions."""
def irfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of real numbers."""
def irfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of real numbers, in two dimensions."""
def irfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the transform of real numbers, in several dimensions."""
def rfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of real numbers, without the half that follows by symmetry."""
def rfft2(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] = (-2, -1), norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of real numbers, without the half that follows by symmetry, in two dimensions."""
def rfftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """The frequencies of rfft() of `n` points at distances `d`."""
def rfftn(input: Tensor, s: _int | Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The transform of real numbers, without the half that follows by symmetry, in several dimensions."""
