"""Ring attention: each rank attends with its queries to the keys of all ranks, which reach it part by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.autograd.function import once_differentiable
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed._buffers import collective
from metatensor.distributed.tensor.experimental._context_parallel._options import _cp_options, _RotateMethod

__all__ = ["Block", "block_of", "ring_attention"]

SEQUENCE = 2
"""The dimension of the sequence in query, key and value."""


class Block(NamedTuple):
    """The scores that a rank computes with the keys of one rank."""

    second_queries: bool
    """Only the second half of the queries attends to them."""
    first_keys: bool
    """Only the first half of the keys is attended to."""
    is_causal: bool


def block_of(rank: int, size: int, step: int, is_causal: bool, balanced: bool) -> Block | None:
    """Return which scores a rank computes in a step, with the keys of rank ``rank - step``. None if the mask hides all of them."""
    if step == 0 or not is_causal:
        return Block(False, False, is_causal)
    earlier = step <= rank
    if balanced:  # of the other rank's chunks, the one of the head is earlier or later, and the one of the tail the opposite
        return Block(not earlier, earlier, False)
    return Block(False, False, False) if earlier else None


def ring_attention(
    query: Any, key: Any, value: Any, mesh: Any, *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False, generator: Any = None, load_balance: bool | None = None,
) -> Any:  # fmt: skip
    """Return this rank's part of `scaled_dot_product_attention` of tensors that are divided along the sequence.

    Each rank computes attention of its queries to the keys of one rank after the other, and joins the results by their
    logsumexp. It is differentiable: in the backward pass keys and values travel again, followed by their gradients.

    Parameters
    ----------
    query, key, value : Tensor
        This rank's parts (B, H, L, E), (B, G, S, E), (B, G, S, Ev), of the same size on all ranks.
    mesh : DeviceMesh
        A mesh of one dimension.
    dropout_p, is_causal, scale, enable_gqa, generator
        As for `scaled_dot_product_attention`. ``is_causal`` is about positions in the whole sequence.
    load_balance : bool, optional
        Whether each part consists of a chunk of the head of the sequence and one of its tail, as `context_parallel` divides
        it, or is consecutive. Default: the setting of context parallelism. It matters only with ``is_causal``.

    Raises
    ------
    ValueError
        If the tensors do not have four dimensions, numbers of heads do not fit, or with ``is_causal`` the lengths differ or
        cannot be halved.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor.experimental import ring_attention
    >>> mesh = mt.distributed.init_device_mesh("meta", (8,))
    >>> q = mt.empty(1, 4, 512, 64, device="meta")
    >>> ring_attention(q, q, q, mesh, is_causal=True).shape          # of a sequence of length 4096
    metatensor.Size([1, 4, 512, 64])
    >>> mt.distributed.destroy_process_group()
    """
    balanced = mesh.size() > 1 and (_cp_options.enable_load_balance if load_balance is None else load_balance)
    _check(query, key, value, is_causal, enable_gqa, balanced)
    if mesh.size() == 1:
        return mt.nn.functional.scaled_dot_product_attention(
            query, key, value, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa, generator=generator
        )
    ring = _Ring(mesh, is_causal, balanced, dropout_p, scale, generator)
    return _RingAttention.apply(query, key, value, ring)


def _check(query: Any, key: Any, value: Any, is_causal: bool, enable_gqa: bool, balanced: bool) -> None:
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError(f"ring_attention: query, key and value need 4 dimensions: {shapes}")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(f"ring_attention: query and key must have the same number of heads, unless enable_gqa is true: {shapes}")
    if enable_gqa and (not key.shape[1] or query.shape[1] % key.shape[1]):
        raise ValueError(f"ring_attention: the number of heads of query must be a multiple of that of key: {shapes}")
    if is_causal and query.shape[SEQUENCE] != key.shape[SEQUENCE]:
        raise NotImplementedError(f"ring_attention: is_causal needs queries and keys of the same length: {shapes}")
    if is_causal and balanced and query.shape[SEQUENCE] % 2:
        raise ValueError(f"ring_attention: with load balancing a part of the sequence has two chunks of the same length: {shapes}")


class _Ring:
    """What a call of ring attention needs to know, forward and backward."""

    def __init__(self, mesh: Any, is_causal: bool, balanced: bool, dropout_p: float, scale: float | None, generator: Any) -> None:
        self.group, self.size = mesh.get_group(), mesh.size()
        # Without a mask all ranks do the same, so the program need not learn its rank.
        self.rank = mesh.get_local_rank() if is_causal else self.group._rank
        self.is_causal, self.balanced, self.dropout_p, self.scale, self.generator = is_causal, balanced, dropout_p, scale, generator
        self.gathers = _cp_options.rotate_method is _RotateMethod.ALL_GATHER
        self.in_float32 = _cp_options.convert_to_f32

    def block(self, step: int) -> Block | None:
        return block_of(self.rank, self.size, step, self.is_causal, self.balanced)

    def wide(self, dtype: Any) -> Any:
        """Return the dtype in which results are joined and gradients summed."""
        return mt.float32 if self.in_float32 and dtype.itemsize == 2 else dtype

    def passed_on(self, buffer: Any) -> Any:
        """Begin to send a tensor to the next rank. Return the one from the rank before."""
        return collectives.permute_tensor(buffer, [(rank + 1) % self.size for rank in range(self.size)], self.group)

    def arrivals(self, key: Any, value: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the keys and values of this rank, the one before it, and so on. The next ones travel while these are used."""
        buffer = _flat(key, value)
        if self.gathers:
            whole = collectives.all_gather_tensor(buffer, 0, self.group)
            yield key, value
            parts = collectives.wait_tensor(whole).chunk(self.size)
            for step in range(1, self.size):
                yield _divided(parts[self.group._rank - step], key, value)
            return
        for step in range(self.size):
            arriving = self.passed_on(buffer) if step < self.size - 1 else None
            yield _divided(buffer, key, value)
            buffer = collectives.wait_tensor(arriving)


