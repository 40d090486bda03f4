"""Settings of context parallelism. They hold for the process and are read by each call of attention."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["_cp_options", "_RotateMethod", "set_rotate_method"]


class _RotateMethod(Enum):
    """How keys and values reach the other ranks: one step along the ring at a time, or all at once."""

    ALL_TO_ALL = 1
    ALL_GATHER = 2


@dataclass
class _ContextParallelOptions:
    convert_to_f32: bool = True
    """Whether the results for half-precision inputs are joined in float32."""
    enable_load_balance: bool = True
    """Whether the parts of a sequence consist of a chunk from its head and one from its tail."""
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method: str) -> None:
    """Set how ring attention sends keys and values to the other ranks.

    Parameters
    ----------
    rotate_method : str
        ``"alltoall"``: each rank sends those that it holds to the next rank, while it uses them. A rank never holds more than
        two parts. ``"allgather"``, the default: all ranks receive all of them at once.

    Raises
    ------
    NotImplementedError
        If the method is another one.
    """
    known = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in known:
        raise NotImplementedError(f"set_rotate_method: expected 'allgather' or 'alltoall', got {rotate_method!r}")
    _cp_options.rotate_method = known[rotate_method]
