"""Process groups of a single process, and queries about them."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "ProcessGroup", "ReduceOp",
    "Work", "default_pg_timeout", "destroy_process_group", "get_backend", "get_backend_config",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "is_initialized", "member",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "only_this_process", "supports_complex",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)


class DistError(RuntimeError):
    """Base class of errors of the distributed library."""


class DistBackendError(DistError):
    """An error of a backend."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store."""


class ReduceOp(enum.Enum):
    """Reduction operations. Reducing a single tensor returns that tensor."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a backend, in lower case. Any name is accepted, as a single process needs no backend."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group that consists of this process."""

    def __init__(self, *args: Any, backend: str = Backend.UNDEFINED, name: str = "", desc: str = "undefined") -> None:
        size = args[-1] if args else 1
        if size != 1:
            raise NotImplementedError(f"torch.distributed.ProcessGroup: only groups of one process are supported, got {size}")
        self._backend, self.group_name, self.group_desc = backend, name, desc

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1

    def name(self) -> str:
        """Return the name of the backend that was requested."""
        return str(self._backend)

    def __repr__(self) -> str:
        return f"<ProcessGroup of this process, {self._backend}>"


class GroupMember:
    """The default group, and the placeholder for a group that this process does not belong to."""

    WORLD: ClassVar[ProcessGroup | None] = None
    NON_GROUP_MEMBER: ClassVar[Any] = object()


