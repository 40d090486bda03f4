"""Sequences of different lengths as one tensor: padded to the longest, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import metatensor as mt
from metatensor.nn._conversion import _parse_to

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: mt.Tensor
    batch_sizes: mt.Tensor
    sorted_indices: mt.Tensor | None
    unsorted_indices: mt.Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, without padding; made by `pack_padded_sequence` and `pack_sequence`.

    Attributes:
        data: (elements, ...), the first elements of all sequences, longest sequence first, then the second ones, ...
        batch_sizes: how many sequences have so many elements, int64 on the cpu whatever the device of ``data``.
        sorted_indices: how the sequences were reordered, or None.
        unsorted_indices: the order back.

    ValueError where ``batch_sizes`` is not on the cpu.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: mt.Tensor | None = None,
        sorted_indices: mt.Tensor | None = None,
        unsorted_indices: mt.Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("PackedSequence: without batch_sizes, data must be a pair (data, batch_sizes)")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(f"PackedSequence: batch_sizes must be on the cpu, not on {batch_sizes.device}")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """With ``data`` moved or converted as by `Tensor.to`; the indices follow to the device, batch sizes stay."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        _, _, non_blocking, memory_format = _parse_to(*args, **{k: v for k, v in kwargs.items() if k != "copy"})
        format = {} if memory_format is None else {"memory_format": memory_format}
        return self._with(data, lambda t: t.to(data.device, non_blocking=non_blocking, **format))

    def _with(self, data: mt.Tensor, convert: Any) -> Self:
        indices = (None if t is None else convert(t) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> Self:
        """With ``data`` and the indices in pinned memory."""
        data: Any = self.data
        return self._with(data.pin_memory(), lambda t: t.pin_memory())

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a CUDA device, the current one where none is given."""
        return self._move("cuda", args, kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Move to the cpu."""
        return self._move("cpu", args, kwargs)

    def _move(self, type: str, args: tuple, kwargs: dict[str, Any]) -> Self:
        device = _parse_to(*args, **kwargs)[0]
        if device is None and self.data.device.type == type:
            return self.to(*args, **kwargs)
        return self.to(*args, **(kwargs if device is not None and device.type == type else {**kwargs, "device": type}))

    def double(self) -> Self:
        """With ``data`` as float64."""
        return self.to(dtype=mt.float64)

    def float(self) -> Self:
        """With ``data`` as float32."""
        return self.to(dtype=mt.float32)

    def half(self) -> Self:
        """With ``data`` as float16."""
        return self.to(dtype=mt.float16)

    def long(self) -> Self:
        """With ``data`` as int64."""
        return self.to(dtype=mt.int64)

    def int(self) -> Self:
        """With ``data`` as int32."""
        return self.to(dtype=mt.int32)

    def short(self) -> Self:
        """With ``data`` as int16."""
        return self.to(dtype=mt.int16)

    def char(self) -> Self:
        """With ``data`` as int8."""
        return self.to(dtype=mt.int8)

    def byte(self) -> Self:
        """With ``data`` as uint8."""
        return self.to(dtype=mt.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether ``data`` is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether ``data`` is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: mt.Tensor | None) -> mt.Tensor | None:
    """The permutation that undoes another; None of None."""
    if permutation is None:
        return None
    order = mt.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return mt.empty_like(permutation, memory_format=mt.contiguous_format).scatter_(0, permutation, order)


def _as_lengths(lengths: Any, function: str) -> list[int]:
    """Lengths given as a tensor or as numbers; their values are needed, so a meta tensor will not do."""
    if isinstance(lengths, mt.Tensor):
        if lengths.dim() != 1:
            raise RuntimeError(f"{function}: lengths must be a vector, got shape {list(lengths.shape)}")
        return [int(n) for n in lengths.tolist()]
    return [int(n) for n in lengths]


def _runs(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Decreasing lengths as (first step, last step, sequences that have these steps)."""
    runs, step = [], 0
    for n in range(len(lengths), 0, -1):
        if lengths[n - 1] > step:
            runs.append((step, lengths[n - 1], n))
            step = lengths[n - 1]
    return runs


def pack_padded_sequence(
    input: mt.Tensor, lengths: mt.Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences (time, batch, ...), or (batch, time, ...) with ``batch_first``, that have these lengths.

    With ``enforce_sorted`` the lengths must decrease; else the sequences are ordered by length first. RuntimeError
    where the lengths do not fit the input, are not positive, or are not in order.
    """
    name = "pack_padded_sequence"
    sizes = _as_lengths(lengths, name)
    batch_dim = 0 if batch_first else 1
    indices = None
    if not enforce_sorted:
        order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        sizes = [sizes[i] for i in order]
        indices = mt.tensor(order, dtype=mt.int64, device=input.device)
        input = input.index_select(batch_dim, indices)
    if batch_first:
        input = input.transpose(0, 1)
    if not input.numel():
        raise RuntimeError(f"{name}: an empty input, of shape {list(input.shape)}, cannot be packed")
    if len(sizes) != input.shape[1]:
        raise RuntimeError(f"{name}: got {len(sizes)} lengths for a batch of {input.shape[1]}")
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError(f"{name}: lengths must decrease, got {sizes}; enforce_sorted=False sorts them")
    if sizes[-1] <= 0 or sizes[0] > input.shape[0]:
        raise RuntimeError(f"{name}: lengths must lie between 1 and {input.shape[0]}, got {sizes}")
    runs = _runs(sizes)
    data = mt.cat([input[start:end, :n].reshape(-1, *input.shape[2:]) for start, end, n in runs])
    counts = [n for start, end, n in runs for _ in range(end - start)]
    return PackedSequence(data, mt.tensor(counts, dtype=mt.int64, device="cpu"), indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[mt.Tensor, mt.Tensor]:
    """The padded sequences (time, batch, ...), in their first order, and their lengths, int64 on the cpu.

    ``total_length`` is how far to pad instead of to the longest; ValueError where that is too short. The lengths are
    on meta, without values, where the order is.
    """
    counts = _as_lengths(sequence.batch_sizes, "pad_packed_sequence")
    time = len(counts) if total_length is None else total_length
    if time < len(counts):
        raise ValueError(f"pad_packed_sequence: total_length={total_length} is less than the longest, {len(counts)}")
    sizes = [sum(n > i for n in counts) for i in range(counts[0])]
    output = mt.full(
        (time, counts[0], *sequence.data.shape[1:]), padding_value, dtype=sequence.data.dtype, device=sequence.data.device
    )
    first = 0
    for start, end, n in _runs(sizes):
        last = first + (end - start) * n
        output[start:end, :n] = sequence.data[first:last].view(end - start, n, *sequence.data.shape[1:])
        first = last
    lengths = mt.tensor(sizes, dtype=mt.int64, device="cpu")
    if batch_first:
        output = output.transpose(0, 1)
    if sequence.unsorted_indices is None:
        return output, lengths
    back = sequence.unsorted_indices
    lengths = lengths.to("meta") if back.is_meta else lengths
    return output.index_select(0 if batch_first else 1, back), lengths[back.to(lengths.device)]


def pad_sequence(
    sequences: mt.Tensor | list[mt.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> mt.Tensor:
    """Sequences (length, ...) padded to the longest: (time, batch, ...), or (batch, time, ...) with ``batch_first``.

    RuntimeError for no sequences, for another ``padding_side`` than "left" and "right", and where the trailing
    dimensions differ.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: expected an iterable of tensors, got {type(sequences).__name__}")
    tensors = list(sequences)
    if not tensors:
        raise RuntimeError("pad_sequence: expected at least one sequence")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be 'left' or 'right', not {padding_side!r}")
    first = tensors[0]
    time, rest = max(t.size(0) for t in tensors), first.shape[1:]
    shape = (len(tensors), time, *rest) if batch_first else (time, len(tensors), *rest)
    output = mt.full(shape, padding_value, dtype=first.dtype, device=first.device)
    for i, tensor in enumerate(tensors):
        start = time - tensor.shape[0] if padding_side == "left" else 0
        output.select(0 if batch_first else 1, i).narrow(0, start, tensor.shape[0]).copy_(tensor)
    return output


def unpad_sequence(
    padded_sequences: mt.Tensor, lengths: mt.Tensor, batch_first: bool = False
) -> list[mt.Tensor]:
    """The sequences, without padding at the end, of a tensor as `pad_sequence` makes it."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    sizes = _as_lengths(lengths, "unpad_sequence")
    if len(sizes) != padded_sequences.shape[0]:
        raise ValueError(f"unpad_sequence: got {len(sizes)} lengths for a batch of {padded_sequences.shape[0]}")
    return [sequence[: max(n, 0)].clone() for sequence, n in zip(padded_sequences, sizes)]


def pack_sequence(sequences: list[mt.Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (length, ...). See `pack_padded_sequence`."""
    return pack_padded_sequence(pad_sequence(sequences), [t.shape[0] for t in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[mt.Tensor]:
    """The sequences of a `PackedSequence`, in their first order."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
