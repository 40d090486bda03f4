"""Adamax (Kingma and Ba, 2014, arXiv:1412.6980, section 7.1)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._many import raise_to
from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, counter, zeros

__all__ = ["Adamax"]


class Adamax(UpdateRule):
    """Variant of Adam with the infinity norm (Kingma and Ba, 2014, section 7.1).

    With the gradient g, m <- b1 m + (1 - b1) g and u <- max(b2 u, abs(g) + eps). At step t the update is
    p <- p - lr (m / (1 - b1**t)) / u.

    Parameters
    ----------
    params, foreach, maximize, differentiable, capturable
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate. Default 0.002.
    betas : pair of float
        Decays (b1, b2), in [0, 1). Default (0.9, 0.999).
    eps : float
        Value added to the magnitude of the gradient. Default 1e-8.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Adamax([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    ranges = {"betas": "[0, 1)", "eps": NON_NEGATIVE}
    listwise = True
    state_tensors = {"step": counter, "exp_avg": zeros, "exp_inf": zeros}

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        decay1, decay2 = option.betas
        mean, largest = average(state["exp_avg"], grad, decay1), state["exp_inf"]
        raise_to(largest.mul_(decay2), grad.abs().add_(option.eps))
        p.addcdiv_(mean, largest, value=-option.lr / (1 - decay1**option.step))