class _WorldOf(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return GroupMember.WORLD

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        GroupMember.WORLD = value


class group(metaclass=_WorldOf):
    """A namespace: ``group.WORLD`` is the default group."""


class Work:
    """A collective operation that has completed."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """Return True without waiting."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True."""
        return True

    def exception(self) -> None:
        """Return None: completed operations have no error."""

    def result(self) -> Any:
        """Return the tensors of the collective."""
        return self._result

    def get_future(self) -> Any:
        """Return a completed future that holds the tensors."""
        from metatensor.distributed.futures import Future

        future: Any = Future()
        future.set_result(self._result)
        return future


# Creating groups ------------------------------------------------------------------------------------------------------

_names: dict[ProcessGroup, str] = {}


def is_initialized() -> bool:
    """Return True if the default group exists."""
    return GroupMember.WORLD is not None


def member(given: Any) -> bool:
    """Return True if this process belongs to the group. None means the default group.

    Raise ValueError if there is no default group.
    """
    if GroupMember.WORLD is None:
        raise ValueError("torch.distributed: there is no default process group; call init_process_group first")
    return given is not GroupMember.NON_GROUP_MEMBER


def only_this_process(name: str, size: int) -> None:
    """Raise NotImplementedError unless the world has one process."""
    if size != 1:
        raise NotImplementedError(
            f"torch.distributed.{name}: metatensor has no communication between processes; the world size must be 1, "
            f"got {size}"
        )


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Create the default group, which consists of this process.

    Parameters
    ----------
    backend : str, optional
        Any name. It is stored but has no effect.
    init_method : str, optional
        A URL whose query may contain ``world_size`` and ``rank``.
    world_size, rank : int
        Must be 1 and 0. Default: taken from the URL, else from the environment variables WORLD_SIZE and RANK.
    group_name : str
        Name of the group.
    timeout, store, pg_options, device_id
        Ignored.

    Raises
    ------
    NotImplementedError
        If the world has more than one process.
    ValueError
        If there already is a default group, if the rank is not 0, or if world size or rank are missing.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> mt.distributed.get_world_size()
    1
    >>> mt.distributed.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("torch.distributed.init_process_group: there is a default process group already")
    from urllib.parse import parse_qs, urlparse

    said = {name: values[0] for name, values in parse_qs(urlparse(init_method or "").query).items()}
    if world_size < 0:
        world_size = _said("WORLD_SIZE", said)
    if rank < 0:
        rank = _said("RANK", said)
    only_this_process("init_process_group", world_size)
    if rank != 0:
        raise ValueError(f"torch.distributed.init_process_group: the rank in a world of size 1 is 0, got {rank}")
    GroupMember.WORLD = _make(backend, group_name or "0", "default_pg")


def _said(name: str, said: dict[str, str]) -> int:
    value = said.get(name.lower(), os.environ.get(name))
    if value is None:
        raise ValueError(f"torch.distributed.init_process_group: neither an argument nor the environment variable {name} is set")
    return int(value)


def _make(backend: str | None, name: str, desc: str) -> ProcessGroup:
    made = ProcessGroup(backend=Backend(backend or Backend.UNDEFINED), name=name, desc=desc)
    _names[made] = name
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Remove a group. Removing the default group (None) removes all groups.

    Raise AssertionError if there is no default group to remove, and ValueError for an unknown group.
    """
    if group is None or group is GroupMember.WORLD:
        assert GroupMember.WORLD is not None, "torch.distributed.destroy_process_group: there is no process group"
        GroupMember.WORLD = None
        _names.clear()
    elif group not in _names:
        raise ValueError("torch.distributed.destroy_process_group: there is no such process group")
    else:
        del _names[group]


def new_group(
    ranks: Iterable[int] | None = None, timeout: timedelta | None = None, backend: str | None = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None,
) -> Any:  # fmt: skip
    """Create another group of this process. Return the placeholder ``NON_GROUP_MEMBER`` if ``ranks`` is empty."""
    member(None)
    chosen = [0] if ranks is None else sorted(ranks)
    if chosen not in ([], [0]):
        raise ValueError(f"torch.distributed.new_group: the only rank in the world is 0, got {chosen}")
    if not chosen:
        return GroupMember.NON_GROUP_MEMBER
    return _make(backend or get_backend(), str(len(_names)), group_desc or "undefined")


def new_subgroups(group_size: int | None = None, group: Any = None, **options: Any) -> tuple[Any, list[Any]]:
    """Create one subgroup of one process. Return it and the list of all subgroups."""
    member(group)
    if group_size not in (None, 1):
        raise ValueError(f"torch.distributed.new_subgroups: the world has size 1, got group_size={group_size}")
    made = new_group([0])
    return made, [made]


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]], **options: Any) -> tuple[Any, list[Any]]:
    """Create a group for each list of ranks. Return the group of this process and the list of all groups."""
    made = [new_group(ranks) for ranks in ranks_per_subgroup_list]
    return next((one for one in made if isinstance(one, ProcessGroup)), None), made


# Queries --------------------------------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """Return 0, or -1 if this process is not in the group. Raise ValueError if there is no default group."""
    return 0 if member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return 1, or -1 if this process is not in the group. Raise ValueError if there is no default group."""
    return 1 if member(group) else -1


def get_backend(group: Any = None) -> Backend:
    """Return the name of the backend that was requested for the group."""
    if not member(group):
        raise ValueError("torch.distributed.get_backend: this process is not in that group")
    found: Any = GroupMember.WORLD if group is None else group
    return Backend(found.name())


def get_backend_config(group: Any = None) -> str:
    """Return the backend of each device type, as in ``"cpu:gloo,cuda:gloo"``."""
    name = get_backend(group)
    return name if ":" in name else f"cpu:{name},cuda:{name}"


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that PyTorch chooses for a device. Raise ValueError for unknown device types."""
    kind = str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"torch.distributed.get_default_backend_for_device: no backend for {kind}")
    return Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the environment variable ``LOCAL_RANK``, or ``fallback_rank`` if it is not set.

    Raise RuntimeError if both are missing.
    """
    found = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise RuntimeError("torch.distributed.get_node_local_rank: the environment has no LOCAL_RANK, and there is no fallback_rank")
    return int(found)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the ranks in the group: ``[0]``, or ``[]`` if this process is not in it."""
    return [0] if member(group) else []


def get_global_rank(group: Any, group_rank: int) -> int:
    """Convert a rank in a group to the rank in the world. Both are 0. Raise ValueError for other ranks."""
    if group_rank != 0:
        raise ValueError(f"torch.distributed.get_global_rank: the only rank in the group is 0, got {group_rank}")
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """Convert a rank in the world to the rank in a group. Both are 0. Raise ValueError for other ranks."""
    if global_rank != 0:
        raise ValueError(f"torch.distributed.get_group_rank: the only rank in the group is 0, got {global_rank}")
    return 0


def get_pg_count() -> int:
    """Return the number of groups."""
    return len(_names)


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Return True if complex tensors can be reduced with this operation."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)
