"""Kernels of elementwise losses, and the reduction shared by all losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from metatensor.devices.array_kit.registry import kernel

__all__ = ["reduced"]


def reduced(loss: Any, reduction: str) -> Any:
    """Reduce a loss: "none", "mean", "sum", or "batchmean" (the sum divided by the size of the first dimension)."""
    if reduction == "mean":
        return loss.mean() if loss.size else math.nan
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / loss.shape[0] if reduction == "batchmean" else loss


def _log_sigmoid(xp: Any, x: Any) -> Any:
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


# Functions of input - target ---------------------------------------------------------------------


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    """Apply weights and reduce. The mean divides by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


def _huber(xp: Any, difference: Any, delta: float) -> Any:
    distance = xp.abs(difference)
    return xp.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


def _difference(out: Any, input: Any, target: Any) -> Any:
    kind = out.dtype if input.dtype.kind != "c" and target.dtype.kind != "c" else None
    return input.astype(kind or input.dtype, copy=False) - target.astype(kind or target.dtype, copy=False)


@kernel("nn.functional.mse_loss")
def mse_loss(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    difference = _difference(out, input, target)
    return _weighted(difference * difference, weight, reduction)


@kernel("nn.functional.l1_loss")
def l1_loss(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    return _weighted(kit.xp.abs(_difference(out, input, target)), weight, reduction)


@kernel("nn.functional.smooth_l1_loss")
def smooth_l1_loss(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str, beta: float) -> Any:
    difference = _difference(out, input, target)
    loss = kit.xp.abs(difference) if beta == 0 else _huber(kit.xp, difference, beta) / beta
    return reduced(loss, reduction)


@kernel("nn.functional.huber_loss")
def huber_loss(kit: Any, out: Any, input: Any, target: Any, reduction: str, delta: float, weight: Any) -> Any:
    loss = _huber(kit.xp, _difference(out, input, target), delta)
    # This mean divides by the number of elements, those of the other losses by the sum of the weights.
    return reduced(loss if weight is None else loss * weight, reduction)


# Likelihoods ----------------------------------------------------------------------------------


@kernel("nn.functional.binary_cross_entropy")
def binary_cross_entropy(kit: Any, out: Any, input: Any, target: Any, weight: Any, average: Any, reduce: Any, reduction: str) -> Any:
    xp = kit.xp
    if input.size and not (float(input.min()) >= 0 and float(input.max()) <= 1):
        raise RuntimeError("binary_cross_entropy(): the input must lie in [0, 1]")
    # Clamp the logarithms at -100, so that a wrong prediction of 0 or 1 has a finite loss.
    loss = (target - 1) * xp.maximum(xp.log1p(-input), -100) - target * xp.maximum(xp.log(input), -100)
    return reduced(loss if weight is None else loss * weight, reduction)


@kernel("nn.functional.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    kit: Any, out: Any, input: Any, target: Any, weight: Any, average: Any, reduce: Any, reduction: str, pos_weight: Any
) -> Any:
    log = _log_sigmoid(kit.xp, input)
    scale = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    loss = (1 - target) * input - scale * log
    return reduced(loss if weight is None else loss * weight, reduction)


@kernel("nn.functional.kl_div")
def kl_div(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str, log_target: bool) -> Any:
    if log_target:
        loss = kit.xp.exp(target) * (target - input)
    else:
        loss = kit.special.xlogy(target, target) - target * input
    return loss.sum() / input.shape[0] if reduction == "batchmean" else reduced(loss, reduction)


@kernel("nn.functional.hinge_embedding_loss")
def hinge_embedding_loss(kit: Any, out: Any, input: Any, target: Any, margin: float, average: Any, reduce: Any, reduction: str) -> Any:
    xp, zero = kit.xp, out.dtype.type(0)
    apart = xp.where(target != 1, xp.maximum(margin - input, 0).astype(out.dtype), zero)
    return reduced(apart + xp.where(target != -1, input, zero), reduction)


@kernel("nn.functional.soft_margin_loss")
def soft_margin_loss(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str) -> Any:
    xp, exponent = kit.xp, -target.astype(out.dtype) * input
    if out.dtype.kind == "c":
        return reduced(xp.log(1 + xp.exp(exponent)), reduction)
    return reduced(xp.logaddexp(out.dtype.type(0), exponent), reduction)


@kernel("nn.functional.poisson_nll_loss")
def poisson_nll_loss(
    kit: Any, out: Any, input: Any, target: Any, log_input: bool, full: bool, average: Any, eps: float, reduce: Any,
    reduction: str,
) -> Any:  # fmt: skip
    xp = kit.xp
    input, target = input.astype(out.dtype, copy=False), target.astype(out.dtype, copy=False)
    loss = xp.exp(input) - target * input if log_input else input - target * xp.log(input + eps)
    if full:
        # Stirling's approximation of log(target!).
        stirling = target * xp.log(target) - target + 0.5 * xp.log(2 * math.pi * target)
        loss = loss + xp.where(target > 1, stirling, out.dtype.type(0))
    return reduced(loss, reduction)


@kernel("nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(kit: Any, out: Any, input: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> Any:
    xp = kit.xp
    var = xp.asarray(var, dtype=out.dtype)
    if var.size and float(var.min()) < 0:
        raise ValueError("gaussian_nll_loss(): argument 'var' must not be negative")
    if var.ndim and var.ndim < input.ndim:
        var = var[..., None]
    var = xp.maximum(var, eps)
    loss = 0.5 * (xp.log(var) + (input - target) ** 2 / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@kernel("nn.functional.multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(kit: Any, out: Any, input: Any, target: Any, weight: Any, average: Any, reduce: Any, reduction: str) -> Any:
    log: Callable[[Any], Any] = lambda x: _log_sigmoid(kit.xp, x)
    loss = -(target * log(input) + (1 - target) * log(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(axis=-1) / input.shape[-1], reduction)
