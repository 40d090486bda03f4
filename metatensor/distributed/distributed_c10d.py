"""An alternative import path of groups and collectives, which some libraries use."""

from metatensor.distributed._coalescing import _coalescing_manager, _CoalescingManager
from metatensor.distributed._collectives import *  # noqa: F403
from metatensor.distributed._group import *  # noqa: F403
from metatensor.distributed._group import GroupMember, ProcessGroup, _resolve_process_group, the_group
from metatensor.distributed._objects import *  # noqa: F403
from metatensor.distributed._point_to_point import *  # noqa: F403
from metatensor.distributed.stores import FileStore, HashStore, PrefixStore, Store, TCPStore, rendezvous

_ = (
    GroupMember, ProcessGroup, _CoalescingManager, _coalescing_manager, _resolve_process_group, FileStore, HashStore, PrefixStore,
    Store, TCPStore, rendezvous,
)  # fmt: skip


def _get_default_group() -> ProcessGroup:
    """Return the default group. Raise ValueError if there is none."""
    return the_group(None)
