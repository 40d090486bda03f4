"""Batching rules for losses."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.func._batched import Level, wrap
from metatensor.func._rules import each, expanded, is_batch, named

__all__ = ["reduced"]


def reduced(losses: Any, reduction: str) -> Any:
    """Reduce the losses of a member."""
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def _reduction(given: dict[str, Any]) -> str:
    """Return the reduction. The deprecated arguments `size_average` and `reduce` determine it if they are given."""
    average, reduce = given.get("size_average"), given.get("reduce")
    if average is None and reduce is None:
        return str(given["reduction"])
    return "none" if reduce is False else "sum" if average is False else "mean"


# Margins ------------------------------------------------------------------------------------------------------------------


@named("nn.functional.multi_margin_loss")
def _multi_margin_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, target, weight = given["input"], given["target"], given["weight"]
    if x.dim() > 2 or not x.numel():
        return NotImplemented
    scores = x if x.dim() == 2 else x.reshape(1, -1)
    index = target.reshape(-1, 1)
    excess = (given["margin"] - scores.gather(1, index) + scores).clamp_min(0) ** given["p"]
    if weight is not None:
        excess = excess * weight[index]
    excess = mt.where(index == mt.arange(scores.shape[1], device=x.device), 0.0, excess)
    losses = excess.sum(1) / scores.shape[1]
    reduction = _reduction(given)
    return losses.reshape(target.shape) if reduction == "none" else reduced(losses, reduction)


@named("nn.functional.multilabel_margin_loss _multilabel_margin_loss_forward")
def _multilabel_margin_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, target = given["input"], given["target"]
    if x.dim() > 2 or not x.numel():
        return NotImplemented
    scores, labels = (t if t.dim() == 2 else t.reshape(1, -1) for t in (x, target))
    classes = scores.shape[1]
    valid = (labels < 0).cumsum(1) == 0
    among = (mt.where(valid, labels, -1).unsqueeze(2) == mt.arange(classes, device=x.device)).any(1)
    chosen = scores.gather(1, mt.where(valid, labels, 0))
    excess = (1 - chosen.unsqueeze(2) + scores.unsqueeze(1)).clamp_min(0)
    kept = valid.unsqueeze(2) & among.logical_not().unsqueeze(1)
    losses = mt.where(kept, excess, 0.0).sum((1, 2)) / classes
    reduction = _reduction(given)
    result = losses.reshape(losses.shape if x.dim() == 2 else ()) if reduction == "none" else reduced(losses, reduction)
    return (result, among.to(x.dtype).reshape(x.shape)) if func.name.startswith("_") else result


# Elements and rows --------------------------------------------------------------------------------------------------------


@named("nn.functional.gaussian_nll_loss")
def _gaussian_nll_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Compute the loss. The signs of the variances are checked for all members together."""
    x, target, var = given["input"], given["target"], given["var"]
    if not is_batch(var, level) or var.dim() not in (x.dim(), x.dim() - 1):
        return NotImplemented
    if var.device.type != "meta" and bool((var.value < 0).any()):
        raise ValueError("gaussian_nll_loss(): argument 'var' must not be negative")
    var = var.unsqueeze(-1) if var.dim() and var.dim() < x.dim() else var
    clamped = var.detach().clamp_min(given["eps"]) - var.detach() + var  # the gradient ignores the bound
    clamped = mt.where(var < given["eps"], clamped, var)
    losses = 0.5 * (clamped.log() + (x - target) ** 2 / clamped)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if given["full"] else losses, given["reduction"])


