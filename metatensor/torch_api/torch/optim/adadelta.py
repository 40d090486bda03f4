"""Adadelta (Zeiler, 2012, arXiv:1212.5701)."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Adadelta"]


class Adadelta(OneByOne):
    """Steps in the units of the parameter: the ratio of two running averages of squares."""

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        checked("rho", rho, 0.0 <= rho <= 1.0, self)
        checked("eps", eps, eps >= 0.0, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": self._counter(p, group), "square_avg": zeros(p), "acc_delta": zeros(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        rho, eps = group["rho"], group["eps"]
        self._tick(state)
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        root = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho).add(eps).sqrt_()
        delta = state["acc_delta"].add(eps).sqrt_().div_(root).mul_(grad)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-_get_value(group["lr"]))
