"""Adam (Kingma and Ba, 2014, arXiv:1412.6980), with AMSGrad (Reddi et al., 2018) and decoupled weight decay."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Adam"]


class Adam(OneByOne):
    """Adam: steps by running averages of the gradient and of its square."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        checked("eps", eps, eps >= 0.0, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        for i, beta in enumerate(betas):
            checked(f"betas[{i}]", beta, isinstance(beta, mt.Tensor) or 0.0 <= beta < 1.0, self)
        if isinstance(betas[0], mt.Tensor) != isinstance(betas[1], mt.Tensor):
            raise ValueError(f"{type(self).__name__}: betas must both be numbers or both tensors")
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": self._counter(p, group), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros(p)
        return state

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = (_get_value(beta) for beta in group["betas"])
        lr = _get_value(group["lr"])
        step = self._tick(state)
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                grad = grad.add(p, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            square = mt.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
        denominator = (square.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        p.addcdiv_(state["exp_avg"], denominator, value=-lr / (1 - beta1**step))
