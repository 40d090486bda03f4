"""The connectionist temporal classification loss, composed of other operators, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops

__all__ = []


def _ints(lengths: Any) -> list[int]:
    return lengths.reshape(-1).tolist() if isinstance(lengths, mt.Tensor) else list(lengths)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: str, zero_infinity: bool) -> Any:
    x = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    lengths = _ints(target_lengths)
    loss = ops._ctc_loss(x, targets, _ints(input_lengths), lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = mt.where(loss == math.inf, mt.zeros((), dtype=loss.dtype, device=loss.device), loss)
    if reduction == "mean":
        return (loss / mt.tensor(lengths, dtype=loss.dtype, device=loss.device).clamp_min(1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if log_probs.dim() == 3 else loss.squeeze(0)


def _extended(targets: Any, lengths: list[int], blank: int) -> Any:
    """Return the labels of each sequence with blanks between and around them. The shape is (N, 2 S + 1)."""
    longest = max(lengths, default=0)
    made = mt.full((len(lengths), 2 * longest + 1), blank, dtype=mt.int64, device=targets.device)
    start = 0
    for n, length in enumerate(lengths):
        labels = targets[n, :length] if targets.dim() == 2 else targets[start : start + length]
        start += length
        if length:
            made[n, 1 : 2 * length : 2] = labels.to(mt.int64)
    return made


def _sum(parts: Any) -> Any:
    """Return the logarithm of the sum of exponentials. Its gradient is 0 where all parts are -inf."""
    values = mt.stack(parts)
    top = values.detach().amax(0)
    dead = top == -math.inf
    total = (values - top.masked_fill(dead, 0)).exp().sum(0)
    return mt.where(dead, -math.inf, total.masked_fill(dead, 1).log() + top.masked_fill(dead, 0))


def ctc_forward(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, zero_infinity: bool) -> tuple[Any, Any]:
    """Return the loss of each sequence, and the logarithms of the forward probabilities (N, T, 2 S + 1)."""
    steps, n, _ = log_probs.shape
    labels = _extended(targets, list(target_lengths), blank)
    width = labels.shape[1]
    device = log_probs.device
    position = mt.arange(width, device=device)
    ends = 2 * mt.tensor(list(target_lengths), dtype=mt.int64, device=device).reshape(n, 1)
    until = mt.tensor(list(input_lengths), dtype=mt.int64, device=device).reshape(n, 1)
    skips = mt.zeros_like(labels, dtype=mt.bool)
    if width > 2:
        skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    emitted = log_probs.transpose(0, 1).gather(2, labels.unsqueeze(1).expand(n, steps, width))
    alpha = mt.where((position <= 1) & (position <= ends), emitted[:, 0], -math.inf)
    alphas = [alpha]
    lost = mt.full((n, 1), -math.inf, dtype=log_probs.dtype, device=device)
    for t in range(1, steps):
        one = mt.cat([lost, alpha[:, :-1]], 1)
        parts = [alpha, one]
        if width > 2:
            parts.append(mt.where(skips, mt.cat([lost, lost, alpha[:, :-2]], 1), -math.inf))
        made = mt.where(position <= ends, _sum(parts) + emitted[:, t], -math.inf)
        alpha = mt.where(until > t, made, alpha)
        alphas.append(alpha)
    last = alpha.gather(1, ends)
    before = mt.where(ends > 0, alpha.gather(1, (ends - 1).clamp_min(0)), -math.inf)
    loss = -_sum([last, before]).squeeze(1)
    nothing = (until == 0).squeeze(1)  # sequences without time steps: only the empty target has a path
    return mt.where(nothing, mt.where(ends.squeeze(1) == 0, 0.0, math.inf), loss), mt.stack(alphas, 1)


def ctc_gradient(
    grad: Any,
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    zero_infinity: bool,
    result: Any,
    log_alpha: Any,
) -> Any:
    return ops._ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, result, log_alpha)


def ctc_backward(
    grad: Any,
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    zero_infinity: bool,
    loss: Any,
    log_alpha: Any,
) -> Any:
    """Return the gradient for `log_probs`, which must be normalized: probability minus occupancy, times `grad`."""
    steps = log_probs.shape[0]
    with mt.enable_grad():
        x = log_probs.detach().requires_grad_()
        again = ctc_forward(x, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
        (occupied,) = mt.autograd.grad(again, x, mt.ones_like(again))
    until = mt.tensor(list(input_lengths), dtype=mt.int64, device=x.device)
    inside = (mt.arange(steps, device=x.device).unsqueeze(1) < until).unsqueeze(2)
    result = (log_probs.detach().exp() + occupied) * grad.unsqueeze(0).unsqueeze(2)
    result = mt.where(inside, result, 0.0)
    return mt.where((loss == math.inf).unsqueeze(0).unsqueeze(2), 0.0, result) if zero_infinity else result
