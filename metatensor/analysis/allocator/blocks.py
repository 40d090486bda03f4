"""Blocks of device memory, the segments that contain them, and lists of free blocks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

__all__ = ["ALLOCATED", "FREE", "PENDING", "UNMAPPED", "Block", "FreeBlocks", "Pool", "Segment"]

FREE, ALLOCATED, PENDING, UNMAPPED = range(4)
"""States of a block. PENDING: freed, but another stream may still use it. UNMAPPED: addresses without memory."""


class Segment:
    """Memory that the driver provided in one piece. If ``page`` is not 0, a range of addresses to which pages are added."""

    __slots__ = ("address", "first", "free_blocks", "page", "size")

    def __init__(self, address: int, size: int, free_blocks: FreeBlocks, page: int = 0) -> None:
        self.address = address
        self.size = size  # bytes of memory; for an expandable segment, the mapped bytes
        self.free_blocks = free_blocks
        self.page = page
        self.first: Block

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in the order of addresses."""
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.next


class Block:
    """A range of addresses inside a segment. The blocks of a segment are a linked list without gaps."""

    __slots__ = ("address", "freed_at", "next", "previous", "requested", "segment", "size", "state")

    def __init__(self, address: int, size: int, segment: Segment, state: int = FREE) -> None:
        self.address = address
        self.size = size
        self.segment = segment
        self.state = state
        self.requested = 0
        self.freed_at = 0
        self.previous: Block | None = None
        self.next: Block | None = None

    def __repr__(self) -> str:
        return f"<Block {self.size:,} bytes at {self.address:#x}, {('free', 'allocated', 'pending', 'unmapped')[self.state]}>"

    def split(self, size: int, state: int) -> Block:
        """Shorten this block to ``size`` bytes. Return the remainder as a new block in ``state``."""
        rest = Block(self.address + size, self.size - size, self.segment, state)
        rest.previous = self
        rest.next = self.next
        rest.freed_at = self.freed_at
        if self.next is not None:
            self.next.previous = rest
        self.next = rest
        self.size = size
        return rest

    def absorb_next(self) -> None:
        """Merge the next block into this one."""
        after = self.next
        assert after is not None
        self.size += after.size
        self.freed_at = max(self.freed_at, after.freed_at)
        self.next = after.next
        if after.next is not None:
            after.next.previous = self


class Pool:
    """A pool: the small blocks, or the large blocks, of all streams."""

    __slots__ = ("id", "searches", "small")

    def __init__(self, id: object, small: bool) -> None:
        self.id = id
        self.small = small
        self.searches = 0  # number of requests for a block so far, which measures the age of free blocks


class FreeBlocks:
    """The free blocks of one pool and stream, sorted by size, then address."""

    __slots__ = ("at", "keys", "pool", "stream", "unmapped")

    def __init__(self, pool: Pool, stream: int) -> None:
        self.pool = pool
        self.stream = stream
        self.keys: list[tuple[int, int]] = []
        self.at: dict[int, Block] = {}
        self.unmapped: dict[int, Block] = {}

    def add(self, block: Block) -> None:
        """Add a block."""
        insort(self.keys, (block.size, block.address))
        self.at[block.address] = block

    def remove(self, block: Block) -> None:
        """Remove a block, whose size must not have changed since it was added."""
        keys = self.keys
        del keys[bisect_left(keys, (block.size, block.address))]
        del self.at[block.address]

    def first_of(self, size: int) -> int:
        """Return the position of the smallest block of at least this size."""
        return bisect_left(self.keys, (size, 0))

    def block(self, position: int) -> Block:
        """Return the block at a position of `keys`."""
        return self.at[self.keys[position][1]]
