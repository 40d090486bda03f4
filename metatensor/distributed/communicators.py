"""The interface between process groups and the engines that move data.

A communicator is a plugin. Its object, a `Communicator`, is registered by the hook ``metatensor_communicators`` of an
entry point in the group ``metatensor.communicators``. The name of the entry point is the name of the backend, as in
``init_process_group("mpi")``. `connect` connects this process to the other ranks, and the `Connection` makes one
`GroupCommunicator` for each group. Process groups derive everything else from these: checks of arguments, lists of
tensors, objects, coalesced, functional and differentiable collectives, logs. See the page "Writing a communicator".
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed.work import Work

__all__ = ["Communicator", "Connection", "GroupCommunicator", "communicator_names", "find_communicator", "launched_by"]


class Communicator(ABC):
    """An engine that moves data between ranks. One object is registered for each entry point."""

    name: str
    """The name of the backend and of the entry point."""

    device_types: tuple[str, ...]
    """The device types whose tensors can be communicated, the preferred one first."""

    def unavailable_reason(self) -> str:
        """Return why the engine cannot be used on this machine, or an empty string."""
        return ""

    def launched(self) -> tuple[int, int] | None:
        """Return (rank, size) if the launcher of this engine started this process, else None."""
        return None

    @abstractmethod
    def connect(self, rank: int, size: int, timeout: float, store: Any) -> Connection:
        """Connect this process to a world. All ranks call it.

        Parameters
        ----------
        rank, size : int
            Rank of this process, and number of ranks.
        timeout : float
            Seconds after which an operation fails unless all ranks take part in it.
        store : Store or None
            A key-value store that all ranks share, for engines that have to exchange addresses.

        Raises
        ------
        RuntimeError
            If the engine knows another rank or size, needs a store and got none, or cannot reach the other ranks.
        """


class Connection(ABC):
    """The connection of this rank to its world.

    Parameters
    ----------
    rank, size : int
        Rank of this process, and number of ranks.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @abstractmethod
    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        """Return the communicator of a group that contains this rank. All ranks of the group call it, the others do not.

        Parameters
        ----------
        ranks : tuple of int
            Ranks in the world. Their order gives the ranks in the group.
        index : int
            0 for the first group with these ranks, 1 for the second, and so on.
        timeout : float
            Seconds after which an operation of the group fails.
        """

    def idle(self) -> None:
        """Let the other ranks progress. It is called while this rank waits for a key of a store."""
        time.sleep(0.002)

    def close(self) -> None:
        """Leave the world."""
        return

    def abort(self, error: BaseException) -> None:
        """Tell the other ranks that this one fails with ``error``, if the engine can."""
        return


class GroupCommunicator(ABC):
    """The collectives of one group, for one of its ranks.

    All tensors are contiguous and on one device, of a type in the communicator's ``device_types``. Sizes and dtypes of
    the arguments of this rank are checked. Ranks of the same group call the same methods in the same order; what
    happens otherwise is up to the engine, but it must raise an error within the timeout. ``root``, ``peer`` and the
    order of parts refer to ranks in the group. An operation may be running when its method returns: then the caller
    does not touch the tensors until the returned `Work` has completed.

    Parameters
    ----------
    ranks : tuple of int
        Ranks of the group in the world.
    rank : int
        Rank of this process in the group.
    """

    def __init__(self, ranks: tuple[int, ...], rank: int) -> None:
        self.ranks, self.rank, self.size = ranks, rank, len(ranks)

    @abstractmethod
    def all_reduce(self, tensor: Any, op: ReduceOp) -> Work:
        """Reduce ``tensor`` over all ranks, in place."""

    @abstractmethod
    def reduce(self, tensor: Any, op: ReduceOp, root: int) -> Work:
        """Reduce ``tensor`` to rank ``root``, in place. The tensors of other ranks stay unchanged."""

    @abstractmethod
    def broadcast(self, tensor: Any, root: int) -> Work:
        """Copy the tensor of rank ``root`` to all ranks."""

    @abstractmethod
    def all_gather(self, output: Any, input: Any) -> Work:
        """Write the elements of the inputs of all ranks, which have equal sizes, to ``output``, one after the other."""

    @abstractmethod
    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp) -> Work:
        """Reduce the inputs. Rank r receives the r-th of equal parts."""

    @abstractmethod
    def all_to_all(self, output: Any, input: Any, output_sizes: Sequence[int], input_sizes: Sequence[int]) -> Work:
        """Send the r-th part of ``input`` to rank r, and write what rank r sends to the r-th part of ``output``.

        The sizes are numbers of elements, one for each rank.
        """

    @abstractmethod
    def gather(self, output: Any, input: Any, root: int) -> Work:
        """Like `all_gather`, for rank ``root`` only. ``output`` is None on other ranks."""

    @abstractmethod
    def scatter(self, output: Any, input: Any, root: int) -> Work:
        """Send the r-th of equal parts of the input of rank ``root`` to rank r. ``input`` is None on other ranks."""

    @abstractmethod
    def send(self, tensor: Any, peer: int, tag: int) -> Work:
        """Send ``tensor`` to rank ``peer``. Messages with the same tag arrive in their order."""

    @abstractmethod
    def recv(self, tensor: Any, peer: int | None, tag: int) -> Work:
        """Receive ``tensor`` from rank ``peer``, or from any rank if it is None.

        The method ``source_rank()`` of the returned `Work` gives the rank, once it has completed.
        """

    @abstractmethod
    def barrier(self) -> Work:
        """Complete once all ranks have called it."""

    def exchange(self, data: bytes) -> list[bytes]:
        """Return the byte strings of all ranks, which may have different lengths.

        The default sends them as tensors on the first of `data_device`.
        """
        import metatensor as mt

        place = self.data_device()
        sizes = mt.empty(self.size, dtype=mt.int64, device=place)
        self.all_gather(sizes, mt.tensor([len(data)], dtype=mt.int64, device=place)).wait()
        lengths = sizes.tolist()
        longest = max(1, *lengths)
        padded = mt.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=mt.uint8).to(place)
        gathered = mt.empty(longest * self.size, dtype=mt.uint8, device=place)
        self.all_gather(gathered, padded).wait()
        whole = gathered.cpu().numpy().tobytes()
        return [whole[longest * rank : longest * rank + length] for rank, length in enumerate(lengths)]

    def data_device(self) -> str:
        """Return the device on which `exchange` makes its tensors."""
        return "cpu"

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Context manager for several calls of `send` and `recv` that the engine starts together."""
        yield

    def close(self) -> None:
        """Free what the group uses."""
        return


# Plugins --------------------------------------------------------------------------------------------------------------


def communicator_names() -> list[str]:
    """Return the sorted names of all communicators: the installed ones, and ``sim``, which is built in."""
    from metatensor.plugins import communicators

    return sorted({"sim", *communicators()})


def find_communicator(name: str) -> Communicator | None:
    """Return the installed communicator ``name``, or None if there is none.

    Raise RuntimeError if its plugin is broken or blocked.
    """
    from metatensor.plugins import communicator

    return communicator(name)


def launched_by() -> tuple[str, int, int] | None:
    """Return (name, rank, size) if the launcher of an installed communicator started this process, else None."""
    from metatensor.plugins import communicators

    for name in communicators():
        found = find_communicator(name)
        launched = None if found is None or found.unavailable_reason() else found.launched()
        if launched is not None:
            return (name, *launched)
    return None
