"""The step that the optimizers share: for each parameter with a gradient, make its state once and update it."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.optim.optimizer import Optimizer, _get_scalar_dtype, _get_value

__all__ = ["OneByOne", "betas_checked", "checked", "zeros"]


def checked(name: str, value: Any, good: bool, optimizer: Any, kind: str = "value") -> None:
    """ValueError that names an option and its value, where it is not ``good``."""
    if not good:
        raise ValueError(f"{type(optimizer).__name__}: {name} has an invalid {kind}: {value}")


def betas_checked(betas: tuple[float, float], optimizer: Any) -> None:
    """ValueError where one of two decay rates is not between 0 and 1."""
    for i, beta in enumerate(betas):
        checked(f"betas[{i}]", beta, 0.0 <= beta < 1.0, optimizer)


def zeros(p: Any) -> Any:
    """Zeros like ``p``, dense in its order of dimensions."""
    return mt.zeros_like(p, memory_format=mt.preserve_format)


class OneByOne(Optimizer):
    """An optimizer that treats parameters alike and apart: `_begin` makes a state, `_update` steps.

    Options that choose among implementations in PyTorch, ``foreach`` and ``fused``, are kept and choose nothing;
    ``capturable`` and ``fused`` put the step counter beside the parameter.
    """

    _REAL = True
    """Whether complex parameters are updated as pairs of real numbers."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        lr = defaults["lr"]
        if isinstance(lr, mt.Tensor):
            if defaults.get("foreach") and not defaults.get("capturable"):
                raise ValueError(f"{type(self).__name__}: a tensor lr with foreach=True needs capturable=True")
            checked("lr", lr.numel(), lr.numel() == 1, self, "number of elements")
        else:
            checked("lr", lr, lr >= 0.0, self)
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError(f"{type(self).__name__}: fused excludes differentiable")
            if defaults.get("foreach"):
                raise RuntimeError(f"{type(self).__name__}: fused excludes foreach")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
            for p in group["params"]:
                kept = self.state.get(p, {})
                if "step" in kept and not isinstance(kept["step"], mt.Tensor):
                    kept["step"] = self._counter(p, group, float(kept["step"]))

    @staticmethod
    def _counter(p: Any, group: dict[str, Any], value: float = 0.0) -> Any:
        """A step counter: on the cpu, or beside the parameter where the group's options say so."""
        fused = bool(group.get("fused"))
        device = p.device if group.get("capturable") or fused else "cpu"
        return mt.tensor(value, dtype=_get_scalar_dtype(is_fused=fused), device=device)

    @staticmethod
    def _tick(state: dict[str, Any]) -> float:
        """Count a step; how many there have been."""
        state["step"] += 1
        return float(_get_value(state["step"]))

    def _begin(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Update ``p`` in place. Complex tensors have become real views by now."""
        raise NotImplementedError

    def step(self, closure: Any = None) -> Any:
        """Update the parameters that have a gradient; returns what ``closure()``, evaluated before, returned."""
        loss = None
        if closure is not None:
            with mt.enable_grad():
                loss = closure()
        for group in self.param_groups:
            with mt.set_grad_enabled(bool(group.get("differentiable"))):
                for p in group["params"]:
                    if p.grad is not None:
                        self._one(p, p.grad, group)
        return loss

    def _one(self, p: Any, grad: Any, group: dict[str, Any]) -> None:
        if grad.is_sparse:
            raise RuntimeError(f"{type(self).__name__}: sparse gradients are not supported")
        state = self.state.get(p, {})
        if not state:
            state.update(self._begin(p, group))
        if group.get("maximize"):
            grad = -grad
        if not (self._REAL and p.is_complex()):
            self._update(p, grad, state, group)
            if state:
                self.state[p] = state
            return
        views = {k: mt.view_as_real(v) if isinstance(v, mt.Tensor) and v.is_complex() else v for k, v in state.items()}
        before = dict(views)
        self._update(mt.view_as_real(p), mt.view_as_real(grad), views, group)
        for key, value in views.items():
            if key not in before or value is not before[key]:
                state[key] = mt.view_as_complex(value) if isinstance(value, mt.Tensor) and value.dim() else value
        if state:
            self.state[p] = state
