"""The collectives of a group, on MPI's nonblocking operations.

Data moves as bytes, so that every dtype can be sent. Reductions use MPI's own types. What MPI cannot reduce is converted:
half precision and smaller floats are reduced in float32 and rounded once, and a mean is a sum that is divided at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import metatensor as mt
from metatensor.distributed import DistBackendError, ReduceOp, Work
from metatensor.distributed.communication_log import user_line
from metatensor.distributed.communicators import GroupCommunicator
from metatensor.distributed.work import seconds_of

__all__ = ["MpiGroup"]

SPIN = 0.0002
"""Seconds for which a waiting rank asks MPI without pause. Later it sleeps in between."""
LARGEST = 2**31 - 1
"""The largest count that MPI libraries before version 5 of the standard have."""
LOOK = 0.005
"""Seconds between two looks for messages about failures."""


class MpiWork(Work):
    """The handle of a nonblocking operation.

    Parameters
    ----------
    request : Request
        MPI's request.
    group : MpiGroup
        The group of the operation.
    what : str
        A description of the operation, for errors.
    held : object
        The memory that MPI uses. It stays alive until the operation has completed.
    finish : callable, optional
        Called with MPI's status, once the operation has completed.
    """

    def __init__(self, request: Any, group: MpiGroup, what: str, held: Any, finish: Callable[[Any], None] | None = None) -> None:
        super().__init__()
        self._request, self._group, self._what, self._held, self._finish = request, group, what, held, finish
        self._source = -1

    def wait(self, timeout: Any = None) -> bool:
        if self._request is None:
            return True
        limit = seconds_of(timeout) or self._group.timeout
        control = self._group.connection.control
        control.here = self._what
        start = looked = time.monotonic()
        pause = 0.0
        try:
            while not self._test():
                now = time.monotonic()
                if now - looked > LOOK:
                    looked = now
                    control.check(self._what)
                    if control.finished and now - start > 1.0 and control.finished & set(self._group.ranks):
                        self._give_up(now - start)
                if now - start > limit:
                    self._give_up(limit)
                if now - start > SPIN:
                    pause = min(pause + 0.00002, 0.001)
                    time.sleep(pause)
        finally:
            control.here = "no collective"
        return True

    def _give_up(self, seconds: float) -> None:
        raise DistBackendError(
            f"torch.distributed: rank {self._group.ranks[self._group.rank]} has waited {seconds:.3g} s in {self._what}\n"
            + self._group.connection.control.ask(self._group.ranks)
        )

    def is_completed(self) -> bool:
        return self._request is None or self._test()

    def _test(self) -> bool:
        status = self._group.connection.mpi.Status()
        try:
            done = self._request.Test(status)
        except self._group.connection.mpi.Exception as error:
            raise DistBackendError(f"torch.distributed: {self._what} failed: {error}; do the ranks agree about sizes?") from error
        if done:
            self._request = self._held = None
            if self._finish is not None:
                self._finish(status)
        return bool(done)

    def source_rank(self) -> int:
        """Return the rank in the group that sent a message."""
        return self._source


class MpiGroup(GroupCommunicator):
    """The collectives of a group, for tensors on the cpu.

    Parameters
    ----------
    ranks, rank
        As for `GroupCommunicator`.
    connection : MpiConnection
        The connection of this process.
    comm : Comm
        The MPI communicator of the group.
    timeout : float
        Seconds after which an operation fails.
    """

    def __init__(self, ranks: tuple[int, ...], rank: int, connection: Any, comm: Any, timeout: float) -> None:
        super().__init__(ranks, rank)
        self.connection, self.comm, self.timeout = connection, comm, timeout
        mpi = connection.mpi
        self._ops = {
            ReduceOp.SUM: mpi.SUM, ReduceOp.AVG: mpi.SUM, ReduceOp.PRODUCT: mpi.PROD, ReduceOp.MIN: mpi.MIN, ReduceOp.MAX: mpi.MAX,
            ReduceOp.BAND: mpi.BAND, ReduceOp.BOR: mpi.BOR, ReduceOp.BXOR: mpi.BXOR,
        }  # fmt: skip
        # MPI has logical operations for bool, and no others.
        self._bool_ops = {
            ReduceOp.SUM: mpi.LOR, ReduceOp.MAX: mpi.LOR, ReduceOp.BOR: mpi.LOR, ReduceOp.PRODUCT: mpi.LAND, ReduceOp.MIN: mpi.LAND,
            ReduceOp.BAND: mpi.LAND, ReduceOp.BXOR: mpi.LXOR,
        }  # fmt: skip

    # Reductions -------------------------------------------------------------------

    def all_reduce(self, tensor: Any, op: ReduceOp) -> Work:
        wide, finish = self._reducible(tensor, op)
        array = _values(wide)
        request = self.comm.Iallreduce(self.connection.mpi.IN_PLACE, array, self._op(op, tensor))
        return self._work(request, "all_reduce", tensor, (array, wide), finish)

    def reduce(self, tensor: Any, op: ReduceOp, root: int) -> Work:
        wide, finish = self._reducible(tensor, op)
        array = _values(wide)
        given, out = (self.connection.mpi.IN_PLACE, array) if self.rank == root else (array, None)
        request = self.comm.Ireduce(given, out, self._op(op, tensor), root)
        return self._work(request, "reduce", tensor, (array, wide), finish if self.rank == root else None)

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        given, _ = self._reducible(input, op)
        start, end = input.data_ptr(), input.data_ptr() + input.numel() * input.element_size()
        wide, finish = self._reducible(output, op, start <= output.data_ptr() < end)  # MPI needs separate buffers
        arrays = _values(given), _values(wide)
        request = self.comm.Ireduce_scatter_block(*arrays, op=self._op(op, input))
        return self._work(request, "reduce_scatter", input, (arrays, given, wide), finish)

    def _op(self, op: ReduceOp, tensor: Any) -> Any:
        return (self._bool_ops if tensor.dtype == mt.bool else self._ops)[op]

    def _reducible(self, tensor: Any, op: ReduceOp, apart: bool = False) -> tuple[Any, Callable[[Any], None] | None]:
        """Return a tensor that MPI can reduce, and what moves the result from it to ``tensor``. If ``apart``, it has its own memory."""
        narrow = tensor.is_floating_point() and tensor.element_size() < 4
        wide = tensor.to(mt.float32 if narrow else tensor.dtype, copy=apart)

        def finish(status: Any) -> None:
            with mt.no_grad():
                if op is ReduceOp.AVG:
                    wide.div_(self.size)
                if wide is not tensor:
                    tensor.copy_(wide)

        return wide, finish if wide is not tensor or op is ReduceOp.AVG else None

    # Moving data ------------------------------------------------------------------

    def broadcast(self, tensor: Any, root: int) -> Work:
        array = _bytes(tensor)
        return self._work(self.comm.Ibcast(self._raw(array), root), "broadcast", tensor, array)

    def all_gather(self, output: Any, input: Any) -> Work:
        arrays = _bytes(input), _bytes(output)
        given = self._raw(arrays[0])
        if input.numel() and input.data_ptr() == output.data_ptr() + self.rank * arrays[0].nbytes:
            given = self.connection.mpi.IN_PLACE  # the input is this rank's part of the output
        return self._work(self.comm.Iallgather(given, self._raw(arrays[1])), "all_gather", input, arrays)

    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        arrays = _bytes(input), _bytes(output)
        parts = [_byte_parts(sizes, input.element_size()) for sizes in (input_sizes, output_sizes)]
        byte = self.connection.mpi.BYTE
        request = self.comm.Ialltoallv([arrays[0], *parts[0], byte], [arrays[1], *parts[1], byte])
        return self._work(request, "all_to_all", input, arrays)

    def gather(self, output: Any, input: Any, root: int) -> Work:
        arrays = _bytes(input), None if output is None else _bytes(output)
        request = self.comm.Igather(self._raw(arrays[0]), self._raw(arrays[1]), root)
        return self._work(request, "gather", input, arrays)

    def scatter(self, output: Any, input: Any, root: int) -> Work:
        arrays = None if input is None else _bytes(input), _bytes(output)
        request = self.comm.Iscatter(self._raw(arrays[0]), self._raw(arrays[1]), root)
        return self._work(request, "scatter", output, arrays)

    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        array = _bytes(tensor)
        return self._work(self.comm.Isend(self._raw(array), peer, tag), f"send to rank {self.ranks[peer]}", tensor, array)

    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        array = _bytes(tensor)
        mpi = self.connection.mpi
        source = mpi.ANY_SOURCE if peer is None else peer
        name = "recv" if peer is None else f"recv from rank {self.ranks[peer]}"

        def finish(status: Any) -> None:
            work._source = status.Get_source()
            received = status.Get_count(mpi.BYTE)
            if received != array.nbytes:
                raise DistBackendError(
                    f"torch.distributed: rank {self.ranks[work._source]} sent {received} bytes to {work._what}, a tensor of "
                    f"{array.nbytes} bytes"
                )

        work = self._work(self.comm.Irecv(self._raw(array), source, tag), name, tensor, array, finish)
        return work

    def barrier(self) -> Work:
        return self._work(self.comm.Ibarrier(), "barrier", None, None)

    def close(self) -> None:
        # Freeing waits for the other ranks, which may have failed: MPI frees the communicator when the process ends.
        return

    def _raw(self, array: Any) -> Any:
        return None if array is None else [array, self.connection.mpi.BYTE]

    def _work(self, request: Any, name: str, tensor: Any, held: Any, finish: Callable[[Any], None] | None = None) -> MpiWork:
        details = "" if tensor is None else f"shape {list(tensor.shape)}, {tensor.dtype}"
        line = user_line()
        return MpiWork(request, self, f"{name}({details})" + (f" at {line}" if line else ""), (held, tensor), finish)


def _bytes(tensor: Any) -> Any:
    """Return the memory of a contiguous tensor as a NumPy array of bytes.

    Raise DistBackendError if it has more than `LARGEST` bytes.
    """
    nbytes = tensor.numel() * tensor.element_size()
    if nbytes > LARGEST:
        raise DistBackendError(
            f"torch.distributed: MPI counts at most {LARGEST} bytes in one message, got a tensor of shape {list(tensor.shape)} with "
            f"{nbytes}; communicate it in parts"
        )
    return tensor.detach().reshape(-1).view(mt.uint8).numpy()


def _values(tensor: Any) -> Any:
    """Return the memory of a contiguous tensor as a NumPy array."""
    return tensor.detach().reshape(-1).numpy()


def _byte_parts(sizes: Sequence[int], element_size: int) -> tuple[list[int], list[int]]:
    """Return lengths and offsets in bytes of parts of a buffer, given as numbers of elements."""
    lengths = [size * element_size for size in sizes]
    return lengths, [0, *accumulate(lengths)][:-1]
