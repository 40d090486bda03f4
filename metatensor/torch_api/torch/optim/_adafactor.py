"""Adafactor (Shazeer and Stern, 2018, arXiv:1804.04235)."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim._one_by_one import OneByOne, checked
from metatensor.torch_api.torch.optim.optimizer import _get_value

__all__ = ["Adafactor"]


class Adafactor(OneByOne):
    """Adam without momentum, whose second moments of matrices are kept as a row and a column."""

    _REAL = False

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        checked("beta2_decay", beta2_decay, beta2_decay <= 0.0, self)
        checked("eps[0]", eps[0], eps[0] is None or eps[0] >= 0.0, self)
        checked("eps[1]", eps[1], eps[1] >= 0.0, self)
        checked("d", d, d >= 1.0, self)
        checked("weight_decay", weight_decay, weight_decay >= 0.0, self)
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize,
            },
        )  # fmt: skip

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        grad = p.grad
        if p.is_complex():
            raise RuntimeError("Adafactor: complex parameters are not supported")
        if grad.dim() < 2:
            return {"step": self._counter(p, group), "variance": mt.zeros_like(grad, memory_format=mt.preserve_format)}
        shape = list(grad.shape)
        return {
            "step": self._counter(p, group),
            "row_var": grad.new_zeros([*shape[:-1], 1]),
            "col_var": grad.new_zeros([*shape[:-2], 1, shape[-1]]),
        }

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        smallest, floor = group["eps"]
        smallest = mt.finfo(p.dtype).eps if smallest is None else smallest
        lr = _get_value(group["lr"])
        step = self._tick(state)
        fresh = step ** group["beta2_decay"]
        root = math.sqrt(p.numel())
        scale = max(floor, _get_value(p.norm(2)) / root) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            row, col = state["row_var"], state["col_var"]
            row.lerp_(mt.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1)), fresh)
            col.lerp_(mt.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2)), fresh)
            variance = (row @ col).div_(row.mean(dim=-2, keepdim=True).clamp_(min=smallest))
        else:
            variance = state["variance"].lerp_(grad * grad, fresh).clone()
        update = variance.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
        excess = max(1.0, _get_value(update.norm(2)) / (root * group["d"]))
        p.add_(update, alpha=-scale / excess)
