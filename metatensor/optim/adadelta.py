"""Adadelta (Zeiler, 2012, arXiv:1212.5701)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average_square, counter, zeros

__all__ = ["Adadelta"]


class Adadelta(UpdateRule):
    """Adadelta (Zeiler, 2012).

    The gradient is multiplied by the ratio of the root mean squares of past updates and of past gradients.

    Parameters
    ----------
    params, foreach, capturable, maximize, differentiable
        See `metatensor.optim`.
    lr : float or Tensor
        Factor of the update. Default 1.
    rho : float
        Decay of the averages, in [0, 1]. Default 0.9.
    eps : float
        Value added to both averages. Default 1e-6.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Adadelta([p]).step()
    >>> p.data
    tensor([0.9968])
    """

    ranges = {"rho": "[0, 1]", "eps": NON_NEGATIVE}
    listwise = True
    state_tensors = {"step": counter, "square_avg": zeros, "acc_delta": zeros}

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        squares = average_square(state["square_avg"], grad, option.rho)
        past = state["acc_delta"]
        root = squares.add(option.eps).sqrt_()
        delta = past.add(option.eps).sqrt_().div_(root).mul_(grad)
        average_square(past, delta, option.rho)
        p.add_(delta, alpha=-option.lr)
        return delta
