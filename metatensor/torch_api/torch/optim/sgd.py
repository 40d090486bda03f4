"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["SGD"]


class SGD(OneByOne):
    """Stochastic gradient descent, with momentum, Nesterov's too."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        checked("momentum", momentum, momentum >= 0.0, self)
        checked("weight_decay", weight_decay, isinstance(weight_decay, mt.Tensor) or weight_decay >= 0.0, self)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
                "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            grad = grad.add(p, alpha=_get_value(group["weight_decay"]))
        momentum = group["momentum"]
        if momentum != 0:
            kept = state.get("momentum_buffer")
            if kept is None:
                kept = state["momentum_buffer"] = grad.detach().clone()
            else:
                kept.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(kept, alpha=momentum) if group["nesterov"] else kept
        p.add_(grad, alpha=-_get_value(group["lr"]))
