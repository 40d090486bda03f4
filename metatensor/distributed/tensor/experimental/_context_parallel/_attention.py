"""Context parallelism: sequences are divided among ranks, and attention runs over all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from threading import get_ident
from typing import Any

import metatensor as mt
from metatensor._core.replacement import Replacement
from metatensor.autograd.graph import increment_version
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed.tensor._dtensor import DTensor
from metatensor.distributed.tensor.experimental._context_parallel._load_balancer import _LoadBalancer, joined, part_of
from metatensor.distributed.tensor.experimental._context_parallel._options import _cp_options
from metatensor.distributed.tensor.experimental._context_parallel._ring import ring_attention
from metatensor.distributed.tensor.experimental._context_parallel._ulysses import ulysses_attention
from metatensor.distributed.tensor.parallel.styles import ParallelStyle
from metatensor.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = [
    "_ContextParallel", "_context_parallel_shard", "_disable_context_parallel_dispatcher", "_enable_context_parallel_dispatcher",
    "context_parallel", "context_parallel_unshard",
]  # fmt: skip


@contextmanager
def context_parallel(
    mesh: Any, *, buffers: Sequence[Any] | None = None, buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Any] | None = None, method: str = "ring",
) -> Iterator[None]:  # fmt: skip
    """Context manager that divides sequences among ranks and runs attention over all ranks.

    Inside, each buffer holds this rank's part of the sequence, and `scaled_dot_product_attention` of this thread is
    attention over the sequences of all ranks. Operators that treat all positions alike need no change. Take positions from a
    buffer, because those of a rank are not consecutive.

    Each part consists of a chunk from the head of the sequence and one from its tail, so that causal ring attention is the
    same work for all ranks. `set_rotate_method` chooses its communication.

    Parameters
    ----------
    mesh : DeviceMesh
        A mesh of one dimension.
    buffers : sequence of Tensor
        Tensors with a dimension for the sequence: tokens, targets, positions, caches of rotary embeddings. Their elements are
        replaced, and restored at the end.
    buffer_seq_dims : sequence of int
        The dimension of the sequence in each buffer.
    no_restore_buffers : set of Tensor, optional
        Buffers that stay divided.
    method : str
        ``"ring"``: `ring_attention`. ``"ulysses"``: `ulysses_attention`. Default ``"ring"``.

    Raises
    ------
    ValueError
        If the numbers of buffers and dimensions differ, ``no_restore_buffers`` contains another tensor, the mesh has several
        dimensions, or a sequence cannot be divided evenly.
    RuntimeError
        If a buffer is the result of operators that record gradients.
    NotImplementedError
        Where attention is called with a mask and the method is ``"ring"``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor.experimental import context_parallel
    >>> mesh = mt.distributed.init_device_mesh("meta", (4,))
    >>> tokens = mt.empty(2, 4096, dtype=mt.int64, device="meta")
    >>> with context_parallel(mesh, buffers=[tokens], buffer_seq_dims=[1]):
    ...     tokens.shape
    metatensor.Size([2, 1024])
    >>> tokens.shape
    metatensor.Size([2, 4096])
    >>> mt.distributed.destroy_process_group()
    """
    kept, dims = list(buffers or ()), list(buffer_seq_dims or ())
    attention = _attention_on(mesh, method)
    if len(kept) != len(dims):
        raise ValueError(f"context_parallel: {len(kept)} buffers, but {len(dims)} buffer_seq_dims")
    stay = {id(one) for one in no_restore_buffers or ()}
    if not stay <= {id(one) for one in kept}:
        raise ValueError("context_parallel: no_restore_buffers contains a tensor that is not among the buffers")
    parts = [_own_part(one, dim, mesh) for one, dim in zip(kept, dims)]
    whole = [one.data for one in kept]
    try:
        _replace(kept, parts)
        with _replacing(attention):
            yield
    finally:
        restored = [(one, data) for one, data in zip(kept, whole) if id(one) not in stay]
        _replace([one for one, _ in restored], [data for _, data in restored])


def _own_part(buffer: Any, dim: int, mesh: Any) -> Any:
    if not isinstance(buffer, mt.Tensor) or isinstance(buffer, DTensor):
        raise TypeError(f"context_parallel: buffers must be plain tensors, got {type(buffer).__name__}")
    if buffer.grad_fn is not None:
        raise RuntimeError(f"context_parallel: a buffer of shape {list(buffer.shape)} is the result of operators that record gradients")
    return part_of(buffer.detach(), range(buffer.dim())[dim], mesh.size(), mesh.get_group()._rank, _cp_options.enable_load_balance)


def _replace(buffers: Sequence[Any], values: Sequence[Any]) -> None:
    """Give tensors other elements. What autograd has saved of them counts as changed."""
    for buffer, value in zip(buffers, values):
        buffer.data = value
    changed = [one for one in buffers if not one.is_inference()]
    if changed:
        increment_version(changed)


# The attention that replaces the plain one -------------------------------------------------------------------


def _attention_on(mesh: Any, method: str) -> Callable[..., Any]:
    """Return the function that computes attention over the ranks of a mesh."""
    if method not in ("ring", "ulysses"):
        raise ValueError(f"context_parallel: method must be 'ring' or 'ulysses', got {method!r}")
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel: the mesh must have one dimension, got {mesh}; take a sub-mesh, as in mesh['cp']")
    return partial(_attention, _ring if method == "ring" else ulysses_attention, mesh)


def _replacing(attention: Callable[..., Any]) -> Replacement:
    plain: Any = mt.nn.functional.scaled_dot_product_attention
    return Replacement(plain, attention)


def _ring(
    query: Any, key: Any, value: Any, mesh: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **options: Any
) -> Any:
    if attn_mask is not None:
        raise NotImplementedError(
            "context_parallel: ring attention takes no attn_mask, as no rank has whole rows of scores; use is_causal or method='ulysses'"
        )
    return ring_attention(query, key, value, mesh, dropout_p=dropout_p, is_causal=is_causal, **options)


def _attention(compute: Callable[..., Any], mesh: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Compute attention, of distributed tensors on their parts."""
    if not any(isinstance(one, DTensor) for one in (query, key, value)):
        return compute(query, key, value, mesh, *args, **kwargs)
    if any(isinstance(one, DTensor) for one in (*args, *kwargs.values())):
        raise NotImplementedError("context_parallel: attn_mask must be a plain tensor")
    if not all(isinstance(one, DTensor) for one in (query, key, value)):
        raise TypeError("context_parallel: query, key and value must all be distributed tensors, or none of them")
    query, key, value = (_without_partial(one) for one in (query, key, value))
    if not query.placements == key.placements == value.placements:
        raise ValueError(
            f"context_parallel: query, key and value must be placed alike, got {query.placements}, {key.placements}, {value.placements}"
        )
    whole = query.device_mesh
    for dim, one in enumerate(query.placements):
        over_ranks = whole.get_group(dim).ranks == mesh.get_group().ranks
        if not isinstance(one, Replicate) and one not in ((Shard(2),) if over_ranks else (Shard(0), Shard(1))):
            raise ValueError(f"context_parallel: attention cannot run on query, key and value that are placed {query.placements}")
    found = compute(query.to_local(), key.to_local(), value.to_local(), mesh, *args, **kwargs)
    return DTensor.from_local(found, whole, query.placements)


