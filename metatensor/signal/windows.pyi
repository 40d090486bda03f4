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
    """Bartlett window: a triangle from 0 to 1 to 0."""
def blackman(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Blackman window: 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)."""
def cosine(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Cosine window: half a period of a sine."""
def exponential(M: _int, *, center: _float | None = None, tau: _float = 1.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Exponential window: `exp(-|k - center| / tau)` for element k. `center` defaults to the middle. It can be given only if `sym` is False."""
def gaussian(M: _int, *, std: _float = 1.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Gaussian window with its maximum in the middle and a standard deviation of `std` elements."""
def general_cosine(M: _int, *, a: Any, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Sum of `(-1)**i * a[i] * cos(i * x)` over the indices i of the weights `a`."""
def general_hamming(M: _int, *, alpha: _float = 0.54, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Generalized Hamming window: alpha - (1 - alpha) * cos(x)."""
def hamming(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Hamming window: 0.54 - 0.46 * cos(x)."""
def hann(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Hann window: 0.5 - 0.5 * cos(x)."""
def kaiser(M: _int, *, beta: _float = 12.0, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Kaiser window: I0(beta * sqrt(1 - (2 * k / P - 1)**2)) / I0(beta) for element k. A larger `beta` makes it narrower."""
def nuttall(M: _int, *, sym: _bool = True, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Nuttall window with low sidelobes: 0.3635819 - 0.4891775 * cos(x) + 0.1365995 * cos(2 * x) - 0.0106411 * cos(3 * x)."""
