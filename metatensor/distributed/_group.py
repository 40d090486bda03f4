"""Process groups: creating, finding and removing them. The groups belong to the current rank (see `_world`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from metatensor.distributed._backend import Backend, named_communicators, usable_communicator
from metatensor.distributed._errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from metatensor.distributed._reduce_op import ReduceOp, supports_complex
from metatensor.distributed._single import NoData, OneRank, SingleConnection
from metatensor.distributed._world import current_world, observed
from metatensor.distributed.communicators import Connection, GroupCommunicator, find_communicator, launched_by
from metatensor.distributed.work import Work, seconds_of

__all__ = [
    "Backend", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "ProcessGroup", "ReduceOp",
    "Work", "default_pg_timeout", "destroy_process_group", "get_backend", "get_backend_config",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "is_initialized", "member",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "only_this_process", "split_group", "supports_complex",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)


class ProcessGroup:
    """Ranks that communicate with each other. `init_process_group` and `new_group` create groups.

    ``ProcessGroup()`` is a group that consists of this process.
    """

    ranks: tuple[int, ...]
    """Ranks in the world, in the order of the ranks in the group."""

    def __init__(
        self, *args: Any, backend: str = Backend.UNDEFINED, name: str = "", desc: str = "undefined",
        ranks: tuple[int, ...] | None = None, connection: Connection | None = None, timeout: float = 0.0, index: int = 0,
    ) -> None:  # fmt: skip
        size = args[-1] if args else 1
        if size != 1:
            raise NotImplementedError(f"torch.distributed.ProcessGroup: use new_group to create groups of several processes, got {size}")
        self._backend, self.group_name, self.group_desc = backend, name, desc
        self.ranks = (0,) if ranks is None else ranks
        self._world = current_world()
        self._connection = connection or SingleConnection(0, 1)
        self._rank = self.ranks.index(self._connection.rank)
        self._timeout, self._index = timeout or default_pg_timeout.total_seconds(), index
        self._communicators: dict[str, GroupCommunicator] = {}

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return observed(self._rank_of)

    def _rank_of(self, rank: int) -> int:
        """Return the rank in the group of a rank in the world, or -1 if it is not in it."""
        return self.ranks.index(rank) if rank in self.ranks else -1

    def size(self) -> int:
        """Return the number of ranks in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the name of the backend that was requested."""
        return str(self._backend)

    def _set_default_timeout(self, timeout: timedelta) -> None:
        """Use another timeout for communicators that the group has not created yet."""
        self._timeout = seconds_of(timeout) or self._timeout

    def communicator(self, device_type: str = "") -> GroupCommunicator:
        """Return the communicator for tensors on devices of a type. The default is the first that moves data.

        Raise RuntimeError if the backend of the group does not communicate tensors on such devices.
        """
        found = self._communicators.get(device_type)
        if found is None:
            found = self._communicators[device_type] = self._new_communicator(device_type)
        return found

    def _new_communicator(self, device_type: str) -> GroupCommunicator:
        if len(self.ranks) == 1:
            return OneRank(self.ranks[0])
        connection, name = self._connection, str(self._backend)
        if not isinstance(connection, _Several):
            if isinstance(connection, SingleConnection) and device_type not in ("", "meta"):
                raise DistBackendError(
                    f"torch.distributed: in a world of backend {name!r} only rank {connection.rank} is run, so tensors with data, here on "
                    f"{device_type}, cannot be communicated"
                )
            return connection.group(self.ranks, self._index, self._timeout)
        served, inner = connection.serving(device_type)
        if inner is None:
            if device_type == "meta":
                return NoData(self.ranks, self._rank)
            raise RuntimeError(
                f"torch.distributed: the backend of this group, {name!r}, does not communicate tensors on {device_type}"
            )
        if served != device_type:
            return self.communicator(served)
        return inner.group(self.ranks, self._index, self._timeout)

    def _close(self) -> None:
        for one in {id(one): one for one in self._communicators.values()}.values():
            one.close()
        self._communicators.clear()

    def __repr__(self) -> str:
        if len(self.ranks) == 1:
            return f"<ProcessGroup of this process, {self._backend}>"
        return f"<ProcessGroup of ranks {list(self.ranks)}, {self._backend}>"


class _Several(Connection):
    """The connections of a process to its world, one for each engine. They are made when they are first needed."""

    def __init__(self, rank: int, size: int, backend: str | None, timeout: float, store: Any, init_method: str | None) -> None:
        super().__init__(rank, size)
        self._timeout, self._store, self._init_method = timeout, store, init_method
        self._open: dict[str, Connection] = {}
        self._served: dict[str, str] = {}
        """The name of the engine for each device type."""
        for device, name in ({} if backend is None else named_communicators(backend)).items():
            for served in (device,) if device else usable_communicator(name, size).device_types:
                self._served.setdefault(served, name)
        if backend is None:
            self._find_installed()

    def serving(self, device_type: str) -> tuple[str, Connection | None]:
        """Return a device type with the same connection, and the connection for it, or None if there is none."""
        device_type = device_type or next(iter(self._served), "")
        name = self._served.get(device_type)
        if name is None:
            return device_type, None
        first = next(one for one, other in self._served.items() if other == name)
        if name not in self._open:
            engine = usable_communicator(name, self.size)
            if self._store is None and engine.launched() is None:
                from metatensor.distributed.stores import rendezvous_store

                self._store = rendezvous_store(self._init_method, self.rank, self.size, self._timeout)
            self._open[name] = engine.connect(self.rank, self.size, self._timeout, self._store)
        return first, self._open[name]

    def _find_installed(self) -> None:
        """Use all installed engines that work here, before others the one whose launcher started this process."""
        from metatensor.plugins import communicators

        launched = launched_by()
        names = sorted(communicators(), key=lambda name: launched is None or name != launched[0])
        for name in names:
            found = find_communicator(name)
            if found is not None and not found.unavailable_reason():
                for device in found.device_types:
                    self._served.setdefault(device, name)
        if not self._served:
            usable_communicator("mpi", self.size)

    def group(self, ranks: tuple[int, ...], index: int, timeout: float) -> GroupCommunicator:
        raise AssertionError("a group asks the connection of a device type")

    def close(self) -> None:
        for one in self._open.values():
            one.close()
        self._open.clear()

    def abort(self, error: BaseException) -> None:
        for one in self._open.values():
            one.abort(error)


class _DefaultGroup(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return current_world().default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        current_world().default = value


class GroupMember(metaclass=_DefaultGroup):
    """The default group of the current rank, and the placeholder for a group that the rank does not belong to."""

    NON_GROUP_MEMBER: ClassVar[Any] = object()


class group(metaclass=_DefaultGroup):
    """A namespace: ``group.WORLD`` is the default group."""


# Creating groups ------------------------------------------------------------------------------------------------------


def is_initialized() -> bool:
    """Return True if the default group exists."""
    return current_world().default is not None


def member(given: Any) -> bool:
    """Return True if this process belongs to the group. None means the default group.

    Raise ValueError if there is no default group.
    """
    if current_world().default is None:
        raise ValueError("torch.distributed: there is no default process group; call init_process_group first")
    return given is not GroupMember.NON_GROUP_MEMBER


def the_group(given: Any) -> ProcessGroup:
    """Return a group; None means the default group.

    Raise ValueError if there is no default group or the rank does not belong to the group, and TypeError for other values.
    """
    world = current_world()
    if world.default is None:
        member(given)
    if given is None:
        assert world.default is not None
        return world.default
    if given is GroupMember.NON_GROUP_MEMBER:
        raise ValueError("torch.distributed: this process is not in that group")
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"torch.distributed: expected a process group, got {type(given).__name__}")
    return given


def only_this_process(name: str, size: int) -> None:
    """Raise NotImplementedError unless the world has one process."""
    if size != 1:
        raise NotImplementedError(f"torch.distributed.{name}: the world has one process, so the world size must be 1, got {size}")


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Connect this rank to its world and create the default group, to which all ranks belong.

    Rank and world size come from the arguments, else from the launcher of an installed communicator
    (``mpiexec -n 4 python train.py``), else from the URL, else from the environment variables RANK and WORLD_SIZE. In a
    function that `sim.run` runs, they are those of the simulated rank.

    Parameters
    ----------
    backend : str, optional
        The communicator: ``"mpi"``, ``"nccl"``, the name of another plugin, or several by device type, as in
        ``"cpu:mpi,cuda:nccl"``. ``"fake"`` runs only this rank: tensors on meta can be communicated, and objects and
        tensors with data cannot. Default: for each device type an installed communicator. In a world of one process, and
        in a simulated world, any name is accepted; it is only what `get_backend` returns.
    init_method : str, optional
        A URL: ``env://``, ``file:///path`` or ``tcp://host:port``, whose query may contain ``world_size`` and ``rank``.
    timeout : timedelta, optional
        How long an operation waits for other ranks. Default: 30 minutes.
    world_size, rank : int
        Number of ranks, and rank of this process.
    store : Store, optional
        A key-value store that the ranks share. Only communicators that need one use it.
    group_name : str
        Name of the group.
    pg_options, device_id
        Ignored.

    Raises
    ------
    NotImplementedError
        If the world has several ranks and the communicator is not installed or cannot be used here.
    ValueError
        If there already is a default group, or if rank or world size are missing or contradict each other.

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
    world = current_world()
    seconds = seconds_of(timeout) or default_pg_timeout.total_seconds()
    connection: Connection
    if world.launch is not None:
        connection = world.launch.connection
        _agrees("world_size", world_size, connection.size)
        _agrees("rank", rank, connection.rank)
        backend = backend or "sim"
    else:
        rank, world_size, launcher = _place(backend, init_method, rank, world_size)
        if not 0 <= rank < world_size:
            expected = "is 0" if world_size == 1 else f"is between 0 and {world_size - 1}"
            raise ValueError(f"torch.distributed.init_process_group: the rank in a world of size {world_size} {expected}, got {rank}")
        if world_size == 1 or (backend or "").lower() == Backend.FAKE:
            connection = SingleConnection(rank, world_size)
        else:
            connection = _Several(rank, world_size, backend, seconds, store, init_method)
            connection.serving("")
        backend = backend or launcher
    world.connections["default"] = connection
    world.created = 1
    ranks = tuple(range(connection.size))
    try:
        made = ProcessGroup(
            backend=Backend(backend or Backend.UNDEFINED), name=group_name or "0", desc="default_pg", ranks=ranks,
            connection=connection, timeout=seconds,
        )  # fmt: skip
        world.default = _register(made)
    except BaseException:
        world.clear()
        raise
    world.same_ranks[ranks] = 1


def _agrees(name: str, given: int, actual: int) -> None:
    if given >= 0 and given != actual:
        raise ValueError(f"torch.distributed.init_process_group: {name} is {given}, but this process was started with {actual}")


def _place(backend: str | None, init_method: str | None, rank: int, world_size: int) -> tuple[int, int, str]:
    """Return (rank, world size, name of the communicator whose launcher started this process or an empty string)."""
    from urllib.parse import parse_qs, urlparse

    said = {name: values[0] for name, values in parse_qs(urlparse(init_method or "").query).items()}
    launched = None
    if (backend or "").lower() != Backend.FAKE and not (rank >= 0 and world_size == 1):
        launched = launched_by()
    if launched is not None and (backend is None or launched[0] in named_communicators(backend).values()):
        _agrees("world_size", world_size, launched[2])
        _agrees("rank", rank, launched[1])
        return launched[1], launched[2], launched[0]
    if world_size < 0:
        world_size = _said("WORLD_SIZE", said)
    if rank < 0:
        rank = _said("RANK", said)
    return rank, world_size, ""


def _said(name: str, said: dict[str, str]) -> int:
    value = said.get(name.lower(), os.environ.get(name))
    if value is None:
        raise ValueError(f"torch.distributed.init_process_group: neither an argument nor the environment variable {name} is set")
    return int(value)


def _register(made: ProcessGroup) -> ProcessGroup:
    """Add a group to those of this rank, and connect its ranks: the first message may concern only two of them."""
    if isinstance(made._connection, _Several):
        made.communicator()
    current_world().names[made] = made.group_name
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Remove a group. Removing the default group (None) removes all groups.

    Raise AssertionError if there is no default group to remove, and ValueError for an unknown group.
    """
    world = current_world()
    if group is None or group is world.default:
        assert world.default is not None, "torch.distributed.destroy_process_group: there is no process group"
        world.clear()
    elif group not in world.names:
        raise ValueError("torch.distributed.destroy_process_group: there is no such process group")
    else:
        del world.names[group]
        world.groups_of_ranks = {ranks: one for ranks, one in world.groups_of_ranks.items() if one is not group}
        group._close()