def _without_partial(tensor: Any) -> Any:
    wanted = tuple(Replicate() if isinstance(one, Partial) else one for one in tensor.placements)
    return tensor if wanted == tensor.placements else tensor.redistribute(placements=wanted)


class _ContextParallel(ParallelStyle):
    """Run `scaled_dot_product_attention` inside of a module over the ranks of a mesh.

    Parameters
    ----------
    seq_dim : int
        The dimension of the sequence in query, key and value: 2.
    attention_type : AttentionType
        The function that the module calls. ``FLEX`` raises NotImplementedError.
    method : str
        ``"ring"`` or ``"ulysses"``, see `context_parallel`.
    """

    class AttentionType(Enum):
        """A function that computes attention."""

        FLEX = "flex_attention"
        SDPA = "scaled_dot_product_attention"

    def __init__(self, seq_dim: int, attention_type: _ContextParallel.AttentionType, *, method: str = "ring") -> None:
        if attention_type is not self.AttentionType.SDPA:
            raise NotImplementedError("_ContextParallel: only scaled_dot_product_attention runs over several ranks")
        if seq_dim not in (2, -2):
            raise ValueError(f"_ContextParallel: the sequence is dimension 2 of query, key and value, got seq_dim={seq_dim}")
        self.seq_dim, self.attention_type, self.method = seq_dim, attention_type, method

    def _apply(self, module: Any, device_mesh: Any) -> Any:
        attention = _attention_on(device_mesh, self.method)
        entered: dict[int, list[Replacement]] = {}  # by thread

        def enter(_: Any, inputs: Any) -> None:
            mode = _replacing(attention)
            entered.setdefault(get_ident(), []).append(mode)
            mode.__enter__()

        def leave(_: Any, inputs: Any, output: Any) -> None:
            entered[get_ident()].pop().__exit__(None, None, None)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)
        return module