@named("nn.functional.binary_cross_entropy")
def _binary_cross_entropy(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, target, weight = given["input"], given["target"], given["weight"]
    whole = {"input": expanded(x, level), "target": expanded(target, level)}
    losses = wrap(func(**{**given, **whole, "weight": None, "size_average": None, "reduce": None, "reduction": "none"}), level)
    return reduced(losses if weight is None else losses * weight, _reduction(given))


@named("nn.functional.cosine_embedding_loss")
def _cosine_embedding_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    a, b, target, margin = (given[name] for name in ("input1", "input2", "target", "margin"))
    tiny = 1e-8
    similarity = (a * b).sum(-1) / (((a * a).sum(-1) + tiny) * ((b * b).sum(-1) + tiny)).sqrt()
    apart = (similarity - margin).clamp(min=0)
    losses = mt.where(target == 1, 1 - similarity, mt.where(target == -1, apart, mt.zeros_like(similarity)))
    return reduced(losses, _reduction(given))


@named("_nll_loss_forward")
def _nll_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Pick the entries of the targets."""
    x, target, weight, ignored = (given[name] for name in ("input", "target", "weight", "ignore_index"))
    dim = 1 if x.dim() > 1 else 0
    kept = target != ignored
    at = mt.where(kept, target, 0)
    picked = -(x.gather(dim, at.unsqueeze(dim)).squeeze(dim) if target.dim() or dim else x.gather(0, at.reshape(1)).reshape(()))
    weights = kept.to(x.dtype) if weight is None else mt.where(kept, weight.index_select(0, at.reshape(-1)).reshape(at.shape), 0)
    losses = mt.where(kept, picked * weights, mt.zeros_like(picked))
    total = weights.sum()
    if given["reduction"] == "none":
        return losses, mt.zeros_like(total)
    return (losses.sum() / total if given["reduction"] == "mean" else losses.sum()), total


# Sequences ----------------------------------------------------------------------------------------------------------------


def _sequences(level: Level, x: Any, targets: Any, frames: Any, lengths: Any) -> tuple[Any, Any, Any, Any]:
    """Put the sequences of all members side by side: log-probabilities (T, B N, C), targets, and the two lengths."""
    n = x.shape[1] if x.dim() == 3 else 1
    log = expanded(x, level).movedim(0, 1)
    log = log.flatten(1, 2) if x.dim() == 3 else log
    lengths_of_all = [expanded(y, level).reshape(-1) if isinstance(y, Tensor) else list(y) * level.size for y in (frames, lengths)]
    if targets.dim() == 1 and n > 1 and is_batch(lengths, level):  # from concatenated targets to rows
        ends = lengths.cumsum(0).unsqueeze(1)
        at = ends - lengths.unsqueeze(1) + mt.arange(targets.shape[0], device=targets.device)
        targets = targets[at.clamp_max(max(targets.shape[0] - 1, 0))]
    labels = expanded(targets, level)
    labels = labels.flatten(0, 1) if targets.dim() == 2 else labels if n == 1 else labels.reshape(-1)
    return log, labels, *lengths_of_all


@named("nn.functional.ctc_loss")
def _ctc_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, lengths, reduction = given["log_probs"], given["target_lengths"], given["reduction"]
    if not level.size:
        return NotImplemented
    log, labels, frames, every = _sequences(level, x, given["targets"], given["input_lengths"], lengths)
    losses = func(log, labels, frames, every, given["blank"], "none", given["zero_infinity"]).reshape(level.size, -1)
    if reduction == "none":
        return wrap(losses if x.dim() == 3 else losses.squeeze(1), level)
    if reduction == "sum":
        return wrap(losses.sum(1), level)
    counts = every if isinstance(every, Tensor) else mt.tensor(every, device=losses.device)
    return wrap((losses / counts.reshape(level.size, -1).to(losses.dtype).clamp_min(1)).mean(1), level)


@named("_ctc_loss")
def _ctc_forward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    options = dict(given)
    names = ("log_probs", "targets", "input_lengths", "target_lengths")
    options |= dict(zip(names, _sequences(level, *(given[name] for name in names)), strict=True))
    return each(func(**options), level, lambda y: y.unflatten(0, (level.size, -1)))


@named("_ctc_loss_backward")
def _ctc_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    options = dict(given)
    names = ("log_probs", "targets", "input_lengths", "target_lengths")
    options |= dict(zip(names, _sequences(level, *(given[name] for name in names)), strict=True))
    options |= {name: expanded(given[name], level).flatten(0, 1) for name in ("grad_output", "loss", "log_alpha")}
    return wrap(func(**options).unflatten(1, (level.size, -1)).movedim(1, 0), level)
