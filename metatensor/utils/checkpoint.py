"""Activation checkpointing. There is no backward pass, so nothing is saved or recomputed: functions are just called."""

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
    """Raised in PyTorch if a recomputation differs from the original. metatensor never raises it."""


class CheckpointPolicy(enum.Enum):
    """What a selective checkpointing policy decides for an operator's results."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """The first argument of a selective checkpointing policy. It tells whether the call is for a recomputation."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class DefaultDeviceType:
    """The device type whose random state would be saved."""

    _default = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type."""
        return DefaultDeviceType._default


def _accelerated(value: Any) -> list[Any]:
    """Return the devices, other than cpu and meta, of the tensors in nested lists, tuples and dicts."""
    if isinstance(value, mt.Tensor):
        return [] if value.device.type in ("cpu", "meta") else [value.device]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [device for part in value for device in _accelerated(part)]


def get_device_states(*args: Any) -> tuple[list[int], list[mt.Tensor]]:
    """Return the indices of accelerators that hold tensors among the arguments, and the state of each one's generator.
    """
    found = {device.index: device.type for device in _accelerated(args)}
    return list(found), [mt.default_generator.get_state() for _ in found]


def set_device_states(devices: Sequence[int], states: Sequence[mt.Tensor], *, device_type: str | None = None) -> None:
    """Set the states of the accelerators' generators, as returned by `get_device_states`."""
    for _, state in zip(devices, states, strict=True):
        mt.default_generator.set_state(state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with tensors detached.

    Their `requires_grad` is kept. Raise RuntimeError unless given a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: expected a tuple of arguments, got {type(inputs).__name__}")
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, mt.Tensor) else value for value in inputs
    )


def check_backward_validity(inputs: Any) -> None:
    """Warn if no tensor among the arguments requires gradients."""
    if not any(isinstance(value, mt.Tensor) and value.requires_grad for value in inputs):
        warnings.warn("checkpoint: none of the inputs requires a gradient; gradients will be None", stacklevel=2)


def noop_context_fn() -> tuple[Any, Any]:
    """Return two context managers that do nothing."""
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
    """Call ``function(*args, **kwargs)`` and return its result. Nothing is saved or recomputed.

    Parameters
    ----------
    function : callable
    use_reentrant : bool, optional
        If True, `function` runs without recording gradients, and takes positional arguments only.
    context_fn : callable
        Function that returns two context managers. `function` runs inside the first one.
    determinism_check, early_stop, preserve_rng_state
        Ignored, because nothing is recomputed.
    debug : bool
        Ignored, but not allowed with ``use_reentrant=True``.

    Raises
    ------
    ValueError
        If `context_fn`, `debug` or keyword arguments are given together with ``use_reentrant=True``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.utils.checkpoint import checkpoint
    >>> checkpoint(mt.nn.Linear(3, 2, device="meta"), mt.empty(5, 3, device="meta"), use_reentrant=False).shape
    metatensor.Size([5, 2])
    """
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("checkpoint: context_fn and debug need use_reentrant=False")
        if kwargs:
            raise ValueError(f"checkpoint: with use_reentrant=True the function takes no keyword arguments, got {', '.join(kwargs)}")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    with context_fn()[0]:
        return function(*args, **kwargs)


class CheckpointFunction(mt.autograd.Function):
    """The reentrant variant as an autograd function: gradients are not recorded inside."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Return ``run_function(*args)``."""
        return run_function(*args)


def checkpoint_sequential(
    functions: mt.nn.Sequential | Sequence[Callable[..., Any]], segments: int, input: Any,
    use_reentrant: bool | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call functions one after the other, in `segments` groups. All groups but the last are checkpointed.

    Parameters
    ----------
    functions : Sequential or sequence of callable
    segments : int
    input : any
        Argument of the first function.
    use_reentrant, preserve_rng_state
        See `checkpoint`.

    Raises
    ------
    ValueError
        If `segments` is less than 1, or for other keyword arguments.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: unexpected keyword arguments: {', '.join(kwargs)}")
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
    """Return two context managers that do nothing. The policy is not called, because nothing is saved."""
    return noop_context_fn()


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Return a context manager that does nothing."""
    yield


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Any:
    """Return a context manager that does nothing."""
    yield
