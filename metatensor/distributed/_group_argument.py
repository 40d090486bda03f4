"""The ways to name a group in functional collectives."""

from __future__ import annotations

from typing import Any

from metatensor.distributed._group import (
    GroupMember,
    ProcessGroup,
    _resolve_process_group,
    get_world_size,
    group_of_ranks,
    member,
    only_this_process,
    the_group,
)

__all__ = ["group_named"]


def group_named(name: str, group: Any) -> ProcessGroup:
    """Return the process group that an argument of a functional collective names.

    Parameters
    ----------
    name : str
        The collective, for messages.
    group : object
        A process group, its name, a list of ranks, a list of such lists (the one with this rank counts), a `DeviceMesh` of
        one dimension, or a tuple of a mesh and a dimension. None means the default group.

    Raises
    ------
    ValueError
        If there is no default group, or this rank does not belong to the group.
    """
    member(None)
    if isinstance(group, ProcessGroup) or group is None or group is GroupMember.NON_GROUP_MEMBER:
        return the_group(group)
    if isinstance(group, str):
        return _resolve_process_group(group)
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return the_group(group[0].get_group(group[1]))
    if hasattr(group, "get_group"):
        return the_group(group.get_group())
    lists = list(group)
    if lists and all(isinstance(one, (list, tuple)) for one in lists):
        here = the_group(None)._rank
        mine = [one for one in lists if here in one]
        if len(mine) != 1:
            raise ValueError(f"torch.distributed.{name}: rank {here} is in {len(mine)} of the groups {lists}, not in one")
        lists = list(mine[0])
    if get_world_size() == 1:
        only_this_process(name, len(lists))
    return group_of_ranks([int(rank) for rank in lists])
