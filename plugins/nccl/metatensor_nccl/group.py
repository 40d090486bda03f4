"""The collectives of a group, on NCCL's operations.

They run on a CUDA stream of the group, after the work of the current stream. Waiting for one makes the current stream wait, and not
the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import metatensor as mt
from metatensor.distributed import DistBackendError, ReduceOp, Work
from metatensor.distributed.communicators import GroupCommunicator
from metatensor.distributed.work import seconds_of

__all__ = ["NcclGroup"]

# NCCL's numbers of types and reductions.
TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
    "bool": 1, "complex64": 7, "complex128": 8,
}  # fmt: skip
BYTE = 1
OPS = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4}
BOOL_OPS = {ReduceOp.SUM: 2, ReduceOp.MAX: 2, ReduceOp.BOR: 2, ReduceOp.PRODUCT: 3, ReduceOp.MIN: 3, ReduceOp.BAND: 3}


class NcclWork(Work):
    """The handle of an operation. It holds the tensors until the current stream waits for the operation."""

    def __init__(self, group: NcclGroup, event: Any, held: Any, finish: Any = None) -> None:
        super().__init__()
        self._group, self._event, self._held, self._finish = group, event, held, finish

    def wait(self, timeout: Any = None) -> bool:
        """Make the current stream wait. Wait on the host if a timeout is given or TORCH_NCCL_BLOCKING_WAIT is 1."""
        limit = seconds_of(timeout)
        if limit is not None or os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == "1":
            self._wait_on_host(limit or self._group.timeout)
        self._group.xp.cuda.get_current_stream().wait_event(self._event)
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        self._held = None
        return True

    def _wait_on_host(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        while not self._event.done:
            if time.monotonic() > deadline:
                raise DistBackendError(
                    f"torch.distributed: an operation of the NCCL group of ranks {list(self._group.ranks)} has not completed within "
                    f"{limit:g} s"
                )
            time.sleep(0.0005)

    def is_completed(self) -> bool:
        return bool(self._event.done)


class NcclGroup(GroupCommunicator):
    """The collectives of a group, for tensors on one GPU of this process.

    Parameters
    ----------
    ranks, rank
        As for `GroupCommunicator`.
    connection : NcclConnection
        The connection of this process.
    index : int
        Number of the group among those with the same ranks.
    timeout : float
        Seconds to wait for the other ranks when the communicator is created, and on the host if that is asked for.
    """

    def __init__(self, ranks: tuple[int, ...], rank: int, connection: Any, index: int, timeout: float) -> None:
        super().__init__(ranks, rank)
        self.connection, self.timeout, self._index = connection, timeout, index
        self.xp = connection.backend.xp
        self._comm: Any = None
        self._device: int | None = None
        self._stream: Any = None
        self._unfinished: list[tuple[Any, Any]] = []
        self._batch: list[Any] | None = None
        """The events of operations that NCCL's open group has not started."""

    def _ready(self, tensor: Any) -> tuple[Any, int]:
        """Return NCCL's communicator and the stream of the group, after the work of the current stream."""
        index = tensor.device.index or 0
        self._connect(index)
        if index != self._device:
            raise RuntimeError(f"torch.distributed: the NCCL group uses cuda:{self._device}, but a tensor is on cuda:{index}")
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(self.xp.cuda.get_current_stream())
        self._stream.wait_event(event)
        return self._comm, self._stream.ptr

    def _connect(self, index: int) -> None:
        """Create NCCL's communicator on a GPU unless there is one. All ranks of the group do so."""
        if self._comm is None:
            identifier = self.connection.identifier(self.ranks, self._index, self.timeout)
            with self.xp.cuda.Device(index):
                self._comm = self.connection.nccl.NcclCommunicator(self.size, identifier, self.rank)
                self._stream = self.xp.cuda.Stream(non_blocking=True)
            self._device = index

    def _work(self, held: Any, finish: Any = None) -> NcclWork:
        event = self.xp.cuda.Event(disable_timing=True)
        if self._batch is None:
            event.record(self._stream)
        else:
            self._batch.append(event)
        self._unfinished = [one for one in self._unfinished if not one[0].done]
        self._unfinished.append((event, held))
        return NcclWork(self, event, held, finish)

    @contextmanager
    def batch(self) -> Iterator[None]:
        self._connect(self.connection.backend.current_index())
        self._batch = []
        self.connection.nccl.groupStart()
        try:
            yield
        finally:
            self.connection.nccl.groupEnd()
            started, self._batch = self._batch, None
            for event in started:  # the operations begin at the end of NCCL's group
                event.record(self._stream)

    # Reductions -------------------------------------------------------------------

    def all_reduce(self, tensor: Any, op: ReduceOp) -> Work:
        comm, stream = self._ready(tensor)
        wide, kind, number, finish = self._reducible(tensor, op)
        comm.allReduce(wide.data_ptr(), wide.data_ptr(), _count(wide), kind, number, stream)
        return self._work((tensor, wide), finish)

    def reduce(self, tensor: Any, op: ReduceOp, root: int) -> Work:
        comm, stream = self._ready(tensor)
        wide, kind, number, finish = self._reducible(tensor, op)
        comm.reduce(wide.data_ptr(), wide.data_ptr(), _count(wide), kind, number, root, stream)
        return self._work((tensor, wide), finish if self.rank == root else None)

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        comm, stream = self._ready(input)
        given, kind, number, _ = self._reducible(input, op)
        wide, _, _, finish = self._reducible(output, op)
        comm.reduceScatter(given.data_ptr(), wide.data_ptr(), _count(wide), kind, number, stream)
        return self._work((input, output, given, wide), finish)

    def _reducible(self, tensor: Any, op: ReduceOp) -> tuple[Any, int, int, Any]:
        """Return a tensor that NCCL can reduce, the numbers of its type and the operation, and what moves the result back."""
        ops = BOOL_OPS if tensor.dtype == mt.bool else OPS
        if op not in ops:
            raise ValueError(f"torch.distributed: NCCL cannot reduce {tensor.dtype} with {op}")
        name = str(tensor.dtype).rpartition(".")[2]
        if name in TYPES:
            return tensor, TYPES[name], ops[op], None
        wide = tensor.to(mt.float32 if tensor.is_floating_point() else mt.int32)
        # The conversion is work of the current stream.
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(self.xp.cuda.get_current_stream())
        self._stream.wait_event(event)
        return wide, TYPES[str(wide.dtype).rpartition(".")[2]], ops[op], lambda: tensor.copy_(wide)

    # Moving data ------------------------------------------------------------------

    def broadcast(self, tensor: Any, root: int) -> Work:
        comm, stream = self._ready(tensor)
        comm.broadcast(tensor.data_ptr(), tensor.data_ptr(), _nbytes(tensor), BYTE, root, stream)
        return self._work(tensor)

    def all_gather(self, output: Any, input: Any) -> Work:
        comm, stream = self._ready(input)
        comm.allGather(input.data_ptr(), output.data_ptr(), _nbytes(input), BYTE, stream)
        return self._work((output, input))

    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        sends, receives = (
            [(peer, tensor.data_ptr() + start * tensor.element_size(), size * tensor.element_size())
             for peer, (start, size) in enumerate(zip([0, *accumulate(sizes)], sizes))]
            for tensor, sizes in ((input, input_sizes), (output, output_sizes))
        )  # fmt: skip
        return self._exchange(input, sends, receives, (output, input))

    def gather(self, output: Any, input: Any, root: int) -> Work:
        size = _nbytes(input)
        sends = [(root, input.data_ptr(), size)]
        receives = [] if output is None else [(peer, output.data_ptr() + peer * size, size) for peer in range(self.size)]
        return self._exchange(input, sends, receives, (output, input))

    def scatter(self, output: Any, input: Any, root: int) -> Work:
        size = _nbytes(output)
        sends = [] if input is None else [(peer, input.data_ptr() + peer * size, size) for peer in range(self.size)]
        return self._exchange(output, sends, [(root, output.data_ptr(), size)], (output, input))

    def _exchange(self, tensor: Any, sends: list[tuple[int, int, int]], receives: list[tuple[int, int, int]], held: Any) -> Work:
        """Send and receive parts, given as (rank, address, bytes), at the same time."""
        comm, stream = self._ready(tensor)
        self.connection.nccl.groupStart()
        try:
            for peer, address, size in sends:
                if size:
                    comm.send(address, size, BYTE, peer, stream)
            for peer, address, size in receives:
                if size:
                    comm.recv(address, size, BYTE, peer, stream)
        finally:
            self.connection.nccl.groupEnd()
        return self._work(held)

    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        _no_tag(tag)
        comm, stream = self._ready(tensor)
        comm.send(tensor.data_ptr(), _nbytes(tensor), BYTE, peer, stream)
        return self._work(tensor)

    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        _no_tag(tag)
        if peer is None:
            raise RuntimeError("torch.distributed.recv: NCCL cannot receive from any rank; name the source")
        comm, stream = self._ready(tensor)
        comm.recv(tensor.data_ptr(), _nbytes(tensor), BYTE, peer, stream)
        return _Received(self, self._work(tensor), peer)

    def barrier(self) -> Work:
        flag = mt.zeros(1, device=self.data_device())
        work = self.all_reduce(flag, ReduceOp.SUM)
        work.wait()
        self._stream.synchronize()
        return Work()

    def data_device(self) -> str:
        return f"cuda:{self.connection.backend.current_index() if self._device is None else self._device}"

    def close(self) -> None:
        if self._comm is not None:
            self._stream.synchronize()
            self._comm.destroy()
            self._comm = None


class _Received(Work):
    def __init__(self, group: NcclGroup, work: NcclWork, source: int) -> None:
        super().__init__()
        self._work, self._source = work, source

    def wait(self, timeout: Any = None) -> bool:
        return self._work.wait(timeout)

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def source_rank(self) -> int:
        """Return the rank in the group that sent the message."""
        return self._source


def _count(tensor: Any) -> int:
    return int(tensor.numel()) * (2 if tensor.is_complex() else 1)


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _no_tag(tag: int) -> None:
    if tag:
        raise RuntimeError(f"torch.distributed: NCCL has no tags, got tag={tag}")
