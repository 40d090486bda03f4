"""What a rank of a pipeline does, as a list of actions, and tables of such lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from typing import NamedTuple

__all__ = ["Table", "_Action", "_ComputationType", "format_table"]


class _ComputationType(str, Enum):
    """The kind of an action."""

    FORWARD = "F"
    FULL_BACKWARD = "B"
    BACKWARD_INPUT = "I"
    """The gradients of the inputs of a stage."""
    BACKWARD_WEIGHT = "W"
    """The gradients of its parameters, after those of the inputs."""
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    OVERLAP_F_B = "OVERLAP_F_B"
    """A forward and a backward pass of different stages, which a device may run at the same time."""

    def __str__(self) -> str:
        return self.value

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    @staticmethod
    def from_str(action: str) -> _ComputationType:
        """Return the kind with this letter or name. Raise RuntimeError if there is none."""
        try:
            return _ComputationType(action)
        except ValueError:
            known = ", ".join(one.value for one in _ComputationType)
            raise RuntimeError(f"pipelining: there is no computation type {action!r}; the types are {known}") from None


_KINDS = "|".join(sorted((one.value for one in _ComputationType if one != "OVERLAP_F_B"), key=len, reverse=True))
_FORM = re.compile(rf"(\d+)({_KINDS})(\d+)")
_COMPUTED = {_ComputationType.FORWARD, _ComputationType.FULL_BACKWARD, _ComputationType.BACKWARD_INPUT,
             _ComputationType.BACKWARD_WEIGHT, _ComputationType.OVERLAP_F_B}  # fmt: skip


class _Action(NamedTuple):
    """One action of a rank: what it does, for which stage, on which microbatch. ``str`` writes it as ``2F0``."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple[_Action, ...] | None = None
    """The parts of an ``OVERLAP_F_B``."""

    @property
    def is_compute_op(self) -> bool:
        """Whether the action computes; others communicate."""
        return self.computation_type in _COMPUTED

    @property
    def parts(self) -> tuple[_Action, ...]:
        """The action itself, or the parts of an ``OVERLAP_F_B``."""
        return self.sub_actions or (self,)

    def __str__(self) -> str:
        if self.sub_actions:
            return f"({';'.join(map(str, self.sub_actions))}){self.computation_type}"
        return f"{self.stage_index}{self.computation_type}{self.microbatch_index}"

    def __repr__(self) -> str:
        return str(self)

    @staticmethod
    def from_str(action_string: str) -> _Action | None:
        """Return the action that a text such as ``2F0`` or ``(0F3;3B1)OVERLAP_F_B`` describes; None for an empty text.

        Raise RuntimeError for any other text.
        """
        text = action_string.strip()
        if not text:
            return None
        if text.startswith("(") and text.endswith(")OVERLAP_F_B"):
            parts = tuple(one for part in text[1 : -len(")OVERLAP_F_B")].split(";") if (one := _Action.from_str(part)) is not None)
            return _Action(-1, _ComputationType.OVERLAP_F_B, None, parts)
        found = _FORM.fullmatch(text)
        if found is None:
            raise RuntimeError(f"pipelining: {action_string!r} is no action; expected stage, type and microbatch, such as 2F0 or 1SEND_F3")
        return _Action(int(found[1]), _ComputationType(found[2]), int(found[3]))


Table = dict[int, list[_Action]]
"""The actions of each rank, in order."""


def format_table(table: Mapping[int, Sequence[_Action | None]]) -> str:
    """Return a table as text, with a row for each step and a column for each rank."""
    columns = [["", *(f"Step {i}" for i in range(max(map(len, table.values()), default=0)))]]
    columns += [[f"Rank {rank}", *("" if one is None else str(one) for one in table[rank])] for rank in sorted(table)]
    widths = [max(map(len, column)) for column in columns]
    rows: Iterable[tuple[str, ...]] = zip_longest(*columns, fillvalue="")
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
