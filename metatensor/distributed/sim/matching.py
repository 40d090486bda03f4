"""Matching the calls of simulated ranks: which belong to the same collective, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributed._errors import DistBackendError

__all__ = ["Call", "Collective", "Message", "explain_waiting", "mismatch"]


class Call:
    """One rank's call of a collective or of a point-to-point operation.

    Parameters
    ----------
    rank : int
        Rank in the world.
    kind : str
        The method of `GroupCommunicator`.
    same : dict
        What all ranks have to agree on, by name, such as ``{"shape": (2,), "dtype": "float32", "op": "sum"}``.
    sizes : list of int or None
        Numbers of elements for each rank that `all_to_all` sends and receives.
    line : str
        ``file:line`` of the user code.
    data : object
        The tensors, as the implementation of the collective needs them.
    """

    __slots__ = ("data", "kind", "line", "rank", "same", "sizes")

    def __init__(self, rank: int, kind: str, same: dict[str, Any], line: str, data: Any, sizes: Any = None) -> None:
        self.rank, self.kind, self.same, self.line, self.data, self.sizes = rank, kind, same, line, data, sizes

    def __str__(self) -> str:
        details = ", ".join(f"{name} {_text(value)}" for name, value in self.same.items())
        return f"{self.kind}({details})" + (f" at {self.line}" if self.line else "")


def _text(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


class Collective:
    """A collective of a group: the calls so far, by rank in the group. It completes with the last one."""

    def __init__(self, ranks: tuple[int, ...], number: int) -> None:
        self.ranks, self.number = ranks, number
        self.calls: dict[int, Call] = {}
        self.completed = False
        self.waiting: list[Any] = []
        """The ranks that wait for it."""

    def missing(self) -> list[int]:
        """Return the ranks in the world that have not called yet."""
        return [rank for index, rank in enumerate(self.ranks) if index not in self.calls]


class Message:
    """A point-to-point operation without its counterpart."""

    def __init__(self, call: Call, source: int | None, target: int | None, tag: int) -> None:
        self.call, self.source, self.target, self.tag = call, source, target, tag
        self.completed = False
        self.waiting: list[Any] = []
        self.sender: int | None = None


def mismatch(collective: Collective, index: int, call: Call) -> str:
    """Return why a call does not fit those of other ranks, or an empty string."""
    if not collective.calls:
        return ""
    other = next(iter(collective.calls.values()))
    if other.kind != call.kind:
        return _report(collective, other, call, "different operations")
    different = [name for name in call.same if other.same.get(name) != call.same[name]]
    if different:
        return _report(collective, other, call, f"different {' and '.join(different)}")
    if call.sizes is not None:
        received, sent = call.sizes
        for other_index, other in collective.calls.items():
            other_received, other_sent = other.sizes
            for source, target, out, there in (
                (call, other, sent[other_index], other_received[index]), (other, call, other_sent[index], received[other_index])
            ):  # fmt: skip
                if out != there:
                    why = f"rank {source.rank} sends {out} elements to rank {target.rank}, which expects {there}"
                    return _report(collective, other, call, why)
        if sent[index] != received[index]:
            return _report(collective, call, call, f"rank {call.rank} keeps {sent[index]} elements, but expects {received[index]}")
    return ""


def _report(collective: Collective, one: Call, other: Call, why: str) -> str:
    return (
        f"ranks {one.rank} and {other.rank} disagree about collective {collective.number} of the group of ranks "
        f"{_ranks(collective.ranks)}: {why}\n  rank {one.rank}: {one}\n  rank {other.rank}: {other}"
    )


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    if len(ranks) > 8:
        return f"{', '.join(map(str, ranks[:4]))}, ... ({len(ranks)} in all)"
    return ", ".join(map(str, ranks))


def explain_waiting(finished: Callable[[int], bool], waiting: list[tuple[int, Any]]) -> str:
    """Return the explanation of a deadlock.

    Parameters
    ----------
    finished : callable
        ``finished(rank)`` is true if a rank has returned.
    waiting : list of (int, object)
        The ranks that wait, and what they wait for: mostly a `Waiting`.
    """
    lines = [f"deadlock: all ranks that have not finished ({len(waiting)}) wait for each other"]
    for rank, what in waiting[:8]:
        lines.append(f"  rank {rank} waits in {what}")
        if isinstance(what, Waiting):
            lines.extend(f"    {text}" for text in what.lacking(finished))
    if len(waiting) > 8:
        lines.append(f"  ... and {len(waiting) - 8} more ranks")
    return "\n".join(lines)


class Waiting:
    """What a rank waits for: its own call, and the operation to which the call belongs."""

    def __init__(self, call: Call, operation: Any) -> None:
        self.call, self.operation = call, operation

    def __str__(self) -> str:
        return str(self.call)

    def lacking(self, finished: Callable[[int], bool]) -> list[str]:
        """Return lines that say which ranks are missing."""
        operation = self.operation
        if isinstance(operation, Message):
            peer = operation.target if operation.call.kind == "send" else operation.source
            if peer is None:
                return ["no rank sends to it"]
            counterpart = "receives it" if operation.call.kind == "send" else "sends it"
            ended = ", which has finished" if finished(peer) else ""
            return [f"until rank {peer} {counterpart}{ended}"]
        missing = operation.missing()
        found = [f"for ranks {_ranks(missing)}, which have not called it"] if missing else []
        gone = [rank for rank in missing if finished(rank)]
        if gone:
            found.append(f"ranks {_ranks(gone)} have finished")
        return found


def check(text: str) -> None:
    """Raise DistBackendError with a text that is not empty."""
    if text:
        raise DistBackendError(f"torch.distributed: {text}")
