"""Helpers that optimizers outside this library import from `torch.optim.optimizer`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import metatensor as mt


def has_data(tensor: Any) -> bool:
    """Return True if a tensor's elements can be read."""
    return tensor.untyped_storage().data is not None


def _get_value(x: Any) -> Any:
    """Return the number in a tensor of 1 element, or 1.0 if it has no data. Return anything but a tensor unchanged."""
    if not isinstance(x, mt.Tensor):
        return x
    return x.item() if has_data(x) else 1.0


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """Return the dtype of step counters."""
    return mt.float64 if mt.get_default_dtype() == mt.float64 and not is_fused else mt.float32


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace each complex parameter, and the tensors at its position in the other lists, by real views."""
    where = [i for i, p in enumerate(params) if p.is_complex()]
    for tensors in (params, *state_and_grads):
        for i in where:
            tensors[i] = mt.view_as_real(tensors[i])


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return (False, False): parameters are updated one at a time."""
    return False, False


def _get_foreach_kernels_supported_devices() -> list[str]:
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    return []


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the device types on which step counters may be kept. They include meta, which stands for any device."""
    return ["cuda", "xpu", "hpu", "privateuseone", "meta"] + (["xla"] if supports_xla else [])


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged, because there is no compiler to disable."""
    return lambda func: func


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `step` so that it records gradients only if the optimizer's ``differentiable`` default is true."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with mt.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return step
