"""Losses."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import numeric


def reduced(loss: Any, size_average: Any, reduce: Any, reduction: str) -> Any:
    """Apply `reduction`: "none", "sum" or "mean". The deprecated `size_average` and `reduce` override it."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    if weight is None:
        return reduced(loss, None, None, reduction)
    loss = loss * weight
    return loss.sum() / weight.expand(loss.shape).sum() if reduction == "mean" else reduced(loss, None, None, reduction)


@numeric("nn.functional.mse_loss")
def mse_loss(x: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    loss = (x - target) * (x - target)
    return reduced(loss, size_average, reduce, reduction) if weight is None else _weighted(loss, weight, reduction)


@numeric("nn.functional.l1_loss", complex=True)
def l1_loss(x: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    loss = (x - target).abs()
    return reduced(loss, size_average, reduce, reduction) if weight is None else _weighted(loss, weight, reduction)


@numeric("nn.functional.huber_loss")
def huber_loss(x: Any, target: Any, reduction: str, delta: float, weight: Any) -> Any:
    far = (x - target).abs()
    loss = mt.where(far <= delta, far * far * 0.5, delta * (far - 0.5 * delta))
    return reduced(loss if weight is None else loss * weight, None, None, reduction)


@numeric("nn.functional.smooth_l1_loss")
def smooth_l1_loss(x: Any, target: Any, size_average: Any, reduce: Any, reduction: str, beta: float) -> Any:
    far = (x - target).abs()
    loss = far if beta == 0 else mt.where(far < beta, far * far * 0.5 / beta, far - 0.5 * beta)
    return reduced(loss, size_average, reduce, reduction)


@numeric("nn.functional.binary_cross_entropy")
def binary_cross_entropy(x: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str) -> Any:
    """Clamp logarithms to at least -100, as PyTorch does."""
    if x.numel() and not bool(((x >= 0) & (x <= 1)).all().item()):
        raise RuntimeError("binary_cross_entropy(): every element of input must lie between 0 and 1")
    loss = -(target * x.log().clamp_min(-100) + (1 - target) * (-x).log1p().clamp_min(-100))
    return reduced(loss if weight is None else loss * weight, size_average, reduce, reduction)


@numeric("nn.functional.binary_cross_entropy_with_logits")
def with_logits(x: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str, pos_weight: Any) -> Any:
    log = mt.nn.functional.logsigmoid(x)
    loss = (1 - target) * x - log * (1 if pos_weight is None else (pos_weight - 1) * target + 1)
    if pos_weight is not None:
        loss = (1 - target) * x - ((pos_weight - 1) * target + 1) * log
    return reduced(loss if weight is None else loss * weight, size_average, reduce, reduction)


@numeric("nn.functional.kl_div")
def kl_div(x: Any, target: Any, size_average: Any, reduce: Any, reduction: str, log_target: bool) -> Any:
    loss = target.exp() * (target - x) if log_target else mt.xlogy(target, target) - target * x
    if reduction == "batchmean" and size_average is None and reduce is None:
        return loss.sum() / x.shape[0]
    return reduced(loss, size_average, reduce, reduction)


@numeric("nn.functional.poisson_nll_loss")
def poisson_nll_loss(x: Any, target: Any, log_input: bool, full: bool, size_average: Any, eps: float, reduce: Any, reduction: str) -> Any:
    loss = x.exp() - target * x if log_input else x - target * (x + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (target * (2 * math.pi)).log()
        loss = loss + mt.where(target > 1, stirling, 0.0)
    return reduced(loss, size_average, reduce, reduction)


@numeric("nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(x: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> Any:
    if not isinstance(var, mt.Tensor):
        var = mt.full((), var, dtype=x.dtype, device=x.device)
    if var.dim() and var.shape != x.shape and var.shape == x.shape[:-1]:
        var = var.unsqueeze(-1)
    if var.numel() and bool((var.amin() < 0).item()):
        raise ValueError("gaussian_nll_loss(): argument 'var' must not be negative")
    var = var.clamp_min(eps)
    loss = (var.log() + (x - target) * (x - target) / var) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, None, None, reduction)


@numeric("nn.functional.soft_margin_loss")
def soft_margin_loss(x: Any, target: Any, size_average: Any, reduce: Any, reduction: str) -> Any:
    return reduced(-mt.nn.functional.logsigmoid(target * x).to(x.dtype), size_average, reduce, reduction)


@numeric("nn.functional.hinge_embedding_loss")
def hinge_embedding_loss(x: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str) -> Any:
    loss = mt.where(target != 1, (margin - x).clamp_min(0), 0.0) + mt.where(target != -1, x, 0.0)
    return reduced(loss, size_average, reduce, reduction)


@numeric("nn.functional.margin_ranking_loss")
def margin_ranking_loss(x1: Any, x2: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str) -> Any:
    return reduced((-target * (x1 - x2) + margin).clamp_min(0), size_average, reduce, reduction)


@numeric("nn.functional.triplet_margin_loss")
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float, swap: bool, size_average: Any,
                        reduce: Any, reduction: str) -> Any:  # fmt: skip
    near, far = (mt.pairwise_distance(anchor, other, p, eps) for other in (positive, negative))
    far = mt.minimum(far, mt.pairwise_distance(positive, negative, p, eps)) if swap else far
    return reduced((near - far + margin).clamp_min(0), size_average, reduce, reduction)


@numeric("nn.functional.multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(x: Any, target: Any, weight: Any, size_average: Any, reduce: Any, reduction: str) -> Any:
    log = mt.nn.functional.logsigmoid
    loss = -(target * log(x) + (1 - target) * log(-x))
    loss = (loss if weight is None else loss * weight).mean(-1)
    return reduced(loss, size_average, reduce, reduction)


@numeric("nn.functional.nll_loss")
def nll_loss(x: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str) -> Any:
    dim = 1 if x.dim() > 1 else 0
    classes = x.shape[dim]
    counted = target != ignore_index
    safe = mt.where(counted, target, 0)
    if safe.numel() and bool(((safe < 0) | (safe >= classes)).any().item()):
        raise IndexError(f"nll_loss(): every target must be at least 0 and below {classes}, or {ignore_index}")
    picked = -x.gather(dim, safe.unsqueeze(dim)).squeeze(dim)
    factor = counted.to(x.dtype) if weight is None else weight.index_select(0, safe.reshape(-1)).reshape(safe.shape) * counted
    loss = mt.where(counted, picked, 0.0) * factor
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.sum() / factor.sum()


@numeric("nn.functional.cross_entropy")
def cross_entropy(x: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str,
                  label_smoothing: float) -> Any:  # fmt: skip
    dim = 1 if x.dim() > 1 else 0
    log = mt.log_softmax(x, dim)
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    spread = None if weight is None else weight.reshape(-1, *(1,) * (x.dim() - 2)) if x.dim() > 1 else weight
    if target.is_floating_point():
        aimed = target * (1 - label_smoothing) + label_smoothing / x.shape[dim] if label_smoothing else target
        loss = -(log * aimed if spread is None else log * aimed * spread).sum(dim)
        return loss.sum() / (x.numel() // x.shape[dim]) if reduction == "mean" else reduced(loss, None, None, reduction)
    plain = mt.nn.functional.nll_loss(log, target, weight, None, ignore_index, None, reduction)
    if not label_smoothing:
        return plain
    counted = target != ignore_index
    smooth = mt.where(counted, -(log if spread is None else log * spread).sum(dim), 0.0)
    if reduction == "mean":
        factor = counted if weight is None else weight.index_select(0, mt.where(counted, target, 0).reshape(-1)) * counted.reshape(-1)
        smooth = smooth.sum() / factor.sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return plain * (1 - label_smoothing) + smooth * (label_smoothing / x.shape[dim])
