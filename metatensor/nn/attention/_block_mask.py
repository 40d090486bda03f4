"""`BlockMask`: the blocks of a score matrix that a mask keeps in part or in full."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NoReturn

import metatensor as mt

__all__ = ["DEFAULT_BLOCK", "BlockMask", "MaskMod", "noop_mask", "ordered", "sliced_mask"]

MaskMod = Callable[[Any, Any, Any, Any], Any]
DEFAULT_BLOCK = 128

_TENSORS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices", "full_q_num_blocks",
    "full_q_indices", "dq_write_order", "dq_write_order_full", "dq_kv_order",
)  # fmt: skip


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Return True: a mask function that keeps every score."""
    return batch.new_ones(size=(), dtype=mt.bool, device=batch.device)


def sliced_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> NoReturn:
    """Raise RuntimeError: the mask function of a sliced BlockMask is unknown, because the positions have changed."""
    raise RuntimeError("BlockMask: a slice of a BlockMask has no mask_mod; set one that is derived from the mask_mod of the whole mask")


def ordered(dense: Any) -> tuple[Any, Any]:
    """Return the number of ones in each row of a 0-1 matrix, and all column numbers with those of the ones first."""
    dense = dense.to(mt.int32)
    columns = mt.argsort(dense, dim=-1, descending=True, stable=True)
    plain = mt.contiguous_format
    return dense.sum(-1).to(mt.int32, memory_format=plain), columns.to(mt.int32, memory_format=plain)


def _dense(counts: Any, columns: Any, width: int) -> Any:
    """Return the 0-1 matrix from which `ordered` made ``counts`` and ``columns``."""
    places = mt.arange(columns.shape[-1], dtype=mt.int32, device=columns.device)
    at = mt.where(places < counts.unsqueeze(-1), columns, width)  # unused entries go to an extra column
    dense = mt.zeros((*columns.shape[:-1], width + 1), dtype=mt.int32, device=columns.device)
    return dense.scatter_(-1, at.long(), 1)[..., :width].contiguous()


def _transposed(counts: Any, columns: Any) -> tuple[Any, Any]:
    """Return the counts and column numbers of the transposed 0-1 matrix."""
    return ordered(_dense(counts, columns, columns.shape[-1]).mT)


