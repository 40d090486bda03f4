"""RAdam (Liu et al., 2019, arXiv:1908.03265)."""

from __future__ import annotations

import math
from typing import Any

from metatensor.torch_api.torch.optim._one_by_one import OneByOne, betas_checked, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["RAdam"]


class RAdam(OneByOne):
    """Adam that rectifies the variance of its step sizes while the averages are young."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        checked("eps", eps, eps >= 0.0, self)
        betas_checked(betas, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": self._counter(p, group), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        lr = _get_value(group["lr"])
        step = self._tick(state)
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(p, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        mean = state["exp_avg"] / (1 - beta1**step)
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        if length > 5.0:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            scale = math.sqrt(correction) / square.sqrt().add_(group["eps"])
            p.add_(mean * lr * scale * math.sqrt(rectified), alpha=-1.0)
        else:
            p.add_(mean * lr, alpha=-1.0)
