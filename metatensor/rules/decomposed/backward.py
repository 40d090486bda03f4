"""Backward operators of activation functions. The gradients of these operators are computed from the same formulas."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import conj
from metatensor.rules.decompositions import decomposition, numeric


@numeric("sigmoid_backward", complex=True)
def sigmoid(grad: Any, output: Any) -> Any:
    return grad * conj(output * (1 - output))


@numeric("tanh_backward", complex=True)
def tanh(grad: Any, output: Any) -> Any:
    return grad * conj(1 - output * output)


@numeric("threshold_backward")
def threshold(grad: Any, x: Any, bound: float) -> Any:
    return mt.where(x <= bound, 0.0, grad)


@numeric("gelu_backward")
def gelu(grad: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        slope = math.sqrt(2 / math.pi)
        square = x * x
        t = mt.tanh(slope * (x + 0.044715 * square * x))
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (slope * (1 + 3 * 0.044715 * square)))
    return grad * (0.5 * (1 + mt.erf(x * math.sqrt(0.5))) + x * mt.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)))


@numeric("silu_backward", complex=True)
def silu(grad: Any, x: Any) -> Any:
    s = x.sigmoid()
    return grad * conj(s * (1 + x * (1 - s)))


@numeric("mish_backward")
def mish(grad: Any, x: Any) -> Any:
    t = mt.nn.functional.softplus(x).tanh()
    return grad * (t + x * x.sigmoid() * (1 - t * t))


@numeric("elu_backward")
def elu(grad: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return mt.where(x <= 0, grad * (input_scale * alpha * scale) * mt.exp(x * input_scale), grad * scale)


@numeric("leaky_relu_backward")
def leaky_relu(grad: Any, x: Any, slope: float) -> Any:
    return mt.where(x > 0, grad, grad * slope)


@numeric("hardtanh_backward")
def hardtanh(grad: Any, x: Any, low: float, high: float) -> Any:
    return mt.where((x <= low) | (x >= high), 0.0, grad)


@numeric("hardswish_backward")
def hardswish(grad: Any, x: Any) -> Any:
    return mt.where(x <= -3, 0.0, mt.where(x < 3, grad * (x / 3 + 0.5), grad))


@numeric("hardsigmoid_backward")
def hardsigmoid(grad: Any, x: Any) -> Any:
    return mt.where((x > -3) & (x < 3), grad / 6, 0.0)


@numeric("hardshrink_backward")
def hardshrink(grad: Any, x: Any, lambd: float) -> Any:
    return mt.where((x >= -lambd) & (x <= lambd), 0.0, grad)


@numeric("softplus_backward")
def softplus(grad: Any, x: Any, beta: float, threshold: float) -> Any:
    return mt.where(x * beta > threshold, grad, grad * mt.sigmoid(x * beta))


@numeric("log_sigmoid_backward")
def log_sigmoid(grad: Any, x: Any) -> Any:
    return grad * mt.sigmoid(-x)


@numeric("glu_backward")
def glu(grad: Any, x: Any, dim: int) -> Any:
    half = x.size(dim) // 2
    a, b = x.narrow(dim, 0, half), x.narrow(dim, half, half)
    s = b.sigmoid()
    return mt.cat((grad * s, grad * a * (s * (1 - s))), dim)


@numeric("_softmax_backward_data")
def softmax(grad: Any, output: Any, dim: int, dtype: Any) -> Any:
    weighted = grad * output
    result = weighted - output * weighted.sum(dim, keepdim=True)
    return result if dtype is None or dtype.itemsize != 2 else result.to(dtype)


@numeric("_log_softmax_backward_data")
def log_softmax(grad: Any, output: Any, dim: int, dtype: Any) -> Any:
    result = grad - mt.exp(output) * grad.sum(dim, keepdim=True)
    return result if dtype is None or dtype.itemsize != 2 else result.to(dtype)


@decomposition("native_layer_norm_backward")
def layer_norm(*args: Any) -> Any:
    from metatensor.rules.gradients import norm

    return norm.layer_norm_backward(*args)


@decomposition("native_group_norm_backward")
def group_norm(*args: Any) -> Any:
    from metatensor.rules.gradients import norm

    return norm.group_norm_backward(*args)


@decomposition("native_batch_norm_backward")
def batch_norm(*args: Any) -> Any:
    from metatensor.rules.gradients import norm

    return norm.batch_norm_backward(*args)


@decomposition("_batch_norm_forward")
def batch_norm_forward(*args: Any) -> Any:
    from metatensor.rules.gradients import norm

    with mt.no_grad():
        return norm.batch_norm_forward(*args)


def _loss(name: str) -> Any:
    def backward(*args: Any) -> Any:
        from metatensor.rules.gradients import losses

        return getattr(losses, name)(*args)

    return backward


for _name in ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "multi_margin_loss",
              "multilabel_margin_loss", "nll_loss"):  # fmt: skip
    numeric(f"{_name}_backward")(_loss(f"{_name}_backward"))
decomposition("_nll_loss_forward")(_loss("nll_loss_forward"))


@numeric("log_sigmoid_forward")
def log_sigmoid_forward(x: Any) -> Any:
    small = mt.exp(-x.abs())
    return x.clamp_max(0) - small.log1p(), small if x.device.type != "cuda" else x.new_empty(0)


@numeric("_rrelu_with_noise")
def rrelu_with_noise(x: Any, noise: Any, lower: float, upper: float, training: bool) -> Any:
    return x * noise if training else mt.where(x > 0, x, x * ((lower + upper) / 2))


@decomposition("convolution_backward")
def convolution_backward(*args: Any) -> Any:
    from metatensor.rules.gradients import convolution

    return convolution.convolution_backward(*args)


def _window(module: str, name: str) -> Any:
    def backward(*args: Any) -> Any:
        from importlib import import_module

        return getattr(import_module(f"metatensor.rules.gradients.{module}"), name)(*args)

    return backward


for _name in ("max_pool", "avg_pool", "adaptive_avg_pool", "upsample"):
    numeric(f"_{_name}_backward")(_window("windows", f"{_name}_backward"))
decomposition("embedding_dense_backward")(_window("attention", "embedding_dense_backward"))
for _name in ("flash_attention", "efficient_attention", "flash_attention_for_cpu"):
    decomposition(f"_scaled_dot_product_{_name}_backward")(_window("fused", f"{_name}_backward"))
decomposition("_fused_rms_norm_backward")(_window("fused", "rms_norm_backward"))
decomposition("_embedding_bag")(_window("sampling", "bag_parts"))
decomposition("_embedding_bag_backward")(_window("sampling", "bag_gradient"))
decomposition("_embedding_bag_weights_backward")(_window("sampling", "bag_weights_gradient"))
numeric("_cdist_backward")(_window("reductions", "rows_apart"))
numeric("_pdist_backward")(_window("reductions", "pairs_of_rows"))
numeric("_grid_sampler_backward")(_window("sampling", "grid_sampler_backward"))
decomposition("_multilabel_margin_loss_forward")(_loss("multilabel_margin_loss_forward"))
decomposition("_ctc_loss")(_window("ctc", "ctc_forward"))
decomposition("_ctc_loss_backward")(_window("ctc", "ctc_backward"))
