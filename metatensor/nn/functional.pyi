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
    """`batch_norm` with the given running statistics."""
def _batch_norm_stats(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`batch_norm` with the statistics of the batch."""
def _batch_norm_train(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, momentum: _float, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` with the statistics of the batch. Returns the result and the updated running mean and variance."""
def _batch_statistics(input: Tensor, weight: Tensor | None, eps: _float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal standard deviation of each channel, each of shape (C,)."""
def _instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`instance_norm` with the statistics of each instance."""
def _instance_norm_eval(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: _float) -> Tensor:
    """`instance_norm` with the given running statistics."""
def _instance_norm_train(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, momentum: _float, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """`instance_norm` with the statistics of each instance. Returns the result and the updated running mean and variance."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size."""
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size."""
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Average pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size. If `return_indices`, also return the int64 indices of the maxima."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `adaptive_max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima in the last dimension."""
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size. If `return_indices`, also return the int64 indices of the maxima."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `adaptive_max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last two dimensions."""
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """Max pooling with windows chosen so that the spatial output sizes are `output_size`. None keeps the input's size. If `return_indices`, also return the int64 indices of the maxima."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `adaptive_max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last three dimensions."""
def affine_grid(theta: Tensor, size: Any, align_corners: _bool | None = None) -> Tensor:
    """Return the grid for `grid_sample` that applies one affine map per image. `theta` (N, 2, 3) and `size` (N, C, H, W) give (N, H, W, 2). `theta` (N, 3, 4) and `size` (N, C, D, H, W) give (N, D, H, W, 3)."""
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout, which keeps the mean and variance of SELU activations."""
def alpha_dropout_(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout, which keeps the mean and variance of SELU activations."""
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """Average of each window of (N, C, L)."""
def avg_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Average of each window of (N, C, H, W)."""
def avg_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Average of each window of (N, C, D, H, W)."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Normalize each channel (dimension 1) to mean 0 and variance 1, then multiply by `weight` and add `bias`, each of shape (C,). Training uses the statistics of the batch and updates the running statistics in place."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[i] @ input2 + bias[i]` for each i: inputs (..., n) and (..., k) and weight (m, n, k) give (..., m)."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Binary cross entropy of probabilities `input` in [0, 1]: `-(target * log(input) + (1 - target) * log(1 - input))`. Both tensors have the same shape and dtype. `weight` expands to that shape and multiplies the loss."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Binary cross entropy of the probabilities `sigmoid(input)`, computed from the logits `input` for numerical stability. `input` and `target` have the same shape. `pos_weight` multiplies the term of positive targets, and `weight` multiplies the whole loss. Both expand to this shape."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`."""
def celu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Continuously differentiable ELU: `max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))`."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Interleave `groups` groups of channels of (N, C, ...): view C as (groups, C / groups), transpose and flatten."""
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
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Cosine embedding loss. With the cosine similarity `cos` of the vectors along the last dimension, the loss is `1 - cos` where `target` is 1, and `max(0, cos - margin)` where it is -1. The inputs are (N, D) and the target is (N,). Without a batch, they are (D,) and ()."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """Cosine of the angle between the vectors along `dim` of `x1` and `x2`, which are broadcast together. `dim` is removed. `eps` is a lower bound for the norms."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = 0.0) -> Tensor:
    """Cross entropy between unnormalized class scores `input` (N, C, ...) and `target`: class indices (N, ...) or class probabilities (N, C, ...). `weight` (C,) scales the loss of each class. Class indices equal to `ignore_index` do not contribute. `label_smoothing` mixes the target with the uniform distribution."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> Tensor:
    """Connectionist temporal classification loss (Graves et al., 2006). `log_probs` (T, N, C) or (T, C) is float32 or float64. `targets` is (N, S), or a vector of the concatenated target sequences. `input_lengths` and `target_lengths` hold one length for each sequence."""
@overload
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int], target_lengths: Sequence[_int], blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False) -> Tensor: ...
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """If `training`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p)."""
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, L) or (C, L)."""
def dropout1d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, H, W)."""
def dropout2d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, H, W)."""
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, D, H, W) or (C, D, H, W)."""
def dropout3d_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Dropout of whole channels of `input` (N, C, D, H, W) or (C, D, H, W)."""
def dropout_(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """If `training`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p)."""
def elu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Exponential linear unit: `input` where it is positive, else `alpha * (exp(input) - 1)`."""
def elu_(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Exponential linear unit: `input` where it is positive, else `alpha * (exp(input) - 1)`."""
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of `weight` (V, D) at the int64 or int32 indices `input`: shape (*input.shape, D). If `max_norm` is given, the rows that are looked up are first scaled in place to a `norm_type`-norm of at most `max_norm`."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, mode: _str = 'mean', sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """Sum, mean or maximum (`mode`) of the rows of `weight` (V, D) in each bag of indices: shape (B, D). The bags are the rows of a 2-d `input`, or the runs of a vector that begin at `offsets`. `per_sample_weights`, of the shape of `input`, scales the rows in mode 'sum'. Indices equal to `padding_idx` do not contribute."""
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def feature_alpha_dropout_(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together."""
def fold(input: Tensor, output_size: _int | Sequence[_int], kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Sum columns of patches (N, C * KH * KW, number of positions) into images (N, C, *output_size), the adjoint of `unfold`. The batch dimension is optional."""
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> Tensor:
    """Fractional max pooling: maxima over windows at pseudo-random positions (Graham, 2014). The spatial output sizes are `output_size`, or the input's sizes times `output_ratio`. If `return_indices`, also return the int64 indices of the maxima."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Like `fractional_max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last two dimensions."""
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> Tensor:
    """Fractional max pooling: maxima over windows at pseudo-random positions (Graham, 2014). The spatial output sizes are `output_size`, or the input's sizes times `output_ratio`. If `return_indices`, also return the int64 indices of the maxima."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: Any | None = None, output_ratio: Any | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None, *, generator: _Generator | None = None) -> tuple[Tensor, Tensor]:
    """Like `fractional_max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last three dimensions."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _Number, full: _bool = False, eps: _float = 1e-06, reduction: _str = 'mean') -> Tensor:
    """Negative log-likelihood of `target` under normal distributions of mean `input` and variance `var`: `0.5 * (log(v) + (input - target) ** 2 / v)` with `v = max(var, eps)`. `full` adds the constant `0.5 * log(2 * pi)`."""
def gelu(input: Tensor, *, approximate: _str = 'none', out: Tensor | None = None) -> Tensor:
    """Gaussian error linear unit: `input * Phi(input)`, where Phi is the cumulative distribution function of the standard normal distribution. `approximate='tanh'` computes Phi by its tanh approximation."""
def glu(input: Tensor, dim: _int = -1, *, out: Tensor | None = None) -> Tensor:
    """Gated linear unit: split `input` into halves along `dim` and multiply the first by the sigmoid of the second. The size of `dim` must be even and is halved."""
def grid_sample(input: Tensor, grid: Tensor, mode: _str = 'bilinear', padding_mode: _str = 'zeros', align_corners: _bool | None = None) -> Tensor:
    """Sample images (N, C, H, W) at the positions in `grid` (N, H', W', 2). The result is (N, C, H', W'). In 3-d, the images are (N, C, D, H, W) and the grid is (N, D', H', W', 3). Positions are (x, y) or (x, y, z), with -1 and 1 at the edges of the image."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Group normalization of (N, C, ...): scale and shift each of `num_groups` groups of channels to mean 0 and variance 1, then multiply by `weight` (C,) and add `bias` (C,)."""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None) -> Tensor:
    """Product of groups of rows or columns, each with its own matrix, in bfloat16, float16 or float32. The int32 vector `offs` (G,) holds the end of each group. For `mat_a` (M, K) and `mat_b` (G, K, N), the groups split M and the result is (M, N). For (G, M, K) and (K, N), they split N and the result is (M, N). For (M, K) and (K, N), they split K and the result is (G, M, N). Without `offs`, (G, M, K) and (G, K, N) give the batched product. `bias` is not supported."""
def gumbel_softmax(logits: Tensor, tau: _float = 1.0, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1, *, generator: _Generator | None = None) -> Tensor:
    """Sample from the categories along `dim` with the Gumbel-softmax trick (Jang et al., 2017), at temperature `tau`. The sample is soft, or one-hot if `hard` is true. `eps` is ignored."""
def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Set elements with `abs(input) <= lambd` to 0 and keep the others."""
def hardsigmoid(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Piecewise linear approximation of the sigmoid: `min(max(input + 3, 0), 6) / 6`."""
def hardswish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Piecewise approximation of SiLU: `input * min(max(input + 3, 0), 6) / 6`."""
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Clamp each element to [min_val, max_val]."""
def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """Clamp each element to [min_val, max_val]."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Hinge embedding loss: `input` where `target` is 1, and `max(0, margin - input)` where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = 'mean', delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Huber loss, with `d = abs(input - target)`: `0.5 * d ** 2` if d < delta, else `delta * (d - 0.5 * delta)`."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Normalize each channel (dimension 1) of each instance to mean 0 and variance 1, then multiply by `weight` and add `bias`, each of shape (C,). With `use_input_stats`, the statistics are computed from the input, and the running statistics, if given, are updated in place. Otherwise the running statistics are used."""
def interpolate(input: Tensor, size: Any | None = None, scale_factor: Any | None = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """Resize images (N, C, spatial...) to the spatial sizes `size`, or by the factor `scale_factor`. `mode` is 'nearest', 'nearest-exact' or 'area'. It may also be 'linear' for inputs of 3 dimensions, 'bilinear', 'bicubic' or 'lanczos' for 4, and 'trilinear' for 5."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', log_target: _bool = False) -> Tensor:
    """Kullback-Leibler divergence of log-probabilities `input` from probabilities `target`: `target * (log(target) - input)`. If `log_target` is True, `target` holds log-probabilities too. The reduction 'batchmean' divides the sum by the size of dimension 0."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Absolute error: `abs(input - target)`. `weight` has the shape of `input` and multiplies each term. If it is given, 'mean' divides by the sum of the weights."""
def layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Layer normalization: scale and shift to mean 0 and variance 1 over the trailing dimensions `normalized_shape`, then multiply by `weight` and add `bias`."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Leaky ReLU: `input` where it is positive, else `negative_slope * input`."""
def leaky_relu_(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """Leaky ReLU: `input` where it is positive, else `negative_slope * input`."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Affine map `input @ weight.T + bias`: input (..., k) and weight (m, k) give (..., m). A weight of shape (k,) gives (...)."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: _str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = 0.0, options: Any | None = None) -> Tensor:
    """Cross entropy of the scores `linear(input, linear_weight, linear_bias)`, with `input` (N, D) or (D,) and `linear_weight` (C, ..., D)."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """Divide (N, C, ...) by `(k + alpha * m) ** beta`, where m is the mean square over `size` neighbouring channels (Krizhevsky et al., 2012)."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """Like `log_softmax`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1."""
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sigmoid, computed without overflow."""
def lp_pool1d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Norm of order `norm_type` of each window of (N, C, L)."""
def lp_pool2d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Norm of order `norm_type` of each window of (N, C, H, W)."""
def lp_pool3d(input: Tensor, norm_type: _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """Norm of order `norm_type` of each window of (N, C, D, H, W)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Margin ranking loss: `max(0, -target * (input1 - input2) + margin)`, with `target` 1 or -1."""
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, L). If `return_indices`, also return the int64 indices of the maxima."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `max_pool1d`, but returns (values, indices): the indices are the int64 positions of the maxima in the last dimension."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, H, W). If `return_indices`, also return the int64 indices of the maxima."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `max_pool2d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last two dimensions."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """Maximum of each window of (N, C, D, H, W). If `return_indices`, also return the int64 indices of the maxima."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """Like `max_pool3d`, but returns (values, indices): the indices are the int64 positions of the maxima in the flattened last three dimensions."""
@overload
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Write the maxima selected by `max_pool1d` to their original indices in a larger output of zeros."""
@overload
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
@overload
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Write the maxima selected by `max_pool2d` to their original indices in a larger output of zeros."""
@overload
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
@overload
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: Sequence[_int] | None = None) -> Tensor:
    """Write the maxima selected by `max_pool3d` to their original indices in a larger output of zeros."""
@overload
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, *output_size: _int) -> Tensor: ...
def mish(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Mish activation: `input * tanh(softplus(input))`."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Squared error: `(input - target) ** 2`. `weight` has the shape of `input` and multiplies each term. If it is given, 'mean' divides by the sum of the weights."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = True, key_padding_mask: Tensor | None = None, need_weights: _bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False) -> tuple[Tensor, Tensor]:
    """Multi-head attention of query (L, N, E) over key and value (S, N, E). Unbatched tensors have no dimension N. Returns the output (L, N, E) and the attention weights. The weights are (N, L, S), or (N, heads, L, S) if `average_attn_weights` is False, or None if `need_weights` is False."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Multi-class margin loss of scores `input` (N, C) and class indices `target` (N,): the sum over the other classes i of `max(0, margin - input[target] + input[i]) ** p`, divided by C. `p` is 1 or 2. `weight` (C,) scales the loss of each target class."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Multi-label margin loss of scores `input` (N, C). Row n of `target` (N, C) lists the target classes of sample n, ending at the first -1. The loss sums `max(0, 1 - input[j] + input[i])` over target classes j and other classes i, divided by C."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Binary cross entropy of the probabilities `sigmoid(input)`, averaged over the classes in the last dimension. `weight` scales the loss of each class."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Interleave `groups` groups of channels of (N, C, ...): view C as (groups, C / groups), transpose and flatten."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Negative log-likelihood loss: `input` (N, C, ...) holds log-probabilities and `target` (N, ...) class indices (int64 or uint8). `weight` (C,) scales the loss of each class. Targets equal to `ignore_index` do not contribute."""
def normalize(input: Tensor, p: _float = 2.0, dim: _int | Sequence[_int] = 1, eps: _float = 1e-12, *, out: Tensor | None = None) -> Tensor:
    """Divide by the `p`-norm over `dim`, or by `eps` if that is larger."""
def one_hot(input: Tensor, num_classes: _int = -1) -> Tensor:
    """One-hot encoding of an int64 tensor: a new last dimension of size `num_classes` holds 1 at the index and 0 elsewhere. With `num_classes=-1` the size is one more than the largest value, so `input` must hold data."""
def pad(input: Tensor, pad: Sequence[_int], mode: _str = 'constant', value: _float | None = None) -> Tensor:
    """Pad the trailing dimensions. `pad` holds pairs (before, after), last dimension first. Negative values crop. `mode` is 'constant' (fill with `value`, default 0), 'reflect', 'replicate' or 'circular'."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """The p-norm of `x1 - x2 + eps` over the last dimension."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The p-norm distances between all pairs of rows of `input` (N, M): a vector of N * (N - 1) / 2 elements, in the row-major order of the strict upper triangle of the distance matrix."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """Move channels to space: (..., C * r * r, H, W) becomes (..., C, H * r, W * r), where r is `upscale_factor`."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """Move space to channels: (..., C, H * r, W * r) becomes (..., C * r * r, H, W), where r is `downscale_factor`."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Negative log-likelihood of the counts `target` under Poisson distributions, up to a constant: `exp(input) - target * input`, or if `log_input` is False, `input - target * log(input + eps)`. `full` adds Stirling's approximation of `log(target!)`."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Parametric ReLU: `input` where it is positive, else `weight * input`. `weight` holds one value, or one for each channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Rectified linear unit: `max(input, 0)`."""
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """Rectified linear unit bounded by 6: `min(max(input, 0), 6)`."""
def relu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """Rectified linear unit: `max(input, 0)`."""
def rms_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """Divide by the root of the mean square over the trailing dimensions `normalized_shape`, then multiply by `weight`."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside training the slope is (lower + upper) / 2."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False, *, generator: _Generator | None = None) -> Tensor:
    """Randomized leaky ReLU: multiply negative elements by a slope drawn uniformly from [lower, upper]. Outside training the slope is (lower + upper) / 2."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, *, scale: _float | None = None, enable_gqa: _bool = False, generator: _Generator | None = None) -> Tensor:
    """Scaled dot-product attention: `softmax(query @ key.mT * scale + attn_mask) @ value`, with query (..., L, E), key (..., S, E), value (..., S, Ev) and result (..., L, Ev). `scale` defaults to 1 / sqrt(E). A bool mask is true where attention is allowed. If `is_causal`, query i attends only to keys 0 to i. If `enable_gqa`, the heads (dimension -3) of key and value are repeated to match the number of heads of query."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017)."""
def selu_(input: Tensor, inplace: _bool = False) -> Tensor:
    """Scaled exponential linear unit, with the constants of self-normalizing networks (Klambauer et al., 2017)."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def sigmoid_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
def silu(input: Tensor, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Sigmoid linear unit: `input * sigmoid(input)`."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', beta: _float = 1.0) -> Tensor:
    """Smooth L1 loss, with `d = abs(input - target)`: `0.5 * d ** 2 / beta` if d < beta, else `d - 0.5 * beta`."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Logistic loss: `log(1 + exp(-target * input))`, with `target` 1 or -1. `target` expands to the shape of `input`."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """Like `softmax`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None) -> Tensor:
    """Softmax of `-input`. `dim` defaults to 0 if the input has 0, 1 or 3 dimensions, else to 1."""
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """Smooth approximation of ReLU: `log(1 + exp(beta * input)) / beta`, or `input` itself where `beta * input > threshold`."""
def softshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Move each element towards 0 by `lambd`. Elements with `abs(input) <= lambd` become 0."""
def softsign(input: Tensor) -> Tensor:
    """Softsign: `input / (1 + abs(input))`."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
def tanh_(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
def tanhshrink(input: Tensor) -> Tensor:
    """`input - tanh(input)`."""
def threshold(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """`input` where it is greater than `threshold`, else `value`."""
def threshold_(input: Tensor, threshold: _Number, value: _Number, inplace: _bool = False) -> Tensor:
    """`input` where it is greater than `threshold`, else `value`."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2.0, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean') -> Tensor:
    """Triplet margin loss: `max(0, margin + d(anchor, positive) - d(anchor, negative))`, where d is the p-norm distance of `pairwise_distance`. If `swap`, the smaller of d(anchor, negative) and d(positive, negative) takes the place of d(anchor, negative)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any | None = None, margin: _float = 1.0, swap: _bool = False, reduction: _str = 'mean') -> Tensor:
    """Triplet margin loss with a distance function of the caller's choice, `pairwise_distance` by default."""
def unfold(input: Tensor, kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Extract sliding patches of `input` (N, C, H, W) as columns: (N, C * KH * KW, number of positions). The batch dimension is optional."""
def upsample(input: Tensor, size: Any | None = None, scale_factor: Any | None = None, mode: _str = 'nearest', align_corners: _bool | None = None) -> Tensor:
    """Older name of `interpolate`."""
def upsample_bilinear(input: Tensor, size: Any | None = None, scale_factor: Any | None = None) -> Tensor:
    """`interpolate` with mode='bilinear' and align_corners=True."""
def upsample_nearest(input: Tensor, size: Any | None = None, scale_factor: Any | None = None) -> Tensor:
    """`interpolate` with mode='nearest'."""
