"""NAdam (Dozat, 2016, "Incorporating Nesterov Momentum into Adam", ICLR workshop)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._third_party import has_data
from metatensor.optim._update_rule import Group, UpdateRule, average, average_square, counter, zeros

__all__ = ["NAdam"]


def _product(p: Any, group: Group) -> Any:
    return counter(p, group, 1.0)


class NAdam(UpdateRule):
    """Adam with Nesterov momentum (Dozat, 2016).

    The momentum at step t is mu(t) = b1 (1 - 0.96**(t momentum_decay) / 2), and M is the product of mu(1) to mu(t).
    With the averages m and v of `Adam`, the parameter is reduced by lr ((1 - mu(t)) g / (1 - M) + mu(t + 1) m / (1 - M
    mu(t + 1))) / (sqrt(v / (1 - b2**t)) + eps).

    Parameters
    ----------
    params, foreach, maximize, capturable, differentiable
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.002.
    betas : pair of float
        Decays (b1, b2), in [0, 1). Default (0.9, 0.999).
    eps : float
        Value added to the root. Default 1e-8.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    momentum_decay : float
        Speed at which the momentum approaches b1. Default 0.004.
    decoupled_weight_decay : bool
        Multiply the parameter by ``1 - lr * weight_decay`` instead, as AdamW does. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.ones(4, 3))
    >>> p.grad = mt.ones(4, 3)
    >>> mt.optim.NAdam([p]).step()
    >>> p.shape
    metatensor.Size([4, 3])
    """

    ranges = {"betas": "[0, 1)", "eps": NON_NEGATIVE, "momentum_decay": NON_NEGATIVE}
    state_tensors = {"step": counter, "mu_product": _product, "exp_avg": zeros, "exp_avg_sq": zeros}

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        decay1, decay2 = option.betas
        now, ahead = (decay1 * (1 - 0.96 ** (t * option.momentum_decay) / 2) for t in (option.step, option.step + 1))
        passed = state["mu_product"].mul_(now)
        product = passed.item() if has_data(passed) else now
        mean = average(state["exp_avg"], grad, decay1)
        square = average_square(state["exp_avg_sq"], grad, decay2)
        root = square.div(1 - decay2**option.step).sqrt().add_(option.eps)
        p.addcdiv_(grad, root, value=-option.lr * (1 - now) / (1 - product))
        p.addcdiv_(mean, root, value=-option.lr * ahead / (1 - product * ahead))
        return root
