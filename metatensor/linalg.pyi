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

def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """diagonal() of the matrices in the last two dimensions."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; the others broadcast, vectors are rows on the left and columns on the right."""
def matrix_norm(A: Tensor, ord: Any = 'fro', dim: Sequence[_int] = (-2, -1), keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norm of matrices in two dimensions: 'fro', 'nuc', inf, 1 or 2."""
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of a chain of matrices, in the cheapest order."""
def norm(A: Tensor, ord: Any | None = None, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Vector or matrix norm, as the number of dimensions says."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Dot products along `dim`, the first factor conjugated."""
def vector_norm(x: Tensor, ord: _Number = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norm of the elements along `dim`, taken as vectors."""