def _enable_context_parallel_dispatcher() -> None:
    """Do nothing: `_ContextParallel` acts on its module only, so there is nothing to enable for the process."""


def _disable_context_parallel_dispatcher() -> None:
    """Do nothing, see `_enable_context_parallel_dispatcher`."""


# Buffers ----------------------------------------------------------------------------------------------------


def _context_parallel_shard(mesh: Any, buffers: Any, seq_dims: Any, load_balancer: _LoadBalancer | None = None) -> Any:
    """Return this rank's parts of tensors.

    Parameters
    ----------
    mesh : DeviceMesh
        A mesh of one dimension.
    buffers : sequence or dict of Tensor
        The whole tensors.
    seq_dims : sequence or dict of int
        The dimension of the sequence in each of them.
    load_balancer : _LoadBalancer, optional
        How positions are ordered before they are divided. Default: not at all. Causal ring attention then needs the setting
        ``_cp_options.enable_load_balance = False``.

    Returns
    -------
    list or dict of Tensor
        The parts.

    Warns
    -----
    UserWarning
        If there is no load balancer, but ring attention expects the order of one.
    """
    if isinstance(buffers, Mapping):
        if not isinstance(seq_dims, Mapping) or set(buffers) != set(seq_dims):
            raise ValueError("_context_parallel_shard: buffers and seq_dims must have the same names")
        return dict(zip(buffers, _context_parallel_shard(mesh, [*buffers.values()], [seq_dims[one] for one in buffers], load_balancer)))
    if isinstance(seq_dims, Mapping) or len(buffers) != len(seq_dims):
        raise ValueError("_context_parallel_shard: buffers and seq_dims must have the same length")
    if load_balancer is None and _cp_options.enable_load_balance and mesh.size() > 1:
        warnings.warn(
            "_context_parallel_shard: the parts are consecutive, but causal ring attention expects parts that a _HeadTailLoadBalancer "
            "made; pass one, or set _cp_options.enable_load_balance = False",
            stacklevel=2,
        )
    order = None if load_balancer is None else load_balancer._generate_indices()
    return [
        part_of(_ordered(one, dim, order), range(one.dim())[dim], mesh.size(), mesh.get_group()._rank, False)
        for one, dim in zip(buffers, seq_dims)
    ]


def _ordered(tensor: Any, dim: int, order: Any) -> Any:
    if order is None:
        return tensor
    if order.dim() == 2 and order.shape[0] != 1:
        raise NotImplementedError("context_parallel: a load balancer with an order of its own for each sequence of a batch")
    return tensor.index_select(dim, order.reshape(-1))


def context_parallel_unshard(
    mesh: Any, buffers: Sequence[Any], seq_dims: Sequence[int], load_balancer: _LoadBalancer | None = None
) -> list[Any]:
    """Return the whole tensors of which the ranks hold parts, as `context_parallel` divides them.

    Parameters
    ----------
    mesh : DeviceMesh
        A mesh of one dimension.
    buffers : sequence of Tensor
        This rank's parts.
    seq_dims : sequence of int
        The dimension of the sequence in each of them.
    load_balancer : _LoadBalancer, optional
        How the positions were ordered. Default: with load balancing a chunk from the head and one from the tail for each rank.

    Raises
    ------
    ValueError
        If the numbers of buffers and dimensions differ.
    """
    if len(buffers) != len(seq_dims):
        raise ValueError(f"context_parallel_unshard: {len(buffers)} buffers, but {len(seq_dims)} seq_dims")
    order = None if load_balancer is None else load_balancer._generate_indices(restore=True)
    balanced = load_balancer is None and _cp_options.enable_load_balance
    found = []
    with mt.no_grad():
        for one, dim in zip(buffers, seq_dims):
            dim = range(one.dim())[dim]
            gathered = collectives.wait_tensor(collectives.all_gather_tensor(one.detach().unsqueeze(0), 0, mesh.get_group()))
            found.append(_ordered(joined(gathered.unbind(0), dim, balanced), dim, order))
    return found
