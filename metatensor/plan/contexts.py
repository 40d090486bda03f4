"""Context parallelism of blocks: attention over the ranks of a mesh, and whether anything else mixes positions."""

from __future__ import annotations

import copy
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.distributed.tensor.experimental._context_parallel._attention import _attention_on, _replacing
from metatensor.nn.modules.module import Module

__all__ = ["attention_over", "check_positions", "cut", "sequence_of"]


def sequence_of(args: tuple, kwargs: dict[str, Any]) -> int:
    """Return the length of the sequence that a block gets: the last size but one of its first tensor. 0 if there is none."""
    x = next(tensors_in((args, kwargs)))
    return int(x.shape[-2]) if x.dim() > 1 else 0


def cut(given: Any, length: int, ranks: int) -> Any:
    """Return tensors of the sizes that one rank gets if sequences are cut among ``ranks``. Those without a sequence stay whole."""

    def part(t: Any) -> Any:
        dim = _dim_of(t, length)
        if dim is None:
            return t
        shape = list(t.shape)
        shape[dim] //= ranks
        return mt.empty(shape, dtype=t.dtype, device=t.device)

    return map_tensors(part, given)


def _dim_of(t: Any, length: int) -> int | None:
    """Return the dimension of the sequence: the last but one if it has the length, else the first that has it."""
    order = [t.dim() - 2, *range(t.dim())] if t.dim() > 1 else range(t.dim())
    return next((dim for dim in order if t.shape[dim] == length), None)


def attention_over(mesh: Any) -> AbstractContextManager[Any]:
    """Run `scaled_dot_product_attention` inside the ``with`` block over the ranks of a mesh. If ``mesh`` is None, change nothing."""
    return nullcontext() if mesh is None else _replacing(_attention_on(mesh, "ring"))


def check_positions(module: Module, args: tuple, kwargs: dict[str, Any], mesh: Any, passed: list[str]) -> None:
    """Raise ValueError if a block mixes positions of its sequence other than by attention.

    The block runs on distributed tensors that are cut along the sequence: whatever mixes positions then communicates.

    Parameters
    ----------
    module : Module
        The block, on meta.
    args, kwargs
        Arguments of a call on whole sequences.
    mesh : DeviceMesh
        The ranks.
    passed : list of str
        Submodules that reorder positions but compute each on its own, as mixtures of experts do. They are not checked.
    """
    length, ranks = sequence_of(args, kwargs), mesh.size()
    if not length or length % ranks:
        raise ValueError(f"a sequence of {length} cannot be cut into {ranks} equal parts")

    def logged(inner: Module, given: tuple[tuple, dict[str, Any]]) -> Counter[tuple[str, int]]:
        with ExitStack() as stack:
            for path in passed:
                stack.callback(_pass_on(inner.get_submodule(path)))
            stack.enter_context(attention_over(mesh))
            stack.enter_context(implicit_replication())
            stack.enter_context(mt.no_grad())
            log = stack.enter_context(CommunicationLog())
            inner(*given[0], **given[1])
        return Counter((entry.kind, entry.bytes) for entry in log if entry.bytes)

    def placed(t: Any) -> Any:
        dim = _dim_of(t, length)
        return distribute_tensor(t.detach(), mesh, [Replicate() if dim is None else Shard(dim)])

    divided = copy.deepcopy(module)
    for child in divided.modules():
        for name, p in list(child._parameters.items()):
            if p is not None:
                child._parameters[name] = mt.nn.Parameter(distribute_tensor(p.data, mesh, [Replicate()]), requires_grad=p.requires_grad)
    attention = logged(copy.deepcopy(module), cut((args, kwargs), length, ranks))
    mixed = logged(divided, map_tensors(placed, (args, kwargs))) - attention
    if mixed:
        kind, nbytes = next(iter(mixed))
        raise ValueError(f"something besides attention mixes positions of the sequence: it needs an {kind} of {nbytes:,} bytes")


def _pass_on(module: Module) -> Any:
    """Make a module return its first tensor unchanged. Return a function that undoes this."""
    module.__dict__["forward"] = lambda *args, **kwargs: next(tensors_in((args, kwargs)))
    return lambda: module.__dict__.pop("forward")
