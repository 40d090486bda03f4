"""Kernels of classification losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.loss import reduced
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.array_kit.softmax import log_softmax_of


def _classes_last(array: Any) -> Any:
    """Reshape (N, C, ...) to (samples, C), and (C,) to (1, C)."""
    if array.ndim == 1:
        return array[None]
    last = array if array.ndim == 2 else array.transpose(0, *range(2, array.ndim), 1)
    return last.reshape(math.prod(last.shape[:-1]), array.shape[1])


def _indices(xp: Any, target: Any, classes: int, ignore: int, error: type[Exception] = IndexError) -> tuple[Any, Any]:
    """Return the class index of each sample (0 if ignored) and a mask of the samples that are not ignored."""
    flat = target.reshape(-1).astype(np.int64)
    counted = flat != ignore
    index = xp.where(counted, flat, 0)
    if bool(counted.any()) and (int(index.min()) < 0 or int(index.max()) >= classes):
        raise error(f"targets must lie in [0, {classes}), got {int(index.min())} to {int(index.max())}")
    return index, counted


def _by_index(kit: Any, out: Any, log: Any, target: Any, weight: Any, ignore: int, reduction: str, smoothing: float = 0.0) -> Any:
    """Return the negative weighted log-probability of each target, reduced. The mean divides by the sum of weights."""
    xp, classes = kit.xp, log.shape[1]
    index, counted = _indices(xp, target, classes, ignore)
    each = xp.where(counted, 1 if weight is None else weight[index], 0).astype(out.dtype)
    chosen = log[xp.arange(len(index)), index] if classes else xp.zeros(len(index), log.dtype)    # all targets are ignored
    loss = xp.where(counted, -chosen * each, 0)
    if smoothing:
        spread = -(log if weight is None else log * weight).sum(axis=1)
        loss = (1 - smoothing) * loss + smoothing / classes * xp.where(counted, spread, 0)
    if reduction == "mean":
        return loss.sum() / each.sum()
    return loss.sum() if reduction == "sum" else loss.reshape(out.shape)


@kernel("nn.functional.nll_loss")
def nll_loss(
    kit: Any, out: Any, input: Any, target: Any, weight: Any, average: Any, ignore_index: int, reduce: Any,
    reduction: str,
) -> Any:  # fmt: skip
    return _by_index(kit, out, _classes_last(input), target, weight, ignore_index, reduction)


@kernel("nn.functional.cross_entropy")
def cross_entropy(
    kit: Any, out: Any, input: Any, target: Any, weight: Any, average: Any, ignore_index: int, reduce: Any,
    reduction: str, label_smoothing: float,
) -> Any:  # fmt: skip
    log = log_softmax_of(kit.xp, _classes_last(input), 1)
    if input.shape != target.shape:
        return _by_index(kit, out, log, target, weight, ignore_index, reduction, label_smoothing)
    target = _classes_last(target)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / log.shape[1]
    loss = -(log * target if weight is None else log * target * weight).sum(axis=1)
    if not log.size and reduction == "mean":        # the mean of no probabilities
        return loss.dtype.type(math.nan)
    return loss.reshape(out.shape) if reduction == "none" else reduced(loss, reduction)


# Margins -------------------------------------------------------------------------------------


def _excess(xp: Any, array: Any) -> Any:
    """Return max(array, 0), with NaN replaced by 0."""
    return xp.where(array > 0, array, array.dtype.type(0))


@kernel("nn.functional.multi_margin_loss")
def multi_margin_loss(
    kit: Any, out: Any, input: Any, target: Any, p: int, margin: float, weight: Any, average: Any, reduce: Any,
    reduction: str,
) -> Any:  # fmt: skip
    xp = kit.xp
    scores = input if input.ndim == 2 else input.reshape(1, input.size)
    index, _ = _indices(xp, target, scores.shape[1], -1 << 62, RuntimeError)
    rows = xp.arange(len(scores))
    excess = _excess(xp, margin - scores[rows, index][:, None] + scores) ** p
    if weight is not None:
        excess = excess * weight[index][:, None]
    excess[rows, index] = 0
    loss = excess.sum(axis=1) / scores.shape[1]
    return loss.reshape(out.shape) if reduction == "none" else reduced(loss, reduction)


@kernel("nn.functional.multilabel_margin_loss")
def multilabel_margin_loss(kit: Any, out: Any, input: Any, target: Any, average: Any, reduce: Any, reduction: str) -> Any:
    xp = kit.xp
    scores, labels = (x if x.ndim == 2 else x.reshape(1, x.size) for x in (input, target))
    classes = scores.shape[1]
    valid = xp.cumsum(labels < 0, axis=1) == 0
    labels = xp.where(valid, labels, 0)
    if labels.size and int(labels.max()) >= classes:
        raise RuntimeError(f"multilabel_margin_loss(): targets must lie in [0, {classes}), got {int(labels.max())}")
    among = (xp.where(valid, labels, -1)[:, :, None] == xp.arange(classes)).any(axis=1)
    chosen = xp.take_along_axis(scores, labels, 1)
    excess = _excess(xp, 1 - chosen[:, :, None] + scores[:, None, :])
    loss = xp.where(valid[:, :, None] & ~among[:, None, :], excess, 0).sum(axis=(1, 2)) / classes
    return loss.reshape(out.shape) if reduction == "none" else reduced(loss, reduction)


# Sequences -------------------------------------------------------------------------------------


def _lengths(kit: Any, lengths: Any, n: int) -> list[int]:
    values = lengths if isinstance(lengths, (list, tuple)) else kit.download(lengths).reshape(-1).tolist()
    return [int(v) for v in values][:n]


def _forward(xp: Any, log: Any, labels: Any, blank: int) -> Any:
    """Return the negative log-probability of ``labels`` given ``log`` (T, C).

    This is the forward recursion of CTC over labels and blanks: Graves et al., "Connectionist Temporal Classification",
    2006.
    """
    path = xp.full(2 * len(labels) + 1, blank)
    path[1::2] = labels
    # A label may directly follow the previous label only if the two differ.
    skip = xp.zeros(len(path), np.bool_)
    skip[3::2] = path[3::2] != path[1:-2:2]
    never = log.dtype.type(-np.inf)
    state = xp.full(len(path), never, log.dtype)
    if not len(log):
        return log.dtype.type(0 if not len(labels) else np.inf)
    state[:2] = log[0, path[:2]]
    for step in log[1:]:
        one = xp.concatenate([xp.full(1, never, log.dtype), state[:-1]])
        two = xp.where(skip, xp.concatenate([xp.full(2, never, log.dtype), state])[: len(path)], never)
        state = xp.logaddexp(xp.logaddexp(state, one), two) + step[path]
    return -(state[-1] if len(path) == 1 else xp.logaddexp(state[-1], state[-2]))


@kernel("nn.functional.ctc_loss", "nn.functional.ctc_loss.ints")
def ctc_loss(
    kit: Any, out: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int,
    reduction: str, zero_infinity: bool,
) -> Any:  # fmt: skip
    xp = kit.xp
    log = log_probs[:, None] if log_probs.ndim == 2 else log_probs
    n = log.shape[1]
    frames, lengths = _lengths(kit, input_lengths, n), _lengths(kit, target_lengths, n)
    losses, start = [], 0
    if min(lengths, default=0) < 0:
        raise RuntimeError(f"ctc_loss(): target lengths must not be negative, got {min(lengths)}")
    if targets.ndim == 2 and max(lengths, default=0) > targets.shape[1]:
        raise RuntimeError(f"ctc_loss(): a target of length {max(lengths)} does not fit targets of shape {list(targets.shape)}")
    if targets.ndim == 1 and sum(lengths) != len(targets):
        raise RuntimeError(f"ctc_loss(): the target lengths add up to {sum(lengths)}, but there are {len(targets)} targets")
    for i in range(n):
        if not 0 <= frames[i] <= len(log):
            raise RuntimeError(f"ctc_loss(): input lengths must lie in [0, {len(log)}], got {frames[i]}")
        labels = targets[i, : lengths[i]] if targets.ndim == 2 else targets[start : start + lengths[i]]
        start += lengths[i]
        losses.append(_forward(xp, log[: frames[i], i], labels.astype(np.int64), blank))
    loss = xp.stack([xp.asarray(value, log.dtype) for value in losses]) if losses else xp.zeros(0, log.dtype)
    if zero_infinity:
        loss = xp.where(xp.isinf(loss), log.dtype.type(0), loss)
    if reduction == "mean":
        return (loss / xp.asarray([max(length, 1) for length in lengths])).mean()
    return loss.sum() if reduction == "sum" else loss.reshape(out.shape)
