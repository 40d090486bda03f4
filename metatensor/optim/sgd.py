"""Stochastic gradient descent, with momentum (Polyak, 1964; Sutskever et al., 2013, ICML)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule

__all__ = ["SGD"]


class SGD(UpdateRule):
    """Stochastic gradient descent, optionally with momentum (Polyak, 1964; Sutskever et al., 2013).

    With the gradient g, including weight decay, the momentum buffer is b <- momentum b + (1 - dampening) g. It is g at
    the first step. The update is p <- p - lr b, or with ``nesterov`` p <- p - lr (g + momentum b).

    Parameters
    ----------
    params, maximize, foreach, differentiable, fused
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.001.
    momentum : float
        Decay of the momentum buffer. Default 0, no momentum.
    dampening : float
        Reduction of the gradient's share in the buffer. Default 0.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    nesterov : bool
        Use Nesterov momentum, which needs a positive ``momentum`` and no ``dampening``. Default False.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range, or ``nesterov`` is used without momentum or with dampening.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.SGD([p], lr=0.1).step()
    >>> p.data
    tensor([0.8000])
    """

    ranges = {"momentum": NON_NEGATIVE}
    listwise = True

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def check(self, option: SimpleNamespace) -> None:
        if option.nesterov and (option.momentum <= 0 or option.dampening != 0):
            raise ValueError("SGD: nesterov needs a positive momentum and no dampening")

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        direction = grad
        if option.momentum != 0:
            kept = state.get("momentum_buffer")
            if kept is None:
                kept = state["momentum_buffer"] = grad.detach().clone()
            else:
                kept.mul_(option.momentum).add_(grad, alpha=1 - option.dampening)
            direction = grad.add(kept, alpha=option.momentum) if option.nesterov else kept
        p.add_(direction, alpha=-option.lr)
