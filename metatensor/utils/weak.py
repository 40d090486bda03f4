"""Weak references to tensors, and dicts with weakly referenced keys that are compared by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is hashed and compared by the identity of its referent."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


class TensorWeakRef:
    """A weak reference to a tensor. Calling it returns the tensor, or None if that no longer exists."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dict with weakly referenced keys that are compared by identity. An entry is removed when its key is freed.

    Parameters
    ----------
    dict : mapping, optional
        Initial entries.
    ref_type : type
        Class of the weak references to keys. Default: `WeakIdRef`.
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        mine = weakref.ref(self)

        def forget(ref: Any) -> None:
            alive = mine()
            if alive is not None:
                alive.data.pop(ref, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key


WeakTensorKeyDictionary = WeakIdKeyDictionary
