"""Activation checkpointing: save only the inputs of a part of a model, and recompute the rest in the backward pass."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.engine import current_walk
from metatensor._core.nested import map_tensors
from metatensor.utils._recomputation import CheckpointError, Recomputation, State
from metatensor.utils._selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip

_early_stop: bool | None = None
_debug: bool | None = None
_watched = threading.local()
"""What `watching` has set in this thread."""


@contextlib.contextmanager
def watching(calls: Callable[[Callable[..., Any]], Any] | None) -> Iterator[None]:
    """Let a plan compute parts of a model again in its own way: ask about each checkpoint inside the block.

    ``calls(function)`` returns a context manager inside which the function is called once, as if it were not checkpointed, or None if
    it is to be checkpointed. None asks no longer.
    """
    before, _watched.calls = getattr(_watched, "calls", None), calls
    try:
        yield
    finally:
        _watched.calls = before


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


def _reentrant(where: str, use_reentrant: bool | None) -> bool:
    if use_reentrant is None:
        warnings.warn(f"{where}: pass use_reentrant; without it, it is True, but False is recommended", stacklevel=3)
    return use_reentrant is None or bool(use_reentrant)


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
    """Call ``function(*args, **kwargs)`` and save only its arguments. Backward calls the function again.

    Parameters
    ----------
    function : callable
        The function to call. It must do the same when it is called again.
    use_reentrant : bool, optional
        If False, backward recomputes the tensors that the function saved. If True, backward calls the whole function
        again and runs a nested backward pass. The function then takes positional arguments only, and `inputs` cannot
        be passed to backward. Default: True, with a warning.
    context_fn : callable
        Function that returns two context managers: one for the first call, one for the recomputation.
    determinism_check : str
        "default" compares what both calls save by shape, dtype and device; "none" compares only how many tensors they save.
    debug : bool
        Whether errors list the operators of both calls.
    early_stop : bool
        Whether the second call ends as soon as all saved tensors are recomputed. See `set_checkpoint_early_stop`.
    preserve_rng_state : bool
        Whether the second call draws the same random numbers. Default True.

    Raises
    ------
    ValueError
        If `context_fn`, `debug` or keyword arguments are given together with ``use_reentrant=True``, or for another
        `determinism_check`.
    CheckpointError
        In backward, if the second call saved other tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.utils.checkpoint import checkpoint
    >>> x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    >>> checkpoint(lambda x: (x * x).exp().log().sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2., 4.])
    """
    calls = getattr(_watched, "calls", None)
    plainly = None if calls is None else calls(function)
    if plainly is not None:
        with plainly:
            return function(*args, **kwargs)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    if _reentrant("checkpoint", use_reentrant):
        if context_fn is not noop_context_fn or debug:
            raise ValueError("checkpoint: context_fn and debug need use_reentrant=False")
        if kwargs:
            raise ValueError(f"checkpoint: with use_reentrant=True the function takes no keyword arguments, got {', '.join(kwargs)}")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    first, again = context_fn()
    if not mt.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    call = Recomputation(
        function, args, kwargs, State(preserve_rng_state),
        early_stop=early_stop if _early_stop is None else _early_stop, check=determinism_check == "default",
        debug=debug if _debug is None else _debug, again=again,
    )  # fmt: skip
    with call.recorded(), first, call.log or contextlib.nullcontext():
        result = function(*args, **kwargs)
    call.complete = True
    return result


def _forget(t: Any) -> None:
    return None


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, mt.Tensor) and value.requires_grad else value


class CheckpointFunction(mt.autograd.Function):
    """The reentrant variant: only the arguments are saved in the first call, and backward calls the function again."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Return ``run_function(*args)``."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.state = State(preserve_rng_state)
        ctx.values = [None if isinstance(value, mt.Tensor) else value for value in args]
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, mt.Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        # Some operators use other kernels while gradients are recorded. Both calls of the function must round in the
        # same way.
        with mt.enable_grad(), mt.autograd.graph.saved_tensors_hooks(_forget, _forget):
            return map_tensors(_detached, run_function(*args))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Call the function again, and return the gradients of its arguments."""
        walk = current_walk()
        if walk is not None and walk[1]:
            raise RuntimeError("checkpoint: with use_reentrant=True, only the gradients of all leaves can be computed; call backward "
                               "without inputs, or pass use_reentrant=False")  # fmt: skip
        values = list(ctx.values)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            values[place] = tensor
        inputs = detach_variable(tuple(values))
        with ctx.state.restored(), mt.enable_grad():
            outputs = ctx.run_function(*inputs)
        pairs = [
            (output, grad)
            for output, grad in zip((outputs,) if isinstance(outputs, mt.Tensor) else outputs, grads, strict=False)
            if isinstance(output, mt.Tensor) and output.requires_grad and grad is not None
        ]
        if not pairs:
            raise RuntimeError("checkpoint: no output of the function requires grad, so that there is nothing to checkpoint")
        mt.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(value.grad if isinstance(value, mt.Tensor) else None for value in inputs))


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
    reentrant = _reentrant("checkpoint_sequential", use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: unexpected keyword arguments: {', '.join(kwargs)}")
    chain = list(functions.children()) if isinstance(functions, mt.nn.Sequential) else list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: expected at least one segment, got {segments}")
    size = max(len(chain) // segments, 1)
    last = min((segments - 1) * size, len(chain))

    def run(part: list[Callable[..., Any]]) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for function in part:
                value = function(value)
            return value

        return forward

    for start in range(0, last, size):
        input = checkpoint(run(chain[start : start + size]), input, use_reentrant=reentrant, preserve_rng_state=preserve)
    return run(chain[last:])(input)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set `debug` for all checkpoints inside the block. None leaves it to their arguments."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool | None) -> Iterator[None]:
    """Set `early_stop` for all checkpoints inside the block. None leaves it to their arguments."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before
