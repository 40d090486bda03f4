"""A model of PyTorch's caching allocator: its choice of blocks, and its requests and returns of memory.

The rules are those of PyTorch's notes on CUDA memory management. No memory is allocated; addresses are plain integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from metatensor.analysis.allocator.blocks import ALLOCATED, FREE, PENDING, UNMAPPED, Block, FreeBlocks, Pool, Segment
from metatensor.analysis.allocator.settings import LARGE_SEGMENT, MIN_BLOCK, SMALL, SMALL_SEGMENT, AllocatorSettings
from metatensor.devices.base import OutOfMemoryError

__all__ = ["CachingAllocator"]

ALIGNMENT = 2 << 20
"""Addresses of segments are multiples of this many bytes."""
ADDRESS_SPACE = 1 << 44
"""Size of the address range of an expandable segment if the capacity of the device is unknown, in bytes."""


class CachingAllocator:
    """The state of the allocator of one device.

    Parameters
    ----------
    settings : AllocatorSettings, optional
        Settings of the allocator. Default: PyTorch's defaults.
    capacity : int, optional
        Bytes that the driver can provide. Default: unlimited.
    place : callable, optional
        ``place(nbytes)`` returns the address of a new segment. By default, segments are placed one after another.

    Attributes
    ----------
    reserved, allocated, active, requested : int
        Bytes of all segments (``reserved``), of blocks in use (``allocated``), and of blocks in use or pending
        (``active``). ``requested`` is the sum of the requests, which is less than ``allocated`` because of rounding.
    segments : dict of int to Segment
        The segments by address.
    segments_requested, segments_returned, retries : int
        Number of requests to the driver (of page mappings for expandable segments), of returns to the driver, and of requests
        repeated after the cache was emptied.
    """

    def __init__(self, settings: AllocatorSettings | None = None, *, capacity: int | None = None,
                 place: Callable[[int], int] | None = None) -> None:  # fmt: skip
        self.settings = settings or AllocatorSettings()
        self.capacity = capacity
        self.segments: dict[int, Segment] = {}
        self.reserved = self.allocated = self.active = self.requested = 0
        self.segments_requested = self.segments_returned = self.retries = 0
        self._pools: dict[tuple[object, bool], Pool] = {}
        self._free: dict[tuple[object, bool, int], FreeBlocks] = {}
        self._pending: dict[int, Block] = {}
        self._place = place or self._following
        self._end = ALIGNMENT

    # Requests -----------------------------------------------------------------

    def allocate(self, nbytes: int, stream: int = 0, pool: object = None) -> Block:
        """Return a block for ``nbytes`` (at least 1). Raise `OutOfMemoryError` if the capacity does not suffice.

        ``pool`` is the id of a private pool, such as that of a CUDA graph. Its segments serve no other requests.
        """
        if nbytes <= 0:
            raise ValueError(f"a block must have at least one byte, got {nbytes}")
        size = self.settings.block_size(nbytes)
        free = self.free_blocks(pool, size <= SMALL, stream)
        free.pool.searches += 1
        block = self.best_fit(free, size)
        if block is None:
            block = self._new(free, size, nbytes)
        else:
            free.remove(block)
        return self.use(block, size, nbytes)

    def use(self, block: Block, size: int, nbytes: int) -> Block:
        """Mark a block as used. It must not be in a list of free blocks. Split off the remainder if the rules allow it."""
        remaining = block.size - size
        if remaining and self._splits(block, size, remaining):
            free = block.segment.free_blocks
            free.add(block.split(size, FREE))
        block.state = ALLOCATED
        block.requested = nbytes
        self.allocated += block.size
        self.active += block.size
        self.requested += nbytes
        return block

    def free(self, block: Block) -> None:
        """Return a block to the cache."""
        self.request_free(block)
        self.complete_free(block)

    def request_free(self, block: Block) -> None:
        """Free a block that another stream may still use. It is reused only after `complete_free`."""
        if block.state != ALLOCATED:
            raise ValueError(f"{block!r} is not in use")
        block.state = PENDING
        self.allocated -= block.size
        self.requested -= block.requested
        self._pending[block.address] = block

    def complete_free(self, block: Block) -> None:
        """Return a block to the cache after `request_free`."""
        if block.state != PENDING:
            raise ValueError(f"{block!r} is not waiting to be freed")
        del self._pending[block.address]
        self.active -= block.size
        block.state = FREE
        free = block.segment.free_blocks
        block.freed_at = free.pool.searches
        self._add_free(free, block)

    def empty_cache(self) -> None:
        """Return all whole segments and pages that are not in use to the driver."""
        for block in list(self._pending.values()):
            self.complete_free(block)
        for free in self._free.values():
            for address in [address for _, address in free.keys]:
                block = free.at[address]
                if block.segment.page:
                    self.unmap(block)
                elif block.previous is None and block.next is None:
                    self.give_back(block)

    # Free blocks --------------------------------------------------------------

    def free_blocks(self, pool_id: object, small: bool, stream: int) -> FreeBlocks:
        """Return the free blocks of a stream in a pool."""
        found = self._free.get((pool_id, small, stream))
        if found is None:
            pool = self._pools.setdefault((pool_id, small), Pool(pool_id, small))
            found = self._free[pool_id, small, stream] = FreeBlocks(pool, stream)
        return found

    def _add_free(self, free: FreeBlocks, block: Block) -> Block:
        """Merge a block with its free neighbours, and add it to the list of free blocks. Return the merged block."""
        before, after = block.previous, block.next
        if after is not None and after.state == FREE:
            free.remove(after)
            block.absorb_next()
        if before is not None and before.state == FREE:
            free.remove(before)
            before.absorb_next()
            block = before
        free.add(block)
        return block

    def _splits(self, block: Block, size: int, remaining: int) -> bool:
        """Return whether a request of ``size`` splits the block, if ``remaining`` bytes would be left over."""
        if block.segment.page or size <= SMALL:
            return remaining >= MIN_BLOCK
        limit = self.settings.max_split_size
        return remaining > SMALL and (limit is None or size < limit)

    def best_fit(self, free: FreeBlocks, size: int) -> Block | None:
        """Return the smallest usable free block of at least ``size`` bytes, the first of equal ones, or None."""
        keys = free.keys
        position = free.first_of(size)
        if position == len(keys):
            return None
        block = free.block(position)
        if block.segment.page:
            # A block before unmapped addresses counts with the size to which it can grow.
            while position + 1 < len(keys) and _growth(after := free.block(position + 1)) < _growth(block):
                block = after
                position += 1
            return block
        limit = self.settings.max_split_size
        if limit is not None:
            if size < limit <= block.size:
                return None
            if size >= limit and block.size >= size + self.settings.max_non_split_rounding:
                return None
        return block

    # Requests to the driver ---------------------------------------------------

    def _following(self, nbytes: int) -> int:
        address = self._end
        self._end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return address

    def _fits(self, nbytes: int) -> bool:
        return self.capacity is None or self.reserved + nbytes <= self.capacity

    def _new(self, free: FreeBlocks, size: int, nbytes: int) -> Block:
        """Return a new block of at least ``size`` bytes. If the driver has too little, return cached memory to it first."""
        self._collect_garbage(free.pool.id)
        block = self._request(free, size)
        if block is None:
            if self.settings.max_split_size is not None and self._return_oversize(free, size):
                block = self._request(free, size)
            if block is None:
                self.retries += 1
                self.empty_cache()
                block = self._request(free, size)
        if block is None:
            raise OutOfMemoryError(
                f"{nbytes:,} bytes are requested; {self.capacity:,} bytes in all, {self.reserved:,} reserved, of which {self.allocated:,} "
                f"are in use"
            )
        return block

    def _request(self, free: FreeBlocks, size: int) -> Block | None:
        """Request a block from the driver. Return it without adding it to a list, or None if there is too little memory."""
        if self.settings.expandable_segments:
            return self._expand(free, size)
        total = self.settings.segment_size(size)
        if not self._fits(total):
            return None
        return self.add_segment(free, self._place(total), total)

    def add_segment(self, free: FreeBlocks, address: int, total: int) -> Block:
        """Add a segment. Return its only block, which is not yet in a list of free blocks."""
        segment = Segment(address, total, free)
        segment.first = block = Block(address, total, segment)
        self.segments[address] = segment
        self.reserved += total
        self.segments_requested += 1
        return block

    def give_back(self, block: Block) -> None:
        """Return a segment to the driver. It must consist of the given free block only."""
        segment = block.segment
        segment.free_blocks.remove(block)
        del self.segments[segment.address]
        self.reserved -= segment.size
        self.segments_returned += 1

    def _return_oversize(self, free: FreeBlocks, size: int) -> bool:
        """Return oversize cached blocks to the driver: the smallest one that is large enough, else the largest ones.

        Oversize blocks are those that are never split because of ``max_split_size``. Return whether they cover
        ``size``.
        """
        needed = max(size, self.settings.max_split_size or 0)
        whole = [block for _, address in free.keys if not (block := free.at[address]).segment.page]
        enough = [block for block in whole if block.size >= needed]
        if enough:
            if enough[0].previous is None and enough[0].next is None:
                self.give_back(enough[0])
                return True
            return False
        returned = 0
        for block in reversed(whole):
            if block.size < (self.settings.max_split_size or 0) or returned >= needed:
                break
            if block.previous is None and block.next is None:
                returned += block.size
                self.give_back(block)
        return returned >= needed

    def _collect_garbage(self, pool_id: object) -> None:
        """If reserved memory is above the threshold, return whole cached segments of the large pool to the driver.

        Each round returns the segments of at least average age.
        """
        threshold = self.settings.garbage_collection_threshold
        if not threshold or self.capacity is None:
            return
        excess = self.reserved - int(threshold * self.capacity)
        pool = self._pools.get((pool_id, False))
        while excess > 0 and pool is not None:
            whole = [block for free in self._free.values() if free.pool is pool for block in free.at.values()
                     if block.previous is None and block.next is None and not block.segment.page]  # fmt: skip
            if not whole:
                return
            average = sum(pool.searches - block.freed_at for block in whole) / len(whole)
            for block in whole:
                if excess > 0 and pool.searches - block.freed_at >= average:
                    excess -= block.size
                    self.give_back(block)

    # Expandable segments ------------------------------------------------------

    def _expand(self, free: FreeBlocks, size: int) -> Block | None:
        """Map pages after a free block, or in a new range of addresses, to obtain a free block of ``size`` bytes."""
        start = self.room(free, size)
        if start is None:
            page = SMALL_SEGMENT if free.pool.small else LARGE_SEGMENT
            if not self._fits(-(-size // page) * page):
                return None
            space = self.capacity + self.capacity // 8 if self.capacity is not None else ADDRESS_SPACE
            space = -(-max(space, size) // page) * page
            segment = Segment(self._place(space), 0, free, page)
            segment.first = start = Block(segment.address, space, segment, UNMAPPED)
            self.segments[segment.address] = segment
            free.unmapped[start.address] = start
        available = start.size if start.state == FREE else 0
        unmapped = start if start.state == UNMAPPED else start.next
        page = start.segment.page
        while available < size:
            assert unmapped is not None
            if unmapped.state == UNMAPPED:
                nbytes = min(-(-(size - available) // page) * page, unmapped.size)
                if not self._fits(nbytes):
                    return None
                start = self.map(unmapped, nbytes)
                available, unmapped = start.size, start.next
            else:  # pragma: no cover - free neighbours are joined
                raise AssertionError
        free.remove(start)
        return start

    def room(self, free: FreeBlocks, size: int) -> Block | None:
        """Return the first free or unmapped block that starts a range of ``size`` bytes of unused addresses."""
        for address in sorted(free.unmapped):
            first = free.unmapped[address]
            if first.previous is not None and first.previous.state == FREE:
                first = first.previous
            available, block = 0, first
            while block is not None and block.state in (FREE, UNMAPPED) and available < size:
                available += block.size
                block = block.next  # type: ignore[assignment]
            if available >= size:
                return first
        return None

    def map(self, block: Block, nbytes: int) -> Block:
        """Map pages at the start of an unmapped block. Return the free block that contains them."""
        free = block.segment.free_blocks
        del free.unmapped[block.address]
        if nbytes < block.size:
            rest = block.split(nbytes, UNMAPPED)
            free.unmapped[rest.address] = rest
        block.state = FREE
        block.freed_at = free.pool.searches
        block.segment.size += nbytes
        self.reserved += nbytes
        self.segments_requested += 1
        return self._add_free(free, block)

    def unmap(self, block: Block) -> None:
        """Return the pages that lie entirely inside a free block to the driver."""
        segment = block.segment
        free = segment.free_blocks
        begin, end = _pages(block)
        if begin >= end:
            return
        free.remove(block)
        if begin > block.address:
            rest = block.split(begin - block.address, FREE)
            free.add(block)
            block = rest
        if end < block.address + block.size:
            free.add(block.split(end - block.address, FREE))
        segment.size -= block.size
        self.reserved -= block.size
        self.segments_returned += 1
        block.state = UNMAPPED
        if block.next is not None and block.next.state == UNMAPPED:
            del free.unmapped[block.next.address]
            block.absorb_next()
        if block.previous is not None and block.previous.state == UNMAPPED:
            block = block.previous
            block.absorb_next()
        free.unmapped[block.address] = block
        if block.previous is None and block.next is None:
            del free.unmapped[block.address]
            del self.segments[segment.address]

    # Figures ------------------------------------------------------------------

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks in the order of segments and addresses, including unmapped ones."""
        for segment in self.segments.values():
            yield from segment.blocks()

    @property
    def split(self) -> int:
        """Free bytes that cannot be returned to the driver, because a part of their segment or page is in use."""
        total = 0
        for free in self._free.values():
            for block in free.at.values():
                if block.segment.page:
                    begin, end = _pages(block)
                    total += block.size - max(end - begin, 0)
                elif block.previous is not None or block.next is not None:
                    total += block.size
        return total


def _growth(block: Block) -> int:
    """Return the size of a block together with the unmapped addresses after it."""
    after = block.next
    return block.size + (after.size if after is not None and after.state == UNMAPPED else 0)


def _pages(block: Block) -> tuple[int, int]:
    """Return the start and end of the whole pages inside a block. The end may be less than the start if there are none."""
    base, page = block.segment.address, block.segment.page
    return -(-(block.address - base) // page) * page + base, (block.address + block.size - base) // page * page + base
