"""Gradients of losses, and losses composed of other operators."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradients import functional, ops
from metatensor._core.rule_node import renamed
from metatensor.rules.decomposed import losses as formulas
from metatensor.rules.decomposed.losses import reduced

__all__ = []

# PyTorch composes these losses of other operators too.
kl_div, multilabel_soft_margin_loss = formulas.kl_div, formulas.multilabel_soft_margin_loss


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, size_average: Any, eps: float, reduce: Any, reduction: str
) -> Any:
    loss = _poisson(input, target) if log_input else _poisson_of_rate(input, target, eps)
    if full:
        stirling = _stirling(target)
        loss = loss.add_(stirling.masked_fill(target <= 1, 0))
        del stirling
    return reduced(loss, size_average, reduce, reduction)


def _poisson(input: Any, target: Any) -> Any:
    product = target * input
    return input.exp() - product


def _poisson_of_rate(input: Any, target: Any, eps: float) -> Any:
    shifted = input + eps
    logarithm = shifted.log()
    return input - target * logarithm


def _stirling(target: Any) -> Any:
    scaled = target * (2 * math.pi)
    logarithm = scaled.log()
    half = logarithm * 0.5
    own = target.log()
    product = target * own
    difference = product - target
    return difference + half


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, None, None, reduction)


def l1_loss(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    difference = input - target
    loss = difference.abs()
    return reduced(loss, None, None, reduction) if weight is None else _weighted(loss, weight, reduction)


def mse_loss(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Any:
    return NotImplemented if weight is None else _weighted((input - target) ** 2, weight, reduction)


def smooth_l1_loss(input: Any, target: Any, size_average: Any, reduce: Any, reduction: str, beta: float) -> Any:
    if beta != 0:
        return NotImplemented
    difference = input - target
    return reduced(difference.abs(), None, None, reduction)


def huber_loss(input: Any, target: Any, reduction: str, delta: float, weight: Any) -> Any:
    if weight is None:
        return NotImplemented
    return _weighted(functional.huber_loss(input, target, "none", delta), weight, reduction)


def hinge_embedding_loss(input: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str) -> Any:
    zero = ops.zeros_like(input)
    near = ops.full_like(input, margin).sub_(input).clamp_min_(0)
    first = mt.where(target != 1, near, zero)
    second = mt.where(target != -1, input, zero)
    total = first + second
    return reduced(total, None, None, reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str
) -> Any:
    along, least = target.dim(), 1e-12
    both = (input1 * input2).sum(along)
    first, second = ((x * x).sum(along) + least for x in (input1, input2))
    size = (first * second).sqrt_()
    cosine = both / size
    zero = ops.zeros_like(cosine)
    apart = ops.ones_like(cosine).sub_(cosine)
    near = (cosine - margin).clamp_min_(0)
    alike = mt.where(target == 1, apart, zero)
    unlike = mt.where(target == -1, near, zero)
    total = alike + unlike
    return reduced(total, size_average, reduce, reduction)


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> Any:
    if not isinstance(var, mt.Tensor):
        var = mt.full((), var, dtype=input.dtype, device=input.device)
    if var.dim() and var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    if not var.is_meta and var.numel() and bool((var < 0).any().item()):
        return NotImplemented  # the operator itself raises the error
    var = var.clone()
    with mt.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, None, None, reduction)


# nll_loss and cross_entropy ---------------------------------------------------------------------


def nll_loss(input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str) -> Any:
    if input.dim() in (1, 2, 4):
        return ops._nll_loss_forward(input, target, weight, reduction, ignore_index)[0]
    # inputs with other numbers of dimensions are flattened
    n, classes = input.shape[:2]
    flat = input.reshape(n, classes, 1, math.prod(input.shape[2:]))
    result = ops._nll_loss_forward(flat, target.reshape(n, 1, flat.shape[3]), weight, reduction, ignore_index)[0]
    return result.view(n, *input.shape[2:]) if reduction == "none" else result


def nll_loss_node(input: Any) -> str:
    return "NllLoss2DBackward0" if input.dim() == 4 else "NllLossBackward0"


def nll_loss_forward(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    result = functional.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)
    total = input.new_zeros(())
    if reduction != "none":
        counted = target != ignore_index
        if weight is None:
            total = counted.sum().to(input.dtype)
        else:
            safe = mt.where(counted, target, 0).to(mt.int64)
            total = (weight.index_select(0, safe.reshape(-1)) * counted.reshape(-1)).sum()
    return result, total


def nll_loss_backward(grad: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, total: Any) -> Any:
    dim = 1 if input.dim() > 1 else 0
    counted = target != ignore_index
    safe = mt.where(counted, target, 0).to(mt.int64)
    factor = counted.to(grad.dtype)
    if weight is not None:
        factor = factor * weight.index_select(0, safe.reshape(-1)).reshape(safe.shape)
    values = -grad * factor
    if reduction == "mean":
        values = values / total
    if input.dim() == 1:
        safe, values = safe.reshape(1), values.reshape(1)
    else:
        safe, values = safe.unsqueeze(dim), values.unsqueeze(dim)
    zeros = mt.zeros(input.shape, dtype=grad.dtype, device=grad.device)
    return ops.scatter_add(zeros, dim, safe, values.expand(safe.shape))


def nll_loss_twice(grad: Any, target: Any, weight: Any, reduction: str, ignore_index: int, total_weight: Any) -> Any:
    """Return the gradient of `nll_loss_backward` for the incoming gradient, which is `nll_loss` of `grad`."""
    loss = functional.nll_loss(grad, target, weight, None, ignore_index, None, "sum" if reduction == "mean" else reduction)
    return loss / total_weight if reduction == "mean" else loss


def cross_entropy(input: Any, target: Any, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str,
                  label_smoothing: float) -> Any:  # fmt: skip
    dim = 1 if input.dim() > 1 else 0
    log = ops.log_softmax(input, dim)
    classes = input.shape[dim]
    spread = weight if weight is None or input.dim() == 1 else weight.view(1, -1, *(1,) * (input.dim() - 2))
    if target.shape == input.shape and target.is_floating_point():
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / classes
        plain = log * target
        product = plain if spread is None else plain * spread
        if reduction == "mean":
            n = input.numel() // classes if classes else 0
            total = product.sum()
            negative = -total
            return renamed(negative / (n if input.numel() else 0.0), "DivBackward1")
        return -product.sum() if reduction == "sum" else -product.sum(dim)
    plain = functional.nll_loss(log, target, weight, None, ignore_index, None, reduction)
    if not label_smoothing:
        return plain
    smooth = -(log if spread is None else log * spread).sum(dim)
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == "mean":
        if weight is None:
            smooth = smooth.sum() / (~ignored).sum()
        else:
            safe = target.masked_fill(ignored, 0).flatten().to(mt.int64)
            smooth = smooth.sum() / (weight.index_select(0, safe) * (~ignored).flatten()).sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return plain * (1 - label_smoothing) + smooth * (label_smoothing / classes)


# Gradient operators-------------------------------------------------------------------------------


def _spread(grad: Any, n: int, reduction: str) -> Any:
    return grad / n if reduction == "mean" else grad


def mse_loss_backward(grad: Any, input: Any, target: Any, reduction: str) -> Any:
    d = input - target
    return _spread(2 * d * grad, d.numel(), reduction)


def smooth_l1_loss_backward(grad: Any, input: Any, target: Any, reduction: str, beta: float) -> Any:
    d = input - target
    return _spread(grad * mt.where(d.abs() < beta, d / beta, d.sign()), d.numel(), reduction)


def huber_loss_backward(grad: Any, input: Any, target: Any, reduction: str, delta: float) -> Any:
    d = input - target
    return _spread(grad * mt.where(d.abs() <= delta, d, delta * d.sign()), d.numel(), reduction)


def soft_margin_loss_backward(grad: Any, input: Any, target: Any, reduction: str) -> Any:
    return _spread(-target * mt.sigmoid(-target * input) * grad, input.numel(), reduction)


def binary_cross_entropy_backward(grad: Any, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    g = grad * (input - target) / ((1 - input) * input).clamp_min(1e-12)
    return _spread(g if weight is None else g * weight, input.numel(), reduction)


def binary_cross_entropy_target(grad: Any, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    g = grad * ((1 - input).log().clamp_min(-100) - input.log().clamp_min(-100))
    return _spread(g if weight is None else g * weight, input.numel(), reduction)


def with_logits_backward(grad: Any, input: Any, target: Any, weight: Any, reduction: str, pos_weight: Any) -> Any:
    if pos_weight is None:
        g = (mt.sigmoid(input) - target) * grad
    else:
        t = pos_weight * target
        g = ((t + 1 - target) * mt.sigmoid(input) - t) * grad
    return _spread(g if weight is None else g * weight, input.numel(), reduction)


def with_logits_input(grad: Any, input: Any, target: Any, weight: Any, reduction: str, pos_weight: Any) -> Any:
    return with_logits_backward(grad, input, target, weight, reduction, pos_weight)


def with_logits_target(grad: Any, input: Any, target: Any, weight: Any, reduction: str, pos_weight: Any) -> Any:
    g = -input * grad
    if pos_weight is not None:
        g = grad * (functional.logsigmoid(-input) - pos_weight * functional.logsigmoid(input))
    return _spread(g if weight is None else g * weight, input.numel(), reduction)


def multi_margin_loss_backward(grad: Any, input: Any, target: Any, p: int, margin: float, weight: Any, reduction: str) -> Any:
    x = input.reshape(-1, input.shape[-1] if input.dim() else 1)
    index = target.reshape(-1, 1)
    n, classes = x.shape
    d = margin - x.gather(1, index) + x
    slope = mt.where(d > 0, mt.ones_like(d) if p == 1 else 2 * d, 0.0).scatter(1, index, 0.0) / classes
    if weight is not None:
        slope = slope * weight[index]
    slope = slope.scatter_add(1, index, -slope.sum(1, keepdim=True))
    g = grad.reshape(-1, 1) if grad.dim() else grad
    return _spread((slope * g).reshape(input.shape), n, reduction)


def _targets(input: Any, target: Any) -> tuple[Any, Any, Any]:
    """Return rows of targets (0 where they do not count), a mask of those that count, and a mask of the target classes."""
    t = target.reshape(-1, input.shape[-1] if input.dim() else 1)
    valid = (t == -1).to(mt.int64).cumsum(1) == 0
    safe = mt.where(valid, t, 0)
    return safe, valid, mt.zeros_like(t).scatter_add(1, safe, valid.to(mt.int64)) > 0


def multilabel_margin_loss_forward(input: Any, target: Any, reduction: str) -> Any:
    chosen = _targets(input, target)[2]
    return functional.multilabel_margin_loss(input, target, reduction=reduction), chosen.reshape(input.shape).to(input.dtype)


def multilabel_margin_loss_backward(grad: Any, input: Any, target: Any, reduction: str, is_target: Any) -> Any:
    x = input.reshape(-1, input.shape[-1] if input.dim() else 1)
    n, classes = x.shape
    safe, valid, _ = _targets(input, target)
    d = 1 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)
    active = ((d > 0) & valid.unsqueeze(2) & (is_target.reshape(x.shape) == 0).unsqueeze(1)).to(x.dtype)
    slope = (active.sum(1).scatter_add(1, safe, -active.sum(2))) / classes
    g = grad.reshape(-1, 1) if grad.dim() else grad
    return _spread((slope * g).reshape(input.shape), n, reduction)
