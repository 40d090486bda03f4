"""The communicator, and the connection of a process to its world."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from metatensor import plugins
from metatensor.distributed.communicators import Communicator, Connection, GroupCommunicator

__all__ = ["NcclCommunicator", "NcclConnection"]


class NcclCommunicator(Communicator):
    """NCCL between GPUs, one for each process. Tests pass `nccl` to replace ``cupy.cuda.nccl``."""

    name = "nccl"
    device_types = ("cuda",)

    def __init__(self, nccl: Any = None) -> None:
        self._nccl = nccl

    def unavailable_reason(self) -> str:
        try:
            backend = plugins.backend("cuda")
        except RuntimeError as error:
            return str(error)
        reason = "" if backend.is_available() else backend.unavailable_reason()
        if reason or self._nccl is not None:
            return reason
        try:
            from cupy.cuda import nccl
        except ImportError as error:
            return f"CuPy finds no NCCL: {error}"
        return "" if nccl.available else "CuPy was built without NCCL"

    def connect(self, rank: int, size: int, timeout: float, store: Any) -> Connection:
        if store is None:
            raise RuntimeError(
                "torch.distributed: NCCL needs a store in which the ranks exchange an identifier: set the environment variables "
                "MASTER_ADDR and MASTER_PORT, or pass init_method='file:///path' or store="
            )
        nccl = self._nccl
        if nccl is None:
            from cupy.cuda import nccl
        return NcclConnection(nccl, rank, size, store)


class NcclConnection(Connection):
    """The connection of this process. Each group has an NCCL communicator, whose identifier is in the store."""

    def __init__(self, nccl: Any, rank: int, size: int, store: Any) -> None:
        super().__init__(rank, size)
        self.nccl, self.store = nccl, store
        self.backend = plugins.backend("cuda")

    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        from metatensor_nccl.group import NcclGroup

        return NcclGroup(ranks, ranks.index(self.rank), self, index, timeout)

    def identifier(self, ranks: tuple[int, ...], index: int, timeout: float) -> tuple[int, ...]:
        """Return the identifier of a group's communicator, which its first rank makes."""
        key = f"nccl/{index}/{','.join(map(str, ranks))}"
        if self.rank == ranks[0]:
            made = tuple(self.nccl.get_unique_id())
            self.store.set(key, json.dumps(made))
            return made
        self.store.wait([key], timedelta(seconds=timeout))
        return tuple(json.loads(self.store.get(key)))
