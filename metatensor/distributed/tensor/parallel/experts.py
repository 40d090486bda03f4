"""Expert parallelism: ranks hold different experts, and exchange the tokens that are routed to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from threading import get_ident
from typing import Any

import metatensor as mt
from metatensor.deferred.known import is_constant
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed._running import place_of
from metatensor.distributed._world import observed
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor._dtensor import DTensor, distribute_tensor
from metatensor.distributed.tensor._moving import _index
from metatensor.distributed.tensor.parallel.styles import ParallelStyle
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["ExpertParallel", "ExpertTensorParallel"]


class ExpertParallel(ParallelStyle):
    """Divide the experts of a module among ranks, and send each token to the rank that holds its expert.

    The module is called as ``experts(tokens, num_tokens_per_expert)``, with tokens (N, D) sorted by expert and an
    integer tensor (E,). The first dimension of each of its parameters counts the experts. On each rank, the module then receives
    the tokens of all ranks for the experts of this rank, again sorted by expert, with their numbers. It returns a
    row for each of these tokens, and the rows are sent back to the ranks that the tokens came from. The parameters are distributed
    tensors: ``to_local()`` gives the experts of this rank.

    On meta, the numbers of tokens are unknown, unless ``num_tokens_per_expert`` has known values. Sizes then follow from an
    assumption, by default that each expert receives the same number of tokens from each rank (``expert_load``).

    Parameters
    ----------
    reduce_op : str
        How gradients are reduced if each rank of the mesh has a loss of its own. ``"sum"`` gives the gradients of the sum of
        the losses, and ``"avg"`` those of their mean, as `DistributedDataParallel` does for other parameters. Default
        ``"sum"``.
    expert_load : sequence of float, optional
        On meta: the share of the tokens of each rank that each expert receives. Default: equal shares.

    Notes
    -----
    The last mesh dimension divides the experts. Outer dimensions hold replicas: the ranks along the last dimension together have
    all experts, and gradients are reduced over the replicas as well.

    Each rank has its own tokens. On CUDA, reading the numbers of tokens waits for the device.

    Raises
    ------
    ValueError
        If the module has no parameters, or the experts cannot be divided evenly among the ranks. In calls, if
        ``num_tokens_per_expert`` does not add up to the number of tokens.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor.parallel import ExpertParallel, parallelize_module
    >>> class Experts(mt.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = mt.nn.Parameter(mt.empty(8, 64, 64, device="meta"))
    ...     def forward(self, tokens, num_tokens_per_expert):
    ...         weight, ends = self.weight.to_local(), num_tokens_per_expert.cumsum(0, dtype=mt.int32)
    ...         return mt.nn.functional.grouped_mm(tokens, weight, offs=ends)
    >>> mesh = mt.distributed.init_device_mesh("meta", (4,))
    >>> experts = parallelize_module(Experts(), mesh, ExpertParallel())
    >>> experts.weight.to_local().shape
    metatensor.Size([2, 64, 64])
    >>> experts(mt.empty(100, 64, device="meta"), mt.empty(8, dtype=mt.int64, device="meta")).shape
    metatensor.Size([100, 64])
    >>> mt.distributed.destroy_process_group()
    """

    _own_dims = 1
    """Mesh dimensions that divide the experts; the others hold replicas."""

    def __init__(self, *, reduce_op: str = "sum", expert_load: Sequence[float] | None = None) -> None:
        if reduce_op not in ("sum", "avg"):
            raise ValueError(f"{type(self).__name__}: reduce_op must be 'sum' or 'avg', got {reduce_op!r}")
        if expert_load is not None and (not expert_load or min(expert_load) < 0 or not sum(expert_load)):
            raise ValueError(f"{type(self).__name__}: expert_load must be shares of the tokens, got {list(expert_load)}")
        self.reduce_op, self.expert_load = reduce_op, None if expert_load is None else tuple(expert_load)

    def _own_placements(self, name: str) -> tuple[Placement, ...]:
        """Return the placements of a parameter on the own mesh dimensions."""
        return (Shard(0),)

    def _inner(self, mesh: DeviceMesh) -> DeviceMesh | None:
        """Return the mesh that divides each expert."""
        return None

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if device_mesh.ndim < self._own_dims:
            raise ValueError(f"{type(self).__name__}: the mesh needs at least {self._own_dims} dimensions, got {device_mesh}")
        dim = device_mesh.ndim - self._own_dims
        self._distribute(module, device_mesh, device_mesh.size(dim))
        inner = self._inner(device_mesh)
        dispatched: dict[int, list[_Dispatch]] = {}  # by thread

        def dispatch(_: Any, inputs: tuple[Any, ...]) -> Any:
            tokens, counts, *others = inputs
            found = _Dispatch(tokens, counts, device_mesh, dim, self.expert_load)
            received = found.send(tokens)
            if inner is not None:  # each rank computes a part of the gradient of the tokens
                received = DTensor.from_local(received, inner, [Replicate()]).to_local(grad_placements=[Partial()])
            dispatched.setdefault(get_ident(), []).append(found)
            return received, found.counts, *others

        def combine(_: Any, inputs: Any, output: Any) -> Any:
            waiting = dispatched.get(get_ident())
            found = waiting.pop() if waiting else None
            if output is None or found is None:  # the module or the dispatch has raised an error
                return None
            if inner is not None:
                output = DTensor.from_local(output, inner, [Partial()]).redistribute(placements=[Replicate()]).to_local()
            return found.send_back(output)

        module.register_forward_pre_hook(dispatch)
        module.register_forward_hook(combine, always_call=True)
        return module

    def _distribute(self, module: Any, mesh: DeviceMesh, ranks: int) -> None:
        found = {name: one for name, one in module._parameters.items() if one is not None}
        name = type(self).__name__
        if not found:
            raise ValueError(f"{name}: {type(module).__name__} has no parameters of its own, whose first dimension is that of the experts")
        numbers = {one.shape[0] if one.dim() else 0 for one in found.values()}
        if len(numbers) != 1 or (experts := numbers.pop()) % ranks or not experts:
            shapes = ", ".join(f"{key} {list(one.shape)}" for key, one in found.items())
            raise ValueError(f"{name}: the experts, in the first dimension of {shapes}, cannot be divided evenly among {ranks} ranks")
        replicas = mesh.ndim - self._own_dims
        total = prod(mesh.shape[: replicas + 1])
        for key, one in found.items():
            placements = [Replicate()] * replicas + [*self._own_placements(key)]
            made = distribute_tensor(one.detach(), mesh, placements, src_data_rank=self.src_data_rank)
            parameter = mt.nn.Parameter(made, one.requires_grad)
            if one.requires_grad and (replicas or self.reduce_op == "avg"):
                parameter.register_hook(_Reduced(replicas, total if self.reduce_op == "avg" else 1))
            module.register_parameter(key, parameter)


class ExpertTensorParallel(ExpertParallel):
    """Divide the experts of a module among ranks, and each expert among further ranks.

    The last dimension of the mesh divides each expert, the one before it the experts. All ranks along the last dimension have the
    same tokens. The result of the module is summed over them.

    Parameters
    ----------
    tensor_placements : dict of str to Placement, optional
        How each parameter is divided, by its name. Default: ``w1`` and ``w3`` (E, H, D) by ``Shard(1)`` and ``w2`` (E, D, H) by
        ``Shard(2)``.
    reduce_op, expert_load
        See `ExpertParallel`.

    Raises
    ------
    ValueError
        As `ExpertParallel`; if the mesh has one dimension, or a parameter has no placement.
    """

    _own_dims = 2

    def __init__(
        self, *, tensor_placements: Mapping[str, Placement] | None = None, reduce_op: str = "sum",
        expert_load: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(reduce_op=reduce_op, expert_load=expert_load)
        self.tensor_placements = dict(tensor_placements or {"w1": Shard(1), "w2": Shard(2), "w3": Shard(1)})

    def _own_placements(self, name: str) -> tuple[Placement, ...]:
        if name not in self.tensor_placements:
            raise ValueError(f"ExpertTensorParallel: tensor_placements has no placement for the parameter {name!r}")
        return Shard(0), self.tensor_placements[name]

    def _inner(self, mesh: DeviceMesh) -> DeviceMesh | None:
        return mesh._of_dims([mesh.ndim - 1], None)


class _Reduced:
    """A hook that reduces the gradient of a parameter over replicas, and makes it a mean."""

    def __init__(self, replicas: int, total: int) -> None:
        self.replicas, self.total = replicas, total

    def __call__(self, grad: Any) -> Any:
        local = grad.to_local()
        placements = [Partial()] * self.replicas + list(grad.placements[self.replicas :])
        whole = DTensor.from_local(local / self.total if self.total > 1 else local, grad.device_mesh, placements)
        return whole.redistribute(placements=grad.placements)


class _Dispatch:
    """Sends the tokens of one call to the ranks of their experts, and the results back.

    Parameters
    ----------
    tokens, counts : Tensor
        The tokens (N, D) in the order of their experts, and how many each expert has.
    mesh : DeviceMesh
    dim : int
        The mesh dimension that divides the experts.
    load : tuple of float or None
        On meta: the shares of the tokens for each expert.
    """

    def __init__(self, tokens: Any, counts: Any, mesh: DeviceMesh, dim: int, load: tuple[float, ...] | None) -> None:
        size, group = mesh.size(dim), mesh.get_group(dim)
        if counts.dim() != 1 or counts.shape[0] % size:
            raise ValueError(f"ExpertParallel: expected numbers of tokens for experts of {size} ranks, got shape {list(counts.shape)}")
        self.group, own = group, counts.shape[0] // size
        arriving = collectives.wait_tensor(collectives.all_to_all_single(counts, None, None, group)).view(size, own)
        known = _known(counts)
        if known and place_of(counts) != "meta":
            self.sent, self.received = counts.view(size, own).sum(1).tolist(), arriving.sum(1).tolist()
        else:
            each = counts.tolist() if known else _assumed(tokens.shape[0], counts.shape[0], load)
            self.sent = [sum(each[start : start + own]) for start in range(0, len(each), own)]
            self.received = [observed(lambda rank: self.sent[_index(mesh, dim, rank)])] * size
        if sum(self.sent) != tokens.shape[0]:
            raise ValueError(f"ExpertParallel: {tokens.shape[0]} tokens, but num_tokens_per_expert is for {sum(self.sent)}")
        self.counts = arriving.sum(0, dtype=counts.dtype)
        self.order = None
        if own > 1:  # what a rank sends is in the order of the experts, what arrives is in the order of the ranks first
            experts = mt.arange(own, device=counts.device).repeat(size)
            rows = experts.repeat_interleave(arriving.reshape(-1), output_size=sum(self.received))
            self.order = rows.argsort(stable=True)

    def send(self, tokens: Any) -> Any:
        """Send the tokens to their experts. Return those that arrive, in the order of the experts of this rank."""
        found = collectives.wait_tensor(collectives.all_to_all_single(tokens, self.received, self.sent, self.group))
        return found if self.order is None else found.index_select(0, self.order)

    def send_back(self, output: Any) -> Any:
        """Return the results for the tokens of this rank."""
        rows = sum(self.received)
        if output.shape[0] != rows:
            raise ValueError(f"ExpertParallel: the experts received {rows} tokens, but returned a tensor of shape {list(output.shape)}")
        if self.order is not None:
            output = output.index_select(0, self.order.argsort())
        return collectives.wait_tensor(collectives.all_to_all_single(output, self.sent, self.received, self.group))


def _known(counts: Any) -> bool:
    return place_of(counts) != "meta" or is_constant(counts)


def _assumed(tokens: int, experts: int, load: tuple[float, ...] | None) -> list[int]:
    """Return the number of tokens that each expert receives, by its share."""
    shares = load or (1,) * experts
    if len(shares) != experts:
        raise ValueError(f"ExpertParallel: expert_load has {len(shares)} shares, but there are {experts} experts")
    whole, total, ends = sum(shares), 0.0, [0]
    for share in shares:
        total += share
        ends.append(round(tokens * total / whole))
    return [end - start for start, end in zip(ends, ends[1:])]
