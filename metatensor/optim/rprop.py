"""Rprop (Riedmiller and Braun, 1993, IEEE International Conference on Neural Networks)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._update_rule import UpdateRule, counter, filled, zeros

__all__ = ["Rprop"]


class Rprop(UpdateRule):
    """Step by the sign of the gradient, each element by a length of its own.

    The length grows by ``etas[1]`` while the sign stays and shrinks by ``etas[0]`` when it turns, within ``step_sizes``. An
    element whose sign has turned is not moved in that step.
    """

    ranges = {"etas": ("(0, 1)", "(1, inf)")}
    state_tensors = {"step": counter, "prev": zeros, "step_size": filled("lr")}

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        shorter, longer = option.etas
        agreement = grad * state["prev"]
        turned = agreement < 0
        factor = mt.where(agreement > 0, longer, mt.where(turned, shorter, 1.0)).to(grad.dtype)
        length = state["step_size"].mul_(factor).clamp_(*option.step_sizes)
        grad = grad.masked_fill(turned, 0)
        p.addcmul_(grad.sign(), length, value=-1)
        state["prev"].copy_(grad)
