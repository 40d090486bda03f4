"""The communicator of simulated ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed._errors import DistBackendError
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed.communication_log import user_line
from metatensor.distributed.communicators import Connection, GroupCommunicator
from metatensor.distributed.sim.matching import Call, Collective, Message, Waiting, check, mismatch
from metatensor.distributed.sim.moving import MOVES
from metatensor.distributed.sim.scheduler import Rank, Scheduler
from metatensor.distributed.work import Work

__all__ = ["SimConnection", "SimGroup"]


class SimConnection(Connection):
    """The connection of a simulated rank. ``meeting`` is shared by all ranks: the operations that have not completed."""

    def __init__(self, rank: Rank, size: int, scheduler: Scheduler, meeting: dict[Any, Any]) -> None:
        super().__init__(rank.index, size)
        self.member, self.scheduler, self.meeting = rank, scheduler, meeting

    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        place = self.meeting.setdefault((ranks, index), _Place())
        return SimGroup(ranks, ranks.index(self.rank), self, place)

    def idle(self) -> None:
        self.scheduler.poll(self.member, "a store, for a key")


class _Place:
    """Where the ranks of one group meet."""

    def __init__(self) -> None:
        self.collectives: dict[int, Collective] = {}
        self.sent: dict[tuple[int, int], list[Message]] = defaultdict(list)
        """Messages that nobody has received yet, by target and tag."""
        self.expected: dict[tuple[int, int], list[Message]] = defaultdict(list)
        """Receive operations without a message, by target and tag."""


class _SimWork(Work):
    """The handle of a call."""

    def __init__(self, call: Call, operation: Any, connection: SimConnection) -> None:
        super().__init__()
        self._call, self._operation, self._connection = call, operation, connection

    def wait(self, timeout: Any = None) -> bool:
        operation, here = self._operation, self._connection
        if not operation.completed:
            operation.waiting.append(here.member)
            here.scheduler.wait(here.member, Waiting(self._call, operation), lambda: operation.completed)
        return True

    def is_completed(self) -> bool:
        if not self._operation.completed:
            here = self._connection
            here.scheduler.poll(here.member, Waiting(self._call, self._operation))
        return bool(self._operation.completed)

    def source_rank(self) -> int:
        """Return the rank in the group that sent a message."""
        return int(self._operation.sender)


class SimGroup(GroupCommunicator):
    """The collectives of a group of simulated ranks. The last rank that calls one moves the data of all."""

    def __init__(self, ranks: tuple[int, ...], rank: int, connection: SimConnection, place: _Place) -> None:
        super().__init__(ranks, rank)
        self._connection, self._place, self._count = connection, place, 0

    # Collectives ------------------------------------------------------------------

    def all_reduce(self, tensor: Any, op: ReduceOp) -> Work:
        return self._call("all_reduce", _of(tensor) | {"op": op.name.lower()}, (tensor, op))

    def reduce(self, tensor: Any, op: ReduceOp, root: int) -> Work:
        same = _of(tensor) | {"op": op.name.lower(), "root": self.ranks[root]}
        return self._call("reduce", same, (tensor, op, root))

    def broadcast(self, tensor: Any, root: int) -> Work:
        return self._call("broadcast", _of(tensor) | {"root": self.ranks[root]}, (tensor, root))

    def all_gather(self, output: Any, input: Any) -> Work:
        return self._call("all_gather", _of(input), (output, input))

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        return self._call("reduce_scatter", _of(input) | {"op": op.name.lower()}, (output, input, op))

    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        same = {"dtype": _of(input)["dtype"], "device": input.device.type}
        sizes = list(output_sizes), list(input_sizes)
        return self._call("all_to_all", same, (output, input, *sizes), sizes)

    def gather(self, output: Any, input: Any, root: int) -> Work:
        return self._call("gather", _of(input) | {"root": self.ranks[root]}, (output, input, root))

    def scatter(self, output: Any, input: Any, root: int) -> Work:
        return self._call("scatter", _of(output) | {"root": self.ranks[root]}, (output, input, root))

    def barrier(self) -> Work:
        return self._call("barrier", {}, ())

    def exchange(self, data: bytes) -> list[bytes]:
        shared: list[bytes] = [b""] * self.size
        work = self._call("exchange", {}, (data, shared))
        work.wait()
        return shared

    def _call(self, kind: str, same: dict[str, Any], data: tuple[Any, ...], sizes: Any = None) -> Work:
        """Take part in the group's next collective. The last rank completes it."""
        here, place = self._connection, self._place
        call = Call(here.rank, kind, same, user_line(), data, sizes)
        here.scheduler.check(call)
        collective = place.collectives.get(self._count)
        if collective is None:
            collective = place.collectives[self._count] = Collective(self.ranks, self._count)
        self._count += 1
        check(mismatch(collective, self.rank, call))
        collective.calls[self.rank] = call
        here.scheduler.progress()
        if len(collective.calls) == self.size:
            del place.collectives[collective.number]
            self._complete(collective)
        return _SimWork(call, collective, here)

    def _complete(self, collective: Collective) -> None:
        calls = [collective.calls[index] for index in range(self.size)]
        kind = calls[0].kind
        if kind == "exchange":
            for call in calls:
                call.data[1][:] = [other.data[0] for other in calls]
        elif kind != "barrier" and calls[0].same["device"] != "meta":
            self._move(lambda: MOVES[kind](calls))
        collective.completed = True
        collective.calls.clear()
        self._wake(collective)

    def _move(self, job: Any) -> None:
        scheduler = self._connection.scheduler

        def moved() -> None:
            with mt.no_grad():
                job()

        scheduler.apart(self._connection.member, moved)
        if scheduler.failed is not None:
            raise scheduler.failed[1]

    def _wake(self, operation: Any) -> None:
        for rank in sorted(operation.waiting, key=lambda rank: rank.index):
            self._connection.scheduler.wake(rank)

    # Point to point ---------------------------------------------------------------

    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        here = self._connection
        call = Call(here.rank, "send", _of(tensor) | {"to": self.ranks[peer]} | _tag(tag), user_line(), tensor)
        here.scheduler.check(call)
        message = Message(call, here.rank, self.ranks[peer], tag)
        message.sender = self.rank
        found = self._take(self._place.expected[(self.ranks[peer], tag)], here.rank, None)
        if found is None:
            self._place.sent[(self.ranks[peer], tag)].append(message)
        else:
            self._deliver(message, found)
        return _SimWork(call, message, here)

    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        here = self._connection
        source = None if peer is None else self.ranks[peer]
        call = Call(here.rank, "recv", _of(tensor) | {"from": "any" if source is None else source} | _tag(tag), user_line(), tensor)
        here.scheduler.check(call)
        message = Message(call, source, here.rank, tag)
        found = self._take(self._place.sent[(here.rank, tag)], None, source)
        if found is None:
            self._place.expected[(here.rank, tag)].append(message)
        else:
            self._deliver(found, message)
        return _SimWork(call, message, here)

    @staticmethod
    def _take(messages: list[Message], sender: int | None, source: int | None) -> Message | None:
        """Remove and return the first operation that fits a sender, or whose sender fits a receiver."""
        for index, one in enumerate(messages):
            if (one.source in (None, sender)) if sender is not None else (source in (None, one.source)):
                return messages.pop(index)
        return None

    def _deliver(self, sent: Message, received: Message) -> None:
        self._connection.scheduler.progress()
        different = [
            name for name in ("shape", "dtype", "device") if sent.call.same[name] != received.call.same[name]
        ]
        if different and (different != ["shape"] or sent.call.data.numel() != received.call.data.numel()):
            raise DistBackendError(
                f"torch.distributed: ranks {sent.call.rank} and {received.call.rank} disagree about a message: different "
                f"{' and '.join(different)}\n  rank {sent.call.rank}: {sent.call}\n  rank {received.call.rank}: {received.call}"
            )
        if sent.call.same["device"] != "meta":
            self._move(lambda: received.call.data.copy_(sent.call.data.view(received.call.data.shape)))
        received.sender = sent.sender
        for one in (sent, received):
            one.completed = True
            self._wake(one)


def _of(tensor: Any) -> dict[str, Any]:
    """Return the properties of a tensor that ranks have to agree on."""
    from metatensor.distributed._running import place_of

    return {"shape": tuple(tensor.shape), "dtype": str(tensor.dtype).rpartition(".")[2], "device": place_of(tensor)}


def _tag(tag: int) -> dict[str, Any]:
    return {"tag": tag} if tag else {}
