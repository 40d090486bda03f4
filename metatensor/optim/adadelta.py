"""Adadelta (Zeiler, 2012, arXiv:1212.5701)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average_square, counter, zeros

__all__ = ["Adadelta"]


class Adadelta(UpdateRule):
    """Scale the gradient by the ratio of the root mean squares of past steps and of past gradients."""

    ranges = {"rho": "[0, 1]", "eps": NON_NEGATIVE}
    state_tensors = {"step": counter, "square_avg": zeros, "acc_delta": zeros}

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        squares = average_square(state["square_avg"], grad, option.rho)
        past = state["acc_delta"]
        delta = grad * (past + option.eps).sqrt_().div_((squares + option.eps).sqrt_())
        average_square(past, delta, option.rho)
        p.add_(delta, alpha=-option.lr)