@collective
def _flat(key: Any, value: Any) -> Any:
    """Return the buffer in which keys and values travel."""
    return mt.cat([key.reshape(-1), value.reshape(-1)])


def _divided(buffer: Any, key: Any, value: Any) -> tuple[Any, Any]:
    first, second = buffer.split([key.numel(), value.numel()])
    return first.view(key.shape), second.view(value.shape)


def _half(t: Any, second: bool) -> Any:
    """Return one half of a tensor along the sequence."""
    length = t.shape[SEQUENCE] // 2
    return t.narrow(SEQUENCE, length if second else 0, length)


class _RingAttention(mt.autograd.Function):
    """Ring attention, and the ring that its gradients travel."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, ring: _Ring) -> Any:
        out = rows = None
        draws: list[Any] = []
        for step, (k, v) in enumerate(ring.arrivals(key, value)):
            block = ring.block(step)
            if block is None:
                continue
            q = _half(query, True) if block.second_queries else query
            if block.first_keys:
                k, v = _half(k, False), _half(v, False)
            part, part_rows, *drawn = _attention(q, k, v, block.is_causal, ring)
            draws.append(drawn)
            if out is None:
                out, rows = part.to(ring.wide(part.dtype)), part_rows
            else:
                halves = [_half(t, True) if block.second_queries else t for t in (out, rows)]
                _join(halves[0], halves[1], part, part_rows)
        assert out is not None
        out = out.to(query.dtype)
        ctx.ring, ctx.draws = ring, draws if ring.dropout_p else [[None, None]] * len(draws)
        ctx.save_for_backward(query, key, value, out, rows)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        query, key, value, out, rows = ctx.saved_tensors
        ring, draws = ctx.ring, iter(ctx.draws)
        wide = ring.wide(query.dtype)
        of_query, travelling = mt.zeros_like(query, dtype=wide), None
        for step, (k, v) in enumerate(ring.arrivals(key, value)):
            block = ring.block(step)
            found = None
            if block is not None:
                g, q, o, r = (_half(t, True) if block.second_queries else t for t in (grad, query, out, rows))
                if block.first_keys:
                    k, v = _half(k, False), _half(v, False)
                found = _attention_backward(g, q, k, v, o, r, next(draws), block.is_causal, ring)
                (_half(of_query, True) if block.second_queries else of_query).add_(found[0])
            if travelling is None:
                assert found is not None
                sums = _flat(found[1].to(wide), found[2].to(wide))
            else:
                sums = collectives.wait_tensor(travelling)
                for total, more in zip(_divided(sums, key, value), found[1:] if found else ()):
                    (_half(total, False) if block is not None and block.first_keys else total).add_(more)
            travelling = ring.passed_on(sums)
        of_key, of_value = _divided(collectives.wait_tensor(travelling), key, value)
        return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype), None


def _join(out: Any, rows: Any, part: Any, part_rows: Any) -> None:
    """Combine the result so far with attention to other keys, each weighted by its sum of exponentials."""
    both = mt.logaddexp(rows, part_rows)
    out.mul_((rows - both).exp().unsqueeze(-1)).add_(part * (part_rows - both).exp().unsqueeze(-1))
    rows.copy_(both)


# Kernels ----------------------------------------------------------------------------------------------------


def _attention(query: Any, key: Any, value: Any, is_causal: bool, ring: _Ring) -> tuple[Any, ...]:
    """Return attention, its logsumexp (B, H, L), and the state of the random numbers, two tensors."""
    p, scale = ring.dropout_p, ring.scale
    if query.shape[-1] != value.shape[-1]:
        out, rows, *drawn = mt._scaled_dot_product_efficient_attention(
            query, key, value, None, True, p, is_causal, scale=scale, generator=ring.generator
        )
        return out, rows[..., : query.shape[SEQUENCE]].clone(), *drawn
    if query.device.type == "cpu":
        return *mt._scaled_dot_product_flash_attention_for_cpu(query, key, value, p, is_causal, scale=scale), None, None
    return mt._scaled_dot_product_flash_attention(  # type: ignore[no-any-return]
        query, key, value, p, is_causal, scale=scale, generator=ring.generator
    )


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, rows: Any, drawn: Any, is_causal: bool, ring: _Ring
) -> Any:
    """Return the gradients of query, key and value of a block. Result and logsumexp are those of all blocks."""
    p, scale, rows = ring.dropout_p, ring.scale, rows.contiguous()
    if query.shape[-1] != value.shape[-1]:
        seed, offset = drawn
        return mt._scaled_dot_product_efficient_attention_backward(
            grad, query, key, value, None, out, rows, seed, offset, p, [True, True, True, False], is_causal, scale=scale
        )[:3]
    if query.device.type == "cpu":
        return mt._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, query, key, value, out, rows, p, is_causal, scale=scale
        )
    return mt._scaled_dot_product_flash_attention_backward(
        grad, query, key, value, out, rows, p, is_causal, *drawn, scale=scale
    )
