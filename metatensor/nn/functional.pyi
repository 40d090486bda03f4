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

def _batch_norm_eval(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`batch_norm` by statistics that are given."""
def _batch_norm_stats(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`batch_norm` by the statistics of the batch."""
def _batch_norm_train(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, momentum: _float, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` by the statistics of the batch, with the running statistics after it."""
def _batch_statistics(input: Tensor, weight: Tensor | None, eps: _float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal of the standard deviation of each channel."""
def _instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`instance_norm` by the statistics of each instance."""
def _instance_norm_eval(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`instance_norm` by statistics that are given."""
def _instance_norm_train(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, momentum: _float, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """`instance_norm` by the statistics of each instance, with the running statistics after it."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over as many windows as output_size asks for."""
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over as many windows as output_size asks for."""
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over as many windows as output_size asks for."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Maxima over as many windows as output_size asks for."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool1d with indices into each image."""
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Maxima over as many windows as output_size asks for."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool2d with indices into each image."""
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Maxima over as many windows as output_size asks for."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool3d with indices into each image."""
def affine_grid(theta: Tensor, size: Any, align_corners: _bool | None = None) -> Tensor:
    """The grid, for grid_sample, of an affine map for each image."""
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations."""
def alpha_dropout_(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations."""
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The average of each window of (N, C, L)."""
def avg_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The average of each window of (N, C, H, W)."""
def avg_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The average of each window of (N, C, D, H, W)."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 for each channel (dimension 1), then times `weight` plus `bias`."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[i] @ input2 for each i, plus bias: [..., n] and [..., k] to [..., m]."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Cross entropy of probabilities in [0, 1]."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Cross entropy of sigmoid(input)."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
def celu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
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
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along dim."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = 0.0) -> Tensor:
    """Cross entropy of scores (N, C, ...) and classes (N, ...) or probabilities (N, C, ...)."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> Tensor:
    """Connectionist temporal classification (Graves et al., 2006)."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> Tensor: ...
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
def dropout1d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
def dropout2d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def dropout3d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def dropout_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
def elu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x, and alpha * (exp(x) - 1) below 0."""
def elu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """x, and alpha * (exp(x) - 1) below 0."""
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of weight (rows, width) at the indices in input: shape (*input, width)."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, mode: _str = 'mean', sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """Sum, mean or maximum of the rows in each bag of indices: (bags, width)."""
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels."""
def feature_alpha_dropout_(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels."""
def fold(input: Tensor, output_size: _int | Sequence[_int], kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Columns of patches added back into an image: the adjoint of unfold."""
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> Tensor:
    """Maxima of windows at pseudo-random places (Graham, 2014)."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d with indices."""
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> Tensor:
    """Maxima of windows at pseudo-random places (Graham, 2014)."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d with indices."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _Number, full: _bool = False, eps: _float = 1e-06, reduction: _str = 'mean') -> Tensor:
    """Negative log-likelihood under a normal distribution of mean input and variance var."""
def gelu(input: Tensor, *, approximate: _str = 'none', out: Tensor | None = None) -> Tensor:
    """x * Phi(x), Phi the normal distribution function; approximate='tanh' for its approximation."""
def glu(input: Tensor, dim: _int = -1, *, out: Tensor | None = None) -> Tensor:
    """The first half of a dimension times the sigmoid of the second."""
def grid_sample(input: Tensor, grid: Tensor, mode: _str = 'bilinear', padding_mode: _str = 'zeros', align_corners: _bool | None = None) -> Tensor:
    """The image (N, C, spatial...) at the places in grid (N, ..., 2 or 3), which run from -1 to 1."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 for each group of channels, then times `weight` plus `bias` by channel."""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None) -> Tensor:
    """Products of groups of rows, columns or both, that end at `offs`, with a matrix each."""
def gumbel_softmax(logits: Tensor, tau: _float = 1.0, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1, *, generator: _Generator | None = None) -> Tensor:
    """A draw from the categories of the logits along dim, soft at temperature tau or one-hot."""
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x, and 0 where |x| <= lambd."""
def hardsigmoid(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
def hardswish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6."""
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x brought into [min_val, max_val]."""
def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """x brought into [min_val, max_val]."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = 'mean', delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Squared below delta, linear with slope delta above."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 for each channel of each instance, then times `weight` plus `bias`."""
def interpolate(input: Tensor, size: Any | None = None, scale_factor: Any | None = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """The image (N, C, spatial...) at another size."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', log_target: _bool = False) -> Tensor:
    """Kullback-Leibler divergence of target from log-probabilities."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """The absolute difference."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, then times `weight` plus `bias`."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x, times negative_slope below 0."""
def leaky_relu_(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """x, times negative_slope below 0."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: [..., k] and [m, k] to [..., m]."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: _str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = 0.0, options: Any | None = None) -> Tensor:
    """Cross entropy of linear(input, linear_weight, linear_bias)."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """Divided by a power of the mean square over `size` neighbouring channels."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """`log_softmax`; without `dim` it is 0 for 0, 1 and 3 dimensions and 1 otherwise."""
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x)), without overflow on the way."""
def lp_pool1d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window of (N, C, L)."""
def lp_pool2d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window of (N, C, H, W)."""
def lp_pool3d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window of (N, C, D, H, W)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, L), and where it stands if return_indices."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """max_pool1d with indices into each image."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, H, W), and where it stands if return_indices."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """max_pool2d with indices into each image."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The largest value of each window of (N, C, D, H, W), and where it stands if return_indices."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """max_pool3d with indices into each image."""
@overload
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Values put back where max_pool1d found them, zero elsewhere."""
@overload
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
@overload
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Values put back where max_pool2d found them, zero elsewhere."""
@overload
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
@overload
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Values put back where max_pool3d found them, zero elsewhere."""
@overload
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
def mish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x * tanh(softplus(x))."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """The squared difference."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = True, key_padding_mask: Tensor | None = None, need_weights: _bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False) -> tuple[Tensor, Tensor]:
    """Attention of several heads: the output (L, N, E), and the weights (N, L, S) or None."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Hinge loss of scores (N, C) against the score of the target class."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Hinge loss of scores (N, C) against those of all target classes, which end at the first -1."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Binary cross entropy of sigmoid(input), averaged over the classes in the last dimension."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Channels of (N, C, ...) dealt out from `groups` groups in turn."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Minus the log-probability, in (N, C, ...), of each target class in (N, ...)."""
def normalize(input: Tensor, p: _float = 2.0, dim: _int | Sequence[_int] = 1, eps: _float = 1e-12, *, out: Tensor | None = None) -> Tensor:
    """Divided by its `p`-norm over `dim`, or by `eps` where that is larger."""
def one_hot(input: Tensor, num_classes: _int = -1) -> Tensor:
    """1 at each index, 0 elsewhere, along a new last dimension of num_classes."""
def pad(input: Tensor, pad: Sequence[_int], mode: _str = 'constant', value: _float | None = None) -> Tensor:
    """Extend dimensions (the last one first) by (before, after) elements; negative ones cut off."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows, as in the upper triangle read row by row."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Negative log-likelihood of counts under a Poisson rate."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, times weight below 0: one weight, or one for each channel."""
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """max(x, 0)."""
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
def relu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """max(x, 0)."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Divided by the root of the mean square over the last dimensions, then times `weight`."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """x, times a random slope from [lower, upper] below 0; outside training the middle of the two."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """x, times a random slope from [lower, upper] below 0; outside training the middle of the two."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, *, scale: _float | None = None, enable_gqa: _bool = False, generator: _Generator | None = None) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value, for (..., length, width)."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """A scaled elu with the constants of self-normalising networks (Klambauer et al., 2017)."""
def selu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """A scaled elu with the constants of self-normalising networks (Klambauer et al., 2017)."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
def silu(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x * sigmoid(x)."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', beta: _float = 1.0) -> Tensor:
    """Squared below beta, absolute above."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """log(1 + exp(-target * input))."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """`softmax`; without `dim` it is 0 for 0, 1 and 3 dimensions and 1 otherwise."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """`softmax` of -input."""
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
def softshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards 0 by lambd, stopping there."""
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
def tanh_(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """x where it is above the threshold, else `value`."""
def threshold_(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """x where it is above the threshold, else `value`."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """max(0, margin + distance to positive - distance to negative)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any | None = None, margin: _float = 1.0, swap: _bool = False, reduction: _str = 'mean') -> Tensor:
    """Triplet margin loss with a distance function of one's own."""
def unfold(input: Tensor, kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Sliding patches of (N, C, H, W) as columns: (N, C * kernel elements, positions)."""
def upsample(input: Tensor, size: Any | None = None, scale_factor: Any | None = None, mode: _str = 'nearest', align_corners: _bool | None = None) -> Tensor:
    """An older name of interpolate."""
def upsample_bilinear(input: Tensor, size: Any | None = None, scale_factor: Any | None = None) -> Tensor:
    """interpolate with mode='bilinear' and align_corners."""
def upsample_nearest(input: Tensor, size: Any | None = None, scale_factor: Any | None = None) -> Tensor:
    """interpolate with mode='nearest'."""
