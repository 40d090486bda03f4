"""Operators that run on parts and communicate inside: a softmax of sharded rows, a look-up in a table whose rows are sharded.

They are ways to run a call on a mesh dimension that no sharding rule describes, because the results of parts cannot be joined,
or because a part has to know its place. What they communicate is smaller than their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, prod
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed._world import observed
from metatensor.distributed.tensor._utils import _compute_local_shape_and_global_offset
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Inside", "inside_ways", "run_inside"]

Key = tuple[str, int]


class Inside(NamedTuple):
    """How a call runs on a mesh dimension.

    ``inputs`` gives the placement of each tensor argument; arguments that it lacks are replicated. ``kind`` distinguishes the ways to
    run an operator. ``nbytes`` is how much each process reduces.
    """

    inputs: Mapping[Key, Placement]
    outputs: tuple[Placement, ...]
    kind: str
    nbytes: int = 0


class Local:
    """The arguments of a call on this process, and what it needs to know about the others.

    ``dims`` maps each kind of way to the mesh dimensions on which it was chosen.
    """

    def __init__(self, call: Any, arguments: dict[str, Any], targets: Mapping[Key, Any], dims: Mapping[str, Sequence[int]]) -> None:
        self.call, self.arguments, self.targets, self.dims = call, arguments, targets, dims

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def reduced(self, tensor: Any, reduction: str, kind: str) -> Any:
        """Reduce a tensor over the mesh dimensions on which this kind of way was chosen."""
        for dim in self.dims.get(kind, ()):
            if self.call.mesh.size(dim) > 1:
                tensor = collectives.wait_tensor(collectives.all_reduce(tensor.contiguous(), reduction, self.call.mesh.get_group(dim)))
        return tensor

    def offset(self, name: str, dim: int) -> int:
        """Return where this process's part of an argument begins in a dimension."""
        mesh, shape, placements = self.call.mesh, tuple(self.call.tensors[name, -1].shape), self.targets[name, -1]

        def start(rank: int) -> int:
            return _compute_local_shape_and_global_offset(shape, mesh.shape, mesh._place_of(rank), placements)[1][dim]

        if self[name].is_meta:  # no shape depends on it, so ranks need not be told apart by it
            return _compute_local_shape_and_global_offset(shape, mesh.shape, mesh._coordinate, placements)[1][dim]
        return observed(start)

    def run(self, **changed: Any) -> Any:
        """Run the operator on this process's parts with some arguments changed."""
        from metatensor.distributed.tensor._running import _call

        return _call(self.call, {**self.arguments, **changed})


def inside_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    """Yield the ways to run a call that communicate inside."""
    found = _OPERATORS.get(call.overload.qualname)
    if found is not None and call.out is None and not call.in_place:
        yield from found[0](call, results)


def run_inside(call: Any, arguments: dict[str, Any], targets: Mapping[Key, Any], dims: Mapping[str, Sequence[int]]) -> Any:
    """Run a call on this process's parts and communicate. Return what the operator returns, on parts."""
    return _OPERATORS[call.overload.qualname][1](Local(call, arguments, targets, dims))


def _dim(call: Any, name: str = "input") -> int:
    ndim = call.tensors[name, -1].dim()
    return int(call.arguments["dim"]) % ndim if ndim else -1


def _nbytes(tensor: Any, dim: int) -> int:
    shape = tuple(tensor.shape)
    return prod((*shape[:dim], *shape[dim + 1 :])) * tensor.dtype.itemsize


# Softmax ------------------------------------------------------------------------------------------------------


def _softmax_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    dim = _dim(call)
    if dim >= 0:
        yield Inside({("input", -1): Shard(dim)}, (Shard(dim),), "dim", 2 * _nbytes(call.tensors["input", -1], dim))


