"""RAdam (Liu et al., 2019, arXiv:1908.03265)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, average_square, counter, zeros

__all__ = ["RAdam"]


def _rectification(step: float, decay: float) -> float:
    """Return the variance rectification r(t) of algorithm 2 of the paper, or 0 if the variance is intractable."""
    limit = 2 / (1 - decay) - 1
    length = limit - 2 * step * decay**step / (1 - decay**step)
    if length <= 5:
        return 0.0
    return math.sqrt((length - 4) / (limit - 4) * (length - 2) / (limit - 2) * limit / length)


class RAdam(UpdateRule):
    """Rectified Adam (Liu et al., 2019).

    The adaptive step is scaled by a factor that is small while few gradients have been averaged. In the first steps the
    update is momentum alone.

    Parameters
    ----------
    params, foreach, maximize, capturable, differentiable
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.001.
    betas : pair of float
        Decays of the averages of the gradient and of its square, in [0, 1). Default (0.9, 0.999).
    eps : float
        Value added to the root. Default 1e-8.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    decoupled_weight_decay : bool
        Multiply the parameter by ``1 - lr * weight_decay`` instead, as AdamW does. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.RAdam([p], lr=0.1).step()
    >>> p.data
    tensor([0.8000])
    """

    ranges = {"betas": "[0, 1)", "eps": NON_NEGATIVE}
    listwise = True
    state_tensors = {"step": counter, "exp_avg": zeros, "exp_avg_sq": zeros}

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        decay1, decay2 = option.betas
        mean = average(state["exp_avg"], grad, decay1)
        square = average_square(state["exp_avg_sq"], grad, decay2)
        length = option.lr / (1 - decay1**option.step)
        rectification = _rectification(option.step, decay2)
        if rectification:
            scale = rectification * math.sqrt(1 - decay2**option.step)
            p.addcdiv_(mean, square.sqrt().add_(option.eps), value=-length * scale)
        else:
            p.add_(mean, alpha=-length)
