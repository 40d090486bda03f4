"""Communicators that move no data between ranks: groups of one rank, and tensors without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.distributed._errors import DistBackendError
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed.communicators import Connection, GroupCommunicator
from metatensor.distributed.work import Work

__all__ = ["NoData", "OneRank", "SingleConnection"]


class _Received(Work):
    def __init__(self, source: int) -> None:
        super().__init__()
        self._source = source

    def source_rank(self) -> int:
        """Return the rank that sent the message."""
        return self._source


class NoData(GroupCommunicator):
    """The collectives of a group on tensors without data. They complete at once; other ranks are not asked."""

    def all_reduce(self, tensor: Any, op: ReduceOp) -> Work:
        return Work()

    def reduce(self, tensor: Any, op: ReduceOp, root: int) -> Work:
        return Work()

    def broadcast(self, tensor: Any, root: int) -> Work:
        return Work()

    def all_gather(self, output: Any, input: Any) -> Work:
        return Work()

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        return Work()

    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        return Work()

    def gather(self, output: Any, input: Any, root: int) -> Work:
        return Work()

    def scatter(self, output: Any, input: Any, root: int) -> Work:
        return Work()

    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        return Work()

    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        return _Received((self.rank + 1) % self.size if peer is None else peer)

    def barrier(self) -> Work:
        return Work()

    def exchange(self, data: bytes) -> list[bytes]:
        raise DistBackendError(
            f"torch.distributed: only rank {self.ranks[self.rank]} is run, so objects of the other {self.size - 1} ranks are not known"
        )


class OneRank(NoData):
    """The collectives of a group of one rank, on any device."""

    def __init__(self, world_rank: int = 0) -> None:
        super().__init__((world_rank,), 0)

    def all_gather(self, output: Any, input: Any) -> Work:
        if output is not input:
            output.copy_(input.reshape(output.shape))
        return Work()

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        return self.all_gather(output, input)

    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        return self.all_gather(output, input)

    def gather(self, output: Any, input: Any, root: int) -> Work:
        return self.all_gather(output, input)

    def scatter(self, output: Any, input: Any, root: int) -> Work:
        return self.all_gather(output, input)

    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        raise ValueError("torch.distributed.send: this rank is the only one in the group and cannot send to itself")

    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        raise ValueError("torch.distributed.recv: this rank is the only one in the group and cannot receive from itself")

    def exchange(self, data: bytes) -> list[bytes]:
        return [data]


class SingleConnection(Connection):
    """A world of which only this rank is run. In a world of several ranks only tensors without data can be communicated."""

    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        rank = ranks.index(self.rank)
        return OneRank(self.rank) if len(ranks) == 1 else NoData(ranks, rank)
