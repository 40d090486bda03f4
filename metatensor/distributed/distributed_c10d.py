"""An alternative import path of groups and collectives, which some libraries use."""

from metatensor.distributed._collectives import *  # noqa: F403
from metatensor.distributed._group import *  # noqa: F403
from metatensor.distributed._group import GroupMember, ProcessGroup

_ = (GroupMember, ProcessGroup)


def _get_default_group() -> ProcessGroup:
    """Return the default group. Raise ValueError if there is none."""
    from metatensor.distributed._group import member

    member(None)
    assert GroupMember.WORLD is not None
    return GroupMember.WORLD
