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
    plan as plan,
    plugins as plugins,
    profiler as profiler,
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
from metatensor.deferred.meta_copies import to_meta as to_meta
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
    """Return the shape that tensors of the given shapes broadcast to."""

def is_tensor(obj: object) -> _bool:
    """Return True if `obj` is a Tensor."""

def is_storage(obj: object) -> _bool:
    """Return True if `obj` is a storage."""

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

class _return__embedding_bag(NamedTuple):
    output: Tensor
    offset2bag: Tensor
    bag_size: Tensor
    maximum_indices: Tensor

class _return__linalg_det(NamedTuple):
    result: Tensor
    LU: Tensor
    pivots: Tensor

class _return__linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class _return__linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
    LU: Tensor
    pivots: Tensor

class _return__linalg_solve_ex(NamedTuple):
    result: Tensor
    LU: Tensor
    pivots: Tensor
    info: Tensor

class _return__scaled_dot_product_efficient_attention(NamedTuple):
    output: Tensor
    log_sumexp: Tensor
    philox_seed: Tensor
    philox_offset: Tensor

class _return__scaled_dot_product_flash_attention(NamedTuple):
    output: Tensor
    logsumexp: Tensor
    rng_state: Tensor
    unused: Tensor

class _return__scaled_dot_product_flash_attention_for_cpu(NamedTuple):
    output: Tensor
    logsumexp: Tensor

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

def _adaptive_avg_pool_backward(grad_output: Tensor, input: Tensor, n: _int) -> Tensor:
    """Gradient of adaptive average pooling over the last `n` dimensions."""
def _avg_pool_backward(grad_output: Tensor, input: Tensor, kernel_size: Sequence[_int], stride: Sequence[_int], padding: Sequence[_int], count_include_pad: _bool, divisor_override: _int | None) -> Tensor:
    """Gradient of average pooling."""
def _batch_norm_forward(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None, training: _bool, momentum: _float, eps: _float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`batch_norm` that also returns the mean and reciprocal standard deviation of the batch and the new running statistics."""
def _block_diag(tensors: Sequence[Tensor]) -> Tensor: ...
def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: _float, cdist: Tensor) -> Tensor:
    """Gradient of `cdist` for `x1`."""
def _clone_strided(input: Tensor) -> Tensor: ...
def _conj(input: Tensor) -> Tensor:
    """View that conjugates elements when they are read."""
def _ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int, zero_infinity: _bool) -> tuple[Tensor, Tensor]:
    """`ctc_loss` of each sequence, and the logarithms of the forward probabilities."""
def _ctc_loss_backward(grad_output: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int, zero_infinity: _bool, loss: Tensor, log_alpha: Tensor) -> Tensor:
    """Gradient of `ctc_loss`."""
def _data(input: Tensor) -> Tensor:
    """View of the same elements that does not require gradients. Changes of it in place are not counted as changes of `input`."""
def _embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: _bool, mode: _str, sparse: _bool, per_sample_weights: Tensor | None, include_last_offset: _bool, padding_idx: _int | None) -> _return__embedding_bag:
    """`nn.functional.embedding_bag` of a vector of indices, with what its gradient needs: the bag of each index, the size of each bag, and the index of each maximum."""
def _embedding_bag_backward(grad: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor, per_sample_weights: Tensor | None, num_weights: _int, scale_grad_by_freq: _bool, mode: _str, padding_idx: _int | None) -> Tensor:
    """Gradient of `_embedding_bag` with respect to its table."""
def _embedding_bag_weights_backward(grad: Tensor, weight: Tensor, indices: Tensor, offset2bag: Tensor, padding_idx: _int | None) -> Tensor:
    """Gradient of `_embedding_bag` with respect to the weights of the samples."""
def _fft_c2c(input: Tensor, dim: _int | Sequence[_int], normalization: _int, forward: _bool, *, out: Tensor | None = None) -> Tensor:
    """Complex Fourier transform over `dim`. `normalization` is 0 for no scaling, 1 to divide by the square root of N or 2 to divide by N, the number of points."""
def _fft_c2r(input: Tensor, dim: _int | Sequence[_int], normalization: _int, last_dim_size: _int, *, out: Tensor | None = None) -> Tensor:
    """Inverse Fourier transform over `dim` with a real result. `input` is half of a Hermitian-symmetric spectrum, and the result has size `last_dim_size` in the last dimension of `dim`. `normalization` is as in `_fft_c2c`."""
def _fft_r2c(input: Tensor, dim: _int | Sequence[_int], normalization: _int, onesided: _bool, *, out: Tensor | None = None) -> Tensor:
    """Fourier transform of real input over `dim`, with a complex result. If `onesided`, the last dimension in `dim` keeps only the first half of the points: n // 2 + 1 of n. The others follow by symmetry. `normalization` is as in `_fft_c2c`."""
def _from_host(data: Any, size: Sequence[_int], stride: Sequence[_int], dtype: _dtype, device: _device | _str | _int | None = None) -> Tensor:
    """Return a tensor of the given size and strides. Its values are the host bytes `data`, which are in C order."""
def _fused_rms_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, eps: _float | None) -> tuple[Tensor, Tensor]:
    """`rms_norm` in one kernel, which also returns the reciprocal of the root of the mean square."""
def _fused_rms_norm_backward(grad_out: Tensor, input: Tensor, normalized_shape: Sequence[_int], rstd: Tensor, weight: Tensor | None, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor]:
    """Gradients of `_fused_rms_norm`."""
def _grid_sampler_backward(grad_output: Tensor, input: Tensor, grid: Tensor, mode: _str, padding_mode: _str, align_corners: _bool, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor]:
    """Gradients of `grid_sample`."""
def _grouped_mm(input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None) -> Tensor:
    """Grouped matrix product, like `nn.functional.grouped_mm`."""
