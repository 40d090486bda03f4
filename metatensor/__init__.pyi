# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from metatensor import (
    amp as amp,
    analysis as analysis,
    array_api as array_api,
    autograd as autograd,
    checkpoint as checkpoint,
    data as data,
    deferred as deferred,
    devices as devices,
    distributed as distributed,
    distributions as distributions,
    fft as fft,
    func as func,
    interchange as interchange,
    library as library,
    linalg as linalg,
    masked as masked,
    nn as nn,
    ops as ops,
    optim as optim,
    plugins as plugins,
    program as program,
    rules as rules,
    serialization as serialization,
    signal as signal,
    special as special,
    testing as testing,
    utils as utils,
)
from metatensor._core.device import Device as _device
from metatensor._core.device import get_default_device as get_default_device, set_default_device as set_default_device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.dtype import (
    can_cast as can_cast,
    get_default_dtype as get_default_dtype,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
)
from metatensor._core.errors import DataDependentError as DataDependentError
from metatensor._core.formats import LayoutTag as _layout
from metatensor._core.formats import MemoryFormatTag as _memory_format
from metatensor._core.formats import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    jagged as jagged,
    preserve_format as preserve_format,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from metatensor._core.modes import DispatchMode as DispatchMode
from metatensor._core.random import Generator as Generator, Generator as _Generator
from metatensor._core.random import (
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from metatensor._core.size import Size as Size
from metatensor._core.spec import Spec as Spec
from metatensor._core.storage import Storage as _Storage
from metatensor._core.tensor import Tensor as Tensor, _Number
from metatensor._core.thread import (
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from metatensor.autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from metatensor._core.limits import finfo as finfo, iinfo as iinfo
from metatensor.interchange.dlpack import from_dlpack as from_dlpack
from metatensor.interchange.arrays import from_numpy as from_numpy, frombuffer as frombuffer
from metatensor._core.tensor_str import set_printoptions as set_printoptions
from metatensor._version import __version__ as __version__
from metatensor.checkpoint import load as load
from metatensor.checkpoint import load_into as load_into
from metatensor.checkpoint import save as save
from metatensor.deferred import (
    deferred_init as deferred_init,
    dematerialize as dematerialize,
    is_deferred as is_deferred,
    materialize as materialize,
    materialize_slice as materialize_slice,
)
from metatensor.deferred.fake import FakeTensorMode as FakeTensorMode
from metatensor.deferred.faithful import to_meta as to_meta
from metatensor.deferred.unresolved import assert_materialized as assert_materialized
from metatensor.deferred.unresolved import assert_no_materialization as assert_no_materialization
from metatensor.library import op as op
from metatensor.amp import autocast as autocast
from metatensor.func import vmap as vmap

device = _device
dtype = _dtype
layout = _layout
memory_format = _memory_format
UntypedStorage = _Storage

e: _float
inf: _float
nan: _float
pi: _float
newaxis: None

def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which tensors of all these shapes broadcast, as a Size."""

def is_tensor(obj: object) -> _bool:
    """Whether `obj` is a Tensor."""

def is_storage(obj: object) -> _bool:
    """Whether `obj` is a storage."""

bfloat16: _dtype
bits16: _dtype
bits1x8: _dtype
bits2x4: _dtype
bits4x2: _dtype
bits8: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
chalf: _dtype
complex128: _dtype
complex32: _dtype
complex64: _dtype
double: _dtype
float: _dtype
float16: _dtype
float32: _dtype
float4_e2m1fn_x2: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
half: _dtype
int: _dtype
int1: _dtype
int16: _dtype
int2: _dtype
int3: _dtype
int32: _dtype
int4: _dtype
int5: _dtype
int6: _dtype
int64: _dtype
int7: _dtype
int8: _dtype
long: _dtype
qint32: _dtype
qint8: _dtype
quint2x4: _dtype
quint4x2: _dtype
quint8: _dtype
short: _dtype
uint1: _dtype
uint16: _dtype
uint2: _dtype
uint3: _dtype
uint32: _dtype
uint4: _dtype
uint5: _dtype
uint6: _dtype
uint64: _dtype
uint7: _dtype
uint8: _dtype

class _return__linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

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

class _return_histogramdd(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]

class _return_histogramdd_edges(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]

class _return_kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor

class _return_lu_unpack(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

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

def _block_diag(tensors: Sequence[Tensor]) -> Tensor: ...
def _clone_strided(input: Tensor) -> Tensor: ...
def _conj(input: Tensor) -> Tensor:
    """A view that reads conjugated."""
def _fft_c2c(input: Tensor, dim: _int | Sequence[_int], normalization: _int, forward: _bool, *, out: Tensor | None = None) -> Tensor:
    """Transforms of complex numbers; normalization 1 divides by the root of their number, 2 by their number."""
def _fft_c2r(input: Tensor, dim: _int | Sequence[_int], normalization: _int, last_dim_size: _int, *, out: Tensor | None = None) -> Tensor:
    """Inverse transforms, whose real results have size `last_dim_size` in the last dimension, of the half that tells the other."""
def _fft_r2c(input: Tensor, dim: _int | Sequence[_int], normalization: _int, onesided: _bool, *, out: Tensor | None = None) -> Tensor:
    """Transforms of real numbers: all results, or in the last dimension just the half that tells the other."""
def _from_host(data: Any, size: Sequence[_int], stride: Sequence[_int], dtype: _dtype, device: _device | _str | _int | None = None) -> Tensor:
    """A tensor of bytes that are on the host."""
def _grouped_mm(input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None) -> Tensor:
    """Products of groups of rows, columns or both, that end at `offs`, with a matrix each."""
@overload
def _histogramdd_bin_edges(input: Tensor, bins: Sequence[_int], *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> tuple[Tensor, ...]:
    """The edges of bins of equal width for each column of points."""
@overload
def _histogramdd_bin_edges(input: Tensor, *bins: _int, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> tuple[Tensor, ...]: ...
@overload
def _histogramdd_from_bin_cts(input: Tensor, bins: Sequence[_int], *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> Tensor:
    """How many points, or how much weight, lies in each of some bins of equal width."""
@overload
def _histogramdd_from_bin_cts(input: Tensor, *bins: _int, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> Tensor: ...
def _histogramdd_from_bin_tensors(input: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: _bool = False) -> Tensor:
    """How many points, or how much weight, lies between given edges."""
@overload
def _index(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int]) -> Tensor:
    """Elements at the positions that index tensors name along dimensions: x[i, :, j]."""
@overload
def _index(input: Tensor, indices: Sequence[Tensor], *dims: _int) -> Tensor: ...
def _index_put_(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int], values: Tensor) -> Tensor:
    """Write values to the positions that index tensors name."""
def _index_put_accumulate_(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int], values: Tensor) -> Tensor:
    """Add values to the positions that index tensors name."""
def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two int8 matrices in int32."""
def _linalg_lstsq(input: Tensor, b: Tensor, rcond: _float | None, driver: _str) -> _return__linalg_lstsq:
    """linalg.lstsq, with the residuals also of matrices that lack full rank."""
@overload
def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`native_batch_norm` with running statistics, or without them."""
@overload
def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
def _neg_view(input: Tensor) -> Tensor:
    """A view that reads negated."""
def _overlap_add(input: Tensor, step: _int) -> Tensor:
    """Frames written over each other at distances of `step`, their values added up."""
def _repeat_interleave(input: Tensor, repeats: _int, dim: _int, output_size: _int) -> Tensor: ...
def _repeat_interleave_by(input: Tensor, repeats: Tensor, dim: _int, output_size: _int) -> Tensor: ...
def _sample_dirichlet(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Draw from the Dirichlet distribution whose concentrations lie along the last dimension."""
def _scaled_mm(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype: _dtype | None = None, use_fast_accum: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Product of two 8-bit floating-point matrices, each times its scale."""
def _standard_gamma(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Draw from the gamma distribution of rate 1, with the shape parameter in each element."""
@overload
def _to_copy(input: Tensor, dtype: _dtype, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A copy with another dtype, device or memory format."""
@overload
def _to_copy(input: Tensor, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def _unravel_index(indices: Tensor, shape: Sequence[_int]) -> Tensor: ...
@overload
def _unravel_index(indices: Tensor, *shape: _int) -> Tensor: ...
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of each element."""
def abs_(input: Tensor) -> Tensor:
    """The magnitude of each element."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of each element."""
def absolute_(input: Tensor) -> Tensor:
    """The magnitude of each element."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse cosine."""
def acos_(input: Tensor) -> Tensor:
    """The inverse cosine."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
def acosh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic cosine."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over as many windows as output_size asks for."""
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima over as many windows as output_size asks for, and where they stand."""
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other."""
def add_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """input + alpha * other."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * the sum of all batch1[i] @ batch2[i]."""
def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """beta * input + alpha * the sum of all batch1[i] @ batch2[i]."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
    """input + value * tensor1 / tensor2; two integer tensors are an error."""
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """input + value * tensor1 / tensor2; two integer tensors are an error."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
    """input + value * tensor1 * tensor2."""
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, and conjugated."""
def affine_grid_generator(theta: Tensor, size: Any, align_corners: _bool) -> Tensor:
    """affine_grid under its older name."""
def alias(input: Tensor) -> Tensor:
    """A view of everything."""
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of alias()."""
def all(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether all elements along `dim` are true: bool (uint8 for uint8)."""
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    """Whether |input - other| <= atol + rtol * |other| everywhere: a bool."""
def alpha_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations (Klambauer et al., 2017)."""
def alpha_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations (Klambauer et al., 2017)."""
def amax(input: Tensor, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Largest element over `dim` (all dimensions unless given)."""
def amin(input: Tensor, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Smallest element over `dim` (all dimensions unless given)."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Sequence[Tensor] | None = None) -> _return_aminmax:
    """Smallest and largest element over one dimension, or over all."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The argument of each element, in radians."""
def any(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether any element along `dim` is true: bool (uint8 for uint8)."""
@overload
def arange(end: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """start, start + step, ... up to but not including end."""
@overload
def arange(start: _Number, end: _Number, step: _Number = 1, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse cosine."""
def arccos_(input: Tensor) -> Tensor:
    """The inverse cosine."""
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
def arccosh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic cosine."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse sine."""
def arcsin_(input: Tensor) -> Tensor:
    """The inverse sine."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine."""
def arcsinh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic sine."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse tangent."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (other, input), in radians."""
def arctan2_(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, input), in radians."""
def arctan_(input: Tensor) -> Tensor:
    """The inverse tangent."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def arctanh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the largest element along `dim`, or in the flattened input: int64."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the smallest element along `dim`, or in the flattened input: int64."""
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Indices that sort along `dim`: int64."""
@overload
def argsort(input: Tensor, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor:
    """nonzero()."""
def as_strided(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """The storage seen with other sizes, strides and offset, all in elements."""
def as_strided_(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """The storage seen with other sizes, strides and offset, all in elements."""
def as_strided_copy(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """A copy of as_strided()."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """A copy in which what as_strided() shows is replaced by `src`."""
def as_tensor(data: Any | None, dtype: _dtype | None = None, device: _device | _str | _int | None = None) -> Tensor:
    """`data` as a tensor, without a copy where that is possible."""
def asarray(obj: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, copy: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """as_tensor() with a choice whether to copy."""
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse sine."""
def asin_(input: Tensor) -> Tensor:
    """The inverse sine."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine."""
def asinh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic sine."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse tangent."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (other, input), in radians."""
def atan2_(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, input), in radians."""
def atan_(input: Tensor) -> Tensor:
    """The inverse tangent."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def atanh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
@overload
def atleast_1d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views with at least 1 dimension; of one tensor or of several."""
@overload
def atleast_1d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views with at least 2 dimensions; of one tensor or of several."""
@overload
def atleast_2d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views with at least 3 dimensions; of one tensor or of several."""
@overload
def atleast_3d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The average of each window of (N, C, L)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), batched."""
def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), batched."""
@overload
def bartlett_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """A triangle from 0 to 1 to 0."""
@overload
def bartlett_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """As nn.functional.batch_norm, with PyTorch's native order of arguments."""
@overload
def bernoulli(input: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability in each element, else 0; or with probability p."""
@overload
def bernoulli(input: Tensor, p: _float, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As nn.functional.bilinear, with PyTorch's native order of arguments."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: _int = 1) -> Tensor:
    """As nn.functional.binary_cross_entropy_with_logits, with PyTorch's native order of arguments."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """How often, or with how much weight, each integer from 0 up occurs."""
def binomial(count: Tensor, prob: Tensor, generator: _Generator | None = None) -> Tensor:
    """Successes in `count` trials of probability `prob`."""
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input & other."""
def bitwise_and_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input & other."""
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input << other: input * 2**other, with the bits that fall out lost."""
def bitwise_left_shift_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input << other: input * 2**other, with the bits that fall out lost."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each bit inverted; of bool the logical not."""
def bitwise_not_(input: Tensor) -> Tensor:
    """Each bit inverted; of bool the logical not."""
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input | other."""
def bitwise_or_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input | other."""
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input >> other: the floor of input / 2**other."""
def bitwise_right_shift_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input >> other: the floor of input / 2**other."""
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input ^ other."""
def bitwise_xor_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input ^ other."""
@overload
def blackman_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """A sum of three cosines."""
@overload
def blackman_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Matrices along the diagonal of one."""
@overload
def block_diag(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> Tensor: ...
def bmm(input: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Products of two batches of matrices."""
@overload
def broadcast_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the tensors, each expanded to the shape they broadcast to."""
@overload
def broadcast_tensors(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor:
    """expand() as a function."""
@overload
def broadcast_to(input: Tensor, *size: _int) -> Tensor: ...
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """Which interval between sorted boundaries a value falls in."""
@overload
def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    """All combinations of one value of each vector, as rows."""
@overload
def cartesian_prod(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors one after another along a dimension."""
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: Any | None = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """Distance of each row of `x1` to each row of `x2`: [..., n, k] and [..., m, k] to [..., n, m]."""
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least integer not below each element."""
def ceil_(input: Tensor) -> Tensor:
    """The least integer not below each element."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
def celu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
@overload
def chain_matmul(matrices: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of a chain of matrices, in the cheapest order."""
@overload
def chain_matmul(matrix1: Tensor, matrix2: Tensor | None = None, matrix3: Tensor | None = None, matrix4: Tensor | None = None, matrix5: Tensor | None = None, matrix6: Tensor | None = None, matrix7: Tensor | None = None, matrix8: Tensor | None = None, matrix9: Tensor | None = None, matrix10: Tensor | None = None, matrix11: Tensor | None = None, matrix12: Tensor | None = None, matrix13: Tensor | None = None, matrix14: Tensor | None = None, matrix15: Tensor | None = None, matrix16: Tensor | None = None, matrix17: Tensor | None = None, matrix18: Tensor | None = None, matrix19: Tensor | None = None, matrix20: Tensor | None = None, matrix21: Tensor | None = None, matrix22: Tensor | None = None, matrix23: Tensor | None = None, matrix24: Tensor | None = None, matrix25: Tensor | None = None, matrix26: Tensor | None = None, matrix27: Tensor | None = None, matrix28: Tensor | None = None, matrix29: Tensor | None = None, matrix30: Tensor | None = None, matrix31: Tensor | None = None, matrix32: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Cholesky factors of positive definite matrices, as linalg.cholesky."""
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Inverses of matrices, given as their Cholesky factors."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = input from the Cholesky factors of A, `input2`."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of one size, the last one perhaps smaller."""
def clamp(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """Each element brought into [min, max]; NaN stays."""
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """Each element brought into [min, max]; NaN stays."""
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Each element, or max if less."""
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor:
    """Each element, or max if less."""
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Each element, or min if greater."""
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor:
    """Each element, or min if greater."""
def clip(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """Each element brought into [min, max]; NaN stays."""
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """Each element brought into [min, max]; NaN stays."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy, in the same order of dimensions unless told."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Vectors as columns, and matrices, side by side."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All combinations of r values of a vector, as rows."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i * imag, of two float tensors of one dtype."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors one after another along a dimension."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors one after another along a dimension."""
def conj(input: Tensor) -> Tensor:
    """Complex conjugate, as a view; real tensors as they are."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate, written out; of a real tensor the tensor itself."""
def conj_physical_(input: Tensor) -> Tensor:
    """The conjugate, written out; of a real tensor the tensor itself."""
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _Number = 0) -> Tensor:
    """Extend dimensions (the last one first) by (before, after) elements of one value."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, L) with weight (out, C / groups, kernel)."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, H, W) with weight (out, C / groups, kernel, kernel)."""
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, D, H, W) with weight (out, C / groups, kernel, kernel, kernel)."""
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """Convolution over time of (T, B, C) with weight (kernel, C, out)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Transposed convolution, the map of conv1d's gradient: weight (C, out / groups, kernel)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Transposed convolution, the map of conv2d's gradient: weight (C, out / groups, kernel, kernel)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """Transposed convolution, the map of conv3d's gradient."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[_int], padding: Sequence[_int], dilation: Sequence[_int], transposed: _bool, output_padding: Sequence[_int], groups: _int) -> Tensor:
    """Convolution, or its transpose, with as many spatial dimensions as the weight has."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of input with the sign of other."""
def copysign_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """The magnitude of input with the sign of other."""
def corrcoef(input: Tensor) -> Tensor:
    """Correlation of variables (rows) over observations (columns), from -1 to 1."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine."""
def cos_(input: Tensor) -> Tensor:
    """The cosine."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine."""
def cosh_(input: Tensor) -> Tensor:
    """The hyperbolic cosine."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 1) -> Tensor:
    """As nn.functional.cosine_embedding_loss, with PyTorch's native order of arguments."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along dim."""
def count_nonzero(input: Tensor, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """Number of elements along `dim` that are not zero: int64."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariance of variables (rows) over observations (columns), counted or weighted."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of 3 elements along `dim`, or along the first dimension of that size."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: _int = 0, reduction: _int = 1, zero_infinity: _bool = False) -> Tensor:
    """As nn.functional.ctc_loss, with PyTorch's native order of arguments."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int = 0, reduction: _int = 1, zero_infinity: _bool = False) -> Tensor: ...
def cummax(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummax:
    """Largest element so far along `dim`, and where it was last."""
def cummin(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummin:
    """Smallest element so far along `dim`, and where it was last."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Products of the elements up to each one along `dim`; integers multiply to int64."""
def cumprod_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """Products of the elements up to each one along `dim`; integers multiply to int64."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sums of the elements up to each one along `dim`; integers sum to int64."""
def cumsum_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """Sums of the elements up to each one along `dim`; integers sum to int64."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """Integrals of samples `y` up to each one along `dim`."""
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """Degrees to radians."""
def det(input: Tensor) -> Tensor:
    """Determinants."""
def detach(input: Tensor) -> Tensor:
    """The same elements, without a gradient."""
def detach_(input: Tensor) -> Tensor:
    """Forget the gradient of this tensor."""
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of detach()."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Vectors as diagonals of matrices."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """All elements as the diagonal of a matrix."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A diagonal of the matrices in dim1 and dim2, as the last dimension."""
def diagonal_copy(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of diagonal()."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy in which what diagonal() shows is replaced by `src`."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, taken `n` times."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithmic derivative of gamma."""
def digamma_(input: Tensor) -> Tensor:
    """The logarithmic derivative of gamma."""
def dist(input: Tensor, other: Tensor, p: _Number = 2, *, out: Tensor | None = None) -> Tensor:
    """The `p`-norm of input - other."""
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def div_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def divide_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors."""
def dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
def dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
@overload
def dsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Equal sections, or the pieces between indices, along the depth."""
@overload
def dsplit(input: Tensor, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat() along the third dimension."""
@overload
def einsum(equation: _str, operands: Sequence[Tensor]) -> Tensor:
    """Sum of products of operands by an equation such as 'bij,bjk->bik'; '...' stands for further dimensions."""
@overload
def einsum(equation: _str, operand1: Tensor, operand2: Tensor | None = None, operand3: Tensor | None = None, operand4: Tensor | None = None, operand5: Tensor | None = None, operand6: Tensor | None = None, operand7: Tensor | None = None, operand8: Tensor | None = None, operand9: Tensor | None = None, operand10: Tensor | None = None, operand11: Tensor | None = None, operand12: Tensor | None = None, operand13: Tensor | None = None, operand14: Tensor | None = None, operand15: Tensor | None = None, operand16: Tensor | None = None, operand17: Tensor | None = None, operand18: Tensor | None = None, operand19: Tensor | None = None, operand20: Tensor | None = None, operand21: Tensor | None = None, operand22: Tensor | None = None, operand23: Tensor | None = None, operand24: Tensor | None = None, operand25: Tensor | None = None, operand26: Tensor | None = None, operand27: Tensor | None = None, operand28: Tensor | None = None, operand29: Tensor | None = None, operand30: Tensor | None = None, operand31: Tensor | None = None) -> Tensor: ...
@overload
def einsum(operand: Tensor, sublist1: Any, sublist2: Any | None = None, sublist3: Any | None = None, sublist4: Any | None = None, sublist5: Any | None = None, sublist6: Any | None = None, sublist7: Any | None = None, sublist8: Any | None = None, sublist9: Any | None = None, sublist10: Any | None = None, sublist11: Any | None = None, sublist12: Any | None = None, sublist13: Any | None = None, sublist14: Any | None = None, sublist15: Any | None = None, sublist16: Any | None = None, sublist17: Any | None = None, sublist18: Any | None = None, sublist19: Any | None = None, sublist20: Any | None = None, sublist21: Any | None = None, sublist22: Any | None = None, sublist23: Any | None = None, sublist24: Any | None = None, sublist25: Any | None = None, sublist26: Any | None = None, sublist27: Any | None = None, sublist28: Any | None = None, sublist29: Any | None = None, sublist30: Any | None = None, sublist31: Any | None = None) -> Tensor: ...
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of weight (rows, width) at the indices: shape (*indices, width)."""
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float) -> Tensor:
    """Shrink the rows at the indices to a norm of at most max_norm, in place."""
@overload
def empty(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Tensor | None = None) -> Tensor:
    """A tensor with arbitrary values."""
@overload
def empty(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Tensor | None = None) -> Tensor: ...
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape, dtype, device and strides of another, with arbitrary values."""
@overload
def empty_permuted(size: Sequence[_int], physical_layout: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Arbitrary values, dense, with the dimensions in memory in a given order."""
@overload
def empty_permuted(size: Sequence[_int], *physical_layout: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def empty_strided(size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Arbitrary values, with given strides."""
@overload
def empty_strided(size: Sequence[_int], *stride: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input == other."""
def eq_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input == other."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether two tensors have the same shape and the same elements: a bool."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""
def erf_(input: Tensor) -> Tensor:
    """The error function."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 - erf(x), exact where erf is near 1."""
def erfc_(input: Tensor) -> Tensor:
    """1 - erf(x), exact where erf is near 1."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of erf."""
def erfinv_(input: Tensor) -> Tensor:
    """The inverse of erf."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e**x."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2**x."""
def exp2_(input: Tensor) -> Tensor:
    """2**x."""
def exp_(input: Tensor) -> Tensor:
    """e**x."""
@overload
def expand_copy(input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Tensor | None = None) -> Tensor:
    """A copy of expand()."""
@overload
def expand_copy(input: Tensor, *size: _int, implicit: _bool = False, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) - 1, exact near 0."""
def expm1_(input: Tensor) -> Tensor:
    """exp(x) - 1, exact near 0."""
@overload
def eye(n: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """An identity matrix, of n rows and m columns."""
@overload
def eye(n: _int, m: _int | None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels."""
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels."""
def feature_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels."""
def feature_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels."""
def fill(input: Tensor, value: Tensor | _Number) -> Tensor:
    """All elements set to a number or a 0-d tensor."""
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor:
    """All elements set to a number or a 0-d tensor."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element with its fraction cut off."""
def fix_(input: Tensor) -> Tensor:
    """Each element with its fraction cut off."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """The dimensions from start_dim to end_dim as one."""
@overload
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """The order along dimensions reversed."""
@overload
def flip(input: Tensor, *dims: _int) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64, or complex128."""
def float_power_(input: Tensor | _Number, exponent: Tensor | _Number) -> Tensor:
    """input ** exponent in float64, or complex128."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest integer not above each element."""
def floor_(input: Tensor) -> Tensor:
    """The greatest integer not above each element."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The floor of input / other."""
def floor_divide_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """The floor of input / other."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greater of two elements; of a number and NaN the number."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The lesser of two elements; of a number and NaN the number."""
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """What division towards zero leaves: of the dividend's sign, as in C."""
def fmod_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """What division towards zero leaves: of the dividend's sign, as in C."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x - trunc(x)."""
def frac_(input: Tensor) -> Tensor:
    """x - trunc(x)."""
def frexp(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_frexp:
    """Mantissa (0.5 <= |m| < 1) and int32 exponent with x = m * 2**e."""
def full(size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Filled with a number, whose dtype the tensor has unless told."""
def full_like(input: Tensor, fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor like another, filled with a number."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """At each place of the index, the element that it names along a dimension."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input >= other."""
def ge_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input >= other."""
def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_geqrf:
    """QR factors as LAPACK has them: R over Householder vectors, and the vectors' factors."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Outer product of two vectors."""
def get_device(input: Tensor) -> _int:
    """The index of the device, or -1."""
def gradient(input: Tensor, *, spacing: Any | None = 1, dim: Any | None = None, edge_order: _int = 1) -> tuple[Tensor, ...]:
    """Slopes of samples along each of `dim`, `spacing` apart or at points given for each."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input > other."""
def greater_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input > other."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input >= other."""
def greater_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input >= other."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """grid_sample with modes by number."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """grid_sample of (N, C, H, W) with modes by number."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """grid_sample of (N, C, D, H, W) with modes by number."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """As nn.functional.group_norm, with PyTorch's native order of arguments."""
@overload
def gru(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Layers of gated recurrent units (Cho et al., 2014) along a sequence."""
@overload
def gru(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of `gru`: the next hidden state."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input > other."""
def gt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input > other."""
@overload
def hamming_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """alpha - beta * cos(x), which does not quite reach 0."""
@overload
def hamming_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hann_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """One period of a raised cosine."""
@overload
def hann_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x, and 0 where |x| <= lambd."""
def hash_tensor(input: Tensor, dim: _int | Sequence[_int] | None = (), *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None) -> Tensor:
    """Exclusive or of the 64-bit patterns of the elements over `dim`: uint64."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below zero, 1 above, and `values` at zero."""
def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, and `values` at zero."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 1) -> Tensor:
    """As nn.functional.hinge_embedding_loss, with PyTorch's native order of arguments."""
def histc(input: Tensor, bins: _int = 100, min: _Number = 0, max: _Number = 0, *, out: Tensor | None = None) -> Tensor:
    """How many elements lie in each of some bins of equal width from `min` to `max`, or over all where these are equal."""
@overload
def histogram(input: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram:
    """How many elements, or how much weight, lies between given edges or in some bins of equal width; and the edges."""
@overload
def histogram(input: Tensor, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram_bin_ct: ...
@overload
def histogramdd(input: Tensor, bins: _int | Sequence[_int], range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> _return_histogramdd:
    """How many points (the last dimension) lie in each bin, with as many dimensions as points have; and the edges."""
@overload
def histogramdd(input: Tensor, bins: Sequence[Tensor], range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> _return_histogramdd_edges: ...
@overload
def hsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Equal sections, or the pieces between indices, along the columns."""
@overload
def hsplit(input: Tensor, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat() along the columns."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sqrt(input**2 + other**2), without overflow on the way."""
def hypot_(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input**2 + other**2), without overflow on the way."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of order 0."""
def i0_(input: Tensor) -> Tensor:
    """The modified Bessel function of order 0."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other)."""
def igamma_(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other)."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q(input, other)."""
def igammac_(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function Q(input, other)."""
def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """Slices of the source added to those of a dimension that a vector names."""
def index_add_(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
    """Slices of the source added to those of a dimension that a vector names."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Slices of the source written to those of a dimension that a vector names."""
def index_copy_(input: Tensor, dim: _int, index: Tensor, source: Tensor) -> Tensor:
    """Slices of the source written to those of a dimension that a vector names."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """Slices of a dimension that a vector names, filled with a number."""
def index_fill_(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """Slices of a dimension that a vector names, filled with a number."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy with values written to the positions that a tuple of index tensors names."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """Write values to the positions that a tuple of index tensors names."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """Slices of the source reduced into those that a vector names: prod, mean, amax or amin."""
def index_reduce_(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """Slices of the source reduced into those that a vector names: prod, mean, amax or amin."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The indices of a dimension that a vector names."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sum of products over the last dimensions."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """As nn.functional.instance_norm, with PyTorch's native order of arguments."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses. LinAlgError for singular matrices."""
def is_complex(input: Tensor) -> _bool:
    """Whether the dtype is complex."""
def is_conj(input: Tensor) -> _bool:
    """Whether the elements read conjugated."""
def is_floating_point(input: Tensor) -> _bool:
    """Whether the dtype is a real float."""
def is_inference(input: Tensor) -> _bool:
    """Whether made in inference mode."""
def is_neg(input: Tensor) -> _bool:
    """Whether the elements read negated."""
def is_nonzero(input: Tensor) -> _bool:
    """Whether the only element of a tensor is true: a bool."""
def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Whether two shapes are equal."""
def is_signed(input: Tensor) -> _bool:
    """Whether the dtype has negative values."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """|input - other| <= atol + rtol * |other|."""
def isfinite(input: Tensor) -> Tensor:
    """Whether each element is finite."""
@overload
def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element is among others, or with `invert` is not."""
@overload
def isin(elements: Tensor, test_element: _Number, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def isin(element: _Number, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor: ...
def isinf(input: Tensor) -> Tensor:
    """Whether each element is infinite."""
def isnan(input: Tensor) -> Tensor:
    """Whether each element is NaN."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is -inf."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is +inf."""
def isreal(input: Tensor) -> Tensor:
    """Whether each imaginary part is 0."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
    """The signal of which stft() gives the input, as near as can be: [..., frequencies, frames] to [..., points]."""
@overload
def kaiser_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """A ratio of Bessel functions; the larger `beta`, the narrower."""
@overload
def kaiser_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def kaiser_window(window_length: _int, periodic: _bool, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def kl_div(input: Tensor, target: Tensor, reduction: _int = 1, *, log_target: _bool = False) -> Tensor:
    """As nn.functional.kl_div, with PyTorch's native order of arguments."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: blocks of `other` times each element of `input`."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_kthvalue:
    """The `k`-th smallest element along `dim`, counted from 1, and where it is."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enable: _bool = True) -> Tensor:
    """As nn.functional.layer_norm, with PyTorch's native order of arguments."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * 2**other."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other."""
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input <= other."""
def le_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input <= other."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input + weight * (end - input); the tensors have one dtype."""
def lerp_(input: Tensor, end: Tensor, weight: Tensor | _Number) -> Tensor:
    """input + weight * (end - input); the tensors have one dtype."""
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input < other."""
def less_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input < other."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input <= other."""
def less_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input <= other."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log |gamma(x)|."""
def lgamma_(input: Tensor) -> Tensor:
    """log |gamma(x)|."""
def linspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """`steps` numbers at even distances from start to end, both included."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""
def log10_(input: Tensor) -> Tensor:
    """The logarithm to base 10."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + x), exact near 0."""
def log1p_(input: Tensor) -> Tensor:
    """log(1 + x), exact near 0."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""
def log2_(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
def log_(input: Tensor) -> Tensor:
    """The natural logarithm."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax`, computed without overflow."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow on the way."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(2**input + 2**other), without overflow on the way."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the cumulative sum of exponentials along `dim`."""
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants; NaN where negative."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are nonzero."""
def logical_and_(input: Tensor, other: Tensor) -> Tensor:
    """Whether both elements are nonzero."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is zero."""
def logical_not_(input: Tensor) -> Tensor:
    """Whether each element is zero."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is nonzero."""
def logical_or_(input: Tensor, other: Tensor) -> Tensor:
    """Whether an element is nonzero."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether just one element is nonzero."""
def logical_xor_(input: Tensor, other: Tensor) -> Tensor:
    """Whether just one element is nonzero."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), x first clamped to [eps, 1 - eps] where eps is given."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """log(x / (1 - x)), x first clamped to [eps, 1 - eps] where eps is given."""
def logspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """base to the powers of linspace(start, end, steps)."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of exponentials over `dim`, computed without overflow."""
@overload
def lstm(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of long short-term memory (Hochreiter and Schmidhuber, 1997) along a sequence."""
@overload
def lstm(data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One step of `lstm`: the next hidden state and cell."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input < other."""
def lt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input < other."""
def lu(A: Tensor, pivot: _bool = True, get_infos: _bool = False, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """LU factors in one matrix, and the rows exchanged; with `get_infos` the first zero pivots too."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = input from what lu_factor gives of A."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_lu_unpack:
    """P, L and U of what lu_factor gives."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 1) -> Tensor:
    """As nn.functional.margin_ranking_loss, with PyTorch's native order of arguments."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """`value` where the bool mask holds, the input elsewhere; the two broadcast."""
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """`value` where the bool mask holds, the input elsewhere; the two broadcast."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of the source, in order, written where a mask is true."""
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of the source, in order, written where a mask is true."""
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where a mask is true, in a row."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; the others broadcast, vectors are rows on the left and columns on the right."""
def matrix_exp(input: Tensor) -> Tensor:
    """Exponentials of square matrices."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """Matrices to an integer power; of their inverses for n < 0."""
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest element; with `dim` the largest along it and where it is; with `other` element by element."""
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_max_dim: ...
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, L), and where it stands if return_indices."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """max_pool1d with indices into each row."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, H, W), and where it stands if return_indices."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, D, H, W), and where it stands if return_indices."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greater of two elements; NaN where either is."""
def mean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over `dim` (all dimensions unless given); floating-point and complex only."""
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The median, the lower one of two; with `dim` along it, and where it is."""
@overload
def median(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_median_dim: ...
@overload
def meshgrid(tensors: Sequence[Tensor], *, indexing: _str | None = None) -> tuple[Tensor, ...]:
    """Grids of the vectors' values, as views."""
@overload
def meshgrid(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None, *, indexing: _str | None = None) -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest element; with `dim` the smallest along it and where it is; with `other` element by element."""
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_min_dim: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The lesser of two elements; NaN where either is."""
def mm(input: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_mode:
    """The most frequent value along `dim`, the smallest of several, and where it is last."""
def moveaxis(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """Dimensions moved from the places `source` to `destination`; the others keep their order."""
def movedim(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """Dimensions moved from the places `source` to `destination`; the others keep their order."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements in order along the first dimension."""
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input * other."""
def mul_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input * other."""
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Indices drawn from each row of (unnormalised) probabilities."""
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input * other."""
def multiply_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input * other."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of a matrix and a vector."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def mvlgamma_(input: Tensor, p: _int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """NaN and the infinities replaced: by 0 and the dtype's extremes where nothing is given."""
def nan_to_num_(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """NaN and the infinities replaced: by 0 and the dtype's extremes where nothing is given."""
def nanmean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over `dim` of the elements that are not NaN."""
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The median of the elements that are not NaN."""
@overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_nanmedian_dim: ...
def nanquantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """Quantiles of the elements that are not NaN."""
def nansum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over `dim` with NaN counted as zero."""
@overload
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor:
    """`length` elements of a dimension from `start` on."""
@overload
def narrow(input: Tensor, dim: _int, start: Tensor, length: _int) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of narrow()."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm`, with the mean and the reciprocal of the standard deviation of the batch."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
def native_dropout(input: Tensor, p: _float, train: _bool | None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Dropout and the mask of the elements that were kept."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm`, with the mean and the reciprocal of the standard deviation of each group."""
def native_layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`, with the mean and the reciprocal of the standard deviation that it used."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input != other."""
def ne_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input != other."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x."""
def neg_(input: Tensor) -> Tensor:
    """-x."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x."""
def negative_(input: Tensor) -> Tensor:
    """-x."""
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next float after input in the direction of other."""
def nextafter_(input: Tensor, other: Tensor) -> Tensor:
    """The next float after input in the direction of other."""
def nonzero(input: Tensor, *, as_tuple: _bool = False, out: Tensor | None = None) -> Any:
    """The positions of the elements that are not 0, as rows, or as a tuple of columns."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
    """nonzero() cut or filled up to `size` rows."""
def norm(input: Tensor, p: Any | None = 'fro', dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Vector norm of order `p` over `dim`; 'fro' and 'nuc' over two are matrix norms."""
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """The norm over all dimensions but one, which are kept; over all for dim=-1."""
@overload
def normal(mean: Tensor, std: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Normal, with a mean and a standard deviation for each element."""
@overload
def normal(mean: Tensor, std: _float = 1.0, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: _float, size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: _float, *size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input != other."""
def not_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """input != other."""
def numel(input: Tensor) -> _int:
    """The number of elements."""
@overload
def ones(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Filled with 1."""
@overload
def ones(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape, dtype, device and strides of another, filled with 1."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.householder_product."""
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q @ input3, or input3 @ Q, for the Q of geqrf; with `transpose` its adjoint."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Outer product of two vectors."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of rows: svd_lowrank of A with its columns centred."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows, as in the upper triangle read row by row."""
@overload
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """The dimensions in the order `dims`."""
@overload
def permute(input: Tensor, *dims: _int) -> Tensor: ...
@overload
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """A copy of permute()."""
@overload
def permute_copy(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor:
    """Pseudoinverses; singular values up to rcond * the largest are taken for 0."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
def poisson(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Poisson, with the rate in each element."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int) -> Tensor:
    """As nn.functional.poisson_nll_loss, with PyTorch's native order of arguments."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * exp(i * angle), of two float tensors of one dtype."""
@overload
def polygamma(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma; as a function also polygamma(n, input)."""
@overload
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def polygamma_(input: Tensor, n: _int) -> Tensor:
    """The n-th derivative of digamma; as a function also polygamma(n, input)."""
@overload
def polygamma_(n: _int, input: Tensor) -> Tensor: ...
def positive(input: Tensor) -> Tensor:
    """The tensor itself; bool is an error."""
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent; integers to a negative number are an error."""
def pow_(input: Tensor | _Number, exponent: Tensor | _Number) -> Tensor:
    """input ** exponent; integers to a negative number are an error."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, times weight below 0: one weight, or one for each channel."""
def prod(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Product over one dimension, or over all; integers multiply to int64."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """Elements of the source written to positions in a row of all."""
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """Elements of the source written to positions in a row of all."""
def qr(input: Tensor, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_qr:
    """QR factors, as linalg.qr: reduced with `some`, else complete."""
def quantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """Quantiles along `dim`, or over all; those of several `q` come first."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """Radians to degrees."""
@overload
def rand(size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Uniform in [0, 1)."""
@overload
def rand(*size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def rand_like(input: Tensor, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Uniform in [0, 1), in the shape of input."""
@overload
def randint(high: _int, size: Any, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Integers, uniform from low (0) up to but without high."""
@overload
def randint(low: _int, high: _int, size: Any, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
@overload
def randint_like(input: Tensor, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Integers, uniform from low (0) up to but without high, in the shape of input."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def randn(size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Standard normal."""
@overload
def randn(*size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def randn_like(input: Tensor, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Standard normal, in the shape of input."""
def randperm(n: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """A random permutation of 0 to n - 1."""
def range(start: _Number, end: _Number, step: _Number = 1, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """start, start + step, ... up to and including end. `arange` stops before its end, as Python's range does."""
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
def real(input: Tensor) -> Tensor:
    """The real part, as a view."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / x."""
def reciprocal_(input: Tensor) -> Tensor:
    """1 / x."""
def relu(input: Tensor) -> Tensor:
    """max(x, 0)."""
def relu_(input: Tensor) -> Tensor:
    """max(x, 0)."""
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """What floor division leaves: of the divisor's sign, as in Python."""
def remainder_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """What floor division leaves: of the divisor's sign, as in Python."""
def renorm(input: Tensor, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None) -> Tensor:
    """Scale down the slices along `dim` whose `p`-norm is above `maxnorm` to it."""
def renorm_(input: Tensor, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
    """Scale down the slices along `dim` whose `p`-norm is above `maxnorm` to it."""
@overload
def repeat_interleave(input: Tensor, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Each element (or index of a dimension) several times in a row."""
@overload
def repeat_interleave(input: Tensor, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor: ...
@overload
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy."""
@overload
def reshape(input: Tensor, *shape: _int) -> Tensor: ...
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """resize_() to the sizes of another tensor."""
def resolve_conj(input: Tensor) -> Tensor:
    """A conjugate view written out."""
def resolve_neg(input: Tensor) -> Tensor:
    """A negative view written out."""
def result_type(tensor1: Tensor | _Number, tensor2: Tensor | _Number) -> _dtype:
    """The dtype that arithmetic between two tensors or numbers has."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """As nn.functional.rms_norm, with PyTorch's native order of arguments."""
@overload
def rnn_relu(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Layers of h' = relu(w_ih x + w_hh h) along a sequence."""
@overload
def rnn_relu(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of `rnn_relu`: the next hidden state."""
@overload
def rnn_tanh(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Layers of h' = tanh(w_ih x + w_hh h) along a sequence."""
@overload
def rnn_tanh(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """One step of `rnn_tanh`: the next hidden state."""
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = ()) -> Tensor:
    """Elements shifted around along dimensions; without any, as if in a row."""
@overload
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
    """Rotated by k quarter turns in the plane of two dimensions."""
@overload
def rot90(input: Tensor, k: _int = 1, *dims: _int) -> Tensor: ...
def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Each element rounded to `decimals` places, ties to even."""
def round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """Each element rounded to `decimals` places, ties to even."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat() along the rows; vectors are rows."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """x, times a random slope from [lower, upper] below 0; outside training the middle of the two."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """x, times a random slope from [lower, upper] below 0; outside training the middle of the two."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / sqrt(x)."""
def rsqrt_(input: Tensor) -> Tensor:
    """1 / sqrt(x)."""
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """other - alpha * input; bool is an error."""
def scalar_tensor(s: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """A 0-d tensor of a number."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `src` written to the places that the index names along a dimension."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """The elements of `src` written to the places that the index names along a dimension."""
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: _Number) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str) -> Tensor: ...
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `src` added to the places that the index names along a dimension."""
def scatter_add_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """The elements of `src` added to the places that the index names along a dimension."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """The elements of `src` reduced into the places that the index names: sum, prod, mean, amax or amin."""
def scatter_reduce_(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """The elements of `src` reduced into the places that the index names: sum, prod, mean, amax or amin."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Where values would be inserted in sorted sequences along the last dimension."""
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """One index of a dimension, without that dimension."""
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of select()."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy in which what select() shows is replaced by `src`."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """A scaled elu with the constants of self-normalising networks (Klambauer et al., 2017)."""
def selu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """A scaled elu with the constants of self-normalising networks (Klambauer et al., 2017)."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x / |x|, and 0 where x is 0."""
def sgn_(input: Tensor) -> Tensor:
    """x / |x|, and 0 where x is 0."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of each element."""
def sign_(input: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of each element."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit is set."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sine."""
def sin_(input: Tensor) -> Tensor:
    """The sine."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic sine."""
def sinh_(input: Tensor) -> Tensor:
    """The hyperbolic sine."""
def slice_copy(input: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of slice()."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy in which what slice() shows is replaced by `src`."""
def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_slogdet:
    """Determinants as sign (of complex ones: phase) and logarithm of the magnitude."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Exponentials along `dim`, divided by their sum."""
@overload
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_sort:
    """Elements in order along `dim`, and where each was; the order of equal ones is kept."""
@overload
def sort(input: Tensor, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Sequence[Tensor] | None = None) -> _return_sort_stable: ...
@overload
def split(input: Tensor, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Pieces of a given size, or of the sizes in a list, along a dimension, as a tuple of views."""
@overload
def split(input: Tensor, split_size_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_copy(input: Tensor, split_size: _int, dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Copies of split()."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes along a dimension."""
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Copies of split_with_sizes()."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root."""
def sqrt_(input: Tensor) -> Tensor:
    """The square root."""
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x * x."""
def square_(input: Tensor) -> Tensor:
    """x * x."""
@overload
def squeeze(input: Tensor) -> Tensor:
    """Without the dimensions of size 1."""
@overload
def squeeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
@overload
def squeeze(input: Tensor, *dim: _int) -> Tensor: ...
@overload
def squeeze_(input: Tensor) -> Tensor:
    """Without the dimensions of size 1."""
@overload
def squeeze_(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze_(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
@overload
def squeeze_(input: Tensor, *dim: _int) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of squeeze()."""
@overload
def squeeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *dim: _int, out: Tensor | None = None) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape along a new dimension."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Standard deviation over `dim`: the root of `var`."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`."""
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
    """Transforms of the frames of a signal [..., points]: [..., frequencies, frames]."""
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other; bool is an error."""
def sub_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """input - alpha * other; bool is an error."""
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other; bool is an error."""
def subtract_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """input - alpha * other; bool is an error."""
def sum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over `dim` (all dimensions unless given); integers sum to int64."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_svd:
    """Matrices as U @ diag(S) @ V.mH; reduced with `some`."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of A (less M, where given) to about rank `q`, by random projections and `niter` iterations."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """transpose() with NumPy's names."""
def swapaxes_(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """transpose() with NumPy's names."""
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions exchanged."""
def swapdims_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions exchanged."""
def t(input: Tensor) -> Tensor:
    """A matrix transposed; fewer dimensions stay as they are."""
def t_(input: Tensor) -> Tensor:
    """A matrix transposed; fewer dimensions stay as they are."""
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of t()."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements by their position in a row of all."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """gather() with broadcasting."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent."""
def tan_(input: Tensor) -> Tensor:
    """The tangent."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
def tanh_(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
def tensor(data: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """A new tensor with the values of a number, nested sequences, an array or a tensor."""
@overload
def tensor_split(input: Tensor, indices_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """A number of pieces of nearly one size, or the pieces between indices."""
@overload
def tensor_split(input: Tensor, indices_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """Sum of products over the last `dims` dimensions of `a` and the first of `b`, or over pairs of dimensions."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x where it is above the threshold, else `value`."""
def threshold_(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """x where it is above the threshold, else `value`."""
@overload
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """repeat(), for any number of repeats."""
@overload
def tile(input: Tensor, *dims: _int) -> Tensor: ...
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_topk:
    """The `k` largest (or smallest) elements along `dim`, in order, and where they are."""
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sum of the diagonal of a matrix."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions exchanged."""
def transpose_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions exchanged."""
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of transpose()."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """Integral of samples `y` along `dim`, at points `x` or `dx` apart."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """The same as `trapezoid`."""
def triangular_solve(input: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_triangular_solve:
    """Solutions of A X = input for triangular matrices A, and A itself."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The elements of matrices on and below a diagonal, 0 elsewhere."""
def tril_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The elements of matrices on and below a diagonal, 0 elsewhere."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Row and column numbers, in two rows, of the elements on and below a diagonal."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, reduction: _int = 1) -> Tensor:
    """As nn.functional.triplet_margin_loss, with PyTorch's native order of arguments."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The elements of matrices on and above a diagonal, 0 elsewhere."""
def triu_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The elements of matrices on and above a diagonal, 0 elsewhere."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Row and column numbers, in two rows, of the elements on and above a diagonal."""
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def true_divide_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """input / other, with rounding_mode 'floor' or 'trunc' rounded to integers."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element with its fraction cut off."""
def trunc_(input: Tensor) -> Tensor:
    """Each element with its fraction cut off."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """All indices of a dimension, as a tuple of views without it."""
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Copies of unbind()."""
@overload
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor:
    """One dimension as several; one size may be -1."""
@overload
def unflatten(input: Tensor, dim: _int, *sizes: _int) -> Tensor: ...
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of unfold()."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """The different values, or the different slices along `dim`."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """Values (or slices along `dim`) that differ from the one before."""
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a row as positions along the dimensions of a shape."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """chunk()."""
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """split()."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """split_with_sizes()."""
def unsqueeze(input: Tensor, dim: _int) -> Tensor:
    """With a new dimension of size 1 at `dim`."""
def unsqueeze_(input: Tensor, dim: _int) -> Tensor:
    """With a new dimension of size 1 at `dim`."""
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of unsqueeze()."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """Powers of a vector's values as columns, the highest first unless told."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Variance over `dim`, divided by N - correction (1 unless given)."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`."""
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors, the first conjugated."""
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of real numbers as complex ones."""
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of view_as_complex()."""
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor as pairs of real numbers."""
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of view_as_real()."""
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """A copy of view()."""
@overload
def view_copy(input: Tensor, *size: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
@overload
def vsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Equal sections, or the pieces between indices, along the rows."""
@overload
def vsplit(input: Tensor, indices_or_sections: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, *indices_or_sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, *indices: _int) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat() along the rows; vectors are rows."""
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input` where the condition holds, `other` elsewhere; with the condition alone its true indices."""
@overload
def where(condition: Tensor, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]: ...
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), and 0 where input is 0."""
def xlogy_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """input * log(other), and 0 where input is 0."""
def zero(input: Tensor) -> Tensor:
    """All elements set to 0."""
def zero_(input: Tensor) -> Tensor:
    """All elements set to 0."""
@overload
def zeros(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Filled with 0."""
@overload
def zeros(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """A tensor of the shape, dtype, device and strides of another, filled with 0."""
