"""The kernel policy ``eager``: PyTorch's CPU with one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops
from metatensor.rules.parts import layers
from metatensor.rules.policies import attention
from metatensor.rules.policies.policy import Kernel, KernelPolicy, Workspace

__all__ = ["POLICY"]

_PROFILER = "memory events of PyTorch 2.13's CPU profiler"


def _whole(*args: Any) -> None:
    """Create no parts."""


# Products -----------------------------------------------------------------------------------------------------


def _for_blas(t: Any) -> Any:
    """Return a matrix that BLAS can read: a copy, unless its rows or columns are contiguous."""
    rows, columns = t.shape
    first, second = t.stride()
    return t if (second == 1 and first >= max(1, columns)) or (first == 1 and second >= max(1, rows)) else t.clone()


def mm(a: Any, b: Any, *rest: Any) -> Any:
    return a.new_empty((a.shape[0], b.shape[1])), _for_blas(a), _for_blas(b)


# Reductions ---------------------------------------------------------------------------------------------------


def _divisor(t: Any) -> Any:
    """Create the divisor of a sum, in float64 and in the dtype of the sum."""
    return ops.empty((), dtype=mt.float64, device=t.device), ops.empty((), dtype=t.dtype, device=t.device)


def mean(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    result = ops.sum(input, dtype=dtype) if dim is None else ops.sum(input, dim, keepdim, dtype=dtype)
    return result, _divisor(result) if input.is_floating_point() else None


def logsumexp(input: Any, dim: Any, keepdim: bool) -> Any:
    result = ops.sum(input, dim, keepdim)
    greatest = ops.amax(input, dim, True)
    return result, greatest, ops.empty_like(input)


def _loss(input: Any, target: Any, reduction: str) -> Any:
    each = input + target
    return each if reduction == "none" else (each, ops.empty_like(each), mean(each) if reduction == "mean" else each.sum())


def mse_loss(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, *rest: Any) -> Any:
    return _loss(input, target, reduction)


# Normalization --------------------------------------------------------------------------------------------------


def layer_norm_backward(grad: Any, input: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, eps: float, mask: Any) -> Any:
    given = [ops.empty_like(t) for t, wanted in zip((input, weight, bias), mask, strict=True) if wanted]
    size = 1
    for n in shape:
        size *= n
    buffer = ops.empty((2, size), dtype=mean.dtype, device=input.device) if mask[1] or mask[2] else None
    return given, grad.contiguous(), buffer


def group_norm_backward(grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, n: int, channels: int, pixels: int, groups: int,
                        eps: float, mask: Any) -> Any:  # fmt: skip
    given = [ops.empty_like(input) if mask[0] else None]
    given += [mean.new_empty((channels,), dtype=input.dtype) for wanted in mask[1:] if wanted]
    sums = [ops.empty((n, channels), dtype=mean.dtype, device=input.device) for _ in range(2)]
    return given, grad.contiguous(), sums


# Copies of gradients -------------------------------------------------------------------------------------------


def _contiguous(grad: Any, saved: Any, *rest: Any) -> Any:
    """Create a contiguous gradient, and a result like the saved tensor."""
    return grad.contiguous(), ops.empty_like(saved)


def bce_with_logits(input: Any, target: Any, weight: Any = None, *rest: Any) -> Any:
    first = ops.empty_like(input)
    second = ops.empty_like(input)
    del first
    third = ops.empty_like(input)
    return second, third, ops.empty((), dtype=input.dtype, device=input.device), _divisor(input)


def prelu_gradients(*args: Any) -> Any:
    grad, input = args[:2]
    return [ops.empty_like(input) for _ in range(2)]


def logsumexp_gradient(grad: Any, input: Any, *rest: Any) -> Any:
    return [ops.empty_like(input) for _ in range(3)]


def batch_norm(input: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool, *rest: Any) -> Any:
    made = layers.batch_norm(input, mean, var, weight, bias, training, *rest)
    return made, input.new_empty((2 * input.shape[1] if training else 0,))


def batch_norm_forward(input: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool, *rest: Any) -> Any:
    channels = input.shape[1]
    return ops.empty_like(input), input.new_empty((2 * channels if training else 0,)), input.new_empty((2 * channels,))


def _kernel(parts: Callable[..., Any] | None, about: str, recorded: Callable[..., Any] | None = None) -> Kernel:
    return Kernel(parts, recorded, about, _PROFILER)


_MEAN = _kernel(mean, "a sum, which is divided in place by a number in a tensor")
_LOSS = _kernel(mse_loss, "the loss of each element, then their mean")
_COPY = _kernel(_contiguous, "one kernel, which copies a gradient that is not contiguous")

KERNELS = {
    "nn.functional.scaled_dot_product_attention": _kernel(
        attention.cpu_attention_parts, "one kernel for 4 dimensions without dropout; saves query, key, value, mask, output and the "
        "logarithms of the sums of exponentials", attention.cpu_attention),
    "_scaled_dot_product_flash_attention_for_cpu": _kernel(attention.flash_for_cpu, "one kernel with a buffer for a block of scores"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _kernel(
        attention.flash_for_cpu_backward, "one kernel, which copies a gradient that is not contiguous"),
    "mm": _kernel(mm, "one product, after matrices whose rows and columns are both spread have been copied"),
    "mean": _MEAN,
    "mean.dim": _MEAN,
    "logsumexp": _kernel(logsumexp, "the maxima, the exponentials of the differences, and their sum"),
    "nn.functional.mse_loss": _LOSS,
    "nn.functional.smooth_l1_loss": _LOSS,
    "nn.functional.binary_cross_entropy_with_logits": _kernel(bce_with_logits, "three element-wise steps and the mean"),
    "native_layer_norm_backward": _kernel(layer_norm_backward, "one kernel with a buffer for the gradients of weight and bias"),
    "native_group_norm_backward": _kernel(group_norm_backward, "one kernel with two sums for each channel"),
    "nn.functional.batch_norm": _kernel(batch_norm, "one kernel with a factor and a term for each channel"),
    "_batch_norm_forward": _kernel(batch_norm_forward, "one kernel with a factor and a term for each channel"),
    "mish_backward": _kernel(None, "one kernel"),
    **dict.fromkeys(("gelu_backward", "_softmax_backward_data", "_log_softmax_backward_data", "_max_pool_backward",
                     "_avg_pool_backward"), _COPY),
}  # fmt: skip

# Gradients that are written into zeros in place, although a dispatch mode sees a sum of two tensors.
FORMULAS = {
    **dict.fromkeys(("_index", "take", "gather", "index_select", "max.dim", "min.dim", "sort", "topk", "kthvalue", "median.dim", "mode"),
                    _whole),
    "prelu": prelu_gradients,
    "logsumexp": logsumexp_gradient,
}  # fmt: skip

POLICY = KernelPolicy(
    "eager", "PyTorch's CPU with one thread: fused attention, and gradients summed in place.", KERNELS,
    formulas=FORMULAS, sums_in_place=True,
    workspaces=[
        Workspace("buffers of threads after the first, in attention and layer norm", None, "depend on the number of threads"),
        Workspace("layouts of oneDNN: convolutions, and lstm in one kernel", None, "depend on the instructions of the CPU"),
        Workspace("what BLAS and oneDNN allocate themselves", None, "not seen by PyTorch's allocator"),
    ],
)  # fmt: skip
