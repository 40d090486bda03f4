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

def amax(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Largest of the shown elements over `dim`."""
def amin(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Smallest of the shown elements over `dim`."""
def argmax(input: Tensor, dim: _int | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Index of the largest of the shown elements along `dim`."""
def argmin(input: Tensor, dim: _int | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Index of the smallest of the shown elements along `dim`."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Products of the shown elements up to each one along `dim`, in the input's dtype."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Sums of the shown elements up to each one along `dim`, in the input's dtype."""
def log_softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of `masked.softmax`."""
def logaddexp(input: Tensor, other: Tensor, *, dtype: _dtype | None = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), each under a mask of its own."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of the exponentials of the shown elements over `dim`."""
def mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Mean of the shown elements over `dim`; NaN of none."""
def median(input: Tensor, dim: _int = -1, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Median of the shown elements along `dim`, the lower one of two."""
def norm(input: Tensor, ord: _Number | None = 2.0, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Norm of order `ord` of the shown elements over `dim`."""
def normalize(input: Tensor, ord: _Number, dim: _int | Sequence[_int] | None, *, eps: _float = 1e-12, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The shown elements, divided by their norm over `dim` (at least `eps`); 0 elsewhere."""
def prod(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Product of the shown elements over `dim`; 1 of none."""
def softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the shown elements along `dim`; 0 elsewhere."""
def softmin(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated shown elements along `dim`; 0 elsewhere."""
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool | None = None, *, correction: _Number | None = None, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Standard deviation of the shown elements over `dim`: the root of `masked.var`."""
def sum(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Sum of the shown elements over `dim`; 0 of none."""
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool | None = None, *, correction: _Number | None = None, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Variance of the shown elements over `dim`, divided by their number less `correction` (1 unless given)."""
