"""The autograd graph: nodes, edges, hooks on several tensors, and hooks on saved tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.engine import gradient_edge
from metatensor._core.graph import Node
from metatensor._core.thread import pop_saved_tensors_hooks, push_saved_tensors_hooks, set_saved_tensors_hooks_refusal
from metatensor.autograd._multi_grad import register_multi_grad_hook

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
           "set_warn_on_accumulate_grad_stream_mismatch"]  # fmt: skip


class GradientEdge(NamedTuple):
    """An output of a node. `backward` and `grad` take it in place of a tensor, which it does not keep alive.

    Parameters
    ----------
    node : Node
        The node of the call that returned the tensor, or the AccumulateGrad node of a leaf.
    output_nr : int
        The index of the tensor among the outputs of that call.
    ownership_token : optional
        An object that must stay alive as long as the edge. Default None.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return the `GradientEdge` of a tensor that requires grad.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    if not isinstance(tensor, mt.Tensor):
        raise TypeError(f"get_gradient_edge: expected a Tensor, got {type(tensor).__name__}")
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the tensor does not require grad")
    return GradientEdge(*gradient_edge(tensor))


class saved_tensors_hooks:
    """A context manager that calls functions to pack tensors that are saved for backward, and to unpack them again.

    Parameters
    ----------
    pack_hook : callable
        Called with each tensor that is saved. It returns any object, which is kept in place of the tensor. It must not
        change the tensor.
    unpack_hook : callable
        Called with that object when backward needs the tensor. It returns a tensor with the same values.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(3, device="meta", requires_grad=True)
    >>> sizes = []
    >>> with mt.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
    ...     y = x.exp()
    >>> sizes
    [12]
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_: Any) -> None:
        pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """A context manager that stores tensors saved for backward in host memory.

    Parameters
    ----------
    pin_memory : bool
        Copy into page-locked memory. Default False.
    device_type : str
        The device type for which memory is pinned. It has no effect. Default "cuda".
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = mt.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True, device="cpu")
            return tensor.device, packed.copy_(tensor)

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Return a context manager inside which entering `saved_tensors_hooks` raises RuntimeError with the given message."""
    before = set_saved_tensors_hooks_refusal(error_message)
    try:
        yield
    finally:
        set_saved_tensors_hooks_refusal(before)


class _Held:
    """A key of the copies that `allow_mutation_on_saved_tensors` makes."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[dict]:
    """Return a context manager inside which tensors that were saved for backward may be changed in place.

    Every saved tensor is copied immediately, and backward uses the copy.
    """
    copies: dict[Any, Any] = {}

    def pack(tensor: Any) -> Any:
        held = _Held()
        copies[held] = tensor.clone()
        return held

    def unpack(held: Any) -> Any:
        if held not in copies:
            raise AssertionError("allow_mutation_on_saved_tensors: backward must run inside the context manager")
        return copies[held]

    with saved_tensors_hooks(pack, unpack):
        try:
            yield copies
        finally:
            copies.clear()


def increment_version(tensor: Any) -> None:
    """Count an in-place change of a tensor, or of each tensor of a sequence, that was made behind metatensor's back.

    Raises
    ------
    TypeError
        If a value is not a tensor. Then nothing is counted.
    """
    tensors = (tensor,) if isinstance(tensor, mt.Tensor) else tuple(tensor)
    for t in tensors:
        if not isinstance(t, mt.Tensor):
            raise TypeError(f"increment_version: expected a tensor or a sequence of tensors, got a {type(t).__name__}")
    for t in tensors:
        t._increment_version()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing. Gradients are always accumulated on the current stream."""
