"""Types that annotate code for TorchScript."""

from __future__ import annotations

import concurrent.futures
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  models take them from here

__all__ = ["Any", "Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Future", "List", "Optional",
           "Tuple", "Union", "annotate", "isinstance_"]  # fmt: skip


class _BroadcastingList:
    """``BroadcastingList2[int]``: a list of that length, or one value for all; an annotation."""

    def __getitem__(self, kind: Any) -> Any:
        return List[kind]  # noqa: UP006


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()


class Attribute:
    """A value with its type."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class Future(concurrent.futures.Future):
    """What `fork` returns."""

    def wait(self) -> Any:
        """The result."""
        return self.result()


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value`` itself."""
    return the_value


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type; of a generic one, ``List[int]``, by its origin and its elements."""
    from typing import Union, get_args, get_origin

    if isinstance(target_type, tuple):
        return any(isinstance_(obj, kind) for kind in target_type)
    origin, parts = get_origin(target_type), get_args(target_type)
    if origin is None:
        return target_type is Any or isinstance(obj, type(None) if target_type is None else target_type)
    if origin is Union or str(origin) == "types.UnionType":
        return any(isinstance_(obj, part) for part in parts)
    if not isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance_(key, parts[0]) and isinstance_(value, parts[1]) for key, value in obj.items())
    if origin is tuple and Ellipsis not in parts:
        return len(obj) == len(parts) and all(map(isinstance_, obj, parts))
    return all(isinstance_(item, parts[0]) for item in obj)
