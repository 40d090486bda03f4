"""Parameters that the first and the last stage of a pipeline both have, such as an embedding that is also the output matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.tensor import DTensor

__all__ = ["TiedParameters"]


class TiedParameters:
    """Copies of tied parameters, kept equal by updating each with the sum of their gradients.

    Parameters
    ----------
    copies : sequence of sequence of Parameter
        What the optimizer updates for each copy on this rank: one or two. Their elements correspond.
    group : ProcessGroup or None
        The two ranks that have a copy each. None if this rank has both.
    """

    def __init__(self, copies: Sequence[Sequence[Any]], group: Any) -> None:
        self._copies, self._group = copies, group

    def sum_gradients(self) -> None:
        """Replace the gradient of each copy by the sum of both. The other rank must call this too."""
        with mt.no_grad():
            if self._group is not None:
                for p in self._copies[0]:
                    dist.all_reduce(_gradient(p), group=self._group)
                return
            for p, q in zip(*self._copies, strict=True):
                total = _gradient(p).add_(_gradient(q))
                _gradient(q).copy_(total)


def _gradient(p: Any) -> Any:
    """Return this rank's part of a gradient, zeros if there is none."""
    if p.grad is None:
        p.grad = mt.zeros_like(p)
    grad = p.grad.detach()
    return grad._local_tensor if isinstance(grad, DTensor) else grad
