"""Read boxes of stored tensors into tensors. Only the bytes of a box are read, if the file holds them in their final form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import metatensor as mt
from metatensor._core.storage_views import tensor_from_storage
from metatensor.autograd.graph import increment_version
from metatensor.checkpoint.boxes import Block, Box, overlap, reading_of
from metatensor.checkpoint.model import Piece
from metatensor.checkpoint.opening import Opened
from metatensor.checkpoint.reading import contiguous

__all__ = ["bytes_to_read", "read_block", "read_piece"]


def bytes_to_read(source: Opened, key: str, block: Block) -> Iterable[tuple[str, int]]:
    """Yield (file, number of bytes) for each stored array that `read_block` reads from."""
    for piece in source.pieces(key, block.box):
        common = overlap(piece.box, block.box)
        if common is None:
            continue
        info = piece.info
        size = getattr(mt, info.dtype).itemsize
        if piece.path is None:
            yield source.path_of(key), info.nbytes
        else:
            yield piece.path, reading_of(_within(common, piece), info.stride or contiguous(info.shape), size).numel * size


def read_block(source: Opened, key: str, block: Block, target: Any, step: Callable[[int], None] | None = None) -> None:
    """Read a block of the stored tensor ``key`` into ``target``, which may have another dtype.

    Parameters
    ----------
    source : Opened
        The checkpoint.
    key : str
        The tensor's name in the checkpoint.
    block : Block
        The elements, and where they belong in ``target``.
    target : Tensor
        A tensor with data, on any device.
    step : callable, optional
        It is called with numbers of bytes of the stored tensor that have been read. Their sum is the size of the block.
    """
    for piece in source.pieces(key, block.box):
        common = overlap(piece.box, block.box)
        if common is None:
            continue
        part = target
        for dim, (begin, size) in enumerate(zip(common.offsets, common.sizes)):
            start = begin - block.box.offsets[dim] + block.place[dim]
            if (start, size) != (0, target.shape[dim]):
                part = part.narrow(dim, start, size)
        read_piece(source, key, piece, _within(common, piece), part, step)


def _within(box: Box, piece: Piece) -> Box:
    """Return a box relative to the first element of a stored array."""
    return Box(tuple(a - b for a, b in zip(box.offsets, piece.box.offsets)), box.sizes)


def read_piece(
    source: Opened, key: str, piece: Piece, box: Box, target: Any, step: Callable[[int], None] | None = None
) -> None:  # fmt: skip
    """Read a box of a stored array into a tensor of the same shape."""
    info = piece.info
    stored = getattr(mt, info.dtype)
    size = stored.itemsize
    reading = reading_of(box, info.stride or contiguous(info.shape), size)

    def fill(tensor: Any, step: Callable[[int], None] | None) -> None:
        _fill(tensor, lambda memory: source.read_ranges(
            key, piece, reading.ranges(size), reading.length * size, memory, step,
        ))  # fmt: skip

    plain = reading.stride == contiguous(box.sizes) or _ordered(box.sizes, reading.stride)
    if plain and not info.lazy and stored == target.dtype and target.is_contiguous() and not (target.is_conj() or target.is_neg()):
        fill(target, step)
        if not target.is_inference():
            increment_version([target])
        if step is not None and piece.path is None:
            step(box.numel * size)
        return
    flat = mt.empty(reading.numel, dtype=stored, device=target.device)
    exact = step is not None and piece.path is not None and reading.numel == box.numel
    fill(flat, step if exact else None)
    whole = flat.as_strided(box.sizes, reading.stride)
    for what in info.lazy.split():
        whole = whole.conj() if what == "conj" else whole.neg()
    target.copy_(whole)
    if step is not None and not exact:
        step(box.numel * size)


def _ordered(sizes: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Return True if strides are those of a contiguous tensor, apart from dimensions of size 1."""
    return all(size == 1 or step == same for size, step, same in zip(sizes, stride, contiguous(sizes)))


def _fill(tensor: Any, read: Callable[[memoryview], None]) -> None:
    """Call ``read`` with the memory of a contiguous tensor, or with a buffer that is then copied to its device."""
    from metatensor.plugins import backend

    on = backend(tensor.device.type)
    nbytes = tensor.numel() * tensor.dtype.itemsize
    at = tensor.storage_offset() * tensor.dtype.itemsize
    raw = tensor_from_storage(tensor.untyped_storage(), mt.uint8, (nbytes,), (1,), at)
    try:
        memory = memoryview(on.numpy(raw))
    except TypeError:  # not in host memory
        buffer = bytearray(nbytes)
        read(memoryview(buffer))
        on.from_host(tensor, buffer)
        return
    read(memory)
