"""Adagrad (Duchi et al., 2011, Journal of Machine Learning Research 12)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metatensor.optim._ranges import NON_NEGATIVE
from metatensor.optim._update_rule import UpdateRule, counter, filled

__all__ = ["Adagrad"]


class Adagrad(UpdateRule):
    """Adagrad (Duchi et al., 2011).

    The gradient is divided by the root of the sum of all squared gradients so far. The rate at step t is
    ``lr / (1 + (t - 1) * lr_decay)``. Unlike that of other optimizers, the state is created by the constructor.

    Parameters
    ----------
    params, foreach, maximize, differentiable, fused
        See `metatensor.optim`.
    lr : float or Tensor
        Initial learning rate. Default 0.01.
    lr_decay : float
        Decay of the rate. Default 0.
    weight_decay : float
        Multiple of the parameter that is added to the gradient. Default 0.
    initial_accumulator_value : float
        Initial value of the sum. Default 0.
    eps : float
        Value added to the root. Default 1e-10.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.Adagrad([p], lr=0.1).step()
    >>> p.data
    tensor([0.9000])
    """

    ranges = {"lr_decay": NON_NEGATIVE, "initial_accumulator_value": NON_NEGATIVE, "eps": NON_NEGATIVE}
    listwise = True
    state_tensors = {"step": counter, "sum": filled("initial_accumulator_value")}

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, vars())
        for group in self.param_groups:
            self.state.update((p, self.begin(p, group)) for p in group["params"])

    def share_memory(self) -> None:
        """Do nothing: the state is not moved to shared memory."""

    def update(self, p: Any, grad: Any, state: dict[str, Any], option: SimpleNamespace) -> Any:
        rate = option.lr / (1 + (option.step - 1) * option.lr_decay)
        total = state["sum"].addcmul_(grad, grad)
        root = total.sqrt().add_(option.eps)
        p.addcdiv_(grad, root, value=-rate)
        return root
