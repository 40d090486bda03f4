"""Stochastic gradient descent, with momentum (Polyak, 1964; Sutskever et al., 2013, ICML)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule

__all__ = ["SGD"]


class SGD(UpdateRule):
    """Stochastic gradient descent, with heavy-ball or Nesterov momentum.

    With the gradient g, weight decay included, b <- momentum b + (1 - dampening) g, starting from b = g at the first step, and
    p <- p - lr b. Nesterov's variant subtracts lr (g + momentum b).
    """

    ranges = {"momentum": NON_NEGATIVE}

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def check(self, option: SimpleNamespace) -> None:
        if option.nesterov and (option.momentum <= 0 or option.dampening != 0):
            raise ValueError("SGD: nesterov needs a positive momentum and no dampening")

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        direction = grad
        if option.momentum != 0:
            kept = state.get("momentum_buffer")
            if kept is None:
                kept = state["momentum_buffer"] = grad.detach().clone()
            else:
                kept.mul_(option.momentum).add_(grad, alpha=1 - option.dampening)
            direction = grad.add(kept, alpha=option.momentum) if option.nesterov else kept
        p.add_(direction, alpha=-option.lr)
