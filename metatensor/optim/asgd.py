"""Averaged stochastic gradient descent (Polyak and Juditsky, 1992, SIAM Journal on Control and Optimization 30)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._third_party import _get_scalar_dtype
from metatensor.optim._update_rule import UpdateRule, number, zeros

__all__ = ["ASGD"]


def _beside(value: Any, p: Any) -> Any:
    return mt.full((), value, dtype=_get_scalar_dtype(), device=p.device)


class ASGD(UpdateRule):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992).

    At step t the rate is ``lr / (1 + lambd * lr * t) ** alpha``. The state ``ax`` is an average of the parameter: after
    step t it moves by the fraction ``1 / max(1, t - t0)`` towards the new value.

    Parameters
    ----------
    params, foreach, maximize, differentiable, capturable
        See `metatensor.optim`.
    lr : float or Tensor
        Initial learning rate. Default 0.01.
    lambd : float
        Decay of the parameter and of the rate. Default 1e-4.
    alpha : float
        Exponent of the decay of the rate. Default 0.75.
    t0 : float
        Step after which averaging begins. Default 1e6.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.ASGD([p], lr=0.1, lambd=0).step()
    >>> p.data
    tensor([0.8000])
    """

    state_tensors = {
        "step": lambda p, group: _beside(0.0, p),
        "eta": lambda p, group: _beside(number(group["lr"], p), p),
        "mu": lambda p, group: _beside(1.0, p),
        "ax": zeros,
    }

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        rate, share = number(state["eta"], state["eta"]), number(state["mu"], state["mu"])
        p.mul_(1 - option.lambd * rate).add_(grad, alpha=-rate)
        if share == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].lerp_(p, share)
        state["eta"].fill_(option.lr / (1 + option.lambd * option.lr * option.step) ** option.alpha)
        state["mu"].fill_(1 / max(1, option.step - option.t0))
