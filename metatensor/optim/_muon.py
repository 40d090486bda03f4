"""Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon; Liu et al., 2025, arXiv:2502.16982)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, average, zeros

__all__ = ["Muon"]

_MAX_STEPS = 100

_RATE_FACTORS = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
"""Functions that compute the factor of the learning rate from the shape of a matrix, by ``adjust_lr_fn``.

The factor makes the updates of matrices of all shapes equally large.
"""


def _orthogonalized(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """Approximate the nearest semi-orthogonal matrix by Newton-Schulz iteration. The result is in bfloat16.

    Each step applies the odd polynomial a s + b s**3 + c s**5 to the singular values s, which are at most 1 at first.
    """
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    if tall:
        x = x.mT  # makes the Gram matrix below as small as possible
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        polynomial = gram.addmm(gram, gram, beta=b, alpha=c)
        x = x.addmm(polynomial, x, beta=a)
    return x.mT if tall else x


class Muon(UpdateRule):
    """Momentum with orthogonalized updates, for weights that are matrices (Jordan et al., 2024).

    With the gradient g, the momentum buffer is b <- momentum b + (1 - momentum) g. The update is
    the orthogonalized b. With ``nesterov`` it is momentum b + (1 - momentum) g, orthogonalized.

    Parameters
    ----------
    params
        See `metatensor.optim`. All parameters must have 2 dimensions.
    lr : float or Tensor
        Learning rate. Default 0.001.
    weight_decay : float
        Decoupled weight decay. Default 0.1.
    momentum : float
        Decay of the momentum buffer, not negative. Default 0.95.
    nesterov : bool
        Use Nesterov momentum. Default True.
    ns_coefficients : tuple of 3 float
        Coefficients (a, b, c) of the Newton-Schulz polynomial a s + b s**3 + c s**5.
    eps : float
        Lower bound of the norm that the update is divided by. Default 1e-7.
    ns_steps : int
        Newton-Schulz steps, below 100. Default 5.
    adjust_lr_fn : str, optional
        "original" (the default) multiplies the rate by sqrt(max(1, rows / columns)). "match_rms_adamw" multiplies it by
        0.2 * sqrt(max(rows, columns)), so that rates of AdamW can be reused (Liu et al., 2025).

    Raises
    ------
    ValueError
        If a parameter is not a matrix or a hyperparameter is out of range.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.ones(4, 3))
    >>> p.grad = mt.ones(4, 3)
    >>> mt.optim.Muon([p]).step()
    >>> p.shape
    metatensor.Size([4, 3])
    """

    ranges = {"momentum": NON_NEGATIVE}
    state_tensors = {"momentum_buffer": zeros}
    decays_weights = complex_as_real = False

    def __init__(
        self, params: Any, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())
        for p in self._parameters():
            if p.dim() != 2:
                raise ValueError(f"Muon: the parameters must be matrices, got one of shape {tuple(p.shape)}")

    def check(self, option: SimpleNamespace) -> None:
        if option.adjust_lr_fn not in _RATE_FACTORS:
            raise ValueError(f"Muon: adjust_lr_fn must be 'original', 'match_rms_adamw' or None, got {option.adjust_lr_fn!r}")

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        if p.is_complex():
            raise RuntimeError("Muon: complex parameters are not supported")
        if grad.dim() != 2:
            raise ValueError(f"Muon: the parameters must be matrices, got one of shape {tuple(p.shape)}")
        if len(option.ns_coefficients) != 3:
            raise ValueError(f"Muon: ns_coefficients must be 3 numbers, got {option.ns_coefficients}")
        if option.ns_steps >= _MAX_STEPS:
            raise ValueError(f"Muon: ns_steps must be below {_MAX_STEPS}, got {option.ns_steps}")
        kept = average(state["momentum_buffer"], grad, option.momentum)
        direction = grad.lerp(kept, option.momentum) if option.nesterov else kept
        direction = _orthogonalized(direction, option.ns_coefficients, option.ns_steps, option.eps)
        p.mul_(1 - option.lr * option.weight_decay)
        p.add_(direction, alpha=-option.lr * _RATE_FACTORS[option.adjust_lr_fn](*p.shape))
