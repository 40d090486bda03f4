"""NAdam (Dozat, 2016, "Incorporating Nesterov Momentum into Adam")."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, betas_checked, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["NAdam"]


class NAdam(OneByOne):
    """Adam with Nesterov's momentum."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        checked("eps", eps, eps >= 0.0, self)
        betas_checked(betas, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        checked("momentum_decay", momentum_decay, momentum_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": self._counter(p, group),
            "mu_product": self._counter(p, group, 1.0),
            "exp_avg": zeros(p),
            "exp_avg_sq": zeros(p),
        }

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        lr = _get_value(group["lr"])
        step = self._tick(state)
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(p, alpha=group["weight_decay"])
        now, following = (beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        state["mu_product"] *= now
        product = _get_value(state["mu_product"]) if state["mu_product"].untyped_storage().data is not None else now
        state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = mt.div(square, 1 - beta2**step).sqrt_().add_(group["eps"])
        p.addcdiv_(grad, denominator, value=-lr * (1.0 - now) / (1.0 - product))
        p.addcdiv_(state["exp_avg"], denominator, value=-lr * following / (1.0 - product * following))
