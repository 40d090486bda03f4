"""Adagrad (Duchi et al., 2011, Journal of Machine Learning Research 12)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, counter, filled

__all__ = ["Adagrad"]


class Adagrad(UpdateRule):
    """Divide the gradient by the root of the sum of all squared gradients; the rate is lr / (1 + (t - 1) lr_decay).

    The state exists from the start, not from the first step.
    """

    ranges = {"lr_decay": NON_NEGATIVE, "initial_accumulator_value": NON_NEGATIVE, "eps": NON_NEGATIVE}
    state_tensors = {"step": counter, "sum": filled("initial_accumulator_value")}

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())
        for group in self.param_groups:
            self.state.update((p, self.begin(p, group)) for p in group["params"])

    def share_memory(self) -> None:
        """Do nothing: memory of this process is not shared with others."""

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        rate = option.lr / (1 + (option.step - 1) * option.lr_decay)
        total = state["sum"].addcmul_(grad, grad)
        p.addcdiv_(grad, total.sqrt().add_(option.eps), value=-rate)
