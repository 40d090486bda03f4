"""RMSprop (Hinton, 2012, lecture notes), plain and centred (Graves, 2013, arXiv:1308.0850)."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["RMSprop"]


class RMSprop(OneByOne):
    """Steps divided by the root of a running average of squared gradients."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        checked("eps", eps, eps >= 0.0, self)
        checked("momentum", momentum, momentum >= 0.0, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        checked("alpha", alpha, alpha >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": self._counter(p, group), "square_avg": zeros(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros(p)
        if group["centered"]:
            state["grad_avg"] = zeros(p)
        return state

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        alpha = group["alpha"]
        lr = _get_value(group["lr"])
        self._tick(state)
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        square = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_().add_(group["eps"])
        else:
            root = square.sqrt().add_(group["eps"])
        if group["momentum"] > 0:
            p.add_(state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root), alpha=-lr)
        else:
            p.addcdiv_(grad, root, value=-lr)
