# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from builtins import complex as _complex
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeAlias
from typing_extensions import Self

from metatensor._core.device import Device as _device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.formats import LayoutTag as _layout, MemoryFormatTag as _memory_format
from metatensor._core.random import Generator as _Generator
from metatensor._core.size import Size
from metatensor._core.storage import Storage

_Number: TypeAlias = _bool | _int | _float | _complex
_Operand: TypeAlias = Tensor | _Number
_Index: TypeAlias = Any

def _disabled_torch_function_impl(
    cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[_str, Any] | None = None
) -> Any: ...

class Tensor:
    """An n-dimensional array of one dtype, with sizes, strides and an offset into a storage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[_str, Any] | None = None
    ) -> Any: ...
    @staticmethod
    def _make_subclass(cls: type[Any], data: Tensor, require_grad: _bool = False) -> Any: ...
    @staticmethod
    def _make_wrapper_subclass(
        cls: type[Any], size: Sequence[_int], strides: Sequence[_int] | None = None, storage_offset: _int | None = None,
        memory_format: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False,
        requires_grad: _bool = False, dispatch_sizes_strides_policy: _str | None = None, dispatch_device: _bool = False,
        dispatch_layout: _bool = False,
    ) -> Any: ...
    def as_subclass(self, cls: type[Any]) -> Any: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def shape(self) -> Size:
        """The shape."""
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]: ...
    @overload
    def stride(self, dim: _int) -> _int: ...
    def storage_offset(self) -> _int:
        """Return the offset of the first element in the storage, in elements."""
    def untyped_storage(self) -> Storage:
        """Return the storage of this tensor."""
    def dim(self) -> _int:
        """Return the number of dimensions."""
    def ndimension(self) -> _int: ...
    def numel(self) -> _int:
        """Return the number of elements."""
    def nelement(self) -> _int: ...
    def element_size(self) -> _int:
        """Return the size of an element in bytes."""
    def data_ptr(self) -> _int: ...
    def is_floating_point(self) -> _bool: ...
    def is_complex(self) -> _bool: ...
    def is_signed(self) -> _bool: ...
    def is_conj(self) -> _bool: ...
    def is_neg(self) -> _bool: ...
    def is_inference(self) -> _bool: ...
    def get_device(self) -> _int: ...
    def _is_view(self) -> _bool: ...
    def dense_dim(self) -> _int: ...
    def sparse_dim(self) -> _int: ...
    def is_distributed(self) -> _bool: ...
    def __reversed__(self) -> Tensor: ...
    @property
    def device(self) -> _device: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def nbytes(self) -> _int:
        """The size of the elements in bytes, numel * itemsize. The storage may be larger."""
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_quantized(self) -> _bool: ...
    @property
    def is_nested(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> _bool: ...
    @property
    def is_xpu(self) -> _bool: ...
    @property
    def is_xla(self) -> _bool: ...
    @property
    def is_ipu(self) -> _bool: ...
    @property
    def is_maia(self) -> _bool: ...
    @property
    def is_mtia(self) -> _bool: ...
    @property
    def is_vulkan(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def layout(self) -> _layout: ...
    @property
    def names(self) -> tuple[None, ...]: ...
    real: Tensor
    imag: Tensor
    def numpy(self, *, force: _bool = False) -> Any:
        """Return the values as a NumPy array."""
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[_int, _int] | None = None,
        dl_device: tuple[_int, _int] | None = None, copy: _bool | None = None,
    ) -> Any: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: _int, /) -> memoryview: ...
    @property
    def __array_interface__(self) -> dict[_str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[_str, Any]: ...
    def __array_namespace__(self, /, *, api_version: _str | None = None) -> Any:
        """Return `metatensor.array_api`, the namespace of the array API standard."""
    def to_device(self, device: _device | _str | _int, /, *, stream: Any = None) -> Tensor:
        """Return this tensor on another device."""
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    @property
    def _base(self) -> Tensor | None: ...
    @property
    def _version(self) -> _int: ...
    requires_grad: _bool
    grad: Tensor | None
    data: Tensor
    def requires_grad_(self, requires_grad: _bool = True) -> Self: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def grad_fn(self) -> Any: ...
    @property
    def retains_grad(self) -> _bool: ...
    def retain_grad(self) -> None: ...
    def register_hook(self, hook: Callable[[Tensor], Any]) -> Any: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> Any: ...
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor: ...
    def record_stream(self, stream: Any) -> None: ...
    def new(self, *args: Any, device: Any = None) -> Tensor: ...
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor: ...
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor: ...
    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Tensor: ...
    def storage(self) -> Any: ...
    def storage_type(self) -> Any: ...
    def _typed_storage(self) -> Any: ...
    def to_sparse(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_sparse_coo(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def is_coalesced(self) -> bool: ...
    def resize(self, *sizes: Any) -> Tensor: ...
    def resize_as(self, tensor: Tensor) -> Tensor: ...
    def coalesce(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def sparse_mask(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_mkldnn(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_sparse_bsc(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_sparse_bsr(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_sparse_csc(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def to_sparse_csr(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def ccol_indices(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def col_indices(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def crow_indices(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def indices(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def row_indices(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def values(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def dequantize(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def int_repr(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def q_per_channel_axis(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def q_per_channel_scales(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def q_per_channel_zero_points(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def q_scale(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def q_zero_point(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def qscheme(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def eig(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def lstsq(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def solve(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    def symeig(self, *args: Any, **kwargs: Any) -> NoReturn: ...
    @property
    def output_nr(self) -> int: ...
    @property
    def volatile(self) -> bool: ...
    def backward(
        self, gradient: Any = None, retain_graph: Any = None, create_graph: _bool = False, inputs: Any = None
    ) -> None: ...
    def item(self) -> Any:
        """Return the only element as a Python number. Raise DataDependentError on meta."""
    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers. Raise DataDependentError on meta."""
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __complex__(self) -> _complex: ...
    def __index__(self) -> _int: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __getitem__(self, index: _Index) -> Tensor: ...
    def __setitem__(self, index: _Index, value: _Operand) -> None: ...
    def __contains__(self, element: _Operand) -> _bool: ...
    def __hash__(self) -> _int: ...
    def __eq__(self, other: _Operand) -> Tensor: ...
    def __ne__(self, other: _Operand) -> Tensor: ...
    def __lt__(self, other: _Operand) -> Tensor: ...
    def __le__(self, other: _Operand) -> Tensor: ...
    def __gt__(self, other: _Operand) -> Tensor: ...
    def __ge__(self, other: _Operand) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __add__(self, other: _Operand) -> Tensor: ...
    def __radd__(self, other: _Operand) -> Tensor: ...
    def __iadd__(self, other: _Operand) -> Self: ...
    def __sub__(self, other: _Operand) -> Tensor: ...
    def __rsub__(self, other: _Operand) -> Tensor: ...
    def __isub__(self, other: _Operand) -> Self: ...
    def __mul__(self, other: _Operand) -> Tensor: ...
    def __rmul__(self, other: _Operand) -> Tensor: ...
    def __imul__(self, other: _Operand) -> Self: ...
    def __truediv__(self, other: _Operand) -> Tensor: ...
    def __rtruediv__(self, other: _Operand) -> Tensor: ...
    def __itruediv__(self, other: _Operand) -> Self: ...
    def __floordiv__(self, other: _Operand) -> Tensor: ...
    def __rfloordiv__(self, other: _Operand) -> Tensor: ...
    def __ifloordiv__(self, other: _Operand) -> Self: ...
    def __mod__(self, other: _Operand) -> Tensor: ...
    def __rmod__(self, other: _Operand) -> Tensor: ...
    def __imod__(self, other: _Operand) -> Self: ...
    def __pow__(self, other: _Operand) -> Tensor: ...
    def __rpow__(self, other: _Operand) -> Tensor: ...
    def __ipow__(self, other: _Operand) -> Self: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __rmatmul__(self, other: Tensor) -> Tensor: ...
    def __and__(self, other: _Operand) -> Tensor: ...
    def __rand__(self, other: _Operand) -> Tensor: ...
    def __iand__(self, other: _Operand) -> Self: ...
    def __or__(self, other: _Operand) -> Tensor: ...
    def __ror__(self, other: _Operand) -> Tensor: ...
    def __ior__(self, other: _Operand) -> Self: ...
    def __xor__(self, other: _Operand) -> Tensor: ...
    def __rxor__(self, other: _Operand) -> Tensor: ...
    def __ixor__(self, other: _Operand) -> Self: ...
    def __lshift__(self, other: _Operand) -> Tensor: ...
    def __rlshift__(self, other: _Operand) -> Tensor: ...
    def __ilshift__(self, other: _Operand) -> Self: ...
    def __rshift__(self, other: _Operand) -> Tensor: ...
    def __rrshift__(self, other: _Operand) -> Tensor: ...
    def __irshift__(self, other: _Operand) -> Self: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    def _conj(self) -> Tensor:
        """View that conjugates elements when they are read."""
    def _neg_view(self) -> Tensor:
        """View that negates elements when they are read."""
    @overload
    def _to_copy(self, dtype: _dtype, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """Copy with another dtype, device or memory format."""
    @overload
    def _to_copy(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor: ...
    def _where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        """Select `input` where the bool condition is true, else `other`."""
    def abs(self, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of each element. The result is real, even for complex tensors."""
    def abs_(self) -> Tensor:
        """The magnitude of each element. The result is real, even for complex tensors."""
    def absolute(self, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of each element. The result is real, even for complex tensors."""
    def absolute_(self) -> Tensor:
        """The magnitude of each element. The result is real, even for complex tensors."""
    def acos(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse cosine."""
    def acos_(self) -> Tensor:
        """The inverse cosine."""
    def acosh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic cosine."""
    def acosh_(self) -> Tensor:
        """The inverse hyperbolic cosine."""
    def add(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`input + alpha * other`."""
    def add_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """`input + alpha * other`."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`beta * input + alpha * (batch1 @ batch2).sum(0)`, for batches of shapes (b, n, k) and (b, k, m)."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * (batch1 @ batch2).sum(0)`, for batches of shapes (b, n, k) and (b, k, m)."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`input + value * tensor1 / tensor2`. `tensor1` and `tensor2` must not both be integer or bool tensors."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 / tensor2`. `tensor1` and `tensor2` must not both be integer or bool tensors."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`input + value * tensor1 * tensor2`."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """`input + value * tensor1 * tensor2`."""
    def addmm(self, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`beta * input + alpha * (mat1 @ mat2)`. `input` broadcasts to the shape of the product."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * (mat1 @ mat2)`. `input` broadcasts to the shape of the product."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`beta * input + alpha * (mat @ vec)`. `input` broadcasts to the shape of the product."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * (mat @ vec)`. `input` broadcasts to the shape of the product."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`beta * input + alpha * outer(vec1, vec2)`. `input` broadcasts to the shape of the outer product."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * outer(vec1, vec2)`. `input` broadcasts to the shape of the outer product."""
    def adjoint(self) -> Tensor:
        """Conjugate transpose of each matrix in the last two dimensions, as a view."""
    def all(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Test whether all elements over `dim` (default: all dimensions) are true. The result is bool, or uint8 for uint8."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Return whether `|input - other| <= atol + rtol * |other|` for all elements, as a bool."""
    def alpha_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Alpha dropout, which keeps the mean and variance of SELU activations (Klambauer et al., 2017)."""
    def amax(self, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Largest element over `dim` (default: all dimensions)."""
    def amin(self, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Smallest element over `dim` (default: all dimensions)."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False, out: Sequence[Tensor] | None = None) -> _return_aminmax:
        """Smallest and largest element over dimension `dim` (default: all dimensions), as (min, max)."""
    def angle(self, *, out: Tensor | None = None) -> Tensor:
        """The angle of each element in the complex plane, in radians. The result is real."""
    def any(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Test whether any element over `dim` (default: all dimensions) is true. The result is bool, or uint8 for uint8."""
    def arccos(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse cosine."""
    def arccos_(self) -> Tensor:
        """The inverse cosine."""
    def arccosh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic cosine."""
    def arccosh_(self) -> Tensor:
        """The inverse hyperbolic cosine."""
    def arcsin(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse sine."""
    def arcsin_(self) -> Tensor:
        """The inverse sine."""
    def arcsinh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """The inverse hyperbolic sine."""
    def arctan(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse tangent."""
    def arctan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
    def arctan_(self) -> Tensor:
        """The inverse tangent."""
    def arctanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def arctanh_(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Index of the largest element along `dim`, or in the flattened input if `dim` is None, as int64."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Index of the smallest element along `dim`, or in the flattened input if `dim` is None, as int64."""
    @overload
    def argsort(self, dim: _int = -1, descending: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the int64 indices that sort along `dim`."""
    @overload
    def argsort(self, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None) -> Tensor: ...
    def argwhere(self) -> Tensor:
        """Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim)."""
    def as_strided(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """Return a view of the storage with the given sizes, strides and offset, in elements. The offset defaults to that of `input`. Raise RuntimeError if the view exceeds the storage."""
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """Return a view of the storage with the given sizes, strides and offset, in elements. The offset defaults to that of `input`. Raise RuntimeError if the view exceeds the storage."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of `input` in which `src` replaces the elements that `as_strided` selects."""
    def asin(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse sine."""
    def asin_(self) -> Tensor:
        """The inverse sine."""
    def asinh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic sine."""
    def asinh_(self) -> Tensor:
        """The inverse hyperbolic sine."""
    def atan(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse tangent."""
    def atan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
    def atan2_(self, other: Tensor) -> Tensor:
        """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
    def atan_(self) -> Tensor:
        """The inverse tangent."""
    def atanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def atanh_(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`beta * input + alpha * (batch1 @ batch2)`, for batches of shapes (b, n, k) and (b, k, m)."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """`beta * input + alpha * (batch1 @ batch2)`, for batches of shapes (b, n, k) and (b, k, m)."""
    @overload
    def bernoulli(self, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Return a tensor of the shape of `input` whose elements are 1 or 0. Each is 1 with probability `p`. If `p` is not given, the elements of `input` are the probabilities."""
    @overload
    def bernoulli(self, p: _float, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
    def bernoulli_(self, p: Tensor | _Number = 0.5, *, generator: _Generator | None = None) -> Tensor:
        """Set each element to 1 with probability `p` and to 0 otherwise, in place. `p` is a number, or a tensor that broadcasts to `input`."""
    def bfloat16(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to bfloat16, like `to(metatensor.bfloat16)`."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """Number of occurrences, or sum of `weights`, of each integer from 0 to the largest value in a vector of non-negative integers. The result has at least `minlength` elements."""
    def bitwise_and(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input & other`, for integers and bools."""
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        """`input & other`, for integers and bools."""
    def bitwise_left_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input << other`, for integers: `input * 2**other`, discarding the bits that overflow."""
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        """`input << other`, for integers: `input * 2**other`, discarding the bits that overflow."""
    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:
        """Invert each bit of integers. For bool this is the logical not."""
    def bitwise_not_(self) -> Tensor:
        """Invert each bit of integers. For bool this is the logical not."""
    def bitwise_or(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input | other`, for integers and bools."""
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        """`input | other`, for integers and bools."""
    def bitwise_right_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input >> other`, for integers: `floor(input / 2**other)`."""
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        """`input >> other`, for integers: `floor(input / 2**other)`."""
    def bitwise_xor(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input ^ other`, for integers and bools."""
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        """`input ^ other`, for integers and bools."""
    def bmm(self, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Batched matrix product: (b, n, k) and (b, k, m) give (b, n, m)."""
    def bool(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to bool, like `to(metatensor.bool)`."""
    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor:
        """Like `expand`, but also available as a function."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor: ...
    def byte(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to uint8, like `to(metatensor.uint8)`."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the Cauchy distribution of median `median` and scale `sigma`."""
    def cdist(self, x2: Tensor, p: _float = 2.0, compute_mode: Any | None = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
        """The `p`-norm distance of each row of `x1` to each row of `x2`: (..., n, k) and (..., m, k) give (..., n, m)."""
    def cdouble(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to complex128, like `to(metatensor.complex128)`."""
    def ceil(self, *, out: Tensor | None = None) -> Tensor:
        """Round each element up to an integer, in the input's dtype."""
    def ceil_(self) -> Tensor:
        """Round each element up to an integer, in the input's dtype."""
    def celu_(self, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
        """Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`."""
    def cfloat(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to complex64, like `to(metatensor.complex64)`."""
    def chalf(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to complex32, like `to(metatensor.complex32)`."""
    def char(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to int8, like `to(metatensor.int8)`."""
    def cholesky(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Cholesky factors of positive definite matrices, like `linalg.cholesky`."""
    def cholesky_inverse(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Inverses of positive definite matrices, given their lower Cholesky factors, or their upper ones if `upper`."""
    def cholesky_solve(self, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Solutions X of `A @ X = input`, given the Cholesky factors `input2` of A. The factors are upper triangular if `upper`, else lower triangular."""
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along `dim` into at most `chunks` views of equal size (the last may be smaller). Returns a tuple."""
    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
        """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
    def clamp_max(self, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """The smaller of each element and `max`."""
    def clamp_max_(self, max: Tensor | _Number) -> Tensor:
        """The smaller of each element and `max`."""
    def clamp_min(self, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """The larger of each element and `min`."""
    def clamp_min_(self, min: Tensor | _Number) -> Tensor:
        """The larger of each element and `min`."""
    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
        """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Copy of a tensor. By default the copy is dense, with the dimensions in the same order in memory."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """Return all combinations of `r` elements of a vector as the rows of a matrix."""
    def concat(self, dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are ignored. The dtypes are promoted."""
    def concatenate(self, dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are ignored. The dtypes are promoted."""
    def conj(self) -> Tensor:
        """Complex conjugate, as a view. A real tensor is returned unchanged."""
    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:
        """The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged."""
    def conj_physical_(self) -> Tensor:
        """The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged."""
    def contiguous(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor itself if it is contiguous in `memory_format` (row-major by default), else a contiguous copy."""
    def copy_(self, src: Tensor, non_blocking: _bool = False) -> Tensor:
        """Copy the values of `src` into `input`, broadcast to its shape and converted to its dtype and device."""
    def copysign(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Magnitude of `input` with the sign of `other`."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        """Magnitude of `input` with the sign of `other`."""
    def corrcoef(self) -> Tensor:
        """Correlation coefficients of V variables (rows) over N observations (columns): (V, N) gives (V, V), with values in [-1, 1]."""
    def cos(self, *, out: Tensor | None = None) -> Tensor:
        """The cosine."""
    def cos_(self) -> Tensor:
        """The cosine."""
    def cosh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """The hyperbolic cosine."""
    def count_nonzero(self, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
        """Count the elements over `dim` (default: all dimensions) that are not zero. The result is int64."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Covariance matrix of V variables (rows) over N observations (columns): (V, N) gives (V, V), or a 0-d tensor if V is 1. A vector is one variable. `fweights` is an integer count and `aweights` a floating-point weight for each observation. The divisor is N - `correction`, or its weighted equivalent."""
    def cpu(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Copy to the CPU. Return the tensor itself if it is already there and `memory_format` does not require a copy."""
    def cross(self, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """Cross products of the vectors along `dim`, which must have size 3. `dim` defaults to the first dimension of size 3. The other dimensions broadcast."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """Copy to a CUDA device. Return the tensor itself if it is already there and `memory_format` does not require a copy."""
    def cummax(self, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummax:
        """Cumulative maximum along `dim`, and the int64 index where it last occurred, as (values, indices)."""
    def cummin(self, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummin:
        """Cumulative minimum along `dim`, and the int64 index where it last occurred, as (values, indices)."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Cumulative product along `dim`. Integers and bool give int64 unless `dtype` is given."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Cumulative product along `dim`. Integers and bool give int64 unless `dtype` is given."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Cumulative sum along `dim`. Integers and bool give int64 unless `dtype` is given."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Cumulative sum along `dim`. Integers and bool give int64 unless `dtype` is given."""
    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:
        """Convert degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """Convert degrees to radians."""
    def det(self) -> Tensor:
        """Determinants of square matrices (..., N, N)."""
    def detach(self) -> Tensor:
        """View of the same elements that does not require gradients."""
    def detach_(self) -> Tensor:
        """Remove the tensor from the autograd graph and set its `requires_grad` to False. Views inside the graph are not supported."""
    def diag(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Return a matrix with a vector on diagonal `diagonal` and zeros elsewhere, or a copy of that diagonal of a matrix."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices with the last dimension of `input` on diagonal `offset` and zeros elsewhere: (..., n) gives (..., m, m) with m = n + |offset|. `dim1` and `dim2` are the dimensions of rows and columns in the result."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """Return a matrix with all elements, flattened, on diagonal `offset` and zeros elsewhere."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """Return a view of a diagonal of the matrices in dimensions `dim1` and `dim2`, as a new last dimension. A positive `offset` selects a diagonal above the main diagonal, and a negative one a diagonal below it."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of `input` in which `src` replaces the elements that `diagonal` selects."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
        """Differences `input[i + 1] - input[i]` along `dim`, taken `n` times, after concatenating `prepend`, `input` and `append`. The difference of two bools is their exclusive or. Each repetition reduces the size of `dim` by 1."""
    def digamma(self, *, out: Tensor | None = None) -> Tensor:
        """The digamma function: the derivative of `log(gamma(x))`."""
    def digamma_(self) -> Tensor:
        """The digamma function: the derivative of `log(gamma(x))`."""
    def dim_order(self, *, ambiguity_check: Any = False) -> Any:
        """Return the dimensions as a tuple, ordered from the outermost to the innermost in memory. If `ambiguity_check` is True, raise RuntimeError if several orders are possible. If it is a list of memory formats, only their orders count."""
    def dist(self, other: Tensor, p: _Number = 2, *, out: Tensor | None = None) -> Tensor:
        """The `p`-norm of `input - other`, as a 0-d tensor."""
    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Dot product of two vectors of equal length, as a 0-d tensor."""
    def double(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to float64, like `to(metatensor.float64)`."""
    def dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """If `train`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p)."""
    @overload
    def dsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Split along dimension 2 into a number of equal views, or at the given indices. Returns a tuple."""
    @overload
    def dsplit(self, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def dsplit(self, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def dsplit(self, sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def dsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def dsplit(self, *indices: _int) -> tuple[Tensor, ...]: ...
    def eq(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input == other`."""
    def eq_(self, other: Tensor | _Number) -> Tensor:
        """`input == other`."""
    def equal(self, other: Tensor) -> _bool:
        """Return whether two tensors have the same shape and equal elements, as a bool."""
    def erf(self, *, out: Tensor | None = None) -> Tensor:
        """The error function."""
    def erf_(self) -> Tensor:
        """The error function."""
    def erfc(self, *, out: Tensor | None = None) -> Tensor:
        """1 - erf(x), accurate where erf(x) is near 1."""
    def erfc_(self) -> Tensor:
        """1 - erf(x), accurate where erf(x) is near 1."""
    def erfinv(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse of erf."""
    def erfinv_(self) -> Tensor:
        """The inverse of erf."""
    def exp(self, *, out: Tensor | None = None) -> Tensor:
        """e**x."""
    def exp2(self, *, out: Tensor | None = None) -> Tensor:
        """2**x."""
    def exp2_(self) -> Tensor:
        """2**x."""
    def exp_(self) -> Tensor:
        """e**x."""
    @overload
    def expand(self, size: Sequence[_int], *, implicit: _bool = False) -> Tensor:
        """Return a view with dimensions of size 1 repeated to `size`, with stride 0. -1 keeps a size. Extra leading sizes add dimensions."""
    @overload
    def expand(self, *size: _int, implicit: _bool = False) -> Tensor: ...
    def expand_as(self, other: Tensor) -> Tensor:
        """Like `expand`, with the shape of another tensor."""
    def expm1(self, *, out: Tensor | None = None) -> Tensor:
        """exp(x) - 1, accurate for x near 0."""
    def expm1_(self) -> Tensor:
        """exp(x) - 1, accurate for x near 0."""
    def exponential_(self, lambd: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the exponential distribution of rate `lambd`."""
    def feature_alpha_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
    def feature_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
    def fill(self, value: Tensor | _Number) -> Tensor:
        """Set all elements to a number or to the value of a 0-d tensor."""
    def fill_(self, value: Tensor | _Number) -> Tensor:
        """Set all elements to a number or to the value of a 0-d tensor."""
    def fill_diagonal_(self, fill_value: _Number, wrap: _bool = False) -> Tensor:
        """Fill the main diagonal in place. If there are more than 2 dimensions, all sizes must be equal. If `wrap` is true and a matrix has more rows than columns, the diagonal restarts in the first column after skipping a row."""
    def fix(self, *, out: Tensor | None = None) -> Tensor:
        """Round each element towards zero to an integer, in the input's dtype."""
    def fix_(self) -> Tensor:
        """Round each element towards zero to an integer, in the input's dtype."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """Combine the dimensions `start_dim` to `end_dim` into one. The result is a view if the strides allow it, else a copy."""
    @overload
    def flip(self, dims: Sequence[_int]) -> Tensor:
        """Reverse the order of elements along `dims`."""
    @overload
    def flip(self, *dims: _int) -> Tensor: ...
    def fliplr(self) -> Tensor:
        """Reverse the order along dimension 1."""
    def flipud(self) -> Tensor:
        """Reverse the order along dimension 0."""
    def float(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to float32, like `to(metatensor.float32)`."""
    def float_power(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input ** exponent` computed in float64, or in complex128 if an operand is complex."""
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:
        """`input ** exponent` computed in float64, or in complex128 if an operand is complex."""
    def floor(self, *, out: Tensor | None = None) -> Tensor:
        """Round each element down to an integer, in the input's dtype."""
    def floor_(self) -> Tensor:
        """Round each element down to an integer, in the input's dtype."""
    def floor_divide(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Quotient rounded down: `floor(input / other)`."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        """Quotient rounded down: `floor(input / other)`."""
    def fmax(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Greater of two elements. If one is NaN, the other is returned."""
    def fmin(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Lesser of two elements. If one is NaN, the other is returned."""
    def fmod(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Remainder of division rounded towards zero, with the sign of `input`, as in C."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        """Remainder of division rounded towards zero, with the sign of `input`, as in C."""
    def frac(self, *, out: Tensor | None = None) -> Tensor:
        """x - trunc(x)."""
    def frac_(self) -> Tensor:
        """x - trunc(x)."""
    def frexp(self, *, out: Sequence[Tensor] | None = None) -> _return_frexp:
        """Split each element x into mantissa m (0.5 <= |m| < 1, or 0) and int32 exponent e with x = m * 2**e. Returns (mantissa, exponent)."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """Gather elements along `dim`: for matrices and `dim=0`, `out[i, j] = input[index[i, j], j]`. The result has the shape of `index`. `index` must have as many dimensions as `input`, and no larger sizes except in `dim`."""
    def gcd(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Greatest common divisor, which is not negative."""
    def gcd_(self, other: Tensor) -> Tensor:
        """Greatest common divisor, which is not negative."""
    def ge(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input >= other`. Complex operands are not supported."""
    def ge_(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`. Complex operands are not supported."""
    def geometric_(self, p: _float, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the geometric distribution: the number of trials up to and including the first success, if each trial succeeds with probability `p` in (0, 1)."""
    def geqrf(self, *, out: Sequence[Tensor] | None = None) -> _return_geqrf:
        """QR factorization of matrices (..., M, N) in LAPACK's form: `a` holds R in the upper triangle and the Householder vectors below it, and `tau` (..., min(M, N)) holds their scalar factors."""
    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Outer product of two vectors: (n,) and (m,) give (n, m)."""
    def greater(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input > other`. Complex operands are not supported."""
    def greater_(self, other: Tensor | _Number) -> Tensor:
        """`input > other`. Complex operands are not supported."""
    def greater_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input >= other`. Complex operands are not supported."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input >= other`. Complex operands are not supported."""
    def gt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input > other`. Complex operands are not supported."""
    def gt_(self, other: Tensor | _Number) -> Tensor:
        """`input > other`. Complex operands are not supported."""
    def half(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to float16, like `to(metatensor.float16)`."""
    def hardshrink(self, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
        """Set elements with `abs(input) <= lambd` to 0 and keep the others."""
    def hash_tensor(self, dim: _int | Sequence[_int] | None = (), *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None) -> Tensor:
        """Hash of the elements over `dim` (default: all dimensions): the exclusive or of their 64-bit patterns, as uint64. `mode` must be 0."""
    def heaviside(self, values: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Heaviside step function: 0 where `input` is negative, 1 where it is positive, and `values` where it is 0."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """Heaviside step function: 0 where `input` is negative, 1 where it is positive, and `values` where it is 0."""
    def histc(self, bins: _int = 100, min: _Number = 0, max: _Number = 0, *, out: Tensor | None = None) -> Tensor:
        """Number of elements in each of `bins` bins of equal width from `min` to `max`, in the dtype of `input`. If `min` equals `max`, the bins cover the range of the data."""
    @overload
    def histogram(self, bins: Tensor, *, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram:
        """Number of elements, or sum of their `weight`, in each bin, and the bin edges. `bins` is a vector of edges, or a number of bins of equal width in `range` (default: the range of the data). `density` divides by the total and the bin widths."""
    @overload
    def histogram(self, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram_bin_ct: ...
    @overload
    def hsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Split along dimension 1 (0 for a vector) into a number of equal views, or at the given indices. Returns a tuple."""
    @overload
    def hsplit(self, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def hsplit(self, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def hsplit(self, sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def hsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def hsplit(self, *indices: _int) -> tuple[Tensor, ...]: ...
    def hypot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """`sqrt(input**2 + other**2)`, computed without intermediate overflow."""
    def hypot_(self, other: Tensor) -> Tensor:
        """`sqrt(input**2 + other**2)`, computed without intermediate overflow."""
    def i0(self, *, out: Tensor | None = None) -> Tensor:
        """The modified Bessel function I0."""
    def i0_(self) -> Tensor:
        """The modified Bessel function I0."""
    def igamma(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Regularized lower incomplete gamma function P(input, other)."""
    def igamma_(self, other: Tensor) -> Tensor:
        """Regularized lower incomplete gamma function P(input, other)."""
    def igammac(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Regularized upper incomplete gamma function Q(input, other)."""
    def igammac_(self, other: Tensor) -> Tensor:
        """Regularized upper incomplete gamma function Q(input, other)."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """Add the slices of `source` along `dim`, times `alpha`, to the slices of `input` at the indices in the vector `index`."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """Add the slices of `source` along `dim`, times `alpha`, to the slices of `input` at the indices in the vector `index`."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Write the slices of `source` along `dim` to the slices of `input` at the indices in the vector `index`."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """Write the slices of `source` along `dim` to the slices of `input` at the indices in the vector `index`."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """Fill the slices along `dim` at the indices in the vector `index` with a number or 0-d tensor."""
    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """Fill the slices along `dim` at the indices in the vector `index` with a number or 0-d tensor."""
    def index_put(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """Return a copy with `values` written at the positions given by a tuple of index tensors or masks, one per dimension. None selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing them."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """Write `values` in place at the positions given by a tuple of index tensors or masks, one per dimension. None selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing them."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
        """Reduce the slices of `source` along `dim` into the slices of `input` at the indices in the vector `index`. `reduce` is 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """Reduce the slices of `source` along `dim` into the slices of `input` at the indices in the vector `index`. `reduce` is 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
    def index_select(self, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Slices of `input` along `dim` at the indices in the vector `index` (int32 or int64). The size of `dim` becomes the length of `index`."""
    def inner(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Sum of products over the last dimensions, which must have the same size. If an operand is 0-d, the result is the product."""
    def int(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to int32, like `to(metatensor.int32)`."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """Inverses of square matrices (..., N, N). Raise LinAlgError if a matrix is singular."""
    def is_contiguous(self, *, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements are dense in the order of `memory_format`, which is row-major by default."""
    def is_nonzero(self) -> _bool:
        """Return whether the only element of a tensor is not zero, as a bool."""
    def is_pinned(self) -> _bool:
        """Return whether the tensor is in page-locked memory."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Return whether two tensors have the same shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Return whether two tensors are the same view: same storage, offset, shape and strides."""
    def is_shared(self) -> _bool:
        """Return whether the memory is shared with processes that are forked from this one."""
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """Whether `abs(input - other) <= atol + rtol * abs(other)`. Equal infinities are close. If `equal_nan`, two NaNs are close too. Both tensors must have the same dtype."""
    def isfinite(self) -> Tensor:
        """Test whether each element is finite. The result is bool."""
    def isinf(self) -> Tensor:
        """Test whether each element is infinite. The result is bool."""
    def isnan(self) -> Tensor:
        """Test whether each element is NaN. The result is bool."""
    def isneginf(self, *, out: Tensor | None = None) -> Tensor:
        """Test whether each element is -inf. The result is bool."""
    def isposinf(self, *, out: Tensor | None = None) -> Tensor:
        """Test whether each element is +inf. The result is bool."""
    def isreal(self) -> Tensor:
        """Test whether the imaginary part of each element is 0. The result is bool."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
        """Inverse short-time Fourier transform: the least-squares signal (..., points) for a spectrum (..., frequencies, frames) as `stft` returns it. The arguments must be those of `stft`. The result is padded or truncated to `length`."""
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Kronecker product: each element of `input` times `other`, as blocks of the result. Dimension i of the result has size `input.shape[i] * other.shape[i]`. The tensor with fewer dimensions gets leading dimensions of size 1."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_kthvalue:
        """The `k`-th smallest element along `dim`, with `k` counted from 1, and its int64 index, as (values, indices)."""
    def lcm(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Least common multiple, which is not negative."""
    def lcm_(self, other: Tensor) -> Tensor:
        """Least common multiple, which is not negative."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """`input * 2**other`."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """`input * 2**other`."""
    def le(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input <= other`. Complex operands are not supported."""
    def le_(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`. Complex operands are not supported."""
    def lerp(self, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Linear interpolation `input + weight * (end - input)`. The tensors must have the same dtype, except for a 0-d weight."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """Linear interpolation `input + weight * (end - input)`. The tensors must have the same dtype, except for a 0-d weight."""
    def less(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input < other`. Complex operands are not supported."""
    def less_(self, other: Tensor | _Number) -> Tensor:
        """`input < other`. Complex operands are not supported."""
    def less_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input <= other`. Complex operands are not supported."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input <= other`. Complex operands are not supported."""
    def lgamma(self, *, out: Tensor | None = None) -> Tensor:
        """`log(|gamma(x)|)`."""
    def lgamma_(self) -> Tensor:
        """`log(|gamma(x)|)`."""
    def linspace(self, end: Tensor | _Number, steps: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """Return a vector of `steps` evenly spaced numbers from `start` to `end`, both included. The bounds are numbers or 0-d tensors."""
    def log(self, *, out: Tensor | None = None) -> Tensor:
        """The natural logarithm."""
    def log10(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self) -> Tensor:
        """The logarithm to base 10."""
    def log1p(self, *, out: Tensor | None = None) -> Tensor:
        """log(1 + x), accurate for x near 0."""
    def log1p_(self) -> Tensor:
        """log(1 + x), accurate for x near 0."""
    def log2(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self) -> Tensor:
        """The logarithm to base 2."""
    def log_(self) -> Tensor:
        """The natural logarithm."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the log-normal distribution. `mean` and `std` are those of the values' logarithms."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of `softmax`, computed without overflow."""
    def logaddexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """`log(exp(input) + exp(other))`, computed without intermediate overflow."""
    def logaddexp2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """`log2(2**input + 2**other)`, computed without intermediate overflow."""
    def logcumsumexp(self, dim: _int, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of the cumulative sum of exponentials along `dim`."""
    def logdet(self) -> Tensor:
        """Logarithms of determinants. The logarithm of a negative determinant is NaN."""
    def logical_and(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether both elements are nonzero."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """Whether both elements are nonzero."""
    def logical_not(self, *, out: Tensor | None = None) -> Tensor:
        """Test whether each element is zero. The result is bool."""
    def logical_not_(self) -> Tensor:
        """Test whether each element is zero. The result is bool."""
    def logical_or(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether at least one of the elements is nonzero."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """Whether at least one of the elements is nonzero."""
    def logical_xor(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether exactly one of the elements is nonzero."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """Whether exactly one of the elements is nonzero."""
    def logit(self, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
    def logspace(self, end: Tensor | _Number, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """Return `base` to the power of each element of `linspace(start, end, steps)`."""
    def logsumexp(self, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of the sum of exponentials over `dim`, computed without overflow. Integers give the default float dtype."""
    def long(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to int64, like `to(metatensor.int64)`."""
    def lt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input < other`. Complex operands are not supported."""
    def lt_(self, other: Tensor | _Number) -> Tensor:
        """`input < other`. Complex operands are not supported."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """LU factorization of matrices, like `linalg.lu_factor_ex`. `info` is returned only if `get_infos` is true. Singular matrices are accepted."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Solutions X of `A @ X = input`, given the result of `linalg.lu_factor` for A."""
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """Replace the elements where the bool mask is true by `value`, a number or 0-d tensor. `input` and `mask` are broadcast together."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """Replace the elements where the bool mask is true by `value`, a number or 0-d tensor. `input` and `mask` are broadcast together."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Replace the elements where the bool mask is true by the elements of `source`, in order. `input` and `mask` are broadcast together."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """Replace the elements where the bool mask is true by the elements of `source`, in order. `input` and `mask` are broadcast together."""
    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Elements where `mask` is true, as a vector. `input` and the bool `mask` are broadcast together."""
    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Matrix product over the last two dimensions: (..., n, k) and (..., k, m) give (..., n, m). The other dimensions broadcast. A vector counts as a row on the left and as a column on the right."""
    def matrix_exp(self) -> Tensor:
        """Matrix exponentials of square matrices (..., N, N)."""
    def matrix_power(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """Square matrices (..., N, N) raised to an integer power. Negative powers are powers of the inverse."""
    @overload
    def max(self, *, out: Tensor | None = None) -> Tensor:
        """Largest element. With `dim`, return the largest element along that dimension and its int64 index, as (values, indices). With `other`, return the larger element of the two tensors at each position, like `maximum`."""
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_max_dim: ...
    def maximum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Greater of two elements, or NaN if one of them is NaN."""
    def mean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Mean over `dim` (default: all dimensions). The dtype must be floating-point or complex."""
    @overload
    def median(self, *, out: Tensor | None = None) -> Tensor:
        """Median of all elements. If their number is even, it is the lower of the two middle elements. With `dim`, return the median along this dimension and its int64 index, as (values, indices)."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_median_dim: ...
    @overload
    def min(self, *, out: Tensor | None = None) -> Tensor:
        """Smallest element. With `dim`, return the smallest element along that dimension and its int64 index, as (values, indices). With `other`, return the smaller element of the two tensors at each position, like `minimum`."""
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def min(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_min_dim: ...
    def minimum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Lesser of two elements, or NaN if one of them is NaN."""
    def mm(self, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Product of two matrices: (n, k) and (k, m) give (n, m)."""
    def mode(self, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_mode:
        """Most frequent value along `dim` and the int64 index where it last occurs, as (values, indices). If several values are equally frequent, the smallest of them is returned."""
    def moveaxis(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """View with the dimensions `source` moved to the positions `destination`. The other dimensions keep their order."""
    def movedim(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """View with the dimensions `source` moved to the positions `destination`. The other dimensions keep their order."""
    def msort(self, *, out: Tensor | None = None) -> Tensor:
        """Sort along the first dimension, ascending."""
    def mul(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input * other`."""
    def mul_(self, other: Tensor | _Number) -> Tensor:
        """`input * other`."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Sample `num_samples` int64 category indices from each row of probabilities, which need not sum to 1. An input (N, K) gives (N, num_samples), and (K,) gives (num_samples,)."""
    def multiply(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input * other`."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:
        """`input * other`."""
    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Product of a matrix and a vector: (n, k) and (k,) give (n,)."""
    def mvlgamma(self, p: _int, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest and lowest finite numbers of the dtype)."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest and lowest finite numbers of the dtype)."""
    def nanmean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Mean over `dim` (default: all dimensions) of the elements that are not NaN. The dtype must be floating-point."""
    @overload
    def nanmedian(self, *, out: Tensor | None = None) -> Tensor:
        """Like `median`, but ignore NaN."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_nanmedian_dim: ...
    def nanquantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """Like `quantile`, but ignore NaN."""
    def nansum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Sum over `dim` (default: all dimensions) with NaN counted as zero."""
    @overload
    def narrow(self, dim: _int, start: Tensor, length: _int) -> Tensor:
        """Return a view of `length` elements of dimension `dim` from `start` on. `start` is an int or a 0-d integer tensor."""
    @overload
    def narrow(self, dim: _int, start: _int, length: _int) -> Tensor: ...
    def narrow_copy(self, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor:
        """Like `narrow`, but return a contiguous copy."""
    def ne(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input != other`."""
    def ne_(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def neg(self, *, out: Tensor | None = None) -> Tensor:
        """`-x`."""
    def neg_(self) -> Tensor:
        """`-x`."""
    def negative(self, *, out: Tensor | None = None) -> Tensor:
        """`-x`."""
    def negative_(self) -> Tensor:
        """`-x`."""
    @overload
    def new_empty(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """Tensor of shape `size` with the dtype and device of `input`, with uninitialized elements."""
    @overload
    def new_empty(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    @overload
    def new_empty_strided(self, size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """Tensor of shape `size` with uninitialized elements, the dtype and device of `input`, and the strides `stride`, in elements."""
    @overload
    def new_empty_strided(self, size: Sequence[_int], *stride: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_full(self, size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """Tensor of shape `size` with the dtype and device of `input`, filled with `fill_value`."""
    @overload
    def new_ones(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """Tensor of shape `size` with the dtype and device of `input`, filled with 1."""
    @overload
    def new_ones(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_tensor(self, data: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """Like `tensor`, but dtype and device default to those of this tensor."""
    @overload
    def new_zeros(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """Tensor of shape `size` with the dtype and device of `input`, filled with 0."""
    @overload
    def new_zeros(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def nextafter(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Representable number next to `input` in the direction of `other`."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """Representable number next to `input` in the direction of `other`."""
    def nonzero(self, *, as_tuple: _bool = False, out: Tensor | None = None) -> Any:
        """Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim), or if `as_tuple`, as a tuple of one vector for each dimension."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
        """`nonzero` with exactly `size` rows: truncated, or padded with `fill_value`."""
    def norm(self, p: Any | None = 'fro', dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Vector norm of order `p` over `dim`, or over all elements if `dim` is None. 'nuc' is a matrix norm over two dimensions."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the normal distribution of mean `mean` and standard deviation `std`."""
    def not_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input != other`."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:
        """`input != other`."""
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The same as `linalg.householder_product`."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Multiply `input3` by Q: `Q @ input3` if `left`, else `input3 @ Q`. Q is given by the results `input` and `input2` of `geqrf`. If `transpose`, use the conjugate transpose of Q."""
    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Outer product of two vectors: (n,) and (m,) give (n, m)."""
    @overload
    def permute(self, dims: Sequence[_int]) -> Tensor:
        """View with the dimensions in the order `dims`."""
    @overload
    def permute(self, *dims: _int) -> Tensor: ...
    def pin_memory(self, device: _device | _str | _int | None = None) -> Tensor:
        """Return a copy in page-locked memory, from which transfers to `device` are faster. Raise RuntimeError if no such memory is available."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """Moore-Penrose pseudoinverses. Singular values up to `rcond * largest` count as 0."""
    @overload
    def polygamma(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
    @overload
    def polygamma(self, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def polygamma_(self, n: _int) -> Tensor:
        """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
    @overload
    def polygamma_(self, input: Tensor) -> Tensor: ...
    def positive(self) -> Tensor:
        """Return the tensor itself. Raise RuntimeError for bool tensors."""
    def pow(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input ** exponent`. If `input` is an integer tensor, `exponent` must not be a negative integer number."""
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        """`input ** exponent`. If `input` is an integer tensor, `exponent` must not be a negative integer number."""
    def prelu(self, weight: Tensor) -> Tensor:
        """Parametric ReLU: `input` where it is positive, else `weight * input`. `weight` holds one value, or one for each channel (dimension 1)."""
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Product over dimension `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Write the elements of `source` at the positions `index` in the flattened input. If `accumulate`, add them instead."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Write the elements of `source` at the positions `index` in the flattened input. If `accumulate`, add them instead."""
    def qr(self, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_qr:
        """QR factorization like `linalg.qr`, in mode 'reduced' if `some`, else 'complete'."""
    def quantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """Quantiles `q` in [0, 1] along `dim`, or over all elements. A vector `q` adds a leading dimension. The input is float32 or float64. `interpolation` is 'linear', 'lower', 'higher', 'midpoint' or 'nearest'."""
    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:
        """Convert radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """Convert radians to degrees."""
    @overload
    def random_(self, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with uniform integers in [from, to). `from` defaults to 0. Without `to`, the largest possible value is the largest n such that the dtype holds all integers from 0 to n exactly."""
    @overload
    def random_(self, to: _int, *, generator: _Generator | None = None) -> Tensor: ...
    @overload
    def random_(self, from_: _int, to: _int | None, *, generator: _Generator | None = None) -> Tensor: ...
    def ravel(self) -> Tensor:
        """Return all elements as a vector, as a view if the tensor is contiguous, else as a copy."""
    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:
        """1 / x."""
    def reciprocal_(self) -> Tensor:
        """1 / x."""
    def relu(self) -> Tensor:
        """Rectified linear unit: `max(input, 0)`."""
    def relu_(self) -> Tensor:
        """Rectified linear unit: `max(input, 0)`."""
    def remainder(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Remainder of floor division, with the sign of `other`, as in Python."""
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        """Remainder of floor division, with the sign of `other`, as in Python."""
    def renorm(self, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None) -> Tensor:
        """Scale down each slice along `dim` whose `p`-norm exceeds `maxnorm`, so that its norm becomes `maxnorm`."""
    def renorm_(self, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
        """Scale down each slice along `dim` whose `p`-norm exceeds `maxnorm`, so that its norm becomes `maxnorm`."""
    @overload
    def repeat(self, repeats: Sequence[_int]) -> Tensor:
        """Repeat the tensor along each dimension. If `repeats` has more values than the tensor has dimensions, the first ones are for new leading dimensions."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor: ...
    @overload
    def repeat_interleave(self, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Repeat each element of the flattened input, or each index along `dim`, several times in a row. `repeats` is an int, or an int tensor with one count per element or index. If only a `repeats` tensor is given, the result holds each index i repeated repeats[i] times. If `repeats` is a tensor on the meta device, `output_size` is required."""
    @overload
    def repeat_interleave(self, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
    @overload
    def repeat_interleave(self, *, output_size: _int | None = None) -> Tensor: ...
    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor:
        """Return the same elements in another shape, as a view if the strides allow it, else as a copy. One size may be -1."""
    @overload
    def reshape(self, *shape: _int) -> Tensor: ...
    def reshape_as(self, other: Tensor) -> Tensor:
        """Like `reshape`, with the shape of another tensor."""
    @overload
    def resize_(self, size: Sequence[_int], *, memory_format: _memory_format | None = None) -> Tensor:
        """Resize the tensor in place, with dense strides. The storage grows if it is too small. New elements have arbitrary values."""
    @overload
    def resize_(self, *size: _int, memory_format: _memory_format | None = None) -> Tensor: ...
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
        """Resize the tensor in place to the sizes of `the_template`, like `resize_`."""
    def resolve_conj(self) -> Tensor:
        """Copy that stores the conjugated values if `input` is a conjugate view, else `input` itself."""
    def resolve_neg(self) -> Tensor:
        """Copy that stores the negated values if `input` is a negative view, else `input` itself."""
    def roll(self, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = ()) -> Tensor:
        """Shift elements along `dims`, moving those beyond the end to the start. Without `dims`, shift the elements of the flattened input, but keep its shape."""
    @overload
    def rot90(self, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
        """Rotate by `k` quarter turns in the plane of the two dimensions `dims`, from the first towards the second."""
    @overload
    def rot90(self, k: _int = 1, *dims: _int) -> Tensor: ...
    def round(self, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
        """Round each element to `decimals` decimal places. Ties round to even."""
    def round_(self, *, decimals: _int = 0) -> Tensor:
        """Round each element to `decimals` decimal places. Ties round to even."""
    def row_stack(self, *, out: Tensor | None = None) -> Tensor:
        """Concatenate tensors along dimension 0, after turning vectors into matrices of one row."""
    def rrelu_(self, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
        """Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside training the slope is (lower + upper) / 2."""
    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:
        """1 / sqrt(x)."""
    def rsqrt_(self) -> Tensor:
        """1 / sqrt(x)."""
    def rsub(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """`other - alpha * input`. Bool operands are not supported."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Write the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] = src[i, j]`. If `reduce` is 'add' or 'multiply', add them to the input's elements, or multiply the input's elements by them, instead."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _Number, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """Write the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] = src[i, j]`. If `reduce` is 'add' or 'multiply', add them to the input's elements, or multiply the input's elements by them, instead."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor, *, reduce: _str) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _Number) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str) -> Tensor: ...
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Add the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] += src[i, j]`."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """Add the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] += src[i, j]`."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
        """Reduce the elements of `src` that have the same position in `index` along `dim`, and write the result there. `reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """Reduce the elements of `src` that have the same position in `index` along `dim`, and write the result there. `reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """Return a view at one index of dimension `dim`, without that dimension."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of `input` in which `src` replaces the elements that `select` selects."""
    def selu_(self, inplace: _bool = False) -> Tensor:
        """Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017)."""
    @overload
    def set_(self) -> Tensor:
        """Replace the tensor's storage by that of `source`, and its offset, size and stride by the given ones or those of `source`. Without arguments, the tensor becomes empty."""
    @overload
    def set_(self, source: Tensor, storage_offset: _int | None = None, size: Sequence[_int] | None = None, stride: Sequence[_int] | None = None) -> Tensor: ...
    @overload
    def set_(self, source: Tensor, storage_offset: _int | None = None, size: Sequence[_int] | None = None, *stride: _int) -> Tensor: ...
    @overload
    def set_(self, source: Any, storage_offset: _int | None = None, size: Sequence[_int] | None = None, stride: Sequence[_int] | None = None) -> Tensor: ...
    @overload
    def set_(self, source: Any, storage_offset: _int | None = None, size: Sequence[_int] | None = None, *stride: _int) -> Tensor: ...
    def sgn(self, *, out: Tensor | None = None) -> Tensor:
        """`x / |x|`, or 0 if x is 0. For real tensors this is `sign`."""
    def sgn_(self) -> Tensor:
        """`x / |x|`, or 0 if x is 0. For real tensors this is `sign`."""
    def share_memory_(self) -> Tensor:
        """Move the storage to memory that is shared with processes forked later."""
    def short(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to int16, like `to(metatensor.int16)`."""
    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sign(self, *, out: Tensor | None = None) -> Tensor:
        """The sign of each element: -1, 0 or 1."""
    def sign_(self) -> Tensor:
        """The sign of each element: -1, 0 or 1."""
    def signbit(self, *, out: Tensor | None = None) -> Tensor:
        """Test whether the sign bit of each element is set. The result is bool."""
    def sin(self, *, out: Tensor | None = None) -> Tensor:
        """The sine."""
    def sin_(self) -> Tensor:
        """The sine."""
    def sinc(self, *, out: Tensor | None = None) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""
    def sinc_(self) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""
    def sinh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic sine."""
    def sinh_(self) -> Tensor:
        """The hyperbolic sine."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of `input` in which `src` replaces the elements that `slice` selects."""
    def slogdet(self, *, out: Sequence[Tensor] | None = None) -> _return_slogdet:
        """Sign and logarithm of the magnitude of the determinants of square matrices (..., N, N). The sign of a complex determinant is a number of magnitude 1. A singular matrix has sign 0 and logarithm -inf."""
    def softmax(self, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Exponentials along `dim`, divided by their sum. The dtype must be floating-point."""
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_sort:
        """Sort along `dim`, ascending unless `descending`. Returns (values, int64 indices). Equal elements keep their order."""
    @overload
    def sort(self, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Sequence[Tensor] | None = None) -> _return_sort_stable: ...
    @overload
    def split(self, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along `dim` into views of equal size (the last may be smaller), or of the sizes in a list. Returns a tuple."""
    @overload
    def split(self, split_size_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along `dim` into views of the given sizes. Returns a tuple."""
    def sqrt(self, *, out: Tensor | None = None) -> Tensor:
        """The square root."""
    def sqrt_(self) -> Tensor:
        """The square root."""
    def square(self, *, out: Tensor | None = None) -> Tensor:
        """x * x."""
    def square_(self) -> Tensor:
        """x * x."""
    @overload
    def squeeze(self) -> Tensor:
        """Return a view without the dimensions of size 1: all of them, or only those in `dim`."""
    @overload
    def squeeze(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze(self, dim: Sequence[_int]) -> Tensor: ...
    @overload
    def squeeze(self, *dim: _int) -> Tensor: ...
    @overload
    def squeeze_(self) -> Tensor:
        """Return a view without the dimensions of size 1: all of them, or only those in `dim`."""
    @overload
    def squeeze_(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze_(self, dim: Sequence[_int]) -> Tensor: ...
    @overload
    def squeeze_(self, *dim: _int) -> Tensor: ...
    @overload
    def std(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
        """Standard deviation over `dim`: the square root of `var`."""
    @overload
    def std(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def std(self, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def std_mean(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
        """Standard deviation (see `std`) and mean over `dim`, as a tuple."""
    @overload
    def std_mean(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
    @overload
    def std_mean(self, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
        """Short-time Fourier transform of a signal (points,) or (N, points): the transforms of its windowed frames. The result is complex with shape (..., frequencies, frames). If `return_complex` is False, it is real with an additional last dimension of size 2. `hop_length` defaults to `n_fft // 4`."""
    def sub(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`input - alpha * other`. Bool operands are not supported."""
    def sub_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`. Bool operands are not supported."""
    def subtract(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """`input - alpha * other`. Bool operands are not supported."""
    def subtract_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """`input - alpha * other`. Bool operands are not supported."""
    def sum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Sum over `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given."""
    @overload
    def sum_to_size(self, size: Sequence[_int]) -> Tensor:
        """Undo a broadcast: sum over the dimensions that a tensor of shape `size` would gain or repeat if it were broadcast to the input's shape. The result has shape `size`."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor: ...
    def svd(self, some: _bool = True, compute_uv: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_svd:
        """Singular value decomposition `input = U @ diag(S) @ V.mH`, reduced if `some`. If `compute_uv` is False, U and V are zeros."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """`transpose` with NumPy's argument names."""
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor:
        """`transpose` with NumPy's argument names."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """View with dimensions `dim0` and `dim1` exchanged."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """View with dimensions `dim0` and `dim1` exchanged."""
    def t(self) -> Tensor:
        """Transpose of a matrix, as a view. A tensor of 0 or 1 dimensions is returned unchanged. More than 2 dimensions are not supported."""
    def t_(self) -> Tensor:
        """Transpose of a matrix, as a view. A tensor of 0 or 1 dimensions is returned unchanged. More than 2 dimensions are not supported."""
    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Elements of the flattened `input` at the int64 positions `index`. The result has the shape of `index`."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """`gather` after broadcasting `input` and `indices` in all dimensions but `dim`. Without `dim`, gather from the flattened `input`."""
    def tan(self, *, out: Tensor | None = None) -> Tensor:
        """The tangent."""
    def tan_(self) -> Tensor:
        """The tangent."""
    def tanh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """The hyperbolic tangent."""
    @overload
    def tensor_split(self, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along `dim` into a number of views whose sizes differ by at most one, or at the given indices. Returns a tuple."""
    @overload
    def tensor_split(self, indices_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, indices_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    def threshold_(self, threshold: _Number, value: _Number, inplace: _bool = False) -> Tensor:
        """`input` where it is greater than `threshold`, else `value`."""
    @overload
    def tile(self, dims: Sequence[_int]) -> Tensor:
        """Like `repeat`, but if `dims` has fewer values than there are dimensions, the leading dimensions are not repeated."""
    @overload
    def tile(self, *dims: _int) -> Tensor: ...
    @overload
    def to(self, device: _device | _str | _int | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """Convert to another device, dtype or memory format. Return the tensor itself if nothing changes and `copy` is false."""
    @overload
    def to(self, dtype: _dtype, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    @overload
    def to(self, other: Tensor, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_topk:
        """Return the `k` largest elements along `dim`, or the smallest if not `largest`, in order, as (values, int64 indices)."""
    def trace(self, *, out: Tensor | None = None) -> Tensor:
        """Sum of the main diagonal of a matrix."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """View with dimensions `dim0` and `dim1` exchanged."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """View with dimensions `dim0` and `dim1` exchanged."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_triangular_solve:
        """Solutions X of `A @ X = input` for triangular matrices A, or of `A.mT @ X = input` if `transpose`, and a copy of A expanded to the batch of the solution."""
    def tril(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Lower triangle of matrices (..., n, m): the elements on and below diagonal `diagonal`, with 0 above it."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """Lower triangle of matrices (..., n, m): the elements on and below diagonal `diagonal`, with 0 above it."""
    def triu(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Upper triangle of matrices (..., n, m): the elements on and above diagonal `diagonal`, with 0 below it."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """Upper triangle of matrices (..., n, m): the elements on and above diagonal `diagonal`, with 0 below it."""
    def true_divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def true_divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
    def trunc(self, *, out: Tensor | None = None) -> Tensor:
        """Round each element towards zero to an integer, in the input's dtype."""
    def trunc_(self) -> Tensor:
        """Round each element towards zero to an integer, in the input's dtype."""
    def type(self, dtype: Any | None = None, non_blocking: _bool = False) -> Any:
        """Without `dtype`, return the type name of the tensor as a str, such as 'metatensor.FloatTensor'. Otherwise convert the tensor to `dtype`, which is a dtype or a type name."""
    def type_as(self, other: Tensor) -> Tensor:
        """Convert to the dtype and device of `other`."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """Return a tuple of views, one for each index of dimension `dim`, without that dimension."""
    @overload
    def unflatten(self, dim: _int, sizes: Sequence[_int]) -> Tensor:
        """Return a view with dimension `dim` split into several of the given sizes. One size may be -1."""
    @overload
    def unflatten(self, dim: _int, *sizes: _int) -> Tensor: ...
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Return a view of sliding windows of `size` elements along `dimension`, `step` apart, as a new last dimension."""
    def uniform_(self, from_: _float = 0.0, to: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill in place with values from the uniform distribution on [from, to)."""
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """Return the distinct elements, or the distinct slices along `dim`, sorted. `return_inverse` and `return_counts` each add an int64 tensor to the result."""
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """Return the elements, or the slices along `dim`, that differ from their predecessor. `return_inverse` and `return_counts` each add an int64 tensor to the result."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Like `chunk`."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Like `split`."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Like `split_with_sizes`."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """Return a view with a new dimension of size 1 at position `dim`."""
    def unsqueeze_(self, dim: _int) -> Tensor:
        """Return a view with a new dimension of size 1 at position `dim`."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
        """Variance over `dim` (default: all dimensions): the sum of squared deviations from the mean, divided by the number of elements minus `correction`, which defaults to 1."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def var(self, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def var_mean(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
        """Variance (see `var`) and mean over `dim`, as a tuple."""
    @overload
    def var_mean(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
    @overload
    def var_mean(self, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Dot product of two vectors of equal length with the first one conjugated, as a 0-d tensor."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor:
        """Return a view of the same elements in another shape. One size may be -1. Raise RuntimeError if the strides do not allow it. With a dtype, reinterpret the bytes."""
    @overload
    def view(self, *size: _int) -> Tensor: ...
    @overload
    def view(self, dtype: _dtype) -> Tensor: ...
    def view_as(self, other: Tensor) -> Tensor:
        """Like `view`, with the shape of another tensor."""
    @overload
    def vsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Split along dimension 0 into a number of equal views, or at the given indices. Returns a tuple."""
    @overload
    def vsplit(self, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def vsplit(self, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def vsplit(self, sections: _int) -> tuple[Tensor, ...]: ...
    @overload
    def vsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
    @overload
    def vsplit(self, *indices: _int) -> tuple[Tensor, ...]: ...
    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        """Select `input` where the bool condition is true, else `other`."""
    def xlogy(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
    def zero(self) -> Tensor:
        """Set all elements to 0."""
    def zero_(self) -> Tensor:
        """Set all elements to 0."""

class _return_aminmax(NamedTuple):
    min: Tensor
    max: Tensor

class _return_cummax(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_cummin(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _return_geqrf(NamedTuple):
    a: Tensor
    tau: Tensor

class _return_histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class _return_histogram_bin_ct(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class _return_kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_max_dim(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_median_dim(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_min_dim(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_mode(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_nanmedian_dim(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_qr(NamedTuple):
    Q: Tensor
    R: Tensor

class _return_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _return_sort(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_sort_stable(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_svd(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class _return_topk(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_triangular_solve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor
