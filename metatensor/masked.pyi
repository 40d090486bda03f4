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
    """Largest selected element over `dim`."""
def amin(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Smallest selected element over `dim`."""
def argmax(input: Tensor, dim: _int | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Index of the largest selected element along `dim`, in the dtype of `input` unless `dtype` is given."""
def argmin(input: Tensor, dim: _int | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Index of the smallest selected element along `dim`, in the dtype of `input` unless `dtype` is given."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Cumulative product of the selected elements along `dim`, in the dtype of `input` unless `dtype` is given."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Cumulative sum of the selected elements along `dim`, in the dtype of `input` unless `dtype` is given."""
def log_softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of `masked.softmax`: -inf at the masked-out elements."""
def logaddexp(input: Tensor, other: Tensor, *, dtype: _dtype | None = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None) -> Tensor:
    """`log(exp(input) + exp(other))`. Elements that are masked out by `input_mask` or `other_mask` count as -inf."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of the exponentials of the selected elements over `dim`."""
def mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Mean of the selected elements over `dim`, or NaN if there are none. The dtype must be floating-point or complex."""
def median(input: Tensor, dim: _int = -1, *, keepdim: _bool = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Median of the selected elements along `dim`, ignoring NaN. If their number is even, it is the lower of the two middle elements."""
def norm(input: Tensor, ord: _Number | None = 2.0, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Vector norm of order `ord` of the selected elements over `dim`."""
def normalize(input: Tensor, ord: _Number, dim: _int | Sequence[_int] | None, *, eps: _float = 1e-12, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Divide the selected elements by their norm of order `ord` over `dim`, or by `eps` if that is larger. Masked-out elements become 0."""
def prod(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Product of the selected elements over `dim`, or 1 if there are none. Inputs of bools, signed integers or uint8 give int64."""
def softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the selected elements along `dim`. The other elements become 0. Slices without a selected element become NaN."""
def softmin(input: Tensor, dim: _int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated selected elements along `dim`. The other elements become 0. Slices without a selected element become NaN."""
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool | None = None, *, correction: _Number | None = None, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Standard deviation of the selected elements over `dim`: the square root of `masked.var`."""
def sum(input: Tensor, dim: _int | Sequence[_int] | None = None, *, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Sum of the selected elements over `dim`, or 0 if there are none. Inputs of bools, signed integers or uint8 give int64."""
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, unbiased: _bool | None = None, *, correction: _Number | None = None, keepdim: _bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Variance of the selected elements over `dim`: the sum of squared deviations divided by N - `correction` (default 1), where N is the number of selected elements."""