def new_group(
    ranks: Iterable[int] | None = None, timeout: timedelta | None = None, backend: str | None = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None, sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """Create a group of some ranks. Return the placeholder ``NON_GROUP_MEMBER`` on the other ranks.

    Ranks that belong to several groups create them in the same order. The others need not call the function.

    Parameters
    ----------
    ranks : iterable of int, optional
        Ranks in the world. Default: all.
    timeout : timedelta, optional
        How long an operation of the group waits for other ranks. Default: as for the default group.
    backend : str, optional
        The name that `get_backend` returns. Default: that of the default group. The group uses the communicators of the
        default group.
    pg_options, use_local_synchronization, device_id
        Ignored.
    group_desc : str, optional
        A description.
    sort_ranks : bool
        Whether ranks in the group have the order of the ranks in the world, or that of ``ranks``. Default True.

    Raises
    ------
    ValueError
        If there is no default group, or if a rank does not exist or is named twice.
    """
    member(None)
    world = current_world()
    assert world.default is not None
    size = world.default.size()
    chosen = world.default.ranks if ranks is None else tuple(sorted(ranks) if sort_ranks else ranks)
    if chosen and not (0 <= min(chosen) and max(chosen) < size):
        known = "the only rank in the world is 0" if size == 1 else f"the ranks in the world are 0 to {size - 1}"
        raise ValueError(f"torch.distributed.new_group: {known}, got {list(chosen)}")
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"torch.distributed.new_group: a rank is named twice in {list(chosen)}")
    if not observed(lambda rank: rank in chosen):
        world.created += 1
        return GroupMember.NON_GROUP_MEMBER
    return create_group(chosen, timeout, backend, group_desc)


