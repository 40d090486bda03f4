"""`torch.distributed`: process groups, collectives, and what is built upon them.

Communicators, which move the data, are plugins (see `communicators`): metatensor-mpi between processes that ``mpiexec``
starts, metatensor-nccl between GPUs. `sim` is built in: it runs any number of ranks in one process. Without a communicator
`init_process_group` creates a world of one process, in which collectives give the same results as in PyTorch, and larger
worlds raise NotImplementedError.
"""

from __future__ import annotations

from metatensor._core.lazy import attributes
from metatensor.distributed._agreement import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from metatensor.distributed._coalescing import _coalescing_manager
from metatensor.distributed._collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
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
    split_group,
    supports_complex,
)
from metatensor.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from metatensor.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from metatensor.distributed._world import current_world as _current_world
from metatensor.distributed.communication_log import Communication, CommunicationLog

__all__ = [
    "Backend", "Communication", "CommunicationLog", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "GroupMember", "P2POp", "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_coalesced",
    "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_backend_config", "get_debug_level",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
    "set_debug_level", "set_debug_level_from_env", "split_group", "supports_complex",
]  # fmt: skip

_lazy, __dir__ = attributes(
    __name__,
    (
        "_composable", "_functional_collectives", "_shard", "_tensor", "algorithms", "checkpoint", "communicators", "device_mesh",
        "distributed_c10d", "fsdp", "nn", "optim", "pipelining", "remote_device", "rpc", "sim", "stores", "tensor", "utils",
    ),
    {name: f"{__name__}.device_mesh:{name}" for name in ("DeviceMesh", "init_device_mesh")}
    | {name: f"{__name__}.stores:{name}" for name in ("FileStore", "HashStore", "PrefixStore", "Store", "TCPStore", "rendezvous")}
    | {"GradBucket": f"{__name__}.reducer:GradBucket"}
    | {"_remote_device": f"{__name__}.remote_device:_remote_device"},
)  # fmt: skip


def __getattr__(name: str) -> object:
    return _lazy(name)


def is_available() -> bool:
    """Return True if this process is one of several ranks: simulated, started by ``mpiexec``, or connected to others.

    It is False in a program that runs alone, so that libraries do not look for other processes.
    """
    world = _current_world()
    if world.launch is not None or (world.default is not None and world.default.size() > 1):
        return True
    from metatensor.distributed.communicators import launched_by

    launched = launched_by()
    return launched is not None and launched[2] > 1


def is_backend_available(backend: str) -> bool:
    """Return True if a communicator of this name is installed and can be used on this machine."""
    from metatensor.distributed.communicators import find_communicator

    if backend.lower() == "sim":
        return True
    found = find_communicator(backend.lower())
    return found is not None and not found.unavailable_reason()


def is_gloo_available() -> bool:
    """Return True if a communicator ``gloo`` can be used. metatensor has none."""
    return is_backend_available("gloo")


def is_mpi_available() -> bool:
    """Return True if metatensor-mpi is installed and can be used."""
    return is_backend_available("mpi")


def is_nccl_available() -> bool:
    """Return True if metatensor-nccl is installed and can be used."""
    return is_backend_available("nccl")


def is_ucc_available() -> bool:
    """Return True if a communicator ``ucc`` can be used. metatensor has none."""
    return is_backend_available("ucc")


def is_xccl_available() -> bool:
    """Return True if a communicator ``xccl`` can be used. metatensor has none."""
    return is_backend_available("xccl")


def is_torchelastic_launched() -> bool:
    """Return True if torchrun started this process."""
    import os

    return os.environ.get("TORCHELASTIC_RUN_ID") is not None
