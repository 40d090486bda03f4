"""Adam for sparse gradients (Kingma and Ba, 2014, arXiv:1412.6980)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from metatensor.optim._update_rule import UpdateRule, zeros

__all__ = ["SparseAdam"]


class SparseAdam(UpdateRule):
    """Adam that updates a parameter and its averages only at the elements listed by a sparse gradient.

    metatensor has no sparse tensors. A gradient counts as sparse if its ``is_sparse`` is true. It must have the methods
    ``coalesce()``, ``indices()`` and ``values()``, like PyTorch's tensors in COO layout.

    Parameters
    ----------
    params, maximize
        See `metatensor.optim`.
    lr : float or Tensor
        Learning rate, positive. Default 0.001.
    betas : pair of float
        Decays of the averages, in [0, 1). Default (0.9, 0.999).
    eps : float
        Value added to the root, positive. Default 1e-8.
    """

    ranges = {"lr": "(0, inf)", "betas": "[0, 1)", "eps": "(0, inf)"}
    state_tensors = {"step": lambda p, group: 0, "exp_avg": zeros, "exp_avg_sq": zeros}
    sparse, complex_as_real = True, False

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        grad = grad.coalesce()
        at, values = tuple(grad.indices()), grad.values()
        if option.maximize:
            values = -values
        if values.numel() == 0:
            return
        decay1, decay2 = option.betas
        mean = state["exp_avg"][at].lerp_(values, 1 - decay1)
        square = state["exp_avg_sq"][at].lerp_(values * values, 1 - decay2)
        state["exp_avg"][at], state["exp_avg_sq"][at] = mean, square
        rate = option.lr * math.sqrt(1 - decay2**option.step) / (1 - decay1**option.step)
        p[at] = p[at].addcdiv_(mean, square.sqrt().add_(option.eps), value=-rate)
