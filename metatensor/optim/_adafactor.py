"""Adafactor (Shazeer and Stern, 2018, arXiv:1804.04235)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._third_party import _get_value
from metatensor.optim._update_rule import Group, UpdateRule, counter, zeros

__all__ = ["Adafactor"]


def _mean_over(dim: int) -> Any:
    """Return a function that creates a tensor of zeros for the means of a parameter over one dimension.

    That function returns None if the parameter has fewer than 2 dimensions.
    """

    def make(p: Any, group: Group) -> Any:
        shape = list(p.shape)
        if len(shape) < 2:
            return None
        shape[dim] = 1
        return p.new_zeros(shape)

    return make


class Adafactor(UpdateRule):
    """Adafactor: adaptive steps without momentum, with a small state (Shazeer and Stern, 2018).

    For parameters of 2 or more dimensions, the squared gradients are represented by the means of their rows and
    columns. The step is relative to the root mean square of the parameter.

    Parameters
    ----------
    params, foreach, maximize
        See `metatensor.optim`.
    lr : float or Tensor
        Upper bound of the relative step. Default 0.01.
    beta2_decay : float
        Exponent, not positive: step t has the weight ``t**beta2_decay`` in the averages. Default -0.8.
    eps : pair of float
        Lower bounds of the root of the squared gradients (None means the dtype's machine epsilon) and of the
        parameter's root mean square. Default (None, 0.001).
    d : float
        Upper bound of the root mean square of a step before scaling, at least 1. Default 1.
    weight_decay : float
        Decoupled weight decay. Default 0.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range.
    RuntimeError
        On a step if a parameter is complex.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Adafactor([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    ranges = {"beta2_decay": "(-inf, 0]", "eps": NON_NEGATIVE, "d": "[1, inf)"}
    state_tensors = {
        "step": counter,
        "row_var": _mean_over(-1),
        "col_var": _mean_over(-2),
        "variance": lambda p, group: zeros(p, group) if p.dim() < 2 else None,
    }
    decays_weights = complex_as_real = False

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> None:
        if p.is_complex():
            raise RuntimeError("Adafactor: complex parameters are not supported")
        tiny, floor = option.eps
        tiny = mt.finfo(p.dtype).eps if tiny is None else tiny
        root_size = math.sqrt(p.numel())
        rate = min(option.lr, 1 / math.sqrt(option.step)) * max(floor, _get_value(p.norm()) / root_size)
        if option.weight_decay:
            p.mul_(1 - option.lr * option.weight_decay)
        fresh = option.step**option.beta2_decay
        if grad.dim() < 2:
            second = state["variance"].lerp_(grad * grad, fresh).clone()
        else:
            rows, columns = (
                state[name].lerp_(grad.norm(dim=dim, keepdim=True).square_().div_(grad.size(dim)), fresh)
                for name, dim in (("row_var", -1), ("col_var", -2))
            )
            second = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=tiny))
        step = second.clamp_(min=tiny * tiny).rsqrt_().mul_(grad)
        excess = max(1.0, _get_value(step.norm()) / (root_size * option.d))
        p.add_(step, alpha=-rate / excess)
