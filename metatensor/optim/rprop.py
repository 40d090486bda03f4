"""Rprop (Riedmiller and Braun, 1993, IEEE International Conference on Neural Networks)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._update_rule import UpdateRule, counter, filled, zeros

__all__ = ["Rprop"]


class Rprop(UpdateRule):
    """Resilient backpropagation: steps by the sign of the gradient (Riedmiller and Braun, 1993).

    Each element has its own step size. It is multiplied by ``etas[1]`` while the sign of the gradient stays the same,
    and by ``etas[0]`` when the sign changes. An element whose gradient has changed its sign is not moved in that step.

    Parameters
    ----------
    params, capturable, foreach, maximize, differentiable
        See `metatensor.optim`.
    lr : float or Tensor
        Initial step size. Default 0.01.
    etas : pair of float
        Factors of step sizes, in (0, 1) and above 1. Default (0.5, 1.2).
    step_sizes : pair of float
        Bounds of step sizes. Default (1e-6, 50).

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Rprop([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    ranges = {"etas": ("(0, 1)", "(1, inf)")}
    state_tensors = {"step": counter, "prev": zeros, "step_size": filled("lr")}

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        shorter, longer = option.etas
        agreement = grad * state["prev"]
        turned = agreement < 0
        factor = mt.ones_like(agreement).masked_fill_(agreement > 0, longer).masked_fill_(turned, shorter)
        length = state["step_size"].mul_(factor).clamp_(*option.step_sizes)
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), length, value=-1)
        state["prev"].copy_(grad)
