"""Helpers shared by the readers of simple formats: items, header parsing, and names of files in the same folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from metatensor.checkpoint.errors import CheckpointError
from metatensor.checkpoint.model import TensorInfo
from metatensor.checkpoint.source import Source

if TYPE_CHECKING:
    from metatensor import Tensor
    from metatensor.checkpoint.map_location import Places

__all__ = ["MAX_DIMS", "Item", "Window", "beside", "contiguous", "counted", "json_integer", "materialise", "must_be_found", "resolved",
           "row_major", "shown", "span"]  # fmt: skip

MAX_DIMS = 64
MAX_INT = 2**63 - 1


class Item(NamedTuple):
    """A tensor to create."""

    name: str
    dtype: str
    """Name of a dtype of metatensor."""
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    """Strides in elements, without gaps between elements. None means contiguous."""
    fetch: Callable[[], Any]
    """Returns the bytes in memory order, in the machine's byte order."""
    place: tuple[Source, int] | None = None
    """Source and offset of the bytes, if the file holds them in their final form."""


def materialise(items: Iterable[Item], place: Places) -> dict[str, Tensor]:
    """Create the tensors on the device that ``place`` maps "cpu" to. On meta, no bytes are fetched."""
    import metatensor as mt

    target = place("cpu")
    backend = None
    if target.type != "meta":
        from metatensor import plugins
        from metatensor.checkpoint.filling import read_tensor

        backend = plugins.backend(target.type)
    tensors = {}
    for name, kind, shape, stride, fetch, lies in items:
        dtype = getattr(mt, kind)
        if stride is None:
            tensor = flat = mt.empty(shape, dtype=dtype, device=target)
        else:
            flat = mt.empty(prod(shape), dtype=dtype, device=target)
            tensor = flat.as_strided(shape, stride)
        if backend is not None and flat.numel():
            if lies is not None:
                read_tensor(*lies, flat, backend)
            else:
                backend.from_host(flat, fetch())
        tensors[name] = tensor
    return tensors


def counted(file: str, tensor: str, shape: Iterable[int], bits: int) -> int:
    """Return the size in bytes of a tensor with ``bits`` bits per element.

    Raise `CheckpointError` if it exceeds 2**63 - 1.
    """
    sizes = tuple(shape)
    if len(sizes) > MAX_DIMS:
        raise CheckpointError(file, f"tensor {shown(tensor)}: a shape of {len(sizes):,} dimensions; at most {MAX_DIMS} are supported")
    for size in sizes:
        if not 0 <= size <= MAX_INT:
            raise CheckpointError(file, f"tensor {shown(tensor)}: the size {shown(size)} in its shape is not in "
                                        "the range from 0 to 2**63 - 1")
    # The product of the nonzero sizes must fit as well, because strides are computed from it.
    if prod(size for size in sizes if size) * max(bits, 8) > MAX_INT * 8:
        raise CheckpointError(file, f"tensor {shown(tensor)}: its shape {shown(list(sizes))} needs more than 2**63 - 1 bytes")
    return (prod(sizes) * bits + 7) // 8


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def span(shape: tuple[int, ...], stride: tuple[int, ...] | None) -> int:
    """Return the number of elements from the first to the last in memory, inclusive."""
    if stride is None or 0 in shape:
        return prod(shape)
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride))


def row_major(data: Any, info: TensorInfo) -> Any:
    """Return the elements of a strided tensor in row-major order."""
    assert info.stride is not None
    size = info.nbytes // prod(info.shape)
    try:
        import numpy as np
    except ModuleNotFoundError:
        return _row_major(memoryview(data).cast("B"), info.shape, info.stride, size)
    # Each element is a row of bytes. Dimensions of size 1 are dropped, because older NumPy allows 32 dimensions.
    dims = [(extent, step * size) for extent, step in zip(info.shape, info.stride) if extent != 1]
    if len(dims) > 31:
        return _row_major(memoryview(data).cast("B"), info.shape, info.stride, size)
    flat = np.frombuffer(data, np.uint8)
    view = np.lib.stride_tricks.as_strided(flat, [extent for extent, _ in dims] + [size], [step for _, step in dims] + [1], writeable=False)
    return np.ascontiguousarray(view).data.cast("B")


