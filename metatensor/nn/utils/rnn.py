"""Padded and packed sequences of different lengths."""

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
    """Sequences of different lengths in one tensor, without padding.

    Create one with `pack_padded_sequence` or `pack_sequence`. The sequences are sorted by decreasing length.

    Parameters
    ----------
    data : Tensor
        Shape (total length, ...): the first elements of all sequences, then the second elements, and so on.
    batch_sizes : Tensor
        For each step, the number of sequences that are long enough to have it. int64, on the CPU.
    sorted_indices : Tensor, optional
        Indices that sort the sequences, or None if they were sorted already.
    unsorted_indices : Tensor, optional
        Indices that restore the original order. Default: the inverse of ``sorted_indices``.

    Raises
    ------
    ValueError
        If ``batch_sizes`` is not on the CPU.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([mt.ones(3, device="cpu"), mt.zeros(2, device="cpu")])
    >>> packed.data, packed.batch_sizes
    (tensor([1., 0., 1., 0., 1.]), tensor([2, 2, 1]))
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
        """Return a copy with ``data`` moved or converted as by `Tensor.to`.

        The indices are moved to the same device. ``batch_sizes`` stays on the CPU.
        """
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
        """Return a copy with ``data`` and indices in pinned memory."""
        data: Any = self.data
        return self._with(data.pin_memory(), lambda t: t.pin_memory())

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Return a copy on a CUDA device, by default the current one."""
        return self._move("cuda", args, kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Return a copy on the CPU."""
        return self._move("cpu", args, kwargs)

    def _move(self, type: str, args: tuple, kwargs: dict[str, Any]) -> Self:
        device = _parse_to(*args, **kwargs)[0]
        if device is None and self.data.device.type == type:
            return self.to(*args, **kwargs)
        return self.to(*args, **(kwargs if device is not None and device.type == type else {**kwargs, "device": type}))

    def double(self) -> Self:
        """Return a copy with ``data`` converted to float64."""
        return self.to(dtype=mt.float64)

    def float(self) -> Self:
        """Return a copy with ``data`` converted to float32."""
        return self.to(dtype=mt.float32)

    def half(self) -> Self:
        """Return a copy with ``data`` converted to float16."""
        return self.to(dtype=mt.float16)

    def long(self) -> Self:
        """Return a copy with ``data`` converted to int64."""
        return self.to(dtype=mt.int64)

    def int(self) -> Self:
        """Return a copy with ``data`` converted to int32."""
        return self.to(dtype=mt.int32)

    def short(self) -> Self:
        """Return a copy with ``data`` converted to int16."""
        return self.to(dtype=mt.int16)

    def char(self) -> Self:
        """Return a copy with ``data`` converted to int8."""
        return self.to(dtype=mt.int8)

    def byte(self) -> Self:
        """Return a copy with ``data`` converted to uint8."""
        return self.to(dtype=mt.uint8)

    @property
    def is_cuda(self) -> bool:
        """True if ``data`` is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Return True if ``data`` is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: mt.Tensor | None) -> mt.Tensor | None:
    """Return the inverse of a permutation, or None for None."""
    if permutation is None:
        return None
    order = mt.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return mt.empty_like(permutation, memory_format=mt.contiguous_format).scatter_(0, permutation, order)


def _as_lengths(lengths: Any, function: str) -> list[int]:
    """Return lengths as a list of int. Raise an error for a meta tensor, which has no values."""
    if isinstance(lengths, mt.Tensor):
        if lengths.dim() != 1:
            raise RuntimeError(f"{function}: lengths must be a vector, got shape {list(lengths.shape)}")
        return [int(n) for n in lengths.tolist()]
    return [int(n) for n in lengths]


def _runs(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return runs of steps with the same number of sequences: tuples (first step, end step, number of sequences).

    ``lengths`` must be sorted in decreasing order.
    """
    runs, step = [], 0
    for n in range(len(lengths), 0, -1):
        if lengths[n - 1] > step:
            runs.append((step, lengths[n - 1], n))
            step = lengths[n - 1]
    return runs


def pack_padded_sequence(
    input: mt.Tensor, lengths: mt.Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences into a `PackedSequence`.

    Parameters
    ----------
    input : Tensor
        Padded sequences (T, N, ...), or (N, T, ...) if ``batch_first``.
    lengths : Tensor or list of int
        Lengths of the sequences, (N,).
    batch_first : bool
        Whether N is the first dimension. Default False.
    enforce_sorted : bool
        Require that lengths decrease (the default) instead of sorting the sequences.

    Raises
    ------
    RuntimeError
        If the input is empty, or ``lengths`` does not match it, is not positive or, with ``enforce_sorted``, increases.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.rnn import pack_padded_sequence
    >>> pack_padded_sequence(mt.empty(5, 2, 8), [5, 3]).data.shape
    metatensor.Size([8, 8])
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
    """Return padded sequences and their lengths, in the order before packing.

    Parameters
    ----------
    sequence : PackedSequence
        Sequences.
    batch_first : bool
        Return shape (N, T, ...) instead of (T, N, ...). Default False.
    padding_value : float
        Value of the padding. Default 0.
    total_length : int, optional
        Length T to pad to. Default: the longest length.

    Returns
    -------
    padded : Tensor
        Shape (T, N, ...) or (N, T, ...).
    lengths : Tensor
        Lengths, int64 (N,) on the CPU. If ``unsorted_indices`` is on meta, the lengths are on meta too, without values.

    Raises
    ------
    ValueError
        If ``total_length`` is less than the longest length.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    >>> padded, lengths = pad_packed_sequence(pack_padded_sequence(mt.empty(5, 2, 8), [5, 3]))
    >>> padded.shape, lengths
    (metatensor.Size([5, 2, 8]), tensor([5, 3]))
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
    """Return sequences padded to the longest length in one tensor, (T, N, ...) or (N, T, ...).

    Parameters
    ----------
    sequences : iterable of Tensor
        Sequences of shape (length, ...).
    batch_first : bool
        Return shape (N, T, ...). Default False.
    padding_value : float
        Value of the padding. Default 0.
    padding_side : str
        "right" (the default) or "left".

    Raises
    ------
    RuntimeError
        If there are no sequences, ``padding_side`` is another string, or the other dimensions differ.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.rnn import pad_sequence
    >>> pad_sequence([mt.ones(3, device="cpu"), mt.ones(1, device="cpu")], batch_first=True)
    tensor([[1., 1., 1.],
            [1., 0., 0.]])
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
    """Return the sequences of a padded tensor as a list, without the padding at the end.

    Parameters
    ----------
    padded_sequences : Tensor
        Shape (T, N, ...), or (N, T, ...) if ``batch_first``.
    lengths : Tensor
        Lengths of the sequences, (N,).
    batch_first : bool
        Whether N is the first dimension. Default False.

    Raises
    ------
    ValueError
        If the number of lengths is not N.
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    sizes = _as_lengths(lengths, "unpad_sequence")
    if len(sizes) != padded_sequences.shape[0]:
        raise ValueError(f"unpad_sequence: got {len(sizes)} lengths for a batch of {padded_sequences.shape[0]}")
    return [sequence[: max(n, 0)].clone() for sequence, n in zip(padded_sequences, sizes)]


def pack_sequence(sequences: list[mt.Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (length, ...) into a `PackedSequence`. See `pack_padded_sequence`."""
    return pack_padded_sequence(pad_sequence(sequences), [t.shape[0] for t in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[mt.Tensor]:
    """Return the sequences of a `PackedSequence` as a list, in the order before packing."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
