"""A batch norm folded into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

import metatensor as mt
from metatensor.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _fused(layer: Any, norm: Any, fuse: Any, *options: Any) -> Any:
    if layer.training or norm.training:
        raise AssertionError("both layers must be in evaluation mode to be fused")
    result = copy.deepcopy(layer)
    if norm.running_mean is None or norm.running_var is None:
        raise AssertionError("the batch norm must have running statistics")
    statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    result.weight, result.bias = fuse(result.weight, result.bias, *statistics, *options)
    return result


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that computes ``bn(conv(x))``; ``transpose`` says that it is a transposed one.

    AssertionError where either is in training mode or the norm has no running statistics.
    """
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(
    conv_w: mt.Tensor,
    conv_b: mt.Tensor | None,
    bn_rm: mt.Tensor,
    bn_rv: mt.Tensor,
    bn_eps: float,
    bn_w: mt.Tensor | None,
    bn_b: mt.Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that `fuse_conv_bn_eval` makes."""
    bias = mt.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (mt.ones_like(bn_rm) if bn_w is None else bn_w) * mt.rsqrt(bn_rv + bn_eps)
    shift = mt.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = ((bias - bn_rm) * scale + shift).to(bias.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, bias.requires_grad if conv_b is None else conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that computes ``bn(linear(x))``.

    AssertionError where either is in training mode or the norm has neither one feature nor as many as ``linear``.
    """
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(f"a norm of {bn.num_features} features does not fit {linear.out_features} of the layer")
    return _fused(linear, bn, fuse_linear_bn_weights)


def fuse_linear_bn_weights(
    linear_w: mt.Tensor,
    linear_b: mt.Tensor | None,
    bn_rm: mt.Tensor,
    bn_rv: mt.Tensor,
    bn_eps: float,
    bn_w: mt.Tensor,
    bn_b: mt.Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that `fuse_linear_bn_eval` makes."""
    bias = mt.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * mt.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    made = ((bias - bn_rm) * scale + bn_b).to(bias.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(made, bias.requires_grad)