def create_group(
    ranks: tuple[int, ...], timeout: timedelta | None = None, backend: str | None = None, group_desc: str | None = None
) -> ProcessGroup:
    """Create a group of ranks to which this rank belongs. See `new_group`.

    The program does not learn which group that is, so ``sim.run(ranks="groups")`` does not tell ranks apart by it.
    """
    world = current_world()
    assert world.default is not None
    chosen, name = ranks, str(world.created)
    world.created += 1
    index = world.same_ranks.get(chosen, 0)
    world.same_ranks[chosen] = index + 1
    return _register(
        ProcessGroup(
            backend=Backend(backend or get_backend()), name=name, desc=group_desc or "undefined", ranks=chosen,
            connection=world.default._connection, timeout=seconds_of(timeout) or world.default._timeout, index=index,
        )
    )  # fmt: skip


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Divide a group into subgroups of consecutive ranks. Return the group of this process and the list of all subgroups.

    ``group_size`` must divide the size of the group. Its default is the environment variable LOCAL_WORLD_SIZE, else the
    size of the group.
    """
    parent = the_group(group)
    size = int(os.environ.get("LOCAL_WORLD_SIZE", parent.size())) if group_size is None else group_size
    if size <= 0 or parent.size() % size:
        raise ValueError(f"torch.distributed.new_subgroups: the group has size {parent.size()}, got group_size={group_size}")
    lists = [parent.ranks[start : start + size] for start in range(0, parent.size(), size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Create a group for each list of ranks. Return the group of this process and the list of all groups.

    Raise ValueError if a rank appears in two lists.
    """
    named = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(named)) != len(named):
        raise ValueError(f"torch.distributed.new_subgroups_by_enumeration: a rank is in two of the groups {ranks_per_subgroup_list}")
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    return next((one for one in made if isinstance(one, ProcessGroup)), None), made