def _softmax(local: Local) -> Any:
    x, dim, log = local["input"], _dim(local.call), local.call.functional.name.endswith("log_softmax")
    dtype = local["dtype"] or x.dtype
    wide = x.to(mt.float32 if dtype.itemsize < 4 else dtype)
    shape = (*wide.shape[:dim], 1, *wide.shape[dim + 1 :])
    largest = wide.amax(dim, True) if wide.shape[dim] else wide.new_full(shape, -inf)
    largest = local.reduced(largest, "max", "dim")
    shifted = wide - largest if wide is x else wide.sub_(largest)  # in place, as logits of a vocabulary are what a step has most of
    powers = shifted.exp() if log else shifted.exp_()
    total = local.reduced(powers.sum(dim, True), "sum", "dim")
    del powers
    return (shifted.sub_(total.log_()) if log else shifted.div_(total)).to(dtype)


def _softmax_backward_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    dim = _dim(call, "output")
    if dim >= 0:
        inputs = {("grad_output", -1): Shard(dim), ("output", -1): Shard(dim)}
        yield Inside(inputs, (Shard(dim),), "dim", _nbytes(call.tensors["output", -1], dim))


def _softmax_backward(local: Local) -> Any:
    grad, output, dim = local["grad_output"], local["output"], _dim(local.call, "output")
    dtype = mt.float32 if output.dtype.itemsize < 4 else output.dtype
    wide = output.to(dtype)
    if "log" in local.call.functional.name:
        found = wide.exp() if wide is output else wide.exp_()
        found.mul_(local.reduced(grad.sum(dim, True, dtype=dtype), "sum", "dim")).neg_().add_(grad)
    else:
        found = wide * grad
        total = local.reduced(found.sum(dim, True), "sum", "dim")
        found.sub_(wide * total if wide is output else wide.mul_(total))
    return found.to(local["input_dtype"] or grad.dtype)


# Norms --------------------------------------------------------------------------------------------------------


def _norm_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    tensor, dim = call.tensors["input", -1], call.arguments.get("dim")
    if not tensor.dim():
        return
    dims = range(tensor.dim()) if dim is None or dim == () else dim if isinstance(dim, (tuple, list)) else (dim,)
    for one in dims:
        yield Inside({("input", -1): Shard(one % tensor.dim())}, (Replicate(),), "dim", prod(results[0].shape) * 8)


def _norm(local: Local) -> Any:
    order, x = float(local["ord"]), local["input"]
    if x.numel() or order in (0.0,) or 0 < order < inf:
        found = local.run()
    else:  # the norm of no elements is not defined, but that of the others is
        shape = local.call.whole_results()[0].shape
        found = x.new_full(shape, 0.0 if order == inf else inf, dtype=local["dtype"] or x.abs().dtype)
    if order in (inf, -inf):
        return local.reduced(found, "max" if order > 0 else "min", "dim")
    if order == 0:
        return local.reduced(found, "sum", "dim")
    return local.reduced(found.to(mt.float64) ** order, "sum", "dim").pow(1 / order).to(found.dtype)


# Rows of a table, and other elements that an index selects ----------------------------------------------------------


def _embedding_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    if call.arguments.get("max_norm") is None:
        yield Inside({("weight", -1): Shard(0)}, (Partial("sum"),), "rows")


def _embedding(local: Local) -> Any:
    name = "indices" if "indices" in local.arguments else "input"
    local.arguments["padding_idx"] = -1 if name == "indices" else None      # it matters to the gradient only
    return _selected(local, "weight", 0, name, lambda index: index.unsqueeze(-1))


def _index_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    if call.tensors["input", -1].dim() and call.tensors["input", -1].dtype is not mt.bool:
        yield Inside({("input", -1): Shard(_dim(call))}, (Partial("sum"),), "rows")


def _index(local: Local) -> Any:
    dim = _dim(local.call)
    shape = [1] * local["input"].dim()
    shape[dim] = -1
    along = local.call.functional.name == "index_select"
    return _selected(local, "input", dim, "index", lambda index: index.reshape(shape) if along else index)


