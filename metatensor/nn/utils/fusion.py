"""Fusion of a batch norm in evaluation mode into the layer before it."""

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
    """Return a convolution that computes ``bn(conv(x))``.

    Parameters
    ----------
    conv : Module
        Convolution, in evaluation mode. It is copied.
    bn : Module
        Batch norm, in evaluation mode.
    transpose : bool
        Whether ``conv`` is a transposed convolution. Default False.

    Raises
    ------
    AssertionError
        If a layer is in training mode or the batch norm has no running statistics.

    Examples
    --------
    >>> import metatensor as mt
    >>> conv, bn = mt.nn.Conv2d(3, 8, 3).eval(), mt.nn.BatchNorm2d(8).eval()
    >>> mt.nn.utils.fuse_conv_bn_eval(conv, bn)
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
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
    """Return weight and bias of a convolution fused with a batch norm. See `fuse_conv_bn_eval`.

    Parameters
    ----------
    conv_w : Tensor
        Weight of the convolution.
    conv_b : Tensor or None
        Its bias.
    bn_rm, bn_rv : Tensor
        Running mean and variance of the batch norm.
    bn_eps : float
        Its ``eps``.
    bn_w, bn_b : Tensor or None
        Its weight and bias.
    transpose : bool
        Whether the convolution is transposed. Default False.
    """
    bias = mt.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (mt.ones_like(bn_rm) if bn_w is None else bn_w) * mt.rsqrt(bn_rv + bn_eps)
    shift = mt.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = ((bias - bn_rm) * scale + shift).to(bias.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, bias.requires_grad if conv_b is None else conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that computes ``bn(linear(x))``.

    Both layers must be in evaluation mode. They are not changed.

    Raises
    ------
    AssertionError
        If a layer is in training mode, the batch norm has no running statistics, or its number of features is neither 1
        nor ``linear.out_features``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.utils.fuse_linear_bn_eval(mt.nn.Linear(3, 2).eval(), mt.nn.BatchNorm1d(2).eval())
    Linear(in_features=3, out_features=2, bias=True)
    """
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(f"a norm of {bn.num_features} features does not fit a layer of {linear.out_features} output features")
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
    """Return weight and bias of a linear layer fused with a batch norm.

    See `fuse_conv_bn_weights` for the parameters.
    """
    bias = mt.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * mt.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    made = ((bias - bn_rm) * scale + bn_b).to(bias.dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(made, bias.requires_grad)