def split_group(
    parent_pg: Any = None, split_ranks: Sequence[Sequence[int]] | None = None, timeout: timedelta | None = None,
    pg_options: Any = None, group_desc: str | None = None, backend: str | None = None,
) -> Any:  # fmt: skip
    """Divide a group. Return the new group of this process, or None if it is in none of the lists.

    ``split_ranks`` is a list of lists of ranks in the parent group.
    """
    parent = the_group(parent_pg)
    if not split_ranks:
        raise ValueError("torch.distributed.split_group: split_ranks is missing")
    found = None
    for ranks in split_ranks:
        if any(not 0 <= rank < parent.size() for rank in ranks):
            raise ValueError(f"torch.distributed.split_group: the ranks of the parent are 0 to {parent.size() - 1}, got {list(ranks)}")
        made = new_group([parent.ranks[rank] for rank in ranks], timeout, backend, group_desc=group_desc, sort_ranks=False)
        found = made if isinstance(made, ProcessGroup) else found
    return found


def group_of_ranks(ranks: Sequence[int]) -> ProcessGroup:
    """Return a group with these ranks for functional collectives: the default group, or one that is created once."""
    world = current_world()
    chosen = tuple(ranks)
    assert world.default is not None
    if chosen == world.default.ranks:
        return world.default
    found = world.groups_of_ranks.get(chosen)
    if found is None:
        if world.default._rank not in chosen or len(set(chosen)) != len(chosen):
            raise ValueError(f"torch.distributed: rank {world.default._rank} is not in the group of ranks {list(chosen)}")
        found = world.groups_of_ranks[chosen] = create_group(chosen, group_desc="functional")
    return found


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """Return the group of this rank with a name. Raise ValueError if there is none."""
    for made, name in current_world().names.items():
        if name == group_name:
            return made
    raise ValueError(f"torch.distributed: there is no group named {group_name!r}")


