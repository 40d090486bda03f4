"""Batch normalization over the batches of all ranks of a group, for `SyncBatchNorm`."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.distributed import _functional_collectives as functional
from metatensor.distributed._group import the_group

__all__ = ["synchronized_batch_norm"]


def synchronized_batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float, group: Any
) -> Any:
    """Normalize ``input``, of shape (N, C, ...), with mean and variance of the inputs of all ranks.

    The ranks exchange the count, mean and variance of their inputs, which may have different sizes. Running statistics are
    updated in place. The result is differentiable.

    Raise ValueError if all inputs together have fewer than two elements for each channel.
    """
    found = the_group(group)
    wide = input.to(mt.float32) if input.element_size() < 4 else input
    dims = [0, *range(2, input.dim())]
    own = input.numel() // input.shape[1]
    mean = wide.sum(dims) / max(own, 1)
    spread = (wide - _along_channels(mean, wide)).square().sum(dims)
    count = mt.full((1,), float(own), dtype=wide.dtype, device=wide.device)
    both = functional.wait_tensor(functional.all_gather_tensor(mt.cat([mean, spread, count]).unsqueeze(0), 0, found))
    means, spreads, counts = both.split([mean.numel(), mean.numel(), 1], 1)
    total = counts.sum()
    if not total.is_meta and total.item() < 2:
        raise ValueError(f"SyncBatchNorm: expected more than one value for each channel, got {int(total.item())} in all ranks")
    whole = (means * counts).sum(0) / total
    squares = spreads.sum(0) + (counts * (means - whole).square()).sum(0)
    if running_mean is not None:
        with mt.no_grad():
            running_mean.lerp_(whole.detach().to(running_mean.dtype), momentum)
            running_var.lerp_((squares / (total - 1)).detach().to(running_var.dtype), momentum)
    scale = (squares / total + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -whole * scale if bias is None else bias - whole * scale
    return (wide * _along_channels(scale, wide) + _along_channels(shift, wide)).to(input.dtype)


def _along_channels(values: Any, like: Any) -> Any:
    """Return a tensor of shape (C,) as one of shape (1, C, 1, ...)."""
    return values.view(1, -1, *[1] * (like.dim() - 2))