def _row_major(view: memoryview, shape: tuple[int, ...], stride: tuple[int, ...], size: int) -> bytearray:
    """Implement `row_major` without NumPy, one run of elements at a time."""
    total = prod(shape) * size
    out = bytearray(total)
    inner, step = shape[-1], stride[-1]
    outer, steps = shape[:-1], stride[:-1]
    at = 0
    index = [0] * len(outer)
    begin = 0
    while at < total:
        if step == 1:
            out[at : at + inner * size] = view[begin * size : (begin + inner) * size]
        else:
            stop = (begin + (inner - 1) * step + 1) * size
            for byte in range(size):
                out[at + byte : at + inner * size : size] = view[begin * size + byte : stop : max(step, 1) * size] if step else (
                    bytes(view[begin * size + byte : begin * size + byte + 1]) * inner
                )  # fmt: skip
        at += inner * size
        for dim in range(len(outer) - 1, -1, -1):
            index[dim] += 1
            begin += steps[dim]
            if index[dim] < outer[dim]:
                break
            begin -= index[dim] * steps[dim]
            index[dim] = 0
    return out


def resolved(data: Any, info: TensorInfo, file: str) -> Any:
    """Return a tensor's bytes with the conjugation and negation of its `lazy` field applied."""
    if not info.lazy or not info.nbytes:
        return data
    if not info.dtype.startswith(("float", "bfloat", "complex")):
        raise CheckpointError(file, f"a tensor of {info.dtype} is the negative of its bytes, which is not defined for that dtype")
    size = info.nbytes // prod(info.shape)
    width = size // 2 if info.dtype.startswith("complex") else size
    turned = {"neg": range(0, size, width), "conj": (width,), "conj neg": (0,)}[info.lazy]
    out = bytearray(data)
    for begin in turned:
        top = begin + (width - 1 if sys.byteorder == "little" else 0)
        out[top::size] = out[top::size].translate(_TURNED)
    return out


_TURNED = bytes(byte ^ 0x80 for byte in range(256))


class Window:
    """Reads a header piece by piece from ``at`` up to ``end``, in blocks that grow while reads are sequential.

    ``limit`` bounds the total number of bytes returned, so that reading a hostile header ends.
    """

    SMALL, LARGE = 1 << 10, 1 << 16

    def __init__(self, source: Source, at: int = 0, end: int | None = None, limit: int = 1 << 28) -> None:
        self.source = source
        self.at = at
        self.end = source.size if end is None else end
        self.left = limit
        self._block = b""
        self._begin = 0
        self._size = self.SMALL

    def take(self, count: int, what: str = "the header") -> bytes:
        """Return the next ``count`` bytes. Raise `CheckpointError` if fewer are left."""
        at = self.at
        begin = at - self._begin
        if begin < 0 or begin + count > len(self._block):
            self.need(count, what)
            self._size = min(2 * self._size, self.LARGE) if 0 <= begin <= len(self._block) else self.SMALL
            self._block = self.source.read(at, min(max(count, self._size), self.end - at), what)
            self._begin = at
            begin = 0
        self.at = at + count
        self.left -= count
        if self.left < 0:
            raise CheckpointError(self.source.name, "the header exceeds the size limit")
        return self._block[begin : begin + count]

    def need(self, count: int, what: str = "the header") -> None:
        """Raise `CheckpointError` unless ``count`` more bytes are left."""
        if count < 0 or self.at + count > self.end:
            raise CheckpointError(
                self.source.name,
                f"truncated or damaged: {what} at byte {self.at:,} needs {count:,} bytes, but {max(self.end - self.at, 0):,} are left",
            )

    def skip(self, count: int, what: str = "the header") -> None:
        """Skip ``count`` bytes without reading them."""
        self.need(count, what)
        self.at += count


def must_be_found(file: BinaryIO, name: str, what: str) -> None:
    """Raise `CheckpointError` unless ``name`` is the path of the open file, because its folder is needed."""
    try:
        found = os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except (AttributeError, OSError, ValueError):
        found = False
    if not found:
        raise CheckpointError(name, f"it refers to {what} beside it; give its path, not an open file")


def beside(file: str, name: Any, what: str) -> str:
    """Return the path of the file called ``name`` in the folder of ``file``.

    Raise `CheckpointError` if ``name`` is not a plain file name or the file is missing.

    Symbolic links are allowed: download caches consist of them, and whoever can create a link could create the file
    itself.
    """
    plain = isinstance(name, str) and name not in ("", ".", "..") and not any(c in name for c in '/\\:\0')
    if not plain or len(name) > 255:
        raise CheckpointError(file, f"{what} {shown(name)} is not the plain name of a file in the same folder")
    path = os.path.join(os.path.dirname(file), name)
    if not os.path.isfile(path):
        raise CheckpointError(file, f"{what} {shown(name)} is missing: there is no file {path!r}")
    return path


def json_integer(text: str) -> int:
    """Return the integer in a JSON text. Raise ValueError for a very long one, whose conversion would take time."""
    if len(text) > 4300:
        raise ValueError(f"a number has {len(text):,} digits")
    return int(text)


def shown(value: Any) -> str:
    """Return a value from a file as short text for a message."""
    if isinstance(value, int) and value.bit_length() > 80:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value[:101]) if isinstance(value, (str, bytes, list, tuple)) else repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
