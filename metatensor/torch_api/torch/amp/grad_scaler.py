"""Scaling of losses and gradients, so that float16 gradients neither underflow nor overflow."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from typing import Any

import metatensor as mt
from metatensor.optim.optimizer import Optimizer, _get_value

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """The progress of an optimizer since the last update of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


_SAVED = {
    "scale": "_init_scale",
    "growth_factor": "_growth_factor",
    "backoff_factor": "_backoff_factor",
    "growth_interval": "_growth_interval",
    "_growth_tracker": "_init_growth_tracker",
}
"""The attribute that stores the value of each key of a state dict."""


def _has_device(device: str) -> bool:
    """Return whether there is a device of the given type."""
    if device == "cpu":
        return True
    from metatensor import plugins

    try:
        return plugins.backend(device).is_available()
    except RuntimeError:
        return False


class GradScaler:
    """Scaler for losses and gradients that keeps float16 gradients from underflowing.

    Losses are multiplied by the scale, and gradients are divided by it before the optimizer's step. A step whose
    gradients overflow is skipped, and the scale is reduced. Gradients without data count as finite.

    Parameters
    ----------
    device : str
        Device type. If there is no such device, the scaler warns and is disabled. Default: "cuda".
    init_scale : float
        Initial scale. Default: 65536.
    growth_factor : float
        Factor, above 1, by which the scale grows after `growth_interval` steps without an overflow. Default: 2.
    backoff_factor : float
        Factor, below 1, by which the scale shrinks after an overflow. Default: 0.5.
    growth_interval : int
        Default: 2000.
    enabled : bool
        If False, `scale` returns its argument, and `step` only calls the optimizer. Default: True.

    Raises
    ------
    AssertionError
        If the scaler is enabled and a factor is out of its range.
    """

    _init_scale: float
    _growth_factor: float
    _backoff_factor: float
    _growth_interval: int
    _init_growth_tracker: int
    _scale: Any
    _growth_tracker: Any
    _per_optimizer_states: defaultdict[int, dict[str, Any]]

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        usable = not enabled or _has_device(device)
        if not usable:
            warnings.warn(f"GradScaler: there is no {device} device, so the scaler is disabled", stacklevel=2)
        self._device, self._enabled = device, enabled and usable
        if self._enabled:
            if not backoff_factor < 1.0 < growth_factor:
                raise AssertionError(
                    f"GradScaler: growth_factor must be above 1 and backoff_factor below, got {growth_factor} and {backoff_factor}"
                )
            self._load(init_scale, growth_factor, backoff_factor, growth_interval, 0)
            self._scale = self._growth_tracker = None
            self._per_optimizer_states = defaultdict(_fresh)

    def _load(self, *values: Any) -> None:
        """Set the attributes that a state dict holds, in the order of `_SAVED`."""
        for attribute, value in zip(_SAVED.values(), values, strict=True):
            setattr(self, attribute, value)

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        """Create the tensors on the device of the first loss."""
        first = {mt.float32: self._init_scale, mt.int32: self._init_growth_tracker}
        self._scale, self._growth_tracker = (mt.tensor(value, dtype=dtype, device=dev) for dtype, value in first.items())

    def _started(self, what: str) -> None:
        if self._scale is None:
            raise AssertionError(f"GradScaler.{what}: no loss has been scaled yet")

    def scale(self, outputs: Any) -> Any:
        """Return `outputs`, a tensor or nested iterables of tensors, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, mt.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device, non_blocking=True)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError(f"GradScaler.scale: expected a tensor or an iterable of tensors, got {type(outputs).__name__}")

    @mt.no_grad()
    def _unscale_grads_(self, optimizer: Optimizer, inv_scale: Any, allow_fp16: bool = False) -> dict[Any, Any]:
        """Divide the gradients by the scale. Return, for each device, 1.0 if an element is not finite, else 0.0.

        An element on any of the ranks over which gradients are distributed counts.
        """
        found: dict[Any, Any] = {}
        distributed: dict[Any, list[Any]] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.dtype == mt.float16 and not allow_fp16:
                    raise ValueError("GradScaler.unscale_: gradients in float16 cannot be unscaled; keep parameters in float32")
                plain, device = p.grad, p.grad.device
                if getattr(p.grad, "_has_parts", False):
                    plain = p.grad._local_tensor
                    distributed.setdefault(device, []).append(p.grad)
                bad = mt.logical_not(mt.isfinite(plain).all()).to(mt.float32)
                found[device] = mt.maximum(found[device], bad) if device in found else bad
                p.grad.mul_(inv_scale.to(device))
        if distributed:
            from metatensor.distributed.tensor._norms import maximum_of_parts

            for device, tensors in distributed.items():
                found[device] = maximum_of_parts(found[device], tensors)
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale. This is allowed once before its step."""
        if not self._enabled:
            return
        self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is not OptState.READY:
            raise RuntimeError(f"GradScaler.unscale_: the optimizer has been {state['stage'].name.lower()} since the last update")
        inverse = self._scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Call ``optimizer.step`` if the gradients are finite, and return its result. Otherwise return None.

        The gradients are unscaled first unless `unscale_` was called.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: a closure cannot be evaluated with scaled gradients")
        self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.step: the optimizer has stepped since the last update")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("GradScaler.step: the optimizer has no gradients")
        result = None if self._overflowed(state) else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    @staticmethod
    def _overflowed(state: dict[str, Any]) -> bool:
        flags = state["found_inf_per_device"].values()
        return any(flag.untyped_storage().data is not None and flag.item() for flag in flags)

    def update(self, new_scale: Any = None) -> None:
        """Update the scale after a step.

        Set it to `new_scale` if that is given. Otherwise reduce it after an overflow, and increase it after
        `growth_interval` steps without one.
        """
        if not self._enabled:
            return
        self._started("update")
        if new_scale is not None:
            self._scale.fill_(_get_value(new_scale))
        else:
            states = self._per_optimizer_states.values()
            if not any(state["found_inf_per_device"] for state in states):
                raise AssertionError("GradScaler.update: no optimizer was unscaled or stepped since the last update")
            if any(self._overflowed(state) for state in states):
                self._scale.mul_(self._backoff_factor)
                self._growth_tracker.fill_(0)
            else:
                self._growth_tracker.add_(1)
                if self._get_growth_tracker() == self._growth_interval:
                    self._scale.mul_(self._growth_factor)
                    self._growth_tracker.fill_(0)
        self._per_optimizer_states = defaultdict(_fresh)

    def get_scale(self) -> float:
        """Return the scale, or 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        if self._scale is None or self._scale.untyped_storage().data is None:
            return self._init_scale
        return float(self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        if self._growth_tracker is None or self._growth_tracker.untyped_storage().data is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and its parameters as a dict, which is empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        kept = {key: getattr(self, attribute) for key, attribute in _SAVED.items()}
        return kept | {"scale": self.get_scale(), "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the result of `state_dict`. Raise RuntimeError if it comes from a disabled scaler."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler.load_state_dict: the state is empty, because it comes from a disabled scaler")
        self._load(*(state_dict[key] for key in _SAVED))
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
