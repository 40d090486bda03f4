"""The graph of a backward. There is none yet: contexts that would keep its tensors elsewhere have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "save_on_cpu", "saved_tensors_hooks", "set_warn_on_accumulate_grad_stream_mismatch"]  # fmt: skip


class Node:
    """A step of the graph; nothing is an instance."""


class GradientEdge:
    """An edge of the graph; nothing is an instance."""


class saved_tensors_hooks:
    """A context manager; nothing is saved for a backward, so the hooks are not called."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class save_on_cpu(saved_tensors_hooks):
    """A context manager without effect: nothing is saved for a backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda packed: packed)


class disable_saved_tensors_hooks(saved_tensors_hooks):
    """A context manager without effect."""

    def __init__(self, error_message: str) -> None:
        super().__init__(lambda tensor: tensor, lambda packed: packed)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """A context manager without effect."""

    def __init__(self) -> None:
        super().__init__(lambda tensor: tensor, lambda packed: packed)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Without effect."""


def get_gradient_edge(tensor: Any) -> Any:
    """NotImplementedError: there is no graph."""
    raise NotImplementedError("torch.autograd.graph.get_gradient_edge: metatensor records no graph yet")
