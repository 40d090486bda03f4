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

def bartlett(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """A triangle from 0 to 1 to 0."""
def blackman(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Three cosines, 0 at the ends."""
def cosine(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Half a period of a sine."""
def exponential(M: _int, *, center: _float | None = None, tau: _float = 1.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """exp(-|x - center| / tau)."""
def gaussian(M: _int, *, std: _float = 1.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """The bell curve of standard deviation `std`."""
def general_cosine(M: _int, *, a: Any, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """The sum of a[i] * cos(i * x) with alternating signs."""
def general_hamming(M: _int, *, alpha: _float = 0.54, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """alpha - (1 - alpha) * cos(x)."""
def hamming(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """0.54 - 0.46 * cos(x)."""
def hann(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """One period of a raised cosine."""
def kaiser(M: _int, *, beta: _float = 12.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """A ratio of Bessel functions; the larger `beta`, the narrower."""
def nuttall(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Four cosines with small sidelobes."""