class BlockMask:
    """Block-sparse attention mask, stored by rows and by columns of blocks.

    A block of queries attends to ``kv_num_blocks`` (..., rows) blocks of keys, listed first in ``kv_indices`` (...,
    rows, columns). ``full_kv_num_blocks`` and ``full_kv_indices`` describe further blocks in which ``mask_mod`` is true
    everywhere. ``q_num_blocks``, ``q_indices``, ``full_q_num_blocks`` and ``full_q_indices`` describe the transposed
    mask. Use `from_kv_blocks` or `create_block_mask` to make one.

    Parameters
    ----------
    seq_lengths : pair of int
        Numbers of queries and keys.
    BLOCK_SIZE : pair of int
        Queries and keys per block. Default (128, 128).
    mask_mod : callable
        ``mask_mod(batch, head, query, key)`` tells whether a score is kept. Default: all are.
    dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt : optional
        Orders for a backward kernel. They are stored and otherwise unused.

    Raises
    ------
    RuntimeError
        If ``kv_indices`` has fewer than 2 dimensions.
    AssertionError
        If ``kv_num_blocks`` is missing, or numbers and indices of full blocks are not given together.
    ValueError
        If ``dq_write_order_full`` is given without ``dq_write_order``.
    """

    _TENSOR_ATTRS = list(_TENSORS)

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK, DEFAULT_BLOCK),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have at least 2 dimensions, got {kv_indices.dim()}")
        if kv_num_blocks is None:
            raise AssertionError("BlockMask: kv_num_blocks is needed")
        for one, other in ((full_kv_num_blocks, full_kv_indices), (full_q_num_blocks, full_q_indices)):
            if (one is None) != (other is None):
                raise AssertionError("BlockMask: numbers and indices of full blocks must be given together")
        if dq_write_order_full is not None and dq_write_order is None:
            raise ValueError("BlockMask: dq_write_order_full needs dq_write_order")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Any = None,
        dq_write_order_full: Any = None,
        dq_kv_order: Any = None,
    ) -> BlockMask:
        """Return a mask from its blocks by rows. The blocks by columns are computed if ``compute_q_blocks``."""
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have at least 2 dimensions, got {kv_indices.dim()}")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices must be given together")
        if dq_kv_order is not None and not isinstance(dq_kv_order, (bool, mt.Tensor)):
            raise ValueError(f"BlockMask: dq_kv_order must be a bool or a tensor, got {type(dq_kv_order).__name__}")
        q_num_blocks = q_indices = full_q_num_blocks = full_q_indices = None
        if compute_q_blocks:
            q_num_blocks, q_indices = _transposed(kv_num_blocks, kv_indices)
            if full_kv_indices is not None:
                full_q_num_blocks, full_q_indices = _transposed(full_kv_num_blocks, full_kv_indices)
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            q_num_blocks,
            q_indices,
            full_q_num_blocks,
            full_q_indices,
            BLOCK_SIZE=size,
            mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, mt.Tensor) else None,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return lengths, tensors, block sizes and mask function.

        Lengths and block sizes are pairs unless ``flatten``.
        """
        lengths: tuple[Any, ...] = tuple(self.seq_lengths) if flatten else (self.seq_lengths,)
        sizes: tuple[Any, ...] = tuple(self.BLOCK_SIZE) if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *(getattr(self, name) for name in _TENSORS), self.dq_kv_order_spt, *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mask: batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of elements of the dense mask."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of the mask that lies in skipped blocks."""
        blocks = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            blocks = blocks + self.full_kv_num_blocks.sum()
        return 100 * (1 - blocks.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Any:
        """Return an integer tensor (..., rows, columns) with 1 for blocks that are computed and 0 for the others."""
        width = self.kv_indices.shape[-1]
        dense = _dense(self.kv_num_blocks, self.kv_indices, width)
        if self.full_kv_num_blocks is None:
            return dense
        return dense | _dense(self.full_kv_num_blocks, self.full_kv_indices, width)

    def to(self, device: Any) -> BlockMask:
        """Return a copy of the mask with its tensors on ``device``."""
        moved = {name: None if getattr(self, name) is None else getattr(self, name).to(device) for name in _TENSORS}
        return BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, dq_kv_order_spt=self.dq_kv_order_spt
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """Return a slice by batches, heads and blocks of queries. An int index keeps its dimension.

        The result has no mask function. See `sliced_mask`.
        """
        given = (*(index if isinstance(index, tuple) else (index,)), slice(None), slice(None), slice(None))[:3]
        sizes = self.kv_num_blocks.shape[:3]
        where = tuple(
            (slice(i + n, i + n + 1) if -n <= i < 0 else slice(i, i + 1)) if isinstance(i, int) else i
            for i, n in zip(given, sizes, strict=True)
        )
        return self._changed(lambda counts, columns: (counts[where], columns[where]), sliced_mask, self.seq_lengths)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Return the upper left part of the mask, for the given numbers of queries and keys."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        width = -(-new_kv_len // self.BLOCK_SIZE[1])

        def cut(counts: Any, columns: Any) -> tuple[Any, Any]:
            counts, columns = counts[:, :, :rows], columns[:, :, :rows, :width]
            counts = mt.where(counts < width, counts, width)
            return (columns < counts[:, :, :, None]).sum(-1).to(mt.int32), columns

        return self._changed(cut, self.mask_mod, (new_q_len, new_kv_len))

    def _changed(self, change: Callable[[Any, Any], tuple[Any, Any]], mask_mod: MaskMod, seq_lengths: tuple[int, int]) -> BlockMask:
        if self.dq_kv_order is not None or self.dq_write_order is not None:
            raise NotImplementedError("BlockMask: a mask with an order for its backward pass cannot be changed")
        kv_num_blocks, kv_indices = change(self.kv_num_blocks, self.kv_indices)
        full_kv_num_blocks = full_kv_indices = None
        if self.full_kv_indices is not None:
            full_kv_num_blocks, full_kv_indices = change(self.full_kv_num_blocks, self.full_kv_indices)
        made = BlockMask.from_kv_blocks(
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=mask_mod,
            seq_lengths=seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )
        made.dq_kv_order_spt = self.dq_kv_order_spt
        return made

    # Text -----------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        lines = [
            f"{name}={None if getattr(self, name) is None else getattr(self, name).shape}" for name in _TENSORS[:8]
        ] + [
            f"BLOCK_SIZE={self.BLOCK_SIZE}",
            f"shape={self.shape}",
            f"sparsity={self.sparsity():.2f}%",
            f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]  # fmt: skip
        return "BlockMask(\n" + ",\n".join(f"    {line}" for line in lines) + "\n)"

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return a drawing of the blocks.

        Parameters
        ----------
        grid_size : int or pair of int
            Maximal rows and columns of the drawing. Default (20, 20).
        limit : int
            Maximal number of heads that are drawn. Default 4.
        """
        dense = self.to_dense()
        *batch, rows, columns = dense.shape
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [max(1, -(-size // limit_of)) for size, limit_of in zip((rows, columns), most, strict=True)]
        parts = []
        for count, index in enumerate(itertools.product(*map(range, batch))):
            if count == limit:
                parts += ["...", "BlockMask.to_string(limit=N) shows N of them,", "BlockMask[batch, head] one"]
                break
            parts.append(f"{index}\n" + _drawing(dense[index], rows, columns, *steps))
        return "\n".join(parts)


def _drawing(dense: Any, rows: int, columns: int, row_step: int, column_step: int) -> str:
    lines = []
    for row in range(0, rows, row_step):
        shares = [dense[row : row + row_step, at : at + column_step].float().mean().item() for at in range(0, columns, column_step)]
        lines.append("".join({1.0: "██", 0.0: "  "}.get(share, "░░") for share in shares) + "\n")
    return "".join(lines)
