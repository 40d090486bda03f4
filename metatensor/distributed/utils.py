"""Utilities of the distributed library."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.distributed._group import the_group
from metatensor.distributed.reducer import broadcast_coalesced, check_same_parameters

__all__ = ["_apply_to_tensors", "_p_assert", "_sync_module_states", "_verify_param_shape_across_processes"]


def _apply_to_tensors(fn: Any, container: Any) -> Any:
    """Return ``container`` with ``fn`` applied to each tensor in its dicts, lists, tuples and sets."""
    if isinstance(container, mt.Tensor):
        return fn(container)
    if isinstance(container, dict):
        return type(container)((name, _apply_to_tensors(fn, value)) for name, value in container.items())
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*(_apply_to_tensors(fn, value) for value in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, value) for value in container)
    return container


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """Raise AssertionError with message ``s`` if ``cond`` is false."""
    if not cond and raise_assertion_error:
        raise AssertionError(s)


def _verify_param_shape_across_processes(process_group: Any, tensors: Any, logger: Any = None) -> None:
    """Raise RuntimeError unless the tensors have the same shapes and dtypes on all ranks."""
    check_same_parameters(list(tensors), the_group(process_group))


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int = 0, src: int = 0, params_and_buffers_to_ignore: Any = (),
    broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Copy the parameters and buffers of rank ``src`` of the group to all ranks."""
    found = [one for name, one in module.named_parameters() if name not in params_and_buffers_to_ignore]
    if broadcast_buffers:
        found += [one for name, one in module.named_buffers() if name not in params_and_buffers_to_ignore]
    broadcast_coalesced(found, the_group(process_group), src)
