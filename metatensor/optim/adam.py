"""Adam (Kingma and Ba, 2014, arXiv:1412.6980), with AMSGrad (Reddi et al., 2018) and decoupled weight decay."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._many import raise_to
from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, average_square, counter, only_with, zeros

__all__ = ["Adam"]


class Adam(UpdateRule):
    """Adam (Kingma and Ba, 2014), optionally with AMSGrad (Reddi et al., 2018).

    With the gradient g, m <- b1 m + (1 - b1) g and v <- b2 v + (1 - b2) g**2. At step t the update is
    p <- p - lr (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps).

    Parameters
    ----------
    params, foreach, maximize, capturable, differentiable, fused
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.001.
    betas : pair of float or of Tensor
        Decays (b1, b2), in [0, 1). Default (0.9, 0.999).
    eps : float
        Value added to the root. Default 1e-8.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    amsgrad : bool
        Use the largest v so far. Default False.
    decoupled_weight_decay : bool
        Multiply the parameter by ``1 - lr * weight_decay`` instead, as AdamW does. Default False.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range or only one beta is a tensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Adam([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    ranges = {"betas": "[0, 1)", "eps": NON_NEGATIVE}
    listwise = True
    state_tensors = {"step": counter, "exp_avg": zeros, "exp_avg_sq": zeros, "max_exp_avg_sq": only_with("amsgrad", zeros)}

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def check(self, option: SimpleNamespace) -> None:
        tensors = [isinstance(beta, mt.Tensor) for beta in option.betas]
        if any(tensors) and not all(tensors):
            raise ValueError(f"{type(self).__name__}: betas must both be numbers or both tensors")
        if option.foreach and not option.capturable and (any(tensors) or isinstance(option.lr, mt.Tensor)):
            raise ValueError(f"{type(self).__name__}: tensors as lr or betas with foreach=True need capturable=True")

    def at_step(self, option: SimpleNamespace) -> None:
        decay1, decay2 = option.betas
        option.correction = math.sqrt(1 - decay2**option.step)
        option.rate = -option.lr / (1 - decay1**option.step)

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        decay1, decay2 = option.betas
        mean = average(state["exp_avg"], grad, decay1)
        square = average_square(state["exp_avg_sq"], grad, decay2)
        if option.amsgrad:
            square = raise_to(state["max_exp_avg_sq"], square)
        root = square.sqrt()
        root = (root.div_(option.correction) if option.many else root / option.correction).add_(option.eps)
        p.addcdiv_(mean, root, value=option.rate)
        return root
