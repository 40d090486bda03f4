"""Averaged stochastic gradient descent (Polyak and Juditsky, 1992, SIAM J. Control Optim. 30)."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_scalar_dtype, _get_value

__all__ = ["ASGD"]


class ASGD(OneByOne):
    """Gradient descent that keeps, as ``ax``, the average of the parameter's path from step ``t0`` on."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        dtype = _get_scalar_dtype()
        return {
            "step": mt.zeros((), device=p.device, dtype=dtype),
            "eta": mt.as_tensor(_get_value(group["lr"]), device=p.device, dtype=dtype).clone().detach(),
            "mu": mt.ones((), device=p.device, dtype=dtype),
            "ax": zeros(p),
        }

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, lambd = _get_value(group["lr"]), group["lambd"]
        step = self._tick(state)
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=group["weight_decay"])
        eta, mu = _get_value(state["eta"]), _get_value(state["mu"])
        p.mul_(1 - lambd * eta)
        p.add_(grad, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_(p.sub(state["ax"]).mul_(mu))
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))
