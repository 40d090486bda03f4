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
    """An n-dimensional array of one dtype: sizes, strides and an offset over a storage."""

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
        """The sizes, as a Size."""
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]: ...
    @overload
    def stride(self, dim: _int) -> _int: ...
    def storage_offset(self) -> _int:
        """Where in the storage the first element is, in elements."""
    def untyped_storage(self) -> Storage:
        """The storage behind this tensor."""
    def dim(self) -> _int:
        """Number of dimensions."""
    def ndimension(self) -> _int: ...
    def numel(self) -> _int:
        """Number of elements."""
    def nelement(self) -> _int: ...
    def element_size(self) -> _int:
        """Bytes of one element."""
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
        """Bytes of the elements (numel * itemsize), whatever the storage holds."""
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
        """The values as a NumPy array."""
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
        """`metatensor.array_api`: the array API standard."""
    def to_device(self, device: _device | _str | _int, /, *, stream: Any = None) -> Tensor:
        """This tensor on a device."""
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
        """The one element as a Python number. On meta: DataDependentError."""
    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers. On meta: DataDependentError."""
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
        """A view that reads conjugated."""
    def _neg_view(self) -> Tensor:
        """A view that reads negated."""
    @overload
    def _to_copy(self, dtype: _dtype, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """A copy with another dtype, device or memory format."""
    @overload
    def _to_copy(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor: ...
    def _where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        """The tensor where the condition holds, `other` elsewhere."""
    def abs(self, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of each element."""
    def abs_(self) -> Tensor:
        """The magnitude of each element."""
    def absolute(self, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of each element."""
    def absolute_(self) -> Tensor:
        """The magnitude of each element."""
    def acos(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse cosine."""
    def acos_(self) -> Tensor:
        """The inverse cosine."""
    def acosh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic cosine."""
    def acosh_(self) -> Tensor:
        """The inverse hyperbolic cosine."""
    def add(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """input + alpha * other."""
    def add_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """input + alpha * other."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * the sum of all batch1[i] @ batch2[i]."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """beta * input + alpha * the sum of all batch1[i] @ batch2[i]."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
        """input + value * tensor1 / tensor2; two integer tensors are an error."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """input + value * tensor1 / tensor2; two integer tensors are an error."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
        """input + value * tensor1 * tensor2."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """input + value * tensor1 * tensor2."""
    def addmm(self, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (mat1 @ mat2)."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """beta * input + alpha * (mat1 @ mat2)."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (mat @ vec)."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """beta * input + alpha * (mat @ vec)."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * outer(vec1, vec2)."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """beta * input + alpha * outer(vec1, vec2)."""
    def adjoint(self) -> Tensor:
        """The last two dimensions exchanged, and conjugated."""
    def all(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Whether all elements along `dim` are true: bool (uint8 for uint8)."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Whether |input - other| <= atol + rtol * |other| everywhere: a bool."""
    def alpha_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Dropout that keeps mean and variance of SELU activations (Klambauer et al., 2017)."""
    def amax(self, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Largest element over `dim` (all dimensions unless given)."""
    def amin(self, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Smallest element over `dim` (all dimensions unless given)."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False, out: Sequence[Tensor] | None = None) -> _return_aminmax:
        """Smallest and largest element over one dimension, or over all."""
    def angle(self, *, out: Tensor | None = None) -> Tensor:
        """The argument of each element, in radians."""
    def any(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Whether any element along `dim` is true: bool (uint8 for uint8)."""
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
        """The angle of the point (other, input), in radians."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in radians."""
    def arctan_(self) -> Tensor:
        """The inverse tangent."""
    def arctanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def arctanh_(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Index of the largest element along `dim`, or in the flattened input: int64."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Index of the smallest element along `dim`, or in the flattened input: int64."""
    @overload
    def argsort(self, dim: _int = -1, descending: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Indices that sort along `dim`: int64."""
    @overload
    def argsort(self, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None) -> Tensor: ...
    def argwhere(self) -> Tensor:
        """nonzero()."""
    def as_strided(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """The storage seen with other sizes, strides and offset, all in elements."""
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """The storage seen with other sizes, strides and offset, all in elements."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """A copy in which what as_strided() shows is replaced by `src`."""
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
        """The angle of the point (other, input), in radians."""
    def atan2_(self, other: Tensor) -> Tensor:
        """The angle of the point (other, input), in radians."""
    def atan_(self) -> Tensor:
        """The inverse tangent."""
    def atanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def atanh_(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (batch1 @ batch2), batched."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """beta * input + alpha * (batch1 @ batch2), batched."""
    @overload
    def bernoulli(self, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """1 with the probability in each element, else 0; or with probability p."""
    @overload
    def bernoulli(self, p: _float, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
    def bernoulli_(self, p: Tensor | _Number = 0.5, *, generator: _Generator | None = None) -> Tensor:
        """Fill with 1 with probability p, else 0."""
    def bfloat16(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(bfloat16)."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """How often, or with how much weight, each integer from 0 up occurs."""
    def bitwise_and(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input & other."""
    def bitwise_and_(self, other: Tensor | _Number) -> Tensor:
        """input & other."""
    def bitwise_left_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input << other: input * 2**other, with the bits that fall out lost."""
    def bitwise_left_shift_(self, other: Tensor | _Number) -> Tensor:
        """input << other: input * 2**other, with the bits that fall out lost."""
    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:
        """Each bit inverted; of bool the logical not."""
    def bitwise_not_(self) -> Tensor:
        """Each bit inverted; of bool the logical not."""
    def bitwise_or(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input | other."""
    def bitwise_or_(self, other: Tensor | _Number) -> Tensor:
        """input | other."""
    def bitwise_right_shift(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input >> other: the floor of input / 2**other."""
    def bitwise_right_shift_(self, other: Tensor | _Number) -> Tensor:
        """input >> other: the floor of input / 2**other."""
    def bitwise_xor(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input ^ other."""
    def bitwise_xor_(self, other: Tensor | _Number) -> Tensor:
        """input ^ other."""
    def bmm(self, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Products of two batches of matrices."""
    def bool(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(bool)."""
    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor:
        """expand() as a function."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor: ...
    def byte(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(uint8)."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with values of a Cauchy distribution."""
    def cdist(self, x2: Tensor, p: _float = 2.0, compute_mode: Any | None = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
        """Distance of each row of `x1` to each row of `x2`: [..., n, k] and [..., m, k] to [..., n, m]."""
    def cdouble(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(complex128)."""
    def ceil(self, *, out: Tensor | None = None) -> Tensor:
        """The least integer not below each element."""
    def ceil_(self) -> Tensor:
        """The least integer not below each element."""
    def celu_(self, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
        """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
    def cfloat(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(complex64)."""
    def chalf(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(complex32)."""
    def char(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(int8)."""
    def cholesky(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Cholesky factors of positive definite matrices, as linalg.cholesky."""
    def cholesky_inverse(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Inverses of matrices, given as their Cholesky factors."""
    def cholesky_solve(self, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Solutions of A X = input from the Cholesky factors of A, `input2`."""
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of one size, the last one perhaps smaller."""
    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
        """Each element brought into [min, max]; NaN stays."""
    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """Each element brought into [min, max]; NaN stays."""
    def clamp_max(self, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Each element, or max if less."""
    def clamp_max_(self, max: Tensor | _Number) -> Tensor:
        """Each element, or max if less."""
    def clamp_min(self, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """Each element, or min if greater."""
    def clamp_min_(self, min: Tensor | _Number) -> Tensor:
        """Each element, or min if greater."""
    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
        """Each element brought into [min, max]; NaN stays."""
    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """Each element brought into [min, max]; NaN stays."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy, in the same order of dimensions unless told."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """All combinations of r values of a vector, as rows."""
    def concat(self, dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Tensors one after another along a dimension."""
    def concatenate(self, dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Tensors one after another along a dimension."""
    def conj(self) -> Tensor:
        """Complex conjugate, as a view; real tensors as they are."""
    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:
        """The conjugate, written out; of a real tensor the tensor itself."""
    def conj_physical_(self) -> Tensor:
        """The conjugate, written out; of a real tensor the tensor itself."""
    def contiguous(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor itself where it is contiguous in the memory format, else a copy that is."""
    def copy_(self, src: Tensor, non_blocking: _bool = False) -> Tensor:
        """Write the values of `src`, broadcast and converted, from any device."""
    def copysign(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of input with the sign of other."""
    def copysign_(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of input with the sign of other."""
    def corrcoef(self) -> Tensor:
        """Correlation of variables (rows) over observations (columns), from -1 to 1."""
    def cos(self, *, out: Tensor | None = None) -> Tensor:
        """The cosine."""
    def cos_(self) -> Tensor:
        """The cosine."""
    def cosh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """The hyperbolic cosine."""
    def count_nonzero(self, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
        """Number of elements along `dim` that are not zero: int64."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Covariance of variables (rows) over observations (columns), counted or weighted."""
    def cpu(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """On the cpu device."""
    def cross(self, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """Cross products of vectors of 3 elements along `dim`, or along the first dimension of that size."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """On a cuda device."""
    def cummax(self, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummax:
        """Largest element so far along `dim`, and where it was last."""
    def cummin(self, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummin:
        """Smallest element so far along `dim`, and where it was last."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Products of the elements up to each one along `dim`; integers multiply to int64."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Products of the elements up to each one along `dim`; integers multiply to int64."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Sums of the elements up to each one along `dim`; integers sum to int64."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Sums of the elements up to each one along `dim`; integers sum to int64."""
    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:
        """Degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """Degrees to radians."""
    def det(self) -> Tensor:
        """Determinants."""
    def detach(self) -> Tensor:
        """The same elements, without a gradient."""
    def detach_(self) -> Tensor:
        """Forget the gradient of this tensor."""
    def diag(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Vectors as diagonals of matrices."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """All elements as the diagonal of a matrix."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A diagonal of the matrices in dim1 and dim2, as the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
        """A copy in which what diagonal() shows is replaced by `src`."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
        """Differences of neighbours along `dim`, taken `n` times."""
    def digamma(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithmic derivative of gamma."""
    def digamma_(self) -> Tensor:
        """The logarithmic derivative of gamma."""
    def dim_order(self) -> Any:
        """The dimensions from the outermost to the innermost in memory."""
    def dist(self, other: Tensor, p: _Number = 2, *, out: Tensor | None = None) -> Tensor:
        """The `p`-norm of input - other."""
    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Dot product of two vectors."""
    def double(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(float64)."""
    def dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
    @overload
    def dsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Equal sections, or the pieces between indices, along the depth."""
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
        """input == other."""
    def eq_(self, other: Tensor | _Number) -> Tensor:
        """input == other."""
    def equal(self, other: Tensor) -> _bool:
        """Whether two tensors have the same shape and the same elements: a bool."""
    def erf(self, *, out: Tensor | None = None) -> Tensor:
        """The error function."""
    def erf_(self) -> Tensor:
        """The error function."""
    def erfc(self, *, out: Tensor | None = None) -> Tensor:
        """1 - erf(x), exact where erf is near 1."""
    def erfc_(self) -> Tensor:
        """1 - erf(x), exact where erf is near 1."""
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
        """Dimensions of size 1 repeated to `size` without a copy; -1 keeps a size."""
    @overload
    def expand(self, *size: _int, implicit: _bool = False) -> Tensor: ...
    def expand_as(self, other: Tensor) -> Tensor:
        """expand() to the shape of another tensor."""
    def expm1(self, *, out: Tensor | None = None) -> Tensor:
        """exp(x) - 1, exact near 0."""
    def expm1_(self) -> Tensor:
        """exp(x) - 1, exact near 0."""
    def exponential_(self, lambd: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with values of an exponential distribution of rate lambd."""
    def feature_alpha_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Alpha dropout of whole channels."""
    def feature_dropout_(self, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
        """Dropout of whole channels."""
    def fill(self, value: Tensor | _Number) -> Tensor:
        """All elements set to a number or a 0-d tensor."""
    def fill_(self, value: Tensor | _Number) -> Tensor:
        """All elements set to a number or a 0-d tensor."""
    def fill_diagonal_(self, fill_value: _Number, wrap: _bool = False) -> Tensor:
        """Fill the main diagonal."""
    def fix(self, *, out: Tensor | None = None) -> Tensor:
        """Each element with its fraction cut off."""
    def fix_(self) -> Tensor:
        """Each element with its fraction cut off."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """The dimensions from start_dim to end_dim as one."""
    @overload
    def flip(self, dims: Sequence[_int]) -> Tensor:
        """The order along dimensions reversed."""
    @overload
    def flip(self, *dims: _int) -> Tensor: ...
    def fliplr(self) -> Tensor:
        """Columns in reverse order."""
    def flipud(self) -> Tensor:
        """Rows in reverse order."""
    def float(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(float32)."""
    def float_power(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input ** exponent in float64, or complex128."""
    def float_power_(self, exponent: Tensor | _Number) -> Tensor:
        """input ** exponent in float64, or complex128."""
    def floor(self, *, out: Tensor | None = None) -> Tensor:
        """The greatest integer not above each element."""
    def floor_(self) -> Tensor:
        """The greatest integer not above each element."""
    def floor_divide(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """The floor of input / other."""
    def floor_divide_(self, other: Tensor | _Number) -> Tensor:
        """The floor of input / other."""
    def fmax(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The greater of two elements; of a number and NaN the number."""
    def fmin(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The lesser of two elements; of a number and NaN the number."""
    def fmod(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """What division towards zero leaves: of the dividend's sign, as in C."""
    def fmod_(self, other: Tensor | _Number) -> Tensor:
        """What division towards zero leaves: of the dividend's sign, as in C."""
    def frac(self, *, out: Tensor | None = None) -> Tensor:
        """x - trunc(x)."""
    def frac_(self) -> Tensor:
        """x - trunc(x)."""
    def frexp(self, *, out: Sequence[Tensor] | None = None) -> _return_frexp:
        """Mantissa (0.5 <= |m| < 1) and int32 exponent with x = m * 2**e."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """At each place of the index, the element that it names along a dimension."""
    def gcd(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The greatest common divisor."""
    def gcd_(self, other: Tensor) -> Tensor:
        """The greatest common divisor."""
    def ge(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input >= other."""
    def ge_(self, other: Tensor | _Number) -> Tensor:
        """input >= other."""
    def geometric_(self, p: _float, *, generator: _Generator | None = None) -> Tensor:
        """Fill with numbers of trials up to the first success."""
    def geqrf(self, *, out: Sequence[Tensor] | None = None) -> _return_geqrf:
        """QR factors as LAPACK has them: R over Householder vectors, and the vectors' factors."""
    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Outer product of two vectors."""
    def greater(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input > other."""
    def greater_(self, other: Tensor | _Number) -> Tensor:
        """input > other."""
    def greater_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input >= other."""
    def greater_equal_(self, other: Tensor | _Number) -> Tensor:
        """input >= other."""
    def gt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input > other."""
    def gt_(self, other: Tensor | _Number) -> Tensor:
        """input > other."""
    def half(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(float16)."""
    def hardshrink(self, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
        """x, and 0 where |x| <= lambd."""
    def hash_tensor(self, dim: _int | Sequence[_int] | None = (), *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None) -> Tensor:
        """Exclusive or of the 64-bit patterns of the elements over `dim`: uint64."""
    def heaviside(self, values: Tensor, *, out: Tensor | None = None) -> Tensor:
        """0 below zero, 1 above, and `values` at zero."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """0 below zero, 1 above, and `values` at zero."""
    def histc(self, bins: _int = 100, min: _Number = 0, max: _Number = 0, *, out: Tensor | None = None) -> Tensor:
        """How many elements lie in each of some bins of equal width from `min` to `max`, or over all where these are equal."""
    @overload
    def histogram(self, bins: Tensor, *, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram:
        """How many elements, or how much weight, lies between given edges or in some bins of equal width; and the edges."""
    @overload
    def histogram(self, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram_bin_ct: ...
    @overload
    def hsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Equal sections, or the pieces between indices, along the columns."""
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
        """sqrt(input**2 + other**2), without overflow on the way."""
    def hypot_(self, other: Tensor) -> Tensor:
        """sqrt(input**2 + other**2), without overflow on the way."""
    def i0(self, *, out: Tensor | None = None) -> Tensor:
        """The modified Bessel function of order 0."""
    def i0_(self) -> Tensor:
        """The modified Bessel function of order 0."""
    def igamma(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other)."""
    def igamma_(self, other: Tensor) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other)."""
    def igammac(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The regularised upper incomplete gamma function Q(input, other)."""
    def igammac_(self, other: Tensor) -> Tensor:
        """The regularised upper incomplete gamma function Q(input, other)."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """Slices of the source added to those of a dimension that a vector names."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """Slices of the source added to those of a dimension that a vector names."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Slices of the source written to those of a dimension that a vector names."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """Slices of the source written to those of a dimension that a vector names."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """Slices of a dimension that a vector names, filled with a number."""
    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """Slices of a dimension that a vector names, filled with a number."""
    def index_put(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy with values written to the positions that a tuple of index tensors names."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """Write values to the positions that a tuple of index tensors names."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
        """Slices of the source reduced into those that a vector names: prod, mean, amax or amin."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """Slices of the source reduced into those that a vector names: prod, mean, amax or amin."""
    def index_select(self, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The indices of a dimension that a vector names."""
    def inner(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Sum of products over the last dimensions."""
    def int(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(int32)."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """Inverses. LinAlgError for singular matrices."""
    def is_contiguous(self, *, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements lie densely in a memory format's order; row by row unless told."""
    def is_nonzero(self) -> _bool:
        """Whether the only element of a tensor is true: a bool."""
    def is_pinned(self) -> _bool:
        """Whether the memory is page-locked."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether two shapes are equal."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether two tensors show one storage in the same way."""
    def is_shared(self) -> _bool:
        """Whether processes forked from this one share the memory."""
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """|input - other| <= atol + rtol * |other|."""
    def isfinite(self) -> Tensor:
        """Whether each element is finite."""
    def isinf(self) -> Tensor:
        """Whether each element is infinite."""
    def isnan(self) -> Tensor:
        """Whether each element is NaN."""
    def isneginf(self, *, out: Tensor | None = None) -> Tensor:
        """Whether each element is -inf."""
    def isposinf(self, *, out: Tensor | None = None) -> Tensor:
        """Whether each element is +inf."""
    def isreal(self) -> Tensor:
        """Whether each imaginary part is 0."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
        """The signal of which stft() gives the input, as near as can be: [..., frequencies, frames] to [..., points]."""
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Kronecker product: blocks of `other` times each element of `input`."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_kthvalue:
        """The `k`-th smallest element along `dim`, counted from 1, and where it is."""
    def lcm(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The least common multiple."""
    def lcm_(self, other: Tensor) -> Tensor:
        """The least common multiple."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """input * 2**other."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """input * 2**other."""
    def le(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input <= other."""
    def le_(self, other: Tensor | _Number) -> Tensor:
        """input <= other."""
    def lerp(self, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input + weight * (end - input); the tensors have one dtype."""
    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """input + weight * (end - input); the tensors have one dtype."""
    def less(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input < other."""
    def less_(self, other: Tensor | _Number) -> Tensor:
        """input < other."""
    def less_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input <= other."""
    def less_equal_(self, other: Tensor | _Number) -> Tensor:
        """input <= other."""
    def lgamma(self, *, out: Tensor | None = None) -> Tensor:
        """log |gamma(x)|."""
    def lgamma_(self) -> Tensor:
        """log |gamma(x)|."""
    def linspace(self, end: Tensor | _Number, steps: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """`steps` numbers at even distances from start to end, both included."""
    def log(self, *, out: Tensor | None = None) -> Tensor:
        """The natural logarithm."""
    def log10(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self) -> Tensor:
        """The logarithm to base 10."""
    def log1p(self, *, out: Tensor | None = None) -> Tensor:
        """log(1 + x), exact near 0."""
    def log1p_(self) -> Tensor:
        """log(1 + x), exact near 0."""
    def log2(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self) -> Tensor:
        """The logarithm to base 2."""
    def log_(self) -> Tensor:
        """The natural logarithm."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with exponentials of normal values; mean and std are those of the logarithms."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of `softmax`, computed without overflow."""
    def logaddexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """log(exp(input) + exp(other)), without overflow on the way."""
    def logaddexp2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """log2(2**input + 2**other), without overflow on the way."""
    def logcumsumexp(self, dim: _int, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of the cumulative sum of exponentials along `dim`."""
    def logdet(self) -> Tensor:
        """Logarithms of determinants; NaN where negative."""
    def logical_and(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether both elements are nonzero."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """Whether both elements are nonzero."""
    def logical_not(self, *, out: Tensor | None = None) -> Tensor:
        """Whether each element is zero."""
    def logical_not_(self) -> Tensor:
        """Whether each element is zero."""
    def logical_or(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether an element is nonzero."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """Whether an element is nonzero."""
    def logical_xor(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether just one element is nonzero."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """Whether just one element is nonzero."""
    def logit(self, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """log(x / (1 - x)), x first clamped to [eps, 1 - eps] where eps is given."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), x first clamped to [eps, 1 - eps] where eps is given."""
    def logspace(self, end: Tensor | _Number, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
        """base to the powers of linspace(start, end, steps)."""
    def logsumexp(self, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of the sum of exponentials over `dim`, computed without overflow."""
    def long(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(int64)."""
    def lt(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input < other."""
    def lt_(self, other: Tensor | _Number) -> Tensor:
        """input < other."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """LU factors in one matrix, and the rows exchanged; with `get_infos` the first zero pivots too."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Solutions of A X = input from what lu_factor gives of A."""
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """`value` where the bool mask holds, the input elsewhere; the two broadcast."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """`value` where the bool mask holds, the input elsewhere; the two broadcast."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """The elements of the source, in order, written where a mask is true."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """The elements of the source, in order, written where a mask is true."""
    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements where a mask is true, in a row."""
    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Matrix product over the last two dimensions; the others broadcast, vectors are rows on the left and columns on the right."""
    def matrix_exp(self) -> Tensor:
        """Exponentials of square matrices."""
    def matrix_power(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """Matrices to an integer power; of their inverses for n < 0."""
    @overload
    def max(self, *, out: Tensor | None = None) -> Tensor:
        """The largest element; with `dim` the largest along it and where it is; with `other` element by element."""
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_max_dim: ...
    def maximum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The greater of two elements; NaN where either is."""
    def mean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Mean over `dim` (all dimensions unless given); floating-point and complex only."""
    @overload
    def median(self, *, out: Tensor | None = None) -> Tensor:
        """The median, the lower one of two; with `dim` along it, and where it is."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_median_dim: ...
    @overload
    def min(self, *, out: Tensor | None = None) -> Tensor:
        """The smallest element; with `dim` the smallest along it and where it is; with `other` element by element."""
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def min(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_min_dim: ...
    def minimum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The lesser of two elements; NaN where either is."""
    def mm(self, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Product of two matrices."""
    def mode(self, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_mode:
        """The most frequent value along `dim`, the smallest of several, and where it is last."""
    def moveaxis(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Dimensions moved from the places `source` to `destination`; the others keep their order."""
    def movedim(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Dimensions moved from the places `source` to `destination`; the others keep their order."""
    def msort(self, *, out: Tensor | None = None) -> Tensor:
        """Elements in order along the first dimension."""
    def mul(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input * other."""
    def mul_(self, other: Tensor | _Number) -> Tensor:
        """input * other."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Indices drawn from each row of (unnormalised) probabilities."""
    def multiply(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input * other."""
    def multiply_(self, other: Tensor | _Number) -> Tensor:
        """input * other."""
    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Product of a matrix and a vector."""
    def mvlgamma(self, p: _int, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """NaN and the infinities replaced: by 0 and the dtype's extremes where nothing is given."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """NaN and the infinities replaced: by 0 and the dtype's extremes where nothing is given."""
    def nanmean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Mean over `dim` of the elements that are not NaN."""
    @overload
    def nanmedian(self, *, out: Tensor | None = None) -> Tensor:
        """The median of the elements that are not NaN."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_nanmedian_dim: ...
    def nanquantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """Quantiles of the elements that are not NaN."""
    def nansum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Sum over `dim` with NaN counted as zero."""
    @overload
    def narrow(self, dim: _int, start: _int, length: _int) -> Tensor:
        """`length` elements of a dimension from `start` on."""
    @overload
    def narrow(self, dim: _int, start: Tensor, length: _int) -> Tensor: ...
    def narrow_copy(self, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor:
        """A copy of narrow()."""
    def ne(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input != other."""
    def ne_(self, other: Tensor | _Number) -> Tensor:
        """input != other."""
    def neg(self, *, out: Tensor | None = None) -> Tensor:
        """-x."""
    def neg_(self) -> Tensor:
        """-x."""
    def negative(self, *, out: Tensor | None = None) -> Tensor:
        """-x."""
    def negative_(self) -> Tensor:
        """-x."""
    @overload
    def new_empty(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """A tensor with the dtype and device of this one, with arbitrary values."""
    @overload
    def new_empty(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    @overload
    def new_empty_strided(self, size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """A tensor with the dtype and device of this one and given strides."""
    @overload
    def new_empty_strided(self, size: Sequence[_int], *stride: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_full(self, size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """A tensor with the dtype and device of this one, filled with a number."""
    @overload
    def new_ones(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """A tensor with the dtype and device of this one, filled with 1."""
    @overload
    def new_ones(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def new_tensor(self, data: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """tensor() with the dtype and device of this one."""
    @overload
    def new_zeros(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
        """A tensor with the dtype and device of this one, filled with 0."""
    @overload
    def new_zeros(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
    def nextafter(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The next float after input in the direction of other."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """The next float after input in the direction of other."""
    def nonzero(self, *, as_tuple: _bool = False, out: Tensor | None = None) -> Any:
        """The positions of the elements that are not 0, as rows, or as a tuple of columns."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
        """nonzero() cut or filled up to `size` rows."""
    def norm(self, p: Any | None = 'fro', dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Vector norm of order `p` over `dim`; 'fro' and 'nuc' over two are matrix norms."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with values of a normal distribution."""
    def not_equal(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input != other."""
    def not_equal_(self, other: Tensor | _Number) -> Tensor:
        """input != other."""
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """linalg.householder_product."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Q @ input3, or input3 @ Q, for the Q of geqrf; with `transpose` its adjoint."""
    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Outer product of two vectors."""
    @overload
    def permute(self, dims: Sequence[_int]) -> Tensor:
        """The dimensions in the order `dims`."""
    @overload
    def permute(self, *dims: _int) -> Tensor: ...
    def pin_memory(self, device: _device | _str | _int | None = None) -> Tensor:
        """A copy in memory that a device has page-locked, for faster copies; RuntimeError where there is none."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """Pseudoinverses; singular values up to rcond * the largest are taken for 0."""
    @overload
    def polygamma(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """The n-th derivative of digamma; as a function also polygamma(n, input)."""
    @overload
    def polygamma(self, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def polygamma_(self, n: _int) -> Tensor:
        """The n-th derivative of digamma; as a function also polygamma(n, input)."""
    @overload
    def polygamma_(self, input: Tensor) -> Tensor: ...
    def positive(self) -> Tensor:
        """The tensor itself; bool is an error."""
    def pow(self, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input ** exponent; integers to a negative number are an error."""
    def pow_(self, exponent: Tensor | _Number) -> Tensor:
        """input ** exponent; integers to a negative number are an error."""
    def prelu(self, weight: Tensor) -> Tensor:
        """x, times weight below 0: one weight, or one for each channel."""
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Product over one dimension, or over all; integers multiply to int64."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Elements of the source written to positions in a row of all."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Elements of the source written to positions in a row of all."""
    def qr(self, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_qr:
        """QR factors, as linalg.qr: reduced with `some`, else complete."""
    def quantile(self, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """Quantiles along `dim`, or over all; those of several `q` come first."""
    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:
        """Radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """Radians to degrees."""
    @overload
    def random_(self, *, generator: _Generator | None = None) -> Tensor:
        """Fill with integers: over the dtype's whole range, below `to`, or from `from` on."""
    @overload
    def random_(self, to: _int, *, generator: _Generator | None = None) -> Tensor: ...
    @overload
    def random_(self, from_: _int, to: _int | None, *, generator: _Generator | None = None) -> Tensor: ...
    def ravel(self) -> Tensor:
        """All elements in one dimension."""
    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:
        """1 / x."""
    def reciprocal_(self) -> Tensor:
        """1 / x."""
    def relu(self) -> Tensor:
        """max(x, 0)."""
    def relu_(self) -> Tensor:
        """max(x, 0)."""
    def remainder(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """What floor division leaves: of the divisor's sign, as in Python."""
    def remainder_(self, other: Tensor | _Number) -> Tensor:
        """What floor division leaves: of the divisor's sign, as in Python."""
    def renorm(self, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None) -> Tensor:
        """Scale down the slices along `dim` whose `p`-norm is above `maxnorm` to it."""
    def renorm_(self, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
        """Scale down the slices along `dim` whose `p`-norm is above `maxnorm` to it."""
    @overload
    def repeat(self, repeats: Sequence[_int]) -> Tensor:
        """The tensor over again along its dimensions, and along new ones before them."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor: ...
    @overload
    def repeat_interleave(self, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Each element (or index of a dimension) several times in a row."""
    @overload
    def repeat_interleave(self, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
    @overload
    def repeat_interleave(self, *, output_size: _int | None = None) -> Tensor: ...
    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor:
        """The same elements in another shape: a view where strides allow it, else a copy."""
    @overload
    def reshape(self, *shape: _int) -> Tensor: ...
    def reshape_as(self, other: Tensor) -> Tensor:
        """reshape() to the shape of another tensor."""
    @overload
    def resize_(self, size: Sequence[_int], *, memory_format: _memory_format | None = None) -> Tensor:
        """Change the sizes of this tensor; elements beyond the old ones are arbitrary."""
    @overload
    def resize_(self, *size: _int, memory_format: _memory_format | None = None) -> Tensor: ...
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
        """resize_() to the sizes of another tensor."""
    def resolve_conj(self) -> Tensor:
        """A conjugate view written out."""
    def resolve_neg(self) -> Tensor:
        """A negative view written out."""
    def roll(self, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = ()) -> Tensor:
        """Elements shifted around along dimensions; without any, as if in a row."""
    @overload
    def rot90(self, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
        """Rotated by k quarter turns in the plane of two dimensions."""
    @overload
    def rot90(self, k: _int = 1, *dims: _int) -> Tensor: ...
    def round(self, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
        """Each element rounded to `decimals` places, ties to even."""
    def round_(self, *, decimals: _int = 0) -> Tensor:
        """Each element rounded to `decimals` places, ties to even."""
    def row_stack(self, *, out: Tensor | None = None) -> Tensor:
        """cat() along the rows; vectors are rows."""
    def rrelu_(self, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
        """x, times a random slope from [lower, upper] below 0; outside training the middle of the two."""
    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:
        """1 / sqrt(x)."""
    def rsqrt_(self) -> Tensor:
        """1 / sqrt(x)."""
    def rsub(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """other - alpha * input; bool is an error."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements of `src` written to the places that the index names along a dimension."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _Number, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """The elements of `src` written to the places that the index names along a dimension."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor, *, reduce: _str) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _Number) -> Tensor: ...
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _Number, *, reduce: _str) -> Tensor: ...
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements of `src` added to the places that the index names along a dimension."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """The elements of `src` added to the places that the index names along a dimension."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
        """The elements of `src` reduced into the places that the index names: sum, prod, mean, amax or amin."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
        """The elements of `src` reduced into the places that the index names: sum, prod, mean, amax or amin."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """One index of a dimension, without that dimension."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
        """A copy in which what select() shows is replaced by `src`."""
    def selu_(self, inplace: _bool = False) -> Tensor:
        """A scaled elu with the constants of self-normalising networks (Klambauer et al., 2017)."""
    @overload
    def set_(self) -> Tensor:
        """Show another storage, with given offset, size and stride, or that of another tensor."""
    @overload
    def set_(self, source: Tensor, storage_offset: _int | None = None, size: Sequence[_int] | None = None, stride: Sequence[_int] | None = None) -> Tensor: ...
    @overload
    def set_(self, source: Tensor, storage_offset: _int | None = None, size: Sequence[_int] | None = None, *stride: _int) -> Tensor: ...
    @overload
    def set_(self, source: Any, storage_offset: _int | None = None, size: Sequence[_int] | None = None, stride: Sequence[_int] | None = None) -> Tensor: ...
    @overload
    def set_(self, source: Any, storage_offset: _int | None = None, size: Sequence[_int] | None = None, *stride: _int) -> Tensor: ...
    def sgn(self, *, out: Tensor | None = None) -> Tensor:
        """x / |x|, and 0 where x is 0."""
    def sgn_(self) -> Tensor:
        """x / |x|, and 0 where x is 0."""
    def share_memory_(self) -> Tensor:
        """Move the storage to memory that processes forked afterwards share."""
    def short(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(int16)."""
    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sign(self, *, out: Tensor | None = None) -> Tensor:
        """-1, 0 or 1 by the sign of each element."""
    def sign_(self) -> Tensor:
        """-1, 0 or 1 by the sign of each element."""
    def signbit(self, *, out: Tensor | None = None) -> Tensor:
        """Whether the sign bit is set."""
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
        """A copy in which what slice() shows is replaced by `src`."""
    def slogdet(self, *, out: Sequence[Tensor] | None = None) -> _return_slogdet:
        """Determinants as sign (of complex ones: phase) and logarithm of the magnitude."""
    def softmax(self, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Exponentials along `dim`, divided by their sum."""
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_sort:
        """Elements in order along `dim`, and where each was; the order of equal ones is kept."""
    @overload
    def sort(self, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Sequence[Tensor] | None = None) -> _return_sort_stable: ...
    @overload
    def split(self, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Pieces of a given size, or of the sizes in a list, along a dimension, as a tuple of views."""
    @overload
    def split(self, split_size_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def split(self, split_size: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Pieces of the given sizes along a dimension."""
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
        """Without the dimensions of size 1."""
    @overload
    def squeeze(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze(self, dim: Sequence[_int]) -> Tensor: ...
    @overload
    def squeeze(self, *dim: _int) -> Tensor: ...
    @overload
    def squeeze_(self) -> Tensor:
        """Without the dimensions of size 1."""
    @overload
    def squeeze_(self, dim: _int) -> Tensor: ...
    @overload
    def squeeze_(self, dim: Sequence[_int]) -> Tensor: ...
    @overload
    def squeeze_(self, *dim: _int) -> Tensor: ...
    @overload
    def std(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
        """Standard deviation over `dim`: the root of `var`."""
    @overload
    def std(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def std(self, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def std_mean(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
        """Standard deviation and mean over `dim`."""
    @overload
    def std_mean(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
    @overload
    def std_mean(self, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
        """Transforms of the frames of a signal [..., points]: [..., frequencies, frames]."""
    def sub(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """input - alpha * other; bool is an error."""
    def sub_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """input - alpha * other; bool is an error."""
    def subtract(self, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
        """input - alpha * other; bool is an error."""
    def subtract_(self, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
        """input - alpha * other; bool is an error."""
    def sum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Sum over `dim` (all dimensions unless given); integers sum to int64."""
    @overload
    def sum_to_size(self, size: Sequence[_int]) -> Tensor:
        """Sum over the dimensions that broadcasting `size` to the input's shape would repeat."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor: ...
    def svd(self, some: _bool = True, compute_uv: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_svd:
        """Matrices as U @ diag(S) @ V.mH; reduced with `some`."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """transpose() with NumPy's names."""
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor:
        """transpose() with NumPy's names."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions exchanged."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions exchanged."""
    def t(self) -> Tensor:
        """A matrix transposed; fewer dimensions stay as they are."""
    def t_(self) -> Tensor:
        """A matrix transposed; fewer dimensions stay as they are."""
    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Elements by their position in a row of all."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """gather() with broadcasting."""
    def tan(self, *, out: Tensor | None = None) -> Tensor:
        """The tangent."""
    def tan_(self) -> Tensor:
        """The tangent."""
    def tanh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """The hyperbolic tangent."""
    @overload
    def tensor_split(self, indices_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """A number of pieces of nearly one size, or the pieces between indices."""
    @overload
    def tensor_split(self, indices_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    @overload
    def tensor_split(self, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
    def threshold_(self, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
        """x where it is above the threshold, else `value`."""
    @overload
    def tile(self, dims: Sequence[_int]) -> Tensor:
        """repeat(), for any number of repeats."""
    @overload
    def tile(self, *dims: _int) -> Tensor: ...
    @overload
    def to(self, device: _device | _str | _int | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """With another device, dtype or memory format; the tensor itself where nothing changes and copy is false."""
    @overload
    def to(self, dtype: _dtype, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    @overload
    def to(self, other: Tensor, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_topk:
        """The `k` largest (or smallest) elements along `dim`, in order, and where they are."""
    def trace(self, *, out: Tensor | None = None) -> Tensor:
        """Sum of the diagonal of a matrix."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions exchanged."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions exchanged."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_triangular_solve:
        """Solutions of A X = input for triangular matrices A, and A itself."""
    def tril(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The elements of matrices on and below a diagonal, 0 elsewhere."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """The elements of matrices on and below a diagonal, 0 elsewhere."""
    def triu(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The elements of matrices on and above a diagonal, 0 elsewhere."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """The elements of matrices on and above a diagonal, 0 elsewhere."""
    def true_divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def true_divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
    def trunc(self, *, out: Tensor | None = None) -> Tensor:
        """Each element with its fraction cut off."""
    def trunc_(self) -> Tensor:
        """Each element with its fraction cut off."""
    def type(self, dtype: Any | None = None, non_blocking: _bool = False) -> Any:
        """The name of the tensor's type, or the tensor with another dtype."""
    def type_as(self, other: Tensor) -> Tensor:
        """With the dtype and on the device of another tensor."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """All indices of a dimension, as a tuple of views without it."""
    @overload
    def unflatten(self, dim: _int, sizes: Sequence[_int]) -> Tensor:
        """One dimension as several; one size may be -1."""
    @overload
    def unflatten(self, dim: _int, *sizes: _int) -> Tensor: ...
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Sliding windows of a dimension, as a new last dimension."""
    def uniform_(self, from_: _float = 0.0, to: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Fill with values uniform in [from, to)."""
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """The different values, or the different slices along `dim`."""
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """Values (or slices along `dim`) that differ from the one before."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """chunk()."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """split()."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """split_with_sizes()."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """With a new dimension of size 1 at `dim`."""
    def unsqueeze_(self, dim: _int) -> Tensor:
        """With a new dimension of size 1 at `dim`."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
        """Variance over `dim`, divided by N - correction (1 unless given)."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def var(self, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def var_mean(self, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
        """Variance and mean over `dim`."""
    @overload
    def var_mean(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
    @overload
    def var_mean(self, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Dot product of two vectors, the first conjugated."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor:
        """The same elements in another shape, without a copy; one size may be -1."""
    @overload
    def view(self, *size: _int) -> Tensor: ...
    @overload
    def view(self, dtype: _dtype) -> Tensor: ...
    def view_as(self, other: Tensor) -> Tensor:
        """view() in the shape of another tensor."""
    @overload
    def vsplit(self, indices_or_sections: _int) -> tuple[Tensor, ...]:
        """Equal sections, or the pieces between indices, along the rows."""
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
        """The tensor where the condition holds, `other` elsewhere."""
    def xlogy(self, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
        """input * log(other), and 0 where input is 0."""
    def xlogy_(self, other: Tensor | _Number) -> Tensor:
        """input * log(other), and 0 where input is 0."""
    def zero(self) -> Tensor:
        """All elements set to 0."""
    def zero_(self) -> Tensor:
        """All elements set to 0."""

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