# Queries --------------------------------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """Return the rank of this process in the group, or -1 if it is not in it. Raise ValueError if there is no default group."""
    return the_group(group).rank() if member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return the number of ranks in the group, or -1 if this process is not in it.

    Raise ValueError if there is no default group.
    """
    return the_group(group).size() if member(group) else -1


def get_backend(group: Any = None) -> Backend:
    """Return the name of the backend that was requested for the group."""
    if not member(group):
        raise ValueError("torch.distributed.get_backend: this process is not in that group")
    return Backend(the_group(group).name())


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
    """Return the ranks of the group in the world, or ``[]`` if this process is not in it."""
    return list(_known_ranks(the_group(group))) if member(group) else []


def _known_ranks(group: ProcessGroup) -> tuple[int, ...]:
    """Return the ranks of a group to the program, which thereby learns to which group its rank belongs."""
    if group is not current_world().default:
        observed(lambda rank: rank in group.ranks)
    return group.ranks


def get_global_rank(group: Any, group_rank: int) -> int:
    """Convert a rank in a group to the rank in the world. Raise ValueError for ranks that do not exist."""
    found = the_group(group)
    if not 0 <= group_rank < found.size():
        raise ValueError(f"torch.distributed.get_global_rank: {_known(found.size())} in the group, got {group_rank}")
    return _known_ranks(found)[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Convert a rank in the world to the rank in a group. Raise ValueError for ranks that do not belong to the group."""
    found = the_group(group)
    if global_rank not in found.ranks:
        if found.size() == 1:
            raise ValueError(f"torch.distributed.get_group_rank: {_known(1)} in the group, got {global_rank}")
        raise ValueError(f"torch.distributed.get_group_rank: the group has the ranks {list(found.ranks)}, got {global_rank}")
    return _known_ranks(found).index(global_rank)


def _known(size: int) -> str:
    return "the only rank is 0" if size == 1 else f"the ranks are 0 to {size - 1}"


def get_pg_count() -> int:
    """Return the number of groups."""
    return len(current_world().names)
