"""Sizes of a model's state by batch and length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor.plan.decoding import PATIENCE, Decoder, StateTensor

__all__ = ["StateGroup", "States"]


@dataclass(frozen=True)
class StateGroup:
    """Tensors of the state that have the same dtype and the same shape."""

    dtype: str
    shape: tuple[str, ...]
    """Sizes as texts: numbers, ``batch``, ``length``, or for those that stop growing ``min(length, 4095)``."""
    count: int
    nbytes: int
    """Bytes of all of them for one sequence at the context."""
    example: str
    """The path of the first."""

    def __str__(self) -> str:
        return f"{self.count} x {self.dtype}[{', '.join(self.shape)}]"


class States:
    """Sizes of a model's state by batch and length.

    Each figure is read off a run at that length. Where a run would take more than `PATIENCE`, that of the longest affordable
    length is extended by its growth there.
    """

    def __init__(self, decoder: Decoder, dtype: Any, block: int) -> None:
        self.decoder, self.dtype, self.block = decoder, dtype, block
        self._known: dict[tuple[int, int], int] = {}
        self._tensors: dict[tuple[int, int], list[StateTensor]] = {}
        self.reached: int | None = None
        """The longest length that was run, if a longer one was asked for."""
        one, two, three = (self._run(n, 2) for n in (1, 2, 3))
        if not two:
            raise RuntimeError(
                "serve: the model keeps nothing between two steps; pass feed=, a function of its output that returns the "
                "keyword arguments of the next call, if it returns a state under another name"
            )
        self.shared = max(0, 2 * one - two)
        self.uneven = three - two != two - one

    def _run(self, batch: int, length: int) -> int:
        if (batch, length) not in self._known:
            self._known[batch, length] = self._converted(batch, length)
        return self._known[batch, length]

    def _converted(self, batch: int, length: int) -> int:
        """Return the bytes of the state, where tensors that grow with the length have the dtype of the cache."""
        kept = self.decoder.state_bytes(batch, length)
        if self.dtype is None:
            return kept
        shorter = {t.name: t.shape for t in self._list(batch, max(1, min(length // 2, 8)))}
        for t in self._list(batch, length):
            if t.dtype.is_floating_point and shorter.get(t.name) != t.shape:
                kept -= t.nbytes - t.nbytes // t.dtype.itemsize * self.dtype.itemsize
        return kept

    def _list(self, batch: int, length: int) -> list[StateTensor]:
        if (batch, length) not in self._tensors:
            self._tensors[batch, length] = self.decoder.tensors(batch, length)
        return self._tensors[batch, length]

    def affordable(self, length: int) -> int:
        """Return the longest length up to ``length`` whose run takes at most `PATIENCE`, judged by shorter runs."""
        n = 64
        while n < length:
            self._run(1, n)
            if self.decoder.seconds.get(n - 1, 0.0) * 4 > PATIENCE:
                self.reached = n
                return n
            n *= 4
        return length

    def per_sequence(self, length: int) -> int:
        """Return the bytes of the state of one sequence in whole blocks."""
        length = -(-length // self.block) * self.block
        n = self.affordable(length)
        found = self._run(1, n)
        if n < length:
            found += (found - self._run(1, n - 1)) * (length - n)
        return found - self.shared

    def growth(self, length: int) -> int:
        """Return the bytes by which the state grows with the token after ``length`` others."""
        n = self.affordable(length)
        return self._run(1, n + 1) - self._run(1, n)

    def groups(self, length: int) -> list[StateGroup]:
        """Return the tensors of the state, with sizes as expressions of the batch and the length."""
        n = self.affordable(max(length, 8))
        here = self._list(2, n)
        longer, shorter, wider = ({t.name: t.shape for t in self._list(b, m)} for b, m in ((2, n + 1), (2, 5), (3, n)))
        found: dict[tuple[str, tuple[str, ...]], list[StateTensor]] = {}
        for t in here:
            others = [shapes.get(t.name, ()) for shapes in (longer, shorter, wider)]
            if any(len(shape) != len(t.shape) for shape in others):
                texts = tuple(map(str, t.shape))
            else:
                texts = tuple(_size_text(n, size, *at) for size, *at in zip(t.shape, *others, strict=True))
            dtype = self.dtype if self.dtype is not None and t.dtype.is_floating_point and shorter.get(t.name) != t.shape else t.dtype
            found.setdefault((str(dtype).rpartition(".")[2], texts), []).append(t)
        return [
            StateGroup(dtype, shape, len(group), sum(_one_sequence(t, wider.get(t.name), getattr(mt, dtype)) for t in group), group[0].name)
            for (dtype, shape), group in found.items()
        ]

    def remarks(self) -> list[str]:
        """Return what the figures assume."""
        found = []
        if self.reached is not None:
            found.append(f"the model's code is slow on long sequences, so figures of more than "
                         f"{self.reached:,} tokens are extended linearly")  # fmt: skip
        if self.uneven:
            found.append("the state does not grow evenly with the batch; figures are those of one sequence, multiplied")
        return found


def _size_text(length: int, size: int, longer: int, shorter: int, wider: int) -> str:
    """Return a size as an expression, from its values at (2, length), (2, length + 1), (2, 5) and (3, length)."""
    if wider != size:
        each = wider - size
        rest = size - 2 * each
        return ("batch" if each == 1 else f"{each}*batch") + (f" + {rest}" if rest > 0 else f" - {-rest}" if rest else "")
    if longer != size:
        each = longer - size
        rest = size - each * length
        return ("length" if each == 1 else f"{each}*length") + (f" + {rest}" if rest > 0 else f" - {-rest}" if rest else "")
    return f"min(length, {size})" if shorter == 5 and size > 5 else str(size)


def _one_sequence(t: StateTensor, wider: tuple[int, ...] | None, dtype: Any) -> int:
    """Return the bytes of one sequence in a tensor that holds two, in a dtype."""
    nbytes = t.nbytes // t.dtype.itemsize * dtype.itemsize
    return nbytes // 2 if wider != t.shape else nbytes
