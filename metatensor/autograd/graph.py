"""Placeholders for the autograd graph, which does not exist yet. Most context managers here have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor._core.thread import is_grad_enabled

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "save_on_cpu", "saved_tensors_hooks", "set_warn_on_accumulate_grad_stream_mismatch"]  # fmt: skip


class Node:
    """A node of the autograd graph. No object is an instance of it."""


class GradientEdge:
    """An edge of the autograd graph. No object is an instance of it."""


class saved_tensors_hooks:
    """A context manager for hooks on the tensors saved for the backward pass. There is no backward pass yet.

    Parameters
    ----------
    pack_hook, unpack_hook : callable
        Stored, but never called, because metatensor does not save tensors for a backward pass yet.

    Raises
    ------
    NotImplementedError
        On entry, if gradients are enabled.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if is_grad_enabled():
            raise NotImplementedError(
                "torch.autograd.graph.saved_tensors_hooks: metatensor saves no tensors for a backward pass yet, so "
                "pack_hook and unpack_hook would never be called"
            )

    def __exit__(self, *_: Any) -> None:
        return None


class _NothingSaved:
    """A context manager that has no effect, because no tensors are saved for a backward pass yet."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class save_on_cpu(_NothingSaved):
    """A context manager that has no effect, because no tensors are saved for a backward pass yet."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        self.pin_memory, self.device_type = pin_memory, device_type


class disable_saved_tensors_hooks(_NothingSaved):
    """A context manager that has no effect, because `saved_tensors_hooks` cannot be used either."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message


class allow_mutation_on_saved_tensors(_NothingSaved):
    """A context manager that has no effect, because there are no saved tensors that a mutation could invalidate."""


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing, because there is no backward pass that could warn."""


def get_gradient_edge(tensor: Any) -> Any:
    """Raise NotImplementedError: metatensor records no autograd graph yet."""
    raise NotImplementedError("torch.autograd.graph.get_gradient_edge: metatensor records no graph yet")
