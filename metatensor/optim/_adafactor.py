"""Adafactor (Shazeer and Stern, 2018, arXiv:1804.04235)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._third_party import _get_value
from metatensor.optim._update_rule import Group, UpdateRule, counter, zeros

__all__ = ["Adafactor"]


def _mean_over(dim: int) -> Any:
    """Return a maker of zeros for the mean over one dimension, for parameters of two dimensions or more."""

    def make(p: Any, group: Group) -> Any:
        shape = list(p.shape)
        if len(shape) < 2:
            return None
        shape[dim] = 1
        return p.new_zeros(shape)

    return make


class Adafactor(UpdateRule):
    """Adam without momentum that keeps the squared gradients of a matrix as the means of its rows and columns.

    The step is relative to the size of the parameter, at least ``eps[1]``, and its root mean square is at most ``d``.
    """

    ranges = {"beta2_decay": "(-inf, 0]", "eps": NON_NEGATIVE, "d": "[1, inf)"}
    state_tensors = {
        "step": counter,
        "row_var": _mean_over(-1),
        "col_var": _mean_over(-2),
        "variance": lambda p, group: zeros(p, group) if p.dim() < 2 else None,
    }
    decays_weights = complex_as_real = False

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        if p.is_complex():
            raise RuntimeError("Adafactor: complex parameters are not supported")
        tiny, floor = option.eps
        tiny = mt.finfo(p.dtype).eps if tiny is None else tiny
        root_size = math.sqrt(p.numel())
        rate = min(option.lr, 1 / math.sqrt(option.step)) * max(floor, _get_value(p.norm()) / root_size)
        if option.weight_decay:
            p.mul_(1 - option.lr * option.weight_decay)
        fresh = option.step**option.beta2_decay
        if grad.dim() < 2:
            second = state["variance"].lerp_(grad * grad, fresh).clone()
        else:
            rows, columns = (
                state[name].lerp_(grad.norm(dim=dim, keepdim=True).square_().div_(grad.size(dim)), fresh)
                for name, dim in (("row_var", -1), ("col_var", -2))
            )
            second = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=tiny))
        step = second.clamp_(min=tiny * tiny).rsqrt_().mul_(grad)
        excess = max(1.0, _get_value(step.norm()) / (root_size * option.d))
        p.add_(step, alpha=-rate / excess)
