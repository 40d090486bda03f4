"""Remote procedure calls, which raise: there are no other processes."""

from __future__ import annotations

from metatensor._core.absent import functions, kind

__all__ = ["RRef", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]

_WHY = "metatensor has no communication between processes"


def is_available() -> bool:
    """Return False."""
    return False


RRef = kind("distributed.rpc.RRef", _WHY)
_made = functions("distributed.rpc", "init_rpc remote rpc_async rpc_sync shutdown", _WHY)
init_rpc, remote, rpc_async = _made["init_rpc"], _made["remote"], _made["rpc_async"]
rpc_sync, shutdown = _made["rpc_sync"], _made["shutdown"]
