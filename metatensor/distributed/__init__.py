"""`torch.distributed` for a single process. metatensor has no communication between processes.

`is_available` returns False, so libraries do not try to use it. Nevertheless, `init_process_group` creates a world of
one process, in which collectives give the same results as in PyTorch. Larger worlds raise NotImplementedError.
"""

from __future__ import annotations

from metatensor._core.absent import function as _function
from metatensor._core.absent import kind as _kind
from metatensor._core.lazy import attributes
from metatensor.distributed._collectives import (
    P2POp,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    recv_object_list,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
)
from metatensor.distributed._group import (
    Backend,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    GroupMember,
    ProcessGroup,
    ReduceOp,
    Work,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    supports_complex,
)

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "P2POp", "ProcessGroup",
    "ReduceOp", "Work", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list", "supports_complex",
]  # fmt: skip

_lazy, __dir__ = attributes(
    __name__,
    (
        "_composable", "_functional_collectives", "_shard", "_tensor", "algorithms", "checkpoint", "device_mesh",
        "distributed_c10d", "fsdp", "nn", "optim", "pipelining", "remote_device", "rpc", "tensor", "utils",
    ),
    {name: f"{__name__}.device_mesh:{name}" for name in ("DeviceMesh", "init_device_mesh")}
    | {"_remote_device": f"{__name__}.remote_device:_remote_device"},
)  # fmt: skip

_WHY = "metatensor has no communication between processes"
Store = _kind("distributed.Store", _WHY)
FileStore = _kind("distributed.FileStore", _WHY)
HashStore = _kind("distributed.HashStore", _WHY)
PrefixStore = _kind("distributed.PrefixStore", _WHY)
TCPStore = _kind("distributed.TCPStore", _WHY)
rendezvous = _function("distributed.rendezvous", _WHY)


def __getattr__(name: str) -> object:
    return _lazy(name)


def is_available() -> bool:
    """Return False: metatensor has no communication between processes."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return False for every name."""
    return False


def is_gloo_available() -> bool:
    """Return False."""
    return False


def is_mpi_available() -> bool:
    """Return False."""
    return False


def is_nccl_available() -> bool:
    """Return False."""
    return False


def is_ucc_available() -> bool:
    """Return False."""
    return False


def is_xccl_available() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return True if torchrun started this process."""
    import os

    return os.environ.get("TORCHELASTIC_RUN_ID") is not None
