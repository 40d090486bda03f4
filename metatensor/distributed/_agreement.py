"""Checks that all ranks of a group call the same collective, with any communicator.

They cost a second exchange for each collective, so they run only if the debug level is `DebugLevel.DETAIL`: set the
environment variable ``TORCH_DISTRIBUTED_DEBUG``, or call `set_debug_level`. Simulated ranks are always checked.
"""

from __future__ import annotations

import enum
import os
import pickle
from typing import Any

from metatensor.distributed._errors import DistBackendError
from metatensor.distributed.communication_log import user_line
from metatensor.distributed.communicators import GroupCommunicator

__all__ = ["DebugLevel", "check_agreement", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.Enum):
    """How much is checked. Only DETAIL has an effect: the ranks compare their calls before each collective."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return the debug level."""
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the debug level, on all ranks."""
    global _level
    _level = level


def set_debug_level_from_env() -> None:
    """Set the debug level to the environment variable ``TORCH_DISTRIBUTED_DEBUG``: OFF, the default, INFO or DETAIL.

    Raise RuntimeError for other values.
    """
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() or "OFF"
    if name not in DebugLevel.__members__:
        raise RuntimeError(f"torch.distributed: TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, got {name!r}")
    set_debug_level(DebugLevel[name])

_OWN_SHAPE = {"all_to_all"}
"""Collectives in which the tensors of the ranks may have different shapes."""
_NOT_COLLECTIVE = {"recv", "send"}


def check_agreement(kind: str, tensor: Any, detail: str, group: Any, communicator: GroupCommunicator) -> None:
    """Raise DistBackendError, which shows both calls, if another rank of the group calls another collective.

    Do nothing unless the check is enabled.
    """
    if get_debug_level() is not DebugLevel.DETAIL or kind in _NOT_COLLECTIVE or len(group.ranks) == 1:
        return
    if tensor is not None and tensor.is_meta:
        return
    shape = None if tensor is None or kind in _OWN_SHAPE else tuple(tensor.shape)
    mine = {"operation": kind, "detail": detail, "shape": shape, "dtype": None if tensor is None else str(tensor.dtype)}
    calls = [pickle.loads(one) for one in communicator.exchange(pickle.dumps((mine, user_line())))]
    for rank, (other, _) in zip(group.ranks, calls):
        different = [name for name, value in calls[0][0].items() if other[name] != value]
        if different:
            lines = [f"  rank {one}: {_text(*calls[group.ranks.index(one)])}" for one in (group.ranks[0], rank)]
            raise DistBackendError(
                f"torch.distributed: ranks {group.ranks[0]} and {rank} disagree about a collective: different {' and '.join(different)}\n"
                + "\n".join(lines)
            )


def _text(call: dict[str, Any], line: str) -> str:
    details = ", ".join(f"{name} {list(value) if isinstance(value, tuple) else value}" for name, value in call.items() if value)
    return f"{details} at {line}" if line else details
