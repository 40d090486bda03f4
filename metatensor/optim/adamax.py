"""Adamax (Kingma and Ba, 2014, arXiv:1412.6980, section 7.1)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, counter, zeros

__all__ = ["Adamax"]


class Adamax(UpdateRule):
    """Adam in the infinity norm: u <- max(b2 u, abs(g) + eps) and p <- p - lr (m / (1 - b1**t)) / u."""

    ranges = {"betas": "[0, 1)", "eps": NON_NEGATIVE}
    state_tensors = {"step": counter, "exp_avg": zeros, "exp_inf": zeros}

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        decay1, decay2 = option.betas
        mean, largest = average(state["exp_avg"], grad, decay1), state["exp_inf"]
        largest.copy_(mt.maximum(largest.mul_(decay2), grad.abs().add_(option.eps)))
        p.addcdiv_(mean, largest, value=-option.lr / (1 - decay1**option.step))
