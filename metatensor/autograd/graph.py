"""The graph of a backward. There is none yet: contexts that would keep its tensors elsewhere have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor._core.thread import is_grad_enabled

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "save_on_cpu", "saved_tensors_hooks", "set_warn_on_accumulate_grad_stream_mismatch"]  # fmt: skip


class Node:
    """A step of the graph; nothing is an instance."""


class GradientEdge:
    """An edge of the graph; nothing is an instance."""


class saved_tensors_hooks:
    """A context manager whose hooks would see what is saved for a backward.

    Raises
    ------
    NotImplementedError
        When it is entered while gradients are recorded: nothing is saved yet, so the hooks would never be called.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if is_grad_enabled():
            raise NotImplementedError(
                "torch.autograd.graph.saved_tensors_hooks: metatensor saves nothing for a backward yet, so pack_hook and unpack_hook "
                "would never be called"
            )

    def __exit__(self, *_: Any) -> None:
        return None


class _NothingSaved:
    """A context manager that changes nothing while no tensors are saved for a backward."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class save_on_cpu(_NothingSaved):
    """A context manager without effect: nothing is saved for a backward that could be moved to the cpu."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        self.pin_memory, self.device_type = pin_memory, device_type


class disable_saved_tensors_hooks(_NothingSaved):
    """A context manager without effect: `saved_tensors_hooks` raises anyway."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message


class allow_mutation_on_saved_tensors(_NothingSaved):
    """A context manager without effect: nothing is saved for a backward that a mutation could spoil."""


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Without effect."""


def get_gradient_edge(tensor: Any) -> Any:
    """NotImplementedError: there is no graph."""
    raise NotImplementedError("torch.autograd.graph.get_gradient_edge: metatensor records no graph yet")
