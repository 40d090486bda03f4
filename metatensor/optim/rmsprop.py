"""RMSprop (Hinton, 2012, "Neural Networks for Machine Learning", lecture 6; centered: Graves, 2013, arXiv:1308.0850)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, average_square, counter, only_with, zeros

__all__ = ["RMSprop"]


class RMSprop(UpdateRule):
    """RMSprop (Hinton, 2012), optionally centered (Graves, 2013).

    The gradient is divided by the root of the average squared gradient or, if ``centered``, of the gradient's variance.

    Parameters
    ----------
    params, capturable, foreach, maximize, differentiable
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.01.
    alpha : float
        Decay of the averages. Default 0.99.
    eps : float
        Value added to the root. Default 1e-8.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    momentum : float
        Decay of the momentum buffer. Default 0, no momentum.
    centered : bool
        Divide by the root of the variance. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.RMSprop([p], lr=0.1, alpha=0.75).step()
    >>> p.data
    tensor([0.8000])
    """

    ranges = {"alpha": NON_NEGATIVE, "eps": NON_NEGATIVE, "momentum": NON_NEGATIVE}
    listwise = True
    state_tensors = {
        "step": counter,
        "square_avg": zeros,
        "momentum_buffer": only_with("momentum", zeros),
        "grad_avg": only_with("centered", zeros),
    }

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        variance = average_square(state["square_avg"], grad, option.alpha)
        if option.centered:
            mean = average(state["grad_avg"], grad, option.alpha)
            root = variance.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = variance.sqrt()
        root = root.add_(option.eps)
        if option.momentum > 0:
            p.add_(state["momentum_buffer"].mul_(option.momentum).addcdiv_(grad, root), alpha=-option.lr)
        else:
            p.addcdiv_(grad, root, value=-option.lr)
        return root
