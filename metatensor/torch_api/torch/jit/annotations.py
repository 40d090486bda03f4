"""Types that annotate code for TorchScript."""

from __future__ import annotations

import concurrent.futures
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  models import them from here

__all__ = ["Any", "Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Future", "List", "Optional",
           "Tuple", "Union", "annotate", "isinstance_"]  # fmt: skip


class _BroadcastingList:
    """An annotation such as ``BroadcastingList2[int]``: a list of two ints, or one int for both."""

    def __getitem__(self, kind: Any) -> Any:
        return List[kind]  # noqa: UP006


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()


class Attribute:
    """A value and its type."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


class Future(concurrent.futures.Future):
    """The result of `fork`."""

    def wait(self) -> Any:
        """Return the result."""
        return self.result()


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return `the_value` unchanged."""
    return the_value


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Return whether `obj` is an instance of a type.

    A generic type such as ``List[int]`` is checked by its container and all elements.
    """
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