def _selected(local: Local, name: str, dim: int, index_name: str, shaped: Callable[[Any], Any]) -> Any:
    """Return the elements that the index selects on this process, and zeros for those that others hold.

    ``shaped`` gives a tensor like the index a shape that broadcasts with the result.
    """
    table, index = local[name], local[index_name]
    count, shifted = table.shape[dim], index - local.offset(name, dim)
    elsewhere = (shifted < 0) | (shifted >= count)
    if not count:
        shape = list(table.shape)
        shape[dim] = 1
        table = table.new_zeros(shape)
    found = local.run(**{name: table, index_name: shifted.masked_fill(elsewhere, 0)})
    return found.masked_fill(shaped(elsewhere), 0)


# Negative log-likelihood --------------------------------------------------------------------------------------

_ELSEWHERE = -100  # stands for a class that another process holds, and for one that is ignored


def _class_dim(call: Any) -> int:
    return 1 if call.tensors["input", -1].dim() > 1 else 0


def _nll_loss_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    dim, mean = _class_dim(call), call.arguments["reduction"] == "mean"
    yield Inside({("input", -1): Shard(dim)}, (Partial("sum"), Replicate()), "classes")
    if mean and dim:
        for cut in range(call.tensors["target", -1].dim()):
            inputs = {("input", -1): Shard(cut + (cut > 0)), ("target", -1): Shard(cut)}
            yield Inside(inputs, (Partial("sum"), Replicate()), "batch", results[1].dtype.itemsize)


def _nll_loss(local: Local) -> Any:
    mean = local["reduction"] == "mean"
    total = None
    if mean:  # the sum of the weights does not depend on the input
        total = local.run(input=local["input"].new_zeros((1,)).expand(_whole_classes(local)))[1]
        total = local.reduced(total, "sum", "batch")
    found, own = local.run(**_own_classes(local), reduction="sum" if mean else local["reduction"])
    return (found, own) if total is None else (found / total, total)


def _whole_classes(local: Local) -> tuple[int, ...]:
    """Return the shape of the input with all classes."""
    shape, dim = list(local["input"].shape), _class_dim(local.call)
    shape[dim] = local.call.tensors["input", -1].shape[dim]
    return tuple(shape)


def _own_classes(local: Local) -> dict[str, Any]:
    """Return the arguments in terms of the classes that this process holds."""
    dim = _class_dim(local.call)
    count, target, weight = local["input"].shape[dim], local["target"], local["weight"]
    if "classes" not in local.dims:
        return {}
    start = local.offset("input", dim)
    shifted = target - start
    elsewhere = (target == local["ignore_index"]) | (shifted < 0) | (shifted >= count)
    changed = {"target": shifted.masked_fill(elsewhere, _ELSEWHERE), "ignore_index": _ELSEWHERE}
    if not count:  # one class that no target has
        shape = list(local["input"].shape)
        shape[dim] = 1
        changed |= {"input": local["input"].new_zeros(shape)}
    return changed | ({} if weight is None else {"weight": weight.narrow(0, start, count) if count else weight[:1]})


def _nll_loss_backward_ways(call: Any, results: Sequence[Any]) -> Iterator[Inside]:
    dim = _class_dim(call)
    yield Inside({("input", -1): Shard(dim)}, (Shard(dim),), "classes")


def _nll_loss_backward(local: Local) -> Any:
    if not local["input"].numel():
        return local["grad_output"].new_zeros(local["input"].shape)
    return local.run(**_own_classes(local))


_OPERATORS: dict[str, tuple[Callable[[Any, Sequence[Any]], Iterator[Inside]], Callable[[Local], Any]]] = {
    "softmax": (_softmax_ways, _softmax), "log_softmax": (_softmax_ways, _softmax),
    "_softmax_backward_data": (_softmax_backward_ways, _softmax_backward),
    "_log_softmax_backward_data": (_softmax_backward_ways, _softmax_backward),
    "linalg.vector_norm": (_norm_ways, _norm),
    "embedding": (_embedding_ways, _embedding), "nn.functional.embedding": (_embedding_ways, _embedding),
    "gather": (_index_ways, _index), "index_select": (_index_ways, _index),
    "_nll_loss_forward": (_nll_loss_ways, _nll_loss), "nll_loss_backward": (_nll_loss_backward_ways, _nll_loss_backward),
}  # fmt: skip
