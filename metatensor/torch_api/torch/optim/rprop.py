"""Rprop (Riedmiller and Braun, 1993, ICNN)."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked, zeros
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Rprop"]


class Rprop(OneByOne):
    """Steps by the sign of the gradient, longer while it stays and shorter when it changes."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        checked("etas", etas, 0.0 < etas[0] < 1.0 < etas[1], self)
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        lr = _get_value(group["lr"])
        size = mt.full_like(p, complex(lr, lr) if p.is_complex() else lr, memory_format=mt.preserve_format)
        return {"step": self._counter(p, group), "prev": zeros(p), "step_size": size}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        shorter, longer = group["etas"]
        self._tick(state)
        agreement = grad.mul(state["prev"]).sign()
        turned = agreement < 0
        factor = mt.where(agreement > 0, longer, mt.where(turned, shorter, 1.0)).to(grad.dtype)
        size = state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), size, value=-1)
        state["prev"].copy_(grad)