@overload
def _histogramdd_bin_edges(input: Tensor, bins: Sequence[_int], *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> tuple[Tensor, ...]:
    """Edges of bins of equal width for the points `input` (..., D), as one vector for each of the D coordinates."""
@overload
def _histogramdd_bin_edges(input: Tensor, *bins: _int, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> tuple[Tensor, ...]: ...
@overload
def _histogramdd_from_bin_cts(input: Tensor, bins: Sequence[_int], *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> Tensor:
    """Number of points, or sum of their `weight`, in each bin of equal width. The result has one dimension for each coordinate."""
@overload
def _histogramdd_from_bin_cts(input: Tensor, *bins: _int, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> Tensor: ...
def _histogramdd_from_bin_tensors(input: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: _bool = False) -> Tensor:
    """Number of points, or sum of their `weight`, in each bin between the given edges. The result has one dimension for each coordinate."""
@overload
def _index(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int]) -> Tensor:
    """Elements of `input` at the positions that the index tensors `indices` give for the dimensions `dims`. For example, `input[i, :, j]` has `indices` (i, j) and `dims` (0, 2)."""
@overload
def _index(input: Tensor, indices: Sequence[Tensor], *dims: _int) -> Tensor: ...
def _index_put_(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int], values: Tensor) -> Tensor:
    """Write `values` in place at the positions given by index tensors or masks for the dimensions `dims`."""
def _index_put_accumulate_(input: Tensor, indices: Sequence[Tensor], dims: Sequence[_int], values: Tensor) -> Tensor:
    """Add `values` in place at the positions given by index tensors or masks for the dimensions `dims`."""
def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two int8 matrices, as int32. The first matrix may also be uint8."""
def _linalg_det(A: Tensor) -> _return__linalg_det:
    """Like `linalg.det`, but with the LU factors and their pivots."""
def _linalg_lstsq(input: Tensor, b: Tensor, rcond: _float | None, driver: _str) -> _return__linalg_lstsq:
    """Like `linalg.lstsq`, but with residuals even for matrices without full rank."""
def _linalg_slogdet(A: Tensor) -> _return__linalg_slogdet:
    """Like `linalg.slogdet`, but with the LU factors and their pivots."""
def _linalg_solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False) -> _return__linalg_solve_ex:
    """Like `linalg.solve_ex`, but with the LU factors of A and their pivots."""
def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype | None = None) -> Tensor:
    """Gradient of `log_softmax`, given its result."""
def _masked_select(input: Tensor, mask: Tensor, count: _int) -> Tensor:
    """`masked_select` where `count` is the number of elements, which is known without values."""
def _max_pool_backward(grad_output: Tensor, input: Tensor, indices: Tensor, n: _int) -> Tensor:
    """Gradient of max pooling over the last `n` dimensions."""
def _multilabel_margin_loss_forward(input: Tensor, target: Tensor, reduction: _str) -> tuple[Tensor, Tensor]:
    """Like `multilabel_margin_loss`, but also returns a mask of the classes that are targets."""
@overload
def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`native_batch_norm` with required running statistics. The overload `no_stats` takes no running statistics."""
@overload
def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
def _neg_view(input: Tensor) -> Tensor:
    """View that negates elements when they are read."""
def _nll_loss_forward(input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int) -> tuple[Tensor, Tensor]:
    """Like `nll_loss`, but also returns the total weight of the samples."""
def _overlap_add(input: Tensor, step: _int) -> Tensor:
    """Add up overlapping frames that start `step` points apart. An input of shape (n, frames, size) gives (n, size + step * (frames - 1))."""
def _pdist_backward(grad: Tensor, input: Tensor, p: _float, pdist: Tensor) -> Tensor:
    """Gradient of `pdist`."""
def _repeat_interleave(input: Tensor, repeats: _int, dim: _int, output_size: _int) -> Tensor: ...
def _repeat_interleave_by(input: Tensor, repeats: Tensor, dim: _int, output_size: _int) -> Tensor: ...
def _rrelu_with_noise(input: Tensor, noise: Tensor, lower: _float, upper: _float, training: _bool) -> Tensor:
    """`rrelu` with given slopes `noise`, which are 1 for positive inputs. Outside training the slope is the mean of `lower` and `upper`."""
def _safe_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None) -> Tensor:
    """`softmax`, but 0 where all elements along `dim` are -inf."""
def _sample_dirichlet(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Sample from Dirichlet distributions whose concentration parameters lie along the last dimension."""
def _scaled_dot_product_efficient_attention(query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, compute_log_sumexp: _bool, dropout_p: _float = 0.0, is_causal: _bool = False, *, scale: _float | None = None, generator: _Generator | None = None) -> _return__scaled_dot_product_efficient_attention:
    """Attention in one kernel, with a term that is added to the scores. If `compute_log_sumexp`, it also returns the logarithm of the sum of the exponentials of each row; the number of rows is rounded up to a multiple of 32."""
def _scaled_dot_product_efficient_attention_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, out: Tensor, logsumexp: Tensor, philox_seed: Tensor | None, philox_offset: Tensor | None, dropout_p: _float, grad_input_mask: Sequence[_bool], is_causal: _bool = False, *, scale: _float | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `_scaled_dot_product_efficient_attention`."""
def _scaled_dot_product_flash_attention(query: Tensor, key: Tensor, value: Tensor, dropout_p: _float = 0.0, is_causal: _bool = False, *, scale: _float | None = None, generator: _Generator | None = None) -> _return__scaled_dot_product_flash_attention:
    """Attention without a mask in one kernel, which also returns the logarithm of the sum of the exponentials of each row."""
def _scaled_dot_product_flash_attention_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: _float, is_causal: _bool, rng_state: Tensor | None, unused: Tensor | None, *, scale: _float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `_scaled_dot_product_flash_attention`."""
def _scaled_dot_product_flash_attention_for_cpu(query: Tensor, key: Tensor, value: Tensor, dropout_p: _float = 0.0, is_causal: _bool = False, *, attn_mask: Tensor | None = None, scale: _float | None = None) -> _return__scaled_dot_product_flash_attention_for_cpu:
    """Attention in one kernel of the cpu, which also returns the logarithm of the sum of the exponentials of each row."""
def _scaled_dot_product_flash_attention_for_cpu_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: _float, is_causal: _bool, *, attn_mask: Tensor | None = None, scale: _float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `_scaled_dot_product_flash_attention_for_cpu`."""
def _scaled_mm(input: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype: _dtype | None = None, use_fast_accum: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Product of two 8-bit floating-point matrices: (n, k) and (k, m) give (n, m). Each is first multiplied by its float32 scale. `scale_a` has one element or shape (n, 1), and `scale_b` has one element or shape (1, m)."""
def _set_data(input: Tensor, source: Tensor) -> Tensor:
    """Make `input` refer to the memory of `source`, with its shape, strides, dtype and device. Gradients do not see it."""
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype | None = None) -> Tensor:
    """Gradient of `softmax`, given its result."""
def _standard_gamma(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Sample from gamma distributions of rate 1. Each element of `input` is the shape parameter for one value."""
@overload
def _to_copy(input: Tensor, dtype: _dtype, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Copy with another dtype, device or memory format."""
@overload
def _to_copy(input: Tensor, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def _unravel_index(indices: Tensor, shape: Sequence[_int]) -> Tensor: ...
@overload
def _unravel_index(indices: Tensor, *shape: _int) -> Tensor: ...
@overload
def _unsafe_view(input: Tensor, size: Sequence[_int]) -> Tensor:
    """Like `view`, for results that nobody else refers to."""
@overload
def _unsafe_view(input: Tensor, *size: _int) -> Tensor: ...
def _upsample_backward(grad_output: Tensor, input_size: Sequence[_int], scale_factor: Any | None, mode: _str, align_corners: _bool | None, recompute_scale_factor: _bool | None, antialias: _bool) -> Tensor:
    """Gradient of `interpolate`."""
def _weight_norm_interface(v: Tensor, g: Tensor, dim: _int = 0) -> tuple[Tensor, Tensor]:
    """Return `v` divided by its norms over all dimensions except `dim` and multiplied by `g`, and these norms as the second result."""
def _without_backward(input: Tensor, inputs: Sequence[Tensor], function: _str) -> Tensor:
    """View of the same elements, the result of an `autograd.Function` in a program. Its gradient with respect to `inputs`, the arguments of the function, is not known, so a backward pass that needs it raises RuntimeError. `function` is for the message."""
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of each element. The result is real, even for complex tensors."""
def abs_(input: Tensor) -> Tensor:
    """The magnitude of each element. The result is real, even for complex tensors."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of each element. The result is real, even for complex tensors."""
def absolute_(input: Tensor) -> Tensor:
    """The magnitude of each element. The result is real, even for complex tensors."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse cosine."""
def acos_(input: Tensor) -> Tensor:
    """The inverse cosine."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
def acosh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic cosine."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size."""
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Max pooling with windows chosen so that the output length is `output_size`. Returns (values, int64 indices)."""
def add(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`input + alpha * other`."""
def add_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """`input + alpha * other`."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)`, for batches of shapes (b, n, k) and (b, k, m)."""
def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)`, for batches of shapes (b, n, k) and (b, k, m)."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`input + value * tensor1 / tensor2`. `tensor1` and `tensor2` must not both be integer or bool tensors."""
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """`input + value * tensor1 / tensor2`. `tensor1` and `tensor2` must not both be integer or bool tensors."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`. `input` broadcasts to the shape of the product."""
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`. `input` broadcasts to the shape of the product."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`. `input` broadcasts to the shape of the product."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`. `input` broadcasts to the shape of the product."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`. `input` broadcasts to the shape of the outer product."""
def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`. `input` broadcasts to the shape of the outer product."""
def adjoint(input: Tensor) -> Tensor:
    """Conjugate transpose of each matrix in the last two dimensions, as a view."""
def affine_grid_generator(theta: Tensor, size: Any, align_corners: _bool) -> Tensor:
    """Older name of `affine_grid`."""
def alias(input: Tensor) -> Tensor:
    """Return a view of the whole tensor."""
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `alias`, but return a contiguous copy."""
def all(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Test whether all elements over `dim` (default: all dimensions) are true. The result is bool, or uint8 for uint8."""
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    """Return whether `|input - other| <= atol + rtol * |other|` for all elements, as a bool."""
def alpha_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout, which keeps the mean and variance of SELU activations (Klambauer et al., 2017)."""
def alpha_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout, which keeps the mean and variance of SELU activations (Klambauer et al., 2017)."""
def amax(input: Tensor, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Largest element over `dim` (default: all dimensions)."""
def amin(input: Tensor, dim: _int | Sequence[_int] | None = (), keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Smallest element over `dim` (default: all dimensions)."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Sequence[Tensor] | None = None) -> _return_aminmax:
    """Smallest and largest element over dimension `dim` (default: all dimensions), as (min, max)."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of each element in the complex plane, in radians. The result is real."""
def any(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Test whether any element over `dim` (default: all dimensions) is true. The result is bool, or uint8 for uint8."""
@overload
def arange(end: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Return a vector of start, start + step, ... up to but excluding `end`. `start` defaults to 0. The dtype defaults to int64, or to the default floating-point dtype if an argument is a float."""
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
    """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
def arctan2_(input: Tensor, other: Tensor) -> Tensor:
    """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
def arctan_(input: Tensor) -> Tensor:
    """The inverse tangent."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def arctanh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the largest element along `dim`, or in the flattened input if `dim` is None, as int64."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the smallest element along `dim`, or in the flattened input if `dim` is None, as int64."""
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the int64 indices that sort along `dim`."""
@overload
def argsort(input: Tensor, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor:
    """Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim)."""
def as_strided(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """Return a view of the storage with the given sizes, strides and offset, in elements. The offset defaults to that of `input`. Raise RuntimeError if the view exceeds the storage."""
def as_strided_(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """Return a view of the storage with the given sizes, strides and offset, in elements. The offset defaults to that of `input`. Raise RuntimeError if the view exceeds the storage."""
def as_strided_copy(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Like `as_strided`, but return a contiguous copy."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `input` in which `src` replaces the elements that `as_strided` selects."""
def as_tensor(data: Any | None, dtype: _dtype | None = None, device: _device | _str | _int | None = None) -> Tensor:
    """Return `data` as a tensor, without a copy if it is a tensor or array of the requested dtype and device."""
def asarray(obj: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, copy: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Like `as_tensor`, but `copy=True` always copies, and `copy=False` raises ValueError if the memory cannot be shared."""
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
    """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
def atan2_(input: Tensor, other: Tensor) -> Tensor:
    """Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi]."""
def atan_(input: Tensor) -> Tensor:
    """The inverse tangent."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def atanh_(input: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
@overload
def atleast_1d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """View each tensor as one that has at least 1 dimension. The result is one view for one tensor, and a tuple of views for a list of tensors."""
@overload
def atleast_1d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """View each tensor as one that has at least 2 dimensions. The result is one view for one tensor, and a tuple of views for a list of tensors."""
@overload
def atleast_2d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """View each tensor as one that has at least 3 dimensions. The result is one view for one tensor, and a tuple of views for a list of tensors."""
@overload
def atleast_3d(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """Average of each window of (N, C, L)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)`, for batches of shapes (b, n, k) and (b, k, m)."""
def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _dtype | None = None, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)`, for batches of shapes (b, n, k) and (b, k, m)."""
@overload
def bartlett_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Bartlett window: a triangle from 0 to 1 to 0."""
@overload
def bartlett_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """Like `nn.functional.batch_norm`, with the argument order of PyTorch's native function."""
@overload
def bernoulli(input: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Return a tensor of the shape of `input` whose elements are 1 or 0. Each is 1 with probability `p`. If `p` is not given, the elements of `input` are the probabilities."""
@overload
def bernoulli(input: Tensor, p: _float, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Like `nn.functional.bilinear`, with the argument order of PyTorch's native function."""
def binary_cross_entropy_backward(grad_output: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str) -> Tensor:
    """Gradient of `binary_cross_entropy`."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: _int = 0) -> Tensor:
    """Like `nn.functional.binary_cross_entropy_with_logits`, with the argument order of PyTorch's native function."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """Number of occurrences, or sum of `weights`, of each integer from 0 to the largest value in a vector of non-negative integers. The result has at least `minlength` elements."""
def binomial(count: Tensor, prob: Tensor, generator: _Generator | None = None) -> Tensor:
    """Sample from binomial distributions: the number of successes in `count` trials of success probability `prob`. Both are broadcast together and must have the same floating-point dtype."""
def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input & other`, for integers and bools."""
def bitwise_and_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input & other`, for integers and bools."""
def bitwise_left_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input << other`, for integers: `input * 2**other`, discarding the bits that overflow."""
def bitwise_left_shift_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input << other`, for integers: `input * 2**other`, discarding the bits that overflow."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Invert each bit of integers. For bool this is the logical not."""
def bitwise_not_(input: Tensor) -> Tensor:
    """Invert each bit of integers. For bool this is the logical not."""
def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input | other`, for integers and bools."""
def bitwise_or_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input | other`, for integers and bools."""
def bitwise_right_shift(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input >> other`, for integers: `floor(input / 2**other)`."""
def bitwise_right_shift_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input >> other`, for integers: `floor(input / 2**other)`."""
def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input ^ other`, for integers and bools."""
def bitwise_xor_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input ^ other`, for integers and bools."""
@overload
def blackman_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Blackman window: 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)."""
@overload
def blackman_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Block-diagonal matrix with the given matrices as blocks. Vectors count as rows and 0-d tensors as 1 x 1 matrices."""
@overload
def block_diag(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> Tensor: ...
def bmm(input: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Batched matrix product: (b, n, k) and (b, k, m) give (b, n, m)."""
@overload
def broadcast_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the tensors, each expanded to their broadcast shape."""
@overload
def broadcast_tensors(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> tuple[Tensor, ...]: ...
@overload
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor:
    """Like `expand`, but also available as a function."""
@overload
def broadcast_to(input: Tensor, *size: _int) -> Tensor: ...
def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """Index of the interval between the sorted `boundaries` (a vector) that contains each element, as int64, or int32 if `out_int32`. An element equal to a boundary belongs to the interval below it, or above it if `right`."""
@overload
def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    """Cartesian product of N vectors: a matrix whose rows are all combinations of one element of each vector. A single vector is returned unchanged."""
@overload
def cartesian_prod(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are ignored. The dtypes are promoted."""
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: Any | None = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """The `p`-norm distance of each row of `x1` to each row of `x2`: (..., n, k) and (..., m, k) give (..., n, m)."""
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round each element up to an integer, in the input's dtype."""
def ceil_(input: Tensor) -> Tensor:
    """Round each element up to an integer, in the input's dtype."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`."""
def celu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`."""
@overload
def chain_matmul(matrices: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of one or more matrices, multiplied in the cheapest order."""
@overload
def chain_matmul(matrix1: Tensor, matrix2: Tensor | None = None, matrix3: Tensor | None = None, matrix4: Tensor | None = None, matrix5: Tensor | None = None, matrix6: Tensor | None = None, matrix7: Tensor | None = None, matrix8: Tensor | None = None, matrix9: Tensor | None = None, matrix10: Tensor | None = None, matrix11: Tensor | None = None, matrix12: Tensor | None = None, matrix13: Tensor | None = None, matrix14: Tensor | None = None, matrix15: Tensor | None = None, matrix16: Tensor | None = None, matrix17: Tensor | None = None, matrix18: Tensor | None = None, matrix19: Tensor | None = None, matrix20: Tensor | None = None, matrix21: Tensor | None = None, matrix22: Tensor | None = None, matrix23: Tensor | None = None, matrix24: Tensor | None = None, matrix25: Tensor | None = None, matrix26: Tensor | None = None, matrix27: Tensor | None = None, matrix28: Tensor | None = None, matrix29: Tensor | None = None, matrix30: Tensor | None = None, matrix31: Tensor | None = None, matrix32: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Interleave `groups` groups of channels of (N, C, ...): view C as (groups, C / groups), transpose and flatten."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Cholesky factors of positive definite matrices, like `linalg.cholesky`."""
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Inverses of positive definite matrices, given their lower Cholesky factors, or their upper ones if `upper`."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = input`, given the Cholesky factors `input2` of A. The factors are upper triangular if `upper`, else lower triangular."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along `dim` into at most `chunks` views of equal size (the last may be smaller). Returns a tuple."""
def clamp(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The smaller of each element and `max`."""
def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor:
    """The smaller of each element and `max`."""
def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The larger of each element and `min`."""
def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor:
    """The larger of each element and `min`."""
def clip(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None, *, out: Tensor | None = None) -> Tensor:
    """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """Limit each element to the range [min, max]. Either bound may be None. NaN stays NaN. If min > max, all elements become max."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """Copy of a tensor. By default the copy is dense, with the dimensions in the same order in memory."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 1, after turning vectors into columns."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """Return all combinations of `r` elements of a vector as the rows of a matrix."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`real + i * imag`, from two float16, float32 or float64 tensors of the same dtype."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are ignored. The dtypes are promoted."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along `dim`. Their shapes must agree in the other dimensions. Tensors of shape (0,) are ignored. The dtypes are promoted."""
def conj(input: Tensor) -> Tensor:
    """Complex conjugate, as a view. A real tensor is returned unchanged."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged."""
def conj_physical_(input: Tensor) -> Tensor:
    """The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged."""
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _Number = 0) -> Tensor:
    """Pad the trailing dimensions with `value`. `pad` holds pairs (before, after), last dimension first. Negative values crop."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """1-d convolution of `input` (N, C, L) with `weight` (C_out, C / groups, K) and `bias` (C_out,). The batch dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the output size is L)."""
@overload
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """2-d convolution of `input` (N, C, H, W) with `weight` (C_out, C / groups, KH, KW) and `bias` (C_out,). The batch dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the output size is H x W)."""
@overload
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """3-d convolution of `input` (N, C, D, H, W) with `weight` (C_out, C / groups, KD, KH, KW) and `bias` (C_out,). The batch dimension is optional. `padding` is a size for each dimension, 'valid' (none) or 'same' (the output size is D x H x W)."""
@overload
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _str = 'valid', dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """Convolution over time of `input` (T, B, C) with `weight` (K, C, C_out) and `bias` (C_out,). `pad` zeros are added at both ends of the time dimension."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """1-d transposed convolution, the adjoint of conv1d, of `input` (N, C, L) with `weight` (C, C_out / groups, K) and `bias` (C_out,). `output_padding` is added to the output size, on one side."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """2-d transposed convolution, the adjoint of conv2d, of `input` (N, C, H, W) with `weight` (C, C_out / groups, KH, KW) and `bias` (C_out,). `output_padding` is added to the output sizes, on one side."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """3-d transposed convolution, the adjoint of conv3d, of `input` (N, C, D, H, W) with `weight` (C, C_out / groups, KD, KH, KW) and `bias` (C_out,). `output_padding` is added to the output sizes, on one side."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[_int], padding: Sequence[_int], dilation: Sequence[_int], transposed: _bool, output_padding: Sequence[_int], groups: _int) -> Tensor:
    """Convolution, or transposed convolution if `transposed`, over as many spatial dimensions (1 to 3) as `weight` has."""
def convolution_backward(grad_output: Tensor, input: Tensor, weight: Tensor, stride: Sequence[_int], padding: Sequence[_int], dilation: Sequence[_int], transposed: _bool, output_padding: Sequence[_int], groups: _int, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `convolution` for input, weight and bias. Those that `output_mask` does not select are None."""
def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Magnitude of `input` with the sign of `other`."""
def copysign_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Magnitude of `input` with the sign of `other`."""
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of V variables (rows) over N observations (columns): (V, N) gives (V, V), with values in [-1, 1]."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine."""
def cos_(input: Tensor) -> Tensor:
    """The cosine."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine."""
def cosh_(input: Tensor) -> Tensor:
    """The hyperbolic cosine."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 0) -> Tensor:
    """Like `nn.functional.cosine_embedding_loss`, with the argument order of PyTorch's native function."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """Cosine of the angle between the vectors along `dim` of `x1` and `x2`, which are broadcast together. `dim` is removed. `eps` is a lower bound for the norms."""
def count_nonzero(input: Tensor, dim: _int | Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """Count the elements over `dim` (default: all dimensions) that are not zero. The result is int64."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariance matrix of V variables (rows) over N observations (columns): (V, N) gives (V, V), or a 0-d tensor if V is 1. A vector is one variable. `fweights` is an integer count and `aweights` a floating-point weight for each observation. The divisor is N - `correction`, or its weighted equivalent."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products of the vectors along `dim`, which must have size 3. `dim` defaults to the first dimension of size 3. The other dimensions broadcast."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: _int = 0, reduction: _int = 0, zero_infinity: _bool = False) -> Tensor:
    """Like `nn.functional.ctc_loss`, with the argument order of PyTorch's native function."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int = 0, reduction: _int = 0, zero_infinity: _bool = False) -> Tensor: ...
def cummax(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummax:
    """Cumulative maximum along `dim`, and the int64 index where it last occurred, as (values, indices)."""
def cummin(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> _return_cummin:
    """Cumulative minimum along `dim`, and the int64 index where it last occurred, as (values, indices)."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative product along `dim`. Integers and bool give int64 unless `dtype` is given."""
def cumprod_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """Cumulative product along `dim`. Integers and bool give int64 unless `dtype` is given."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Cumulative sum along `dim`. Integers and bool give int64 unless `dtype` is given."""
def cumsum_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
    """Cumulative sum along `dim`. Integers and bool give int64 unless `dtype` is given."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """Cumulative integral of the samples `y` along `dim` by the trapezoidal rule. The size of `dim` is reduced by 1. `x` holds the sample points. Without `x`, they are `dx` apart."""
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """Convert degrees to radians."""
def det(input: Tensor) -> Tensor:
    """Determinants of square matrices (..., N, N)."""
def detach(input: Tensor) -> Tensor:
    """View of the same elements that does not require gradients."""
def detach_(input: Tensor) -> Tensor:
    """Remove the tensor from the autograd graph and set its `requires_grad` to False. Views inside the graph are not supported."""
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `detach`, but return a contiguous copy."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return a matrix with a vector on diagonal `diagonal` and zeros elsewhere, or a copy of that diagonal of a matrix."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Matrices with the last dimension of `input` on diagonal `offset` and zeros elsewhere: (..., n) gives (..., m, m) with m = n + |offset|. `dim1` and `dim2` are the dimensions of rows and columns in the result."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """Return a matrix with all elements, flattened, on diagonal `offset` and zeros elsewhere."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """Return a view of a diagonal of the matrices in dimensions `dim1` and `dim2`, as a new last dimension. A positive `offset` selects a diagonal above the main diagonal, and a negative one a diagonal below it."""
def diagonal_copy(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """Like `diagonal`, but return a contiguous copy."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `input` in which `src` replaces the elements that `diagonal` selects."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Differences `input[i + 1] - input[i]` along `dim`, taken `n` times, after concatenating `prepend`, `input` and `append`. The difference of two bools is their exclusive or. Each repetition reduces the size of `dim` by 1."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def digamma_(input: Tensor) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def dist(input: Tensor, other: Tensor, p: _Number = 2, *, out: Tensor | None = None) -> Tensor:
    """The `p`-norm of `input - other`, as a 0-d tensor."""
def div(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def div_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def divide_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors of equal length, as a 0-d tensor."""
def dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """If `train`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p)."""
def dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """If `train`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p)."""
@overload
def dsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Split along dimension 2 into a number of equal views, or at the given indices. Returns a tuple."""
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
    """Concatenate tensors along dimension 2, after giving them at least 3 dimensions like `atleast_3d`."""
@overload
def einsum(equation: _str, operands: Sequence[Tensor]) -> Tensor:
    """Sum of products of the operands, as specified by an equation such as 'bij,bjk->bik'. The sum is over the subscripts that are not in the output. '...' stands for any further dimensions, which broadcast. Without '->', the output has the dimensions of '...', then the subscripts that appear once, in alphabetical order. The subscripts may also be lists of integers: `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
@overload
def einsum(equation: _str, operand1: Tensor, operand2: Tensor | None = None, operand3: Tensor | None = None, operand4: Tensor | None = None, operand5: Tensor | None = None, operand6: Tensor | None = None, operand7: Tensor | None = None, operand8: Tensor | None = None, operand9: Tensor | None = None, operand10: Tensor | None = None, operand11: Tensor | None = None, operand12: Tensor | None = None, operand13: Tensor | None = None, operand14: Tensor | None = None, operand15: Tensor | None = None, operand16: Tensor | None = None, operand17: Tensor | None = None, operand18: Tensor | None = None, operand19: Tensor | None = None, operand20: Tensor | None = None, operand21: Tensor | None = None, operand22: Tensor | None = None, operand23: Tensor | None = None, operand24: Tensor | None = None, operand25: Tensor | None = None, operand26: Tensor | None = None, operand27: Tensor | None = None, operand28: Tensor | None = None, operand29: Tensor | None = None, operand30: Tensor | None = None, operand31: Tensor | None = None) -> Tensor: ...
@overload
def einsum(operand: Tensor, sublist1: Any, sublist2: Any | None = None, sublist3: Any | None = None, sublist4: Any | None = None, sublist5: Any | None = None, sublist6: Any | None = None, sublist7: Any | None = None, sublist8: Any | None = None, sublist9: Any | None = None, sublist10: Any | None = None, sublist11: Any | None = None, sublist12: Any | None = None, sublist13: Any | None = None, sublist14: Any | None = None, sublist15: Any | None = None, sublist16: Any | None = None, sublist17: Any | None = None, sublist18: Any | None = None, sublist19: Any | None = None, sublist20: Any | None = None, sublist21: Any | None = None, sublist22: Any | None = None, sublist23: Any | None = None, sublist24: Any | None = None, sublist25: Any | None = None, sublist26: Any | None = None, sublist27: Any | None = None, sublist28: Any | None = None, sublist29: Any | None = None, sublist30: Any | None = None, sublist31: Any | None = None) -> Tensor: ...
def elu_backward(grad_output: Tensor, input: Tensor, alpha: _float, scale: _float, input_scale: _float) -> Tensor:
    """Gradient of `scale * elu(input)` with `alpha * (exp(input_scale * input) - 1)` for negative inputs."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of `weight` (V, D) at the int64 or int32 `indices`: shape (*indices.shape, D)."""
def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: _int, padding_idx: _int, scale_grad_by_freq: _bool) -> Tensor:
    """Gradient of `embedding` with respect to its table."""
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float) -> Tensor:
    """Scale the rows of `input` at the indices to a `norm_type`-norm of at most `max_norm`, in place."""
@overload
def empty(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Tensor | None = None) -> Tensor:
    """Tensor of shape `size` with uninitialized elements. `dtype` defaults to the default floating-point dtype."""
@overload
def empty(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None, out: Tensor | None = None) -> Tensor: ...
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Tensor with the shape, dtype, device and dimension order of `input`, with uninitialized elements."""
@overload
def empty_permuted(size: Sequence[_int], physical_layout: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Dense tensor of shape `size` with uninitialized elements. `physical_layout` is the order of the dimensions in memory, outermost first."""
@overload
def empty_permuted(size: Sequence[_int], *physical_layout: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def empty_strided(size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Tensor of shape `size` with uninitialized elements and the strides `stride`, in elements."""
@overload
def empty_strided(size: Sequence[_int], *stride: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input == other`."""
def eq_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input == other`."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Return whether two tensors have the same shape and equal elements, as a bool."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""
def erf_(input: Tensor) -> Tensor:
    """The error function."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
def erfc_(input: Tensor) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
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
    """Like `expand`, but return a contiguous copy."""
@overload
def expand_copy(input: Tensor, *size: _int, implicit: _bool = False, out: Tensor | None = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) - 1, accurate for x near 0."""
def expm1_(input: Tensor) -> Tensor:
    """exp(x) - 1, accurate for x near 0."""
@overload
def eye(n: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Return the (n, m) matrix whose element (i, j) is 1 if i = j and 0 otherwise. `m` defaults to `n`."""
@overload
def eye(n: _int, m: _int | None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def feature_dropout(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def feature_dropout_(input: Tensor, p: _float, train: _bool, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def fill(input: Tensor, value: Tensor | _Number) -> Tensor:
    """Set all elements to a number or to the value of a 0-d tensor."""
def fill_(input: Tensor, value: Tensor | _Number) -> Tensor:
    """Set all elements to a number or to the value of a 0-d tensor."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round each element towards zero to an integer, in the input's dtype."""
def fix_(input: Tensor) -> Tensor:
    """Round each element towards zero to an integer, in the input's dtype."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """Combine the dimensions `start_dim` to `end_dim` into one. The result is a view if the strides allow it, else a copy."""
@overload
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """Reverse the order of elements along `dims`."""
@overload
def flip(input: Tensor, *dims: _int) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor:
    """Reverse the order along dimension 1."""
def flipud(input: Tensor) -> Tensor:
    """Reverse the order along dimension 0."""
def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input ** exponent` computed in float64, or in complex128 if an operand is complex."""
def float_power_(input: Tensor | _Number, exponent: Tensor | _Number) -> Tensor:
    """`input ** exponent` computed in float64, or in complex128 if an operand is complex."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round each element down to an integer, in the input's dtype."""
def floor_(input: Tensor) -> Tensor:
    """Round each element down to an integer, in the input's dtype."""
def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Quotient rounded down: `floor(input / other)`."""
def floor_divide_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Quotient rounded down: `floor(input / other)`."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greater of two elements. If one is NaN, the other is returned."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Lesser of two elements. If one is NaN, the other is returned."""
def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Remainder of division rounded towards zero, with the sign of `input`, as in C."""
def fmod_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """Remainder of division rounded towards zero, with the sign of `input`, as in C."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x - trunc(x)."""
def frac_(input: Tensor) -> Tensor:
    """x - trunc(x)."""
def frexp(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_frexp:
    """Split each element x into mantissa m (0.5 <= |m| < 1, or 0) and int32 exponent e with x = m * 2**e. Returns (mantissa, exponent)."""
def full(size: Sequence[_int], fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Tensor of shape `size` filled with `fill_value`. Without `dtype`, the value determines the dtype: bool for a bool, int64 for an int, the default floating-point dtype for a float, and the default complex dtype for a complex number."""
def full_like(input: Tensor, fill_value: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Tensor with the shape, dtype, device and dimension order of `input`, filled with `fill_value`."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Gather elements along `dim`: for matrices and `dim=0`, `out[i, j] = input[index[i, j], j]`. The result has the shape of `index`. `index` must have as many dimensions as `input`, and no larger sizes except in `dim`."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greatest common divisor, which is not negative."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """Greatest common divisor, which is not negative."""
def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input >= other`. Complex operands are not supported."""
def ge_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input >= other`. Complex operands are not supported."""
def gelu_backward(grad_output: Tensor, input: Tensor, *, approximate: _str = 'none') -> Tensor:
    """Gradient of `gelu`."""
def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_geqrf:
    """QR factorization of matrices (..., M, N) in LAPACK's form: `a` holds R in the upper triangle and the Householder vectors below it, and `tau` (..., min(M, N)) holds their scalar factors."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Outer product of two vectors: (n,) and (m,) give (n, m)."""
def get_device(input: Tensor) -> _int:
    """Return the index of the tensor's device, or -1 if it has none."""
def glu_backward(grad_output: Tensor, input: Tensor, dim: _int) -> Tensor:
    """Gradient of `glu`."""
def gradient(input: Tensor, *, spacing: Any | None = 1, dim: Any | None = None, edge_order: _int = 1) -> tuple[Tensor, ...]:
    """Derivatives of the samples along each dimension in `dim` (all by default), by second-order central differences. `spacing` is the distance between samples: one number, or for each dimension a number or a vector of sample points. `edge_order` (1 or 2) is the order of accuracy at the ends. Return one tensor with the shape of `input` for each dimension."""
def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input > other`. Complex operands are not supported."""
def greater_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input > other`. Complex operands are not supported."""
def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input >= other`. Complex operands are not supported."""
def greater_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input >= other`. Complex operands are not supported."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sample` with modes given by number."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sample` of (N, C, H, W) with modes given by number."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sample` of (N, C, D, H, W) with modes given by number."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enabled: _bool = True) -> Tensor:
    """Like `nn.functional.group_norm`, with the argument order of PyTorch's native function."""
@overload
def gru(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Apply layers of gated recurrent units (Cho et al., 2014) to sequences (time, batch, features), or to packed data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states."""
@overload
def gru(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Compute one step of `gru` for an input (batch, features). Returns the next hidden state, (batch, hidden)."""
def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input > other`. Complex operands are not supported."""
def gt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input > other`. Complex operands are not supported."""
@overload
def hamming_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Hamming window: alpha - beta * cos(x). The defaults are alpha=0.54 and beta=0.46."""
@overload
def hamming_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def hann_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Hann window: 0.5 - 0.5 * cos(x)."""
@overload
def hann_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Set elements with `abs(input) <= lambd` to 0 and keep the others."""
def hardshrink_backward(grad_output: Tensor, input: Tensor, lambd: _float) -> Tensor:
    """Gradient of `hardshrink` and `softshrink`."""
def hardsigmoid_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Gradient of `hardsigmoid`."""
def hardswish_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Gradient of `hardswish`."""
def hardtanh_backward(grad_output: Tensor, input: Tensor, min_val: _Number, max_val: _Number) -> Tensor:
    """Gradient of `hardtanh`."""
def hash_tensor(input: Tensor, dim: _int | Sequence[_int] | None = (), *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None) -> Tensor:
    """Hash of the elements over `dim` (default: all dimensions): the exclusive or of their 64-bit patterns, as uint64. `mode` must be 0."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Heaviside step function: 0 where `input` is negative, 1 where it is positive, and `values` where it is 0."""
def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """Heaviside step function: 0 where `input` is negative, 1 where it is positive, and `values` where it is 0."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 0) -> Tensor:
    """Like `nn.functional.hinge_embedding_loss`, with the argument order of PyTorch's native function."""
def histc(input: Tensor, bins: _int = 100, min: _Number = 0, max: _Number = 0, *, out: Tensor | None = None) -> Tensor:
    """Number of elements in each of `bins` bins of equal width from `min` to `max`, in the dtype of `input`. If `min` equals `max`, the bins cover the range of the data."""
@overload
def histogram(input: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram:
    """Number of elements, or sum of their `weight`, in each bin, and the bin edges. `bins` is a vector of edges, or a number of bins of equal width in `range` (default: the range of the data). `density` divides by the total and the bin widths."""
@overload
def histogram(input: Tensor, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Sequence[Tensor] | None = None) -> _return_histogram_bin_ct: ...
@overload
def histogramdd(input: Tensor, bins: _int | Sequence[_int], range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> _return_histogramdd:
    """Histogram of points `input` (..., D) in D dimensions: the number of points, or the sum of their `weight`, in each bin, and the D vectors of bin edges. `bins` is a number, a sequence with the number of bins of each coordinate, or a sequence with the vector of edges of each. `range` holds the lowest and the highest edge of the first coordinate, then those of the second, and so on."""
@overload
def histogramdd(input: Tensor, bins: Sequence[Tensor], range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> _return_histogramdd_edges: ...
@overload
def hsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Split along dimension 1 (0 for a vector) into a number of equal views, or at the given indices. Returns a tuple."""
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
    """Concatenate tensors along dimension 1, or along dimension 0 if the first has at most 1 dimension."""
def huber_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: _str, delta: _float) -> Tensor:
    """Gradient of `huber_loss`."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`sqrt(input**2 + other**2)`, computed without intermediate overflow."""
def hypot_(input: Tensor, other: Tensor) -> Tensor:
    """`sqrt(input**2 + other**2)`, computed without intermediate overflow."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function I0."""
def i0_(input: Tensor) -> Tensor:
    """The modified Bessel function I0."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularized lower incomplete gamma function P(input, other)."""
def igamma_(input: Tensor, other: Tensor) -> Tensor:
    """Regularized lower incomplete gamma function P(input, other)."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularized upper incomplete gamma function Q(input, other)."""
def igammac_(input: Tensor, other: Tensor) -> Tensor:
    """Regularized upper incomplete gamma function Q(input, other)."""
def imag(input: Tensor) -> Tensor:
    """Imaginary part of a complex tensor, as a view. Real tensors are not supported."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """Add the slices of `source` along `dim`, times `alpha`, to the slices of `input` at the indices in the vector `index`."""
def index_add_(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
    """Add the slices of `source` along `dim`, times `alpha`, to the slices of `input` at the indices in the vector `index`."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Write the slices of `source` along `dim` to the slices of `input` at the indices in the vector `index`."""
def index_copy_(input: Tensor, dim: _int, index: Tensor, source: Tensor) -> Tensor:
    """Write the slices of `source` along `dim` to the slices of `input` at the indices in the vector `index`."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """Fill the slices along `dim` at the indices in the vector `index` with a number or 0-d tensor."""
def index_fill_(input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
    """Fill the slices along `dim` at the indices in the vector `index` with a number or 0-d tensor."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """Return a copy with `values` written at the positions given by a tuple of index tensors or masks, one per dimension. None selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing them."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """Write `values` in place at the positions given by a tuple of index tensors or masks, one per dimension. None selects a whole dimension. If `accumulate`, add `values` to the elements instead of replacing them."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """Reduce the slices of `source` along `dim` into the slices of `input` at the indices in the vector `index`. `reduce` is 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
def index_reduce_(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """Reduce the slices of `source` along `dim` into the slices of `input` at the indices in the vector `index`. `reduce` is 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Slices of `input` along `dim` at the indices in the vector `index` (int32 or int64). The size of `dim` becomes the length of `index`."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sum of products over the last dimensions, which must have the same size. If an operand is 0-d, the result is the product."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """Like `nn.functional.instance_norm`, with the argument order of PyTorch's native function."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses of square matrices (..., N, N). Raise LinAlgError if a matrix is singular."""
def is_complex(input: Tensor) -> _bool:
    """Return whether the dtype is complex."""
def is_conj(input: Tensor) -> _bool:
    """Return whether the tensor is a lazily conjugated view: its elements are conjugated when they are read."""
def is_floating_point(input: Tensor) -> _bool:
    """Return whether the dtype is a real floating-point dtype."""
def is_inference(input: Tensor) -> _bool:
    """Return whether the tensor was made in inference mode."""
def is_neg(input: Tensor) -> _bool:
    """Return whether the tensor is a lazily negated view: its elements are negated when they are read."""
def is_nonzero(input: Tensor) -> _bool:
    """Return whether the only element of a tensor is not zero, as a bool."""
def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Return whether two tensors have the same shape."""
def is_signed(input: Tensor) -> _bool:
    """Return whether the dtype can hold negative values."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """Whether `abs(input - other) <= atol + rtol * abs(other)`. Equal infinities are close. If `equal_nan`, two NaNs are close too. Both tensors must have the same dtype."""
def isfinite(input: Tensor) -> Tensor:
    """Test whether each element is finite. The result is bool."""
@overload
def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element of `elements` is in `test_elements`. If `invert` is true, whether it is not. Bool and complex values are not supported."""
@overload
def isin(elements: Tensor, test_element: _Number, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def isin(element: _Number, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor: ...
def isinf(input: Tensor) -> Tensor:
    """Test whether each element is infinite. The result is bool."""
def isnan(input: Tensor) -> Tensor:
    """Test whether each element is NaN. The result is bool."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Test whether each element is -inf. The result is bool."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Test whether each element is +inf. The result is bool."""
def isreal(input: Tensor) -> Tensor:
    """Test whether the imaginary part of each element is 0. The result is bool."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
    """Inverse short-time Fourier transform: the least-squares signal (..., points) for a spectrum (..., frequencies, frames) as `stft` returns it. The arguments must be those of `stft`. The result is padded or truncated to `length`."""
@overload
def kaiser_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Kaiser window, a ratio of Bessel functions I0. A larger `beta` (default 12) makes it narrower."""
@overload
def kaiser_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
@overload
def kaiser_window(window_length: _int, periodic: _bool, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor: ...
def kl_div(input: Tensor, target: Tensor, reduction: _int = 0, *, log_target: _bool = False) -> Tensor:
    """Like `nn.functional.kl_div`, with the argument order of PyTorch's native function."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: each element of `input` times `other`, as blocks of the result. Dimension i of the result has size `input.shape[i] * other.shape[i]`. The tensor with fewer dimensions gets leading dimensions of size 1."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_kthvalue:
    """The `k`-th smallest element along `dim`, with `k` counted from 1, and its int64 index, as (values, indices)."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05, cudnn_enable: _bool = True) -> Tensor:
    """Like `nn.functional.layer_norm`, with the argument order of PyTorch's native function."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Least common multiple, which is not negative."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """Least common multiple, which is not negative."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input * 2**other`."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2**other`."""
def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input <= other`. Complex operands are not supported."""
def le_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input <= other`. Complex operands are not supported."""
def leaky_relu_backward(grad_output: Tensor, input: Tensor, negative_slope: _float) -> Tensor:
    """Gradient of `leaky_relu`."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Linear interpolation `input + weight * (end - input)`. The tensors must have the same dtype, except for a 0-d weight."""
def lerp_(input: Tensor, end: Tensor, weight: Tensor | _Number) -> Tensor:
    """Linear interpolation `input + weight * (end - input)`. The tensors must have the same dtype, except for a 0-d weight."""
def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input < other`. Complex operands are not supported."""
def less_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input < other`. Complex operands are not supported."""
def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input <= other`. Complex operands are not supported."""
def less_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input <= other`. Complex operands are not supported."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`log(|gamma(x)|)`."""
def lgamma_(input: Tensor) -> Tensor:
    """`log(|gamma(x)|)`."""
def linspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Return a vector of `steps` evenly spaced numbers from `start` to `end`, both included. The bounds are numbers or 0-d tensors."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""
def log10_(input: Tensor) -> Tensor:
    """The logarithm to base 10."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + x), accurate for x near 0."""
def log1p_(input: Tensor) -> Tensor:
    """log(1 + x), accurate for x near 0."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""
def log2_(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
def log_(input: Tensor) -> Tensor:
    """The natural logarithm."""
def log_sigmoid_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Gradient of `logsigmoid`."""
def log_sigmoid_forward(input: Tensor) -> tuple[Tensor, Tensor]:
    """`logsigmoid` that also returns `exp(-abs(input))`, except on CUDA devices, where the second tensor is empty."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax`, computed without overflow."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`log(exp(input) + exp(other))`, computed without intermediate overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`log2(2**input + 2**other)`, computed without intermediate overflow."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the cumulative sum of exponentials along `dim`."""
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants. The logarithm of a negative determinant is NaN."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are nonzero."""
def logical_and_(input: Tensor, other: Tensor) -> Tensor:
    """Whether both elements are nonzero."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Test whether each element is zero. The result is bool."""
def logical_not_(input: Tensor) -> Tensor:
    """Test whether each element is zero. The result is bool."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one of the elements is nonzero."""
def logical_or_(input: Tensor, other: Tensor) -> Tensor:
    """Whether at least one of the elements is nonzero."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of the elements is nonzero."""
def logical_xor_(input: Tensor, other: Tensor) -> Tensor:
    """Whether exactly one of the elements is nonzero."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
def logspace(start: Tensor | _Number, end: Tensor | _Number, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Return `base` to the power of each element of `linspace(start, end, steps)`."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of exponentials over `dim`, computed without overflow. Integers give the default float dtype."""
@overload
def lstm(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Apply layers of long short-term memory (Hochreiter and Schmidhuber, 1997) to sequences (time, batch, features), or to packed data (rows, features) with `batch_sizes`. Returns the outputs of the last layer, the final hidden states and the final cell states."""
@overload
def lstm(data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute one step of `lstm` for an input (batch, features). Returns the next hidden and cell states, (batch, hidden)."""
def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input < other`. Complex operands are not supported."""
def lt_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input < other`. Complex operands are not supported."""
def lu(A: Tensor, pivot: _bool = True, get_infos: _bool = False, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """LU factorization of matrices, like `linalg.lu_factor_ex`. `info` is returned only if `get_infos` is true. Singular matrices are accepted."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = input`, given the result of `linalg.lu_factor` for A."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_lu_unpack:
    """Unpack the results of `linalg.lu_factor` into P, L and U with `A = P @ L @ U`. L and U are empty if `unpack_data` is False. P is empty if `unpack_pivots` is False."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 0) -> Tensor:
    """Like `nn.functional.margin_ranking_loss`, with the argument order of PyTorch's native function."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """Replace the elements where the bool mask is true by `value`, a number or 0-d tensor. `input` and `mask` are broadcast together."""
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | _Number) -> Tensor:
    """Replace the elements where the bool mask is true by `value`, a number or 0-d tensor. `input` and `mask` are broadcast together."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Replace the elements where the bool mask is true by the elements of `source`, in order. `input` and `mask` are broadcast together."""
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Replace the elements where the bool mask is true by the elements of `source`, in order. `input` and `mask` are broadcast together."""
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements where `mask` is true, as a vector. `input` and the bool `mask` are broadcast together."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions: (..., n, k) and (..., k, m) give (..., n, m). The other dimensions broadcast. A vector counts as a row on the left and as a column on the right."""
def matrix_exp(input: Tensor) -> Tensor:
    """Matrix exponentials of square matrices (..., N, N)."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """Square matrices (..., N, N) raised to an integer power. Negative powers are powers of the inverse."""
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Largest element. With `dim`, return the largest element along that dimension and its int64 index, as (values, indices). With `other`, return the larger element of the two tensors at each position, like `maximum`."""
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_max_dim: ...
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, L). If `return_indices`, also return the int64 indices of the maxima."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima along the last dimension."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, H, W). If `return_indices`, also return the int64 indices of the maxima."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, D, H, W). If `return_indices`, also return the int64 indices of the maxima."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greater of two elements, or NaN if one of them is NaN."""
def mean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over `dim` (default: all dimensions). The dtype must be floating-point or complex."""
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Median of all elements. If their number is even, it is the lower of the two middle elements. With `dim`, return the median along this dimension and its int64 index, as (values, indices)."""
@overload
def median(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_median_dim: ...
@overload
def meshgrid(tensors: Sequence[Tensor], *, indexing: _str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of N vectors, as N views of the same N-dimensional shape. With `indexing` 'ij', dimension i belongs to vector i. 'xy' exchanges the first two dimensions. If `indexing` is None, a warning is issued and 'ij' is used."""
@overload
def meshgrid(tensor0: Tensor | None = None, tensor1: Tensor | None = None, tensor2: Tensor | None = None, tensor3: Tensor | None = None, tensor4: Tensor | None = None, tensor5: Tensor | None = None, tensor6: Tensor | None = None, tensor7: Tensor | None = None, tensor8: Tensor | None = None, tensor9: Tensor | None = None, tensor10: Tensor | None = None, tensor11: Tensor | None = None, tensor12: Tensor | None = None, tensor13: Tensor | None = None, tensor14: Tensor | None = None, tensor15: Tensor | None = None, tensor16: Tensor | None = None, tensor17: Tensor | None = None, tensor18: Tensor | None = None, tensor19: Tensor | None = None, tensor20: Tensor | None = None, tensor21: Tensor | None = None, *, indexing: _str | None = None) -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Smallest element. With `dim`, return the smallest element along that dimension and its int64 index, as (values, indices). With `other`, return the smaller element of the two tensors at each position, like `minimum`."""
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_min_dim: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Lesser of two elements, or NaN if one of them is NaN."""
def mish_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Gradient of `mish`."""
def mm(input: Tensor, mat2: Tensor, out_dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices: (n, k) and (k, m) give (n, m)."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_mode:
    """Most frequent value along `dim` and the int64 index where it last occurs, as (values, indices). If several values are equally frequent, the smallest of them is returned."""
def moveaxis(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """View with the dimensions `source` moved to the positions `destination`. The other dimensions keep their order."""
def movedim(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """View with the dimensions `source` moved to the positions `destination`. The other dimensions keep their order."""
def mse_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: _str) -> Tensor:
    """Gradient of `mse_loss`."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sort along the first dimension, ascending."""
def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input * other`."""
def mul_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input * other`."""
def multi_margin_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, p: _int, margin: _float, weight: Tensor | None, reduction: _str) -> Tensor:
    """Gradient of `multi_margin_loss`."""
def multilabel_margin_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: _str, is_target: Tensor) -> Tensor:
    """Gradient of `multilabel_margin_loss`."""
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Sample `num_samples` int64 category indices from each row of probabilities, which need not sum to 1. An input (N, K) gives (N, num_samples), and (K,) gives (num_samples,)."""
def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input * other`."""
def multiply_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input * other`."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of a matrix and a vector: (n, k) and (k,) give (n,)."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def mvlgamma_(input: Tensor, p: _int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest and lowest finite numbers of the dtype)."""
def nan_to_num_(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest and lowest finite numbers of the dtype)."""
def nanmean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over `dim` (default: all dimensions) of the elements that are not NaN. The dtype must be floating-point."""
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `median`, but ignore NaN."""
@overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_nanmedian_dim: ...
def nanquantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """Like `quantile`, but ignore NaN."""
def nansum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over `dim` (default: all dimensions) with NaN counted as zero."""
@overload
def narrow(input: Tensor, dim: _int, start: Tensor, length: _int) -> Tensor:
    """Return a view of `length` elements of dimension `dim` from `start` on. `start` is an int or a 0-d integer tensor."""
@overload
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor:
    """Like `narrow`, but return a contiguous copy."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` that also returns the mean and reciprocal standard deviation of the batch. Outside training on a CPU, these two are empty."""
def native_batch_norm_backward(grad_out: Tensor, input: Tensor, weight: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, train: _bool, eps: _float, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `native_batch_norm`."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Interleave `groups` groups of channels of (N, C, ...): view C as (groups, C / groups), transpose and flatten."""
def native_dropout(input: Tensor, p: _float, train: _bool | None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Dropout that also returns the bool mask of the elements that were kept. `train=None` means true."""
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: _float) -> Tensor:
    """Gradient of `native_dropout`: `grad_output * mask * scale`."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm` that also returns the mean and the reciprocal standard deviation of each group, both of shape (N, group)."""
def native_group_norm_backward(grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `native_group_norm`."""
def native_layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` that also returns the mean and the reciprocal of the standard deviation. Both have size 1 in the normalized dimensions."""
def native_layer_norm_backward(grad_out: Tensor, input: Tensor, normalized_shape: Sequence[_int], mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float, output_mask: Sequence[_bool]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `native_layer_norm`."""
def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input != other`."""
def ne_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input != other`."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`-x`."""
def neg_(input: Tensor) -> Tensor:
    """`-x`."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`-x`."""
def negative_(input: Tensor) -> Tensor:
    """`-x`."""
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Representable number next to `input` in the direction of `other`."""
def nextafter_(input: Tensor, other: Tensor) -> Tensor:
    """Representable number next to `input` in the direction of `other`."""
def nll_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int, total_weight: Tensor) -> Tensor:
    """Gradient of `nll_loss`."""
def nonzero(input: Tensor, *, as_tuple: _bool = False, out: Tensor | None = None) -> Any:
    """Indices of the nonzero elements, as an int64 tensor (number of nonzeros, ndim), or if `as_tuple`, as a tuple of one vector for each dimension."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
    """`nonzero` with exactly `size` rows: truncated, or padded with `fill_value`."""
def norm(input: Tensor, p: Any | None = 'fro', dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Vector norm of order `p` over `dim`, or over all elements if `dim` is None. 'nuc' is a matrix norm over two dimensions."""
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """The `pow`-norm over all dimensions except `dim`. The reduced dimensions are kept with size 1. If `dim` is -1, the norm is over all dimensions, and the result is 0-d."""
@overload
def normal(mean: Tensor, std: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Sample from normal distributions. `mean` and `std` are numbers, or tensors that are broadcast together. If both are numbers, `size` is the shape of the result."""
@overload
def normal(mean: Tensor, std: _float = 1.0, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: Tensor, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: _float, size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
@overload
def normal(mean: _float, std: _float, *size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input != other`."""
def not_equal_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """`input != other`."""
def numel(input: Tensor) -> _int:
    """Return the number of elements."""
@overload
def ones(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Tensor of shape `size` filled with 1. `dtype` defaults to the default floating-point dtype."""
@overload
def ones(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Tensor with the shape, dtype, device and dimension order of `input`, filled with 1."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The same as `linalg.householder_product`."""
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Multiply `input3` by Q: `Q @ input3` if `left`, else `input3 @ Q`. Q is given by the results `input` and `input2` of `geqrf`. If `transpose`, use the conjugate transpose of Q."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Outer product of two vectors: (n,) and (m,) give (n, m)."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """The p-norm of `x1 - x2 + eps` over the last dimension."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal component analysis of the rows of A (..., M, N): `svd_lowrank` of A, with the mean of each column subtracted if `center`. `q` defaults to min(6, M, N)."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The p-norm distances between all pairs of rows of `input` (N, M): a vector of N * (N - 1) / 2 elements, in the row-major order of the strict upper triangle of the distance matrix."""
@overload
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """View with the dimensions in the order `dims`."""
@overload
def permute(input: Tensor, *dims: _int) -> Tensor: ...
@overload
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """Like `permute`, but return a contiguous copy."""
@overload
def permute_copy(input: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor:
    """Moore-Penrose pseudoinverses. Singular values up to `rcond * largest` count as 0."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """Move channels to space: (..., C * r * r, H, W) becomes (..., C, H * r, W * r), where r is `upscale_factor`."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """Move space to channels: (..., C, H * r, W * r) becomes (..., C * r * r, H, W), where r is `downscale_factor`."""
def poisson(input: Tensor, generator: _Generator | None = None) -> Tensor:
    """Sample from Poisson distributions. Each element of `input` is the rate for one value."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int) -> Tensor:
    """Like `nn.functional.poisson_nll_loss`, with the argument order of PyTorch's native function."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`abs * exp(i * angle)`, from two float16, float32 or float64 tensors of the same dtype."""
@overload
def polygamma(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
@overload
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def polygamma_(input: Tensor, n: _int) -> Tensor:
    """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
@overload
def polygamma_(n: _int, input: Tensor) -> Tensor: ...
def positive(input: Tensor) -> Tensor:
    """Return the tensor itself. Raise RuntimeError for bool tensors."""
def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input ** exponent`. If `input` is an integer tensor, `exponent` must not be a negative integer number."""
def pow_(input: Tensor | _Number, exponent: Tensor | _Number) -> Tensor:
    """`input ** exponent`. If `input` is an integer tensor, `exponent` must not be a negative integer number."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Parametric ReLU: `input` where it is positive, else `weight * input`. `weight` holds one value, or one for each channel (dimension 1)."""
def prod(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Product over dimension `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """Write the elements of `source` at the positions `index` in the flattened input. If `accumulate`, add them instead."""
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """Write the elements of `source` at the positions `index` in the flattened input. If `accumulate`, add them instead."""
def qr(input: Tensor, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_qr:
    """QR factorization like `linalg.qr`, in mode 'reduced' if `some`, else 'complete'."""
def quantile(input: Tensor, q: Tensor | _Number, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
    """Quantiles `q` in [0, 1] along `dim`, or over all elements. A vector `q` adds a leading dimension. The input is float32 or float64. `interpolation` is 'linear', 'lower', 'higher', 'midpoint' or 'nearest'."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """Convert radians to degrees."""
@overload
def rand(size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor of shape `size` with values from the uniform distribution on [0, 1)."""
@overload
def rand(*size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def rand_like(input: Tensor, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Return a tensor of the shape of `input` with values from the uniform distribution on [0, 1)."""
@overload
def randint(high: _int, size: Any, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor of shape `size` with uniform integers in [low, high). `low` defaults to 0 and the dtype to int64."""
@overload
def randint(low: _int, high: _int, size: Any, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
@overload
def randint_like(input: Tensor, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Return a tensor of the shape of `input` with uniform integers in [low, high). `low` defaults to 0 and the dtype to that of `input`."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def randn(size: Sequence[_int], *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor of shape `size` with values from the standard normal distribution."""
@overload
def randn(*size: _int, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor: ...
def randn_like(input: Tensor, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, memory_format: _memory_format | None = None) -> Tensor:
    """Return a tensor of the shape of `input` with values from the standard normal distribution."""
def randperm(n: _int, *, generator: _Generator | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False, out: Tensor | None = None) -> Tensor:
    """Return a random permutation of the integers 0 to n - 1 as a vector. `dtype` defaults to int64."""
def range(start: _Number, end: _Number, step: _Number = 1, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Return a vector of start, start + step, ... up to and including `end`, in the default floating-point dtype unless `dtype` is given. In contrast, `arange` excludes its end, like Python's `range`."""
def ravel(input: Tensor) -> Tensor:
    """Return all elements as a vector, as a view if the tensor is contiguous, else as a copy."""
def real(input: Tensor) -> Tensor:
    """Real part, as a view. A real tensor is returned unchanged."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / x."""
def reciprocal_(input: Tensor) -> Tensor:
    """1 / x."""
def relu(input: Tensor) -> Tensor:
    """Rectified linear unit: `max(input, 0)`."""
def relu_(input: Tensor) -> Tensor:
    """Rectified linear unit: `max(input, 0)`."""
def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Remainder of floor division, with the sign of `other`, as in Python."""
def remainder_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """Remainder of floor division, with the sign of `other`, as in Python."""
def renorm(input: Tensor, p: _Number, dim: _int, maxnorm: _Number, *, out: Tensor | None = None) -> Tensor:
    """Scale down each slice along `dim` whose `p`-norm exceeds `maxnorm`, so that its norm becomes `maxnorm`."""
def renorm_(input: Tensor, p: _Number, dim: _int, maxnorm: _Number) -> Tensor:
    """Scale down each slice along `dim` whose `p`-norm exceeds `maxnorm`, so that its norm becomes `maxnorm`."""
@overload
def repeat_interleave(input: Tensor, repeats: _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Repeat each element of the flattened input, or each index along `dim`, several times in a row. `repeats` is an int, or an int tensor with one count per element or index. If only a `repeats` tensor is given, the result holds each index i repeated repeats[i] times. If `repeats` is a tensor on the meta device, `output_size` is required."""
@overload
def repeat_interleave(input: Tensor, repeats: Tensor, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor: ...
@overload
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor:
    """Return the same elements in another shape, as a view if the strides allow it, else as a copy. One size may be -1."""
@overload
def reshape(input: Tensor, *shape: _int) -> Tensor: ...
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """Resize the tensor in place to the sizes of `the_template`, like `resize_`."""
def resolve_conj(input: Tensor) -> Tensor:
    """Copy that stores the conjugated values if `input` is a conjugate view, else `input` itself."""
def resolve_neg(input: Tensor) -> Tensor:
    """Copy that stores the negated values if `input` is a negative view, else `input` itself."""
def result_type(tensor1: Tensor | _Number, tensor2: Tensor | _Number) -> _dtype:
    """Return the dtype that two tensors or numbers promote to in arithmetic."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Like `nn.functional.rms_norm`, with the argument order of PyTorch's native function."""
@overload
def rnn_relu(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Apply layers of h' = relu(w_ih x + b_ih + w_hh h + b_hh) to sequences (time, batch, features), or to packed data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states."""
@overload
def rnn_relu(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Compute one step of `rnn_relu` for an input (batch, features). Returns the next hidden state, (batch, hidden)."""
@overload
def rnn_tanh(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, batch_first: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Apply layers of h' = tanh(w_ih x + b_ih + w_hh h + b_hh) to sequences (time, batch, features), or to packed data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states."""
@overload
def rnn_tanh(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: _bool, num_layers: _int, dropout: _float, train: _bool, bidirectional: _bool, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]: ...
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Compute one step of `rnn_tanh` for an input (batch, features). Returns the next hidden state, (batch, hidden)."""
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = ()) -> Tensor:
    """Shift elements along `dims`, moving those beyond the end to the start. Without `dims`, shift the elements of the flattened input, but keep its shape."""
@overload
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
    """Rotate by `k` quarter turns in the plane of the two dimensions `dims`, from the first towards the second."""
@overload
def rot90(input: Tensor, k: _int = 1, *dims: _int) -> Tensor: ...
def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Round each element to `decimals` decimal places. Ties round to even."""
def round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """Round each element to `decimals` decimal places. Ties round to even."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 0, after turning vectors into matrices of one row."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside training the slope is (lower + upper) / 2."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside training the slope is (lower + upper) / 2."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / sqrt(x)."""
def rsqrt_(input: Tensor) -> Tensor:
    """1 / sqrt(x)."""
def rsub(input: Tensor, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """`other - alpha * input`. Bool operands are not supported."""
def scalar_tensor(s: _Number, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Return a 0-d tensor that holds `s`, in the default floating-point dtype unless `dtype` is given."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Write the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] = src[i, j]`. If `reduce` is 'add' or 'multiply', add them to the input's elements, or multiply the input's elements by them, instead."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """Write the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] = src[i, j]`. If `reduce` is 'add' or 'multiply', add them to the input's elements, or multiply the input's elements by them, instead."""
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: _Number) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: _Number, *, reduce: _str) -> Tensor: ...
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Add the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] += src[i, j]`."""
def scatter_add_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """Add the elements of `src` along `dim` at the positions in `index`: for `dim=0` and two dimensions, `out[index[i, j], j] += src[i, j]`."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """Reduce the elements of `src` that have the same position in `index` along `dim`, and write the result there. `reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
def scatter_reduce_(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True) -> Tensor:
    """Reduce the elements of `src` that have the same position in `index` along `dim`, and write the result there. `reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'. If `include_self` is True, the input's own elements are included."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _Number, *, out_int32: _bool = False, right: _bool = False, side: _str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Indices at which the elements of `input` can be inserted into sorted sequences without breaking their order. They are int64, or int32 if `out_int32`. The sequences lie along the last dimension. The leading dimensions of both tensors must be equal unless `sorted_sequence` is a vector. The index is the first possible one, or the last possible one if `right=True` or `side='right'`."""
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """Return a view at one index of dimension `dim`, without that dimension."""
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """Like `select`, but return a contiguous copy."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `input` in which `src` replaces the elements that `select` selects."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017)."""
def selu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017)."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`x / |x|`, or 0 if x is 0. For real tensors this is `sign`."""
def sgn_(input: Tensor) -> Tensor:
    """`x / |x|`, or 0 if x is 0. For real tensors this is `sign`."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """Gradient of `sigmoid`, given its result."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sign of each element: -1, 0 or 1."""
def sign_(input: Tensor) -> Tensor:
    """The sign of each element: -1, 0 or 1."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Test whether the sign bit of each element is set. The result is bool."""
def silu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Gradient of `silu`."""
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
    """Like `slice`, but return a contiguous copy."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `input` in which `src` replaces the elements that `slice` selects."""
def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_slogdet:
    """Sign and logarithm of the magnitude of the determinants of square matrices (..., N, N). The sign of a complex determinant is a number of magnitude 1. A singular matrix has sign 0 and logarithm -inf."""
def smooth_l1_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: _str, beta: _float) -> Tensor:
    """Gradient of `smooth_l1_loss`."""
def soft_margin_loss_backward(grad_output: Tensor, input: Tensor, target: Tensor, reduction: _str) -> Tensor:
    """Gradient of `soft_margin_loss`."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Exponentials along `dim`, divided by their sum. The dtype must be floating-point."""
def softplus_backward(grad_output: Tensor, input: Tensor, beta: _float, threshold: _float) -> Tensor:
    """Gradient of `softplus`."""
@overload
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_sort:
    """Sort along `dim`, ascending unless `descending`. Returns (values, int64 indices). Equal elements keep their order."""
@overload
def sort(input: Tensor, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Sequence[Tensor] | None = None) -> _return_sort_stable: ...
@overload
def split(input: Tensor, split_size_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along `dim` into views of equal size (the last may be smaller), or of the sizes in a list. Returns a tuple."""
@overload
def split(input: Tensor, split_size_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def split(input: Tensor, split_size: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_copy(input: Tensor, split_size: _int, dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Like `split`, but return contiguous copies. If `out`, a list or tuple of tensors, is given, write the copies to these tensors and return None."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along `dim` into views of the given sizes. Returns a tuple."""
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Like `split_with_sizes`, but return contiguous copies. If `out`, a list or tuple of tensors, is given, write the copies to these tensors and return None."""
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
    """Return a view without the dimensions of size 1: all of them, or only those in `dim`."""
@overload
def squeeze(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
@overload
def squeeze(input: Tensor, *dim: _int) -> Tensor: ...
@overload
def squeeze_(input: Tensor) -> Tensor:
    """Return a view without the dimensions of size 1: all of them, or only those in `dim`."""
@overload
def squeeze_(input: Tensor, dim: _int) -> Tensor: ...
@overload
def squeeze_(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
@overload
def squeeze_(input: Tensor, *dim: _int) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `squeeze`, but return a contiguous copy."""
@overload
def squeeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *dim: _int, out: Tensor | None = None) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Stack tensors of the same shape along a new dimension `dim`. The dtypes are promoted."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Standard deviation over `dim`: the square root of `var`."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """Standard deviation (see `std`) and mean over `dim`, as a tuple."""
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
    """Short-time Fourier transform of a signal (points,) or (N, points): the transforms of its windowed frames. The result is complex with shape (..., frequencies, frames). If `return_complex` is False, it is real with an additional last dimension of size 2. `hop_length` defaults to `n_fft // 4`."""
def sub(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`input - alpha * other`. Bool operands are not supported."""
def sub_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """`input - alpha * other`. Bool operands are not supported."""
def subtract(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1, out: Tensor | None = None) -> Tensor:
    """`input - alpha * other`. Bool operands are not supported."""
def subtract_(input: Tensor | _Number, other: Tensor | _Number, *, alpha: _Number = 1) -> Tensor:
    """`input - alpha * other`. Bool operands are not supported."""
def sum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over `dim` (default: all dimensions). Integers and bool give int64 unless `dtype` is given."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_svd:
    """Singular value decomposition `input = U @ diag(S) @ V.mH`, reduced if `some`. If `compute_uv` is False, U and V are zeros."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Randomized singular value decomposition of A (..., M, N), or of A - M if M is given: U (..., M, q), S (..., q) and V (..., N, q), by random projections and `niter` subspace iterations (Halko, Martinsson and Tropp, 2009)."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """`transpose` with NumPy's argument names."""
def swapaxes_(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """`transpose` with NumPy's argument names."""
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """View with dimensions `dim0` and `dim1` exchanged."""
def swapdims_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """View with dimensions `dim0` and `dim1` exchanged."""
def t(input: Tensor) -> Tensor:
    """Transpose of a matrix, as a view. A tensor of 0 or 1 dimensions is returned unchanged. More than 2 dimensions are not supported."""
def t_(input: Tensor) -> Tensor:
    """Transpose of a matrix, as a view. A tensor of 0 or 1 dimensions is returned unchanged. More than 2 dimensions are not supported."""
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `t`, but return a contiguous copy."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements of the flattened `input` at the int64 positions `index`. The result has the shape of `index`."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """`gather` after broadcasting `input` and `indices` in all dimensions but `dim`. Without `dim`, gather from the flattened `input`."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent."""
def tan_(input: Tensor) -> Tensor:
    """The tangent."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
def tanh_(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    """Gradient of `tanh`, given its result."""
def tensor(data: Any | None, *, dtype: _dtype | None = None, device: _device | _str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """Return a new tensor with a copy of `data`: a number, nested sequences, an array or a tensor. `dtype` is inferred from the data by default. The copy has no gradient history."""
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along `dim` into a number of views whose sizes differ by at most one, or at the given indices. Returns a tuple."""
@overload
def tensor_split(input: Tensor, indices_or_sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices_or_sections: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """Sum of products over the last `dims` dimensions of `a` and the first `dims` dimensions of `b`. `dims` may also be a list of dimensions of `a` and a list of dimensions of `b`, which are paired in order. The result has the remaining dimensions of `a`, then those of `b`."""
def threshold(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """`input` where it is greater than `threshold`, else `value`."""
def threshold_(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False) -> Tensor:
    """`input` where it is greater than `threshold`, else `value`."""
def threshold_backward(grad_output: Tensor, input: Tensor, threshold: _Number) -> Tensor:
    """Gradient of `threshold` and `relu`: 0 where the input is at most `threshold`."""
@overload
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """Like `repeat`, but if `dims` has fewer values than there are dimensions, the leading dimensions are not repeated."""
@overload
def tile(input: Tensor, *dims: _int) -> Tensor: ...
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Sequence[Tensor] | None = None) -> _return_topk:
    """Return the `k` largest elements along `dim`, or the smallest if not `largest`, in order, as (values, int64 indices)."""
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sum of the main diagonal of a matrix."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """View with dimensions `dim0` and `dim1` exchanged."""
def transpose_(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """View with dimensions `dim0` and `dim1` exchanged."""
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """Like `transpose`, but return a contiguous copy."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """Integral of the samples `y` along `dim` by the trapezoidal rule. `x` holds the sample points. Without `x`, they are `dx` apart."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: _Number = 1, dim: _int = -1) -> Tensor:
    """Old name of `trapezoid`."""
def triangular_solve(input: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Sequence[Tensor] | None = None) -> _return_triangular_solve:
    """Solutions X of `A @ X = input` for triangular matrices A, or of `A.mT @ X = input` if `transpose`, and a copy of A expanded to the batch of the solution."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Lower triangle of matrices (..., n, m): the elements on and below diagonal `diagonal`, with 0 above it."""
def tril_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """Lower triangle of matrices (..., n, m): the elements on and below diagonal `diagonal`, with 0 above it."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Return the indices of the elements on and below diagonal `offset` of a (row, col) matrix. The result has shape (2, n) and holds the row indices, then the column indices."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, reduction: _int = 0) -> Tensor:
    """Like `nn.functional.triplet_margin_loss`, with the argument order of PyTorch's native function."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Upper triangle of matrices (..., n, m): the elements on and above diagonal `diagonal`, with 0 below it."""
def triu_(input: Tensor, diagonal: _int = 0) -> Tensor:
    """Upper triangle of matrices (..., n, m): the elements on and above diagonal `diagonal`, with 0 below it."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False) -> Tensor:
    """Return the indices of the elements on and above diagonal `offset` of a (row, col) matrix. The result has shape (2, n) and holds the row indices, then the column indices."""
def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None, out: Tensor | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def true_divide_(input: Tensor | _Number, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
    """`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or 'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round each element towards zero to an integer, in the input's dtype."""
def trunc_(input: Tensor) -> Tensor:
    """Round each element towards zero to an integer, in the input's dtype."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Return a tuple of views, one for each index of dimension `dim`, without that dimension."""
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Any | None = None) -> tuple[Tensor, ...]:
    """Like `unbind`, but return contiguous copies. If `out`, a list or tuple of tensors, is given, write the copies to these tensors and return None."""
@overload
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor:
    """Return a view with dimension `dim` split into several of the given sizes. One size may be -1."""
@overload
def unflatten(input: Tensor, dim: _int, *sizes: _int) -> Tensor: ...
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor:
    """Like `unfold`, but return a contiguous copy."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """Return the distinct elements, or the distinct slices along `dim`, sorted. `return_inverse` and `return_counts` each add an int64 tensor to the result."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
    """Return the elements, or the slices along `dim`, that differ from their predecessor. `return_inverse` and `return_counts` each add an int64 tensor to the result."""
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Convert indices into a flattened tensor to a tuple of index tensors, one for each dimension of its `shape`."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Like `chunk`."""
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Like `split`."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Like `split_with_sizes`."""
def unsqueeze(input: Tensor, dim: _int) -> Tensor:
    """Return a view with a new dimension of size 1 at position `dim`."""
def unsqueeze_(input: Tensor, dim: _int) -> Tensor:
    """Return a view with a new dimension of size 1 at position `dim`."""
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Like `unsqueeze`, but return a contiguous copy."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """Vandermonde matrix (n, N) of a vector (n,). The columns are its powers N - 1 to 0, or 0 to N - 1 if `increasing`. `N` defaults to n."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Variance over `dim` (default: all dimensions): the sum of squared deviations from the mean, divided by the number of elements minus `correction`, which defaults to 1."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _Number | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """Variance (see `var`) and mean over `dim`, as a tuple."""
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors of equal length with the first one conjugated, as a 0-d tensor."""
def view_as_complex(input: Tensor) -> Tensor:
    """Complex view of a float16, float32 or float64 tensor. Its last dimension, of size 2 and stride 1, must hold the real and imaginary parts."""
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `view_as_complex`, but return a contiguous copy."""
def view_as_real(input: Tensor) -> Tensor:
    """Real view of a complex tensor: shape (*input.shape, 2), with the real and imaginary parts in the last dimension."""
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Like `view_as_real`, but return a contiguous copy."""
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """Like `view`, but return a contiguous copy."""
@overload
def view_copy(input: Tensor, *size: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
@overload
def vsplit(input: Tensor, indices_or_sections: _int) -> tuple[Tensor, ...]:
    """Split along dimension 0 into a number of equal views, or at the given indices. Returns a tuple."""
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
    """Concatenate tensors along dimension 0, after turning vectors into matrices of one row."""
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """Select `input` where the bool condition is true, else `other`. The three are broadcast together. With `condition` alone, return the indices of its true elements, as one vector per dimension."""
@overload
def where(condition: Tensor, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]: ...
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
def xlogy_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
def zero(input: Tensor) -> Tensor:
    """Set all elements to 0."""
def zero_(input: Tensor) -> Tensor:
    """Set all elements to 0."""
@overload
def zeros(size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """Tensor of shape `size` filled with 0. `dtype` defaults to the default floating-point dtype."""
@overload
def zeros(*size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor: ...
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Tensor with the shape, dtype, device and dimension order of `input`, filled with 0."""
