"""Adagrad (Duchi et al., 2011, JMLR 12)."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Adagrad"]


class Adagrad(OneByOne):
    """Steps divided by the root of the sum of all squared gradients."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        checked("lr_decay", lr_decay, lr_decay >= 0.0, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        checked("initial_accumulator_value", initial_accumulator_value, initial_accumulator_value >= 0.0, self)
        checked("eps", eps, eps >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._begin(p, group))

    def share_memory(self) -> None:
        """Nothing: memory of this process is not shared with others."""

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        first = group["initial_accumulator_value"]
        first = complex(first, first) if p.is_complex() else first
        return {"step": self._counter(p, group), "sum": mt.full_like(p, first, memory_format=mt.preserve_format)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = self._tick(state)
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        lr = _get_value(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        total = state["sum"].addcmul_(grad, grad, value=1)
        p.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-lr)
