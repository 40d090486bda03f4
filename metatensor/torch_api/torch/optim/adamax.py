"""Adamax (Kingma and Ba, 2014, arXiv:1412.6980, section 7.1)."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, betas_checked, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Adamax"]


class Adamax(OneByOne):
    """Adam with the running maximum of the gradient in place of the average of its square."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        checked("eps", eps, eps >= 0.0, self)
        betas_checked(betas, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": self._counter(p, group), "exp_avg": zeros(p), "exp_inf": zeros(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        step = self._tick(state)
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(grad, 1 - beta1)
        largest = state["exp_inf"]
        mt.maximum(largest.mul_(beta2), grad.abs().add_(group["eps"]), out=largest)
        p.addcdiv_(state["exp_avg"], largest, value=-_get_value(group["lr"]) / (1 - beta1**step))
