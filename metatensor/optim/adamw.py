"""AdamW (Loshchilov and Hutter, 2017, arXiv:1711.05101)."""

from __future__ import annotations

from typing import Any

from metatensor.optim.adam import Adam

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017).

    Before each step of `Adam` the parameter is multiplied by ``1 - lr * weight_decay``.

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused
        As in `Adam`.
    weight_decay : float
        Decoupled weight decay. Default 0.01.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.Parameter(mt.tensor([1.0], device="cpu"))
    >>> p.grad = mt.tensor([2.0], device="cpu")
    >>> mt.optim.AdamW([p], lr=0.1, weight_decay=0.5).step()
    >>> p.data
    tensor([0.8500])
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super(Adam, self).__init__(params, {**vars(), "decoupled_weight_decay": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
