"""Stages whose module is wrapped for data parallelism: gradients are reduced in the last backward pass of a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.nn.parallel import DistributedDataParallel

__all__ = ["backward_pass", "forward_pass"]


def _is_fully_sharded(module: Any) -> bool:
    return hasattr(module, "set_requires_gradient_sync") and hasattr(module, "set_is_last_backward")


@contextmanager
def forward_pass(module: Any) -> Iterator[None]:
    """Context manager for the forward pass of a microbatch. Its backward pass does not reduce gradients by itself."""
    if isinstance(module, DistributedDataParallel):
        with module.no_sync():
            yield
    else:
        if _is_fully_sharded(module):
            _set(module, False)
        yield


@contextmanager
def backward_pass(module: Any, last: bool, outputs: Any) -> Iterator[None]:
    """Context manager for a backward pass. The last one of a step reduces the gradients of all microbatches.

    Parameters
    ----------
    module : Module
        The module of the stage.
    last : bool
        Whether it is the last one of the step.
    outputs
        What the module returned for the microbatch. `DistributedDataParallel` searches their graph for unused parameters.
    """
    if isinstance(module, DistributedDataParallel) and last and module._reducer is not None:
        module._reducer.prepare(outputs)
    elif _is_fully_sharded(module):
        _set(module, last)
    yield
    if isinstance(module, DistributedDataParallel) and last:
        module.require_forward_param_sync = True  # the next step begins with the buffers of the first rank


def _set(module: Any, last: bool) -> None:
    module.set_is_last_backward(last)
    module.set_requires_gradient_sync(last)
    module.set_reshard_after_backward(last)


def keeps_outputs(module: Any) -> bool:
    """Return True if `backward_pass` needs the outputs of the module."""
    return isinstance(module, DistributedDataParallel) and (module.find_unused_parameters or module.static_graph)
