"""Context parallelism of blocks: attention over the ranks of a mesh, and whether anything else mixes positions."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.distributed import CommunicationLog
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.distributed.tensor.experimental._context_parallel._attention import _attention_on, _replacing
from metatensor.distributed.tensor.experimental._context_parallel._load_balancer import part_of
from metatensor.distributed.tensor.experimental._context_parallel._options import _cp_options
from metatensor.nn.modules.module import Module
from metatensor.plan.blocks import Given, around
from metatensor.plan.elsewhere import UNIFORM, Derived, name_of
from metatensor.plan.refusals import NotApplied

__all__ = ["attention_over", "check_parts", "check_positions", "cut", "own_part", "sequence_of"]

Call = tuple[tuple, dict[str, Any]]
"""Positional and keyword arguments."""


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
    """Return the dimension of the sequence: the last but one if it has the length, else the first that has it.

    Matrices of integers are tokens or masks, whose last dimension comes first.
    """
    tokens = t.dim() == 2 and not t.is_floating_point()
    order = [1, 0] if tokens else [t.dim() - 2, *range(t.dim())] if t.dim() > 1 else range(t.dim())
    return next((dim for dim in order if t.shape[dim] == length), None)


def attention_over(mesh: Any) -> AbstractContextManager[Any]:
    """Run `scaled_dot_product_attention` inside the ``with`` block over the ranks of a mesh. If ``mesh`` is None, change nothing."""
    return nullcontext() if mesh is None else _replacing(_attention_on(mesh, "ring"))


def own_part(t: Any, length: int, mesh: Any) -> Any:
    """Return the part of a tensor that this rank of a mesh has of sequences of a length. None leaves them whole."""
    dim = _dim_of(t, length) if mesh is not None else None
    return t if dim is None else part_of(t, dim, mesh.size(), mesh.get_group()._rank, _cp_options.enable_load_balance)


def check_positions(
    module: Module, args: tuple, kwargs: dict[str, Any], mesh: Any, passed: Sequence[str], length: int | None = None
) -> Any:
    """Return the result of a block on distributed tensors. Raise ValueError if it mixes positions other than by attention.

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
    length : int, optional
        The length of the sequence. Default: that of a block.
    """
    length, ranks = sequence_of(args, kwargs) if length is None else length, mesh.size()
    if not length or length % ranks:
        raise ValueError(f"a sequence of {length} cannot be cut into {ranks} equal parts")

    def logged(inner: Module, given: tuple[tuple, dict[str, Any]]) -> tuple[Counter[tuple[str, int]], Any]:
        with ExitStack() as stack:
            for path in passed:
                stack.callback(_pass_on(inner.get_submodule(path)))
            stack.enter_context(attention_over(mesh))
            stack.enter_context(implicit_replication())
            stack.enter_context(mt.no_grad())
            log = stack.enter_context(CommunicationLog())
            output = inner(*given[0], **given[1])
        return Counter((entry.kind, entry.bytes) for entry in log if entry.bytes), output

    def placed(t: Any) -> Any:
        dim = _dim_of(t, length)
        return distribute_tensor(t.detach(), mesh, [Replicate() if dim is None else Shard(dim)])

    divided = copy.deepcopy(module)
    for child in divided.modules():
        for name, p in list(child._parameters.items()):
            if p is not None:
                child._parameters[name] = mt.nn.Parameter(distribute_tensor(p.data, mesh, [Replicate()]), requires_grad=p.requires_grad)
    attention, _ = logged(copy.deepcopy(module), cut((args, kwargs), length, ranks))
    made, output = logged(divided, map_tensors(placed, (args, kwargs)))
    mixed = made - attention
    if mixed:
        kind, nbytes = next(iter(mixed))
        raise ValueError(f"something besides attention mixes positions of the sequence: it needs an {kind} of {nbytes:,} bytes")
    return output


def _pass_on(module: Module) -> Any:
    """Make a module return its first tensor unchanged. Return a function that undoes this."""
    module.__dict__["forward"] = lambda *args, **kwargs: next(tensors_in((args, kwargs)))
    return lambda: module.__dict__.pop("forward")


def check_parts(model: Module, given: dict[str, Given], whole: Call, parts: Call, length: int, ranks: int) -> None:
    """Raise `NotApplied` unless a model computes the same on parts of its sequences, apart from attention.

    Parameters
    ----------
    model : Module
        The model, on meta.
    given : dict of Given
        The arguments of its blocks.
    whole, parts : tuple
        The positional and keyword arguments of the model, and what one rank gets of them.
    length : int
        The length of the sequence.
    ranks : int
        The number of ranks.
    """
    reached: list[int] = []

    def noted(x: Any) -> Any:
        reached.append(x.shape[-2])
        return x

    around(model, given, noted)(*parts[0], **parts[1])
    if reached[0] * ranks != length:
        raise _refused(f"its argument has no dimension of {length}, the length of the blocks' sequences")
    all_, less = _Origins.of(model, whole), _Origins.of(model, parts)
    if all_.calls != less.calls:
        raise _refused("it calls other operators, or the same ones with other numbers, on parts of sequences")
    for (name, shape), (_, other) in zip(all_.made, less.made, strict=True):
        if shape != other and name not in UNIFORM:
            raise _refused(f"{name} makes positions of {list(shape)} that do not depend on the model's argument, so parts of sequences "
                           "would count from 0 again")  # fmt: skip
    try:
        output = check_positions(around(model, given, lambda x: x), *whole, DeviceMesh("meta", list(range(ranks))), (), length)
    except ValueError as error:
        raise _refused(str(error)) from None
    for t in tensors_in(output):
        if isinstance(t, DTensor) and not any(isinstance(place, Shard) for place in t.placements):
            raise _refused("its output does not have the positions of the sequence")


def _refused(why: str) -> NotApplied:
    return NotApplied(f"apply: context parallelism gives each rank a part of every sequence, which this model does not take: {why}; "
                      "search with context=[1]", lambda one: one.context == 1)  # fmt: skip


class _Origins(Derived):
    """Which results of a run do not depend on the arguments of the model.

    Attributes
    ----------
    calls : list
        All operators with their floating-point arguments.
    made : list
        Operators that do not depend on the arguments, and the shapes of their results.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(tensors_in(call))
        self.calls: list[Any] = []
        self.made: list[tuple[str, tuple[int, ...]]] = []

    @classmethod
    def of(cls, model: Module, call: Call) -> _Origins:
        """Run a model, and return what has been found."""
        found = cls(call)
        with mt.no_grad(), found:
            model(*call[0], **call[1])
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        output, name = super().__torch_dispatch__(func, types, args, kwargs), name_of(func)
        self.calls.append((name, [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, float)]))
        self.made += [(name, tuple(t.shape)) for t in tensors_in(output) if t not in self]
        return output
