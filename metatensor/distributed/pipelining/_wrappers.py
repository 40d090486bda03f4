"""Stages whose module is wrapped for data parallelism: gradients are reduced once in a step, in its last backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.nn.parallel import DistributedDataParallel

__all__ = ["backward_pass", "forward_pass", "keeps_outputs"]


def _is_fully_sharded(module: Any) -> bool:
    """Return True if `fully_shard` was applied to a module."""
    return hasattr(module, "set_requires_gradient_sync") and hasattr(module, "set_is_last_backward")


def keeps_outputs(module: Any) -> bool:
    """Return True if `backward_pass` needs the outputs of the module."""
    return isinstance(module, DistributedDataParallel) and (module.find_unused_parameters or module.static_graph)


@contextmanager
def forward_pass(module: Any) -> Iterator[None]:
    """Context manager for the forward pass of a microbatch. Its backward pass does not reduce gradients by itself."""
    if isinstance(module, DistributedDataParallel):
        with module.no_sync():
            yield
    else:
        if _is_fully_sharded(module):
            _reduce_next(module, False)
        yield


@contextmanager
def backward_pass(module: Any, last: bool, outputs: Any = None, of_weights: bool = False) -> Iterator[None]:
    """Context manager for a backward pass. The last one of a step reduces the gradients of all microbatches.

    Parameters
    ----------
    module : Module
        The module of the stage.
    last : bool
        Whether it is the last one of the step.
    outputs
        What the module returned for the microbatch, if `keeps_outputs` says so. `DistributedDataParallel` searches their graph for unused
        parameters.
    of_weights : bool
        Whether the pass computes the gradients of weights only. It does not run the hooks of the module's outputs.
    """
    replicated, sharded = isinstance(module, DistributedDataParallel), _is_fully_sharded(module)
    if replicated and last and module._reducer is not None:
        module._reducer.prepare(outputs)
    elif sharded and not of_weights:
        _reduce_next(module, last)
    yield
    if replicated and last:
        module.require_forward_param_sync = True  # the next step begins with the buffers of the first rank
    elif sharded and last and of_weights:
        _reduce_next(module, True)
        module._get_fsdp_state()._end_backward()


def _reduce_next(module: Any, value: bool) -> None:
    """Set whether the next backward pass of a fully sharded module reduces gradients and frees the parameters."""
    module.set_is_last_backward(value)
    module.set_requires_gradient_sync(value)
    module.set_reshard_after_backward(value)
