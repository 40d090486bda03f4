"""Activation checkpointing. Without a backward there is nothing to keep or recompute: functions are called."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """What was recomputed is not what was computed."""


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's results."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """What a policy function is told: whether it is the recomputation."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class DefaultDeviceType:
    """The device type whose random state would be kept."""

    _default = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """Get it."""
        return DefaultDeviceType._default


def _accelerated(value: Any) -> list[Any]:
    """The devices, neither cpu nor meta, of the tensors in a structure of lists, tuples and dicts."""
    if isinstance(value, mt.Tensor):
        return [] if value.device.type in ("cpu", "meta") else [value.device]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [device for part in value for device in _accelerated(part)]


def get_device_states(*args: Any) -> tuple[list[int], list[mt.Tensor]]:
    """The indices of the accelerators that tensors among the arguments are on, and the states of their generators."""
    found = {device.index: device.type for device in _accelerated(args)}
    return list(found), [mt.default_generator.get_state() for _ in found]


def set_device_states(devices: Sequence[int], states: Sequence[mt.Tensor], *, device_type: str | None = None) -> None:
    """Set the states of accelerators' generators, as `get_device_states` gave them."""
    for _, state in zip(devices, states, strict=True):
        mt.default_generator.set_state(state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, tensors among them detached with their ``requires_grad`` kept. RuntimeError unless it is a tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: expected a tuple of arguments, got {type(inputs).__name__}")
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, mt.Tensor) else value for value in inputs
    )


def check_backward_validity(inputs: Any) -> None:
    """Warn where no tensor among the arguments requires a gradient."""
    if not any(isinstance(value, mt.Tensor) and value.requires_grad for value in inputs):
        warnings.warn("checkpoint: none of the inputs requires a gradient; gradients will be None", stacklevel=2)


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts without effect."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, inside the first of the contexts of ``context_fn``.

    ValueError for a context together with ``use_reentrant=True``, and for keywords that would then go astray.
    """
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("checkpoint: context_fn and debug need use_reentrant=False")
        if kwargs:
            raise ValueError(f"checkpoint: with use_reentrant=True the function takes no keywords, got {', '.join(kwargs)}")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    with context_fn()[0]:
        return function(*args, **kwargs)


class CheckpointFunction(mt.autograd.Function):
    """The reentrant kind: the function runs without recording."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """``run_function(*args)``."""
        return run_function(*args)


def checkpoint_sequential(
    functions: mt.nn.Sequential | Sequence[Callable[..., Any]], segments: int, input: Any,
    use_reentrant: bool | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """The functions one after the other, in ``segments`` checkpointed groups."""
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: unexpected keywords: {', '.join(kwargs)}")
    chain = list(functions.children()) if isinstance(functions, mt.nn.Sequential) else list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: expected at least one segment, got {segments}")
    size = max(len(chain) // segments, 1)
    last = (segments - 1) * size

    def run(part: list[Callable[..., Any]]) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for function in part:
                value = function(value)
            return value

        return forward

    for start in range(0, last, size):
        input = checkpoint(run(chain[start : start + size]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(chain[last:])(input)


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:
    """Two contexts without effect: nothing is saved for a backward."""
    return noop_context_fn()


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """No effect."""
    yield


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Any:
    """No effect."""
    yield
