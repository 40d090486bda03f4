"""Lists and dicts that raise TypeError when they are modified. Nodes store their arguments in them.

A node records which nodes it uses when its arguments are set. Changing a list inside them would bypass this.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__}: the arguments of a node cannot be modified in place; assign node.args or node.kwargs")


class immutable_list(list):
    """A list that cannot be modified. Slices, sums and copies are ordinary lists.

    Examples
    --------
    >>> from metatensor.program.fx.immutable_collections import immutable_list
    >>> sizes = immutable_list([2, 3])
    >>> sizes + [4]
    [2, 3, 4]
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict that cannot be modified. Copies are ordinary dicts.

    Examples
    --------
    >>> from metatensor.program.fx.immutable_collections import immutable_dict
    >>> immutable_dict(dim=0) | {"keepdim": True}
    {'dim': 0, 'keepdim': True}
    """

    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_dict, (dict(self),)


def frozen(value: Any) -> Any:
    """Return ``value`` with the lists and dicts in it, also in tuples and slices, replaced by ones that cannot be modified."""
    if isinstance(value, tuple):
        parts = [frozen(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return immutable_list(frozen(item) for item in value)
    if isinstance(value, dict):
        return immutable_dict((key, frozen(item)) for key, item in value.items())
    if isinstance(value, slice):
        return slice(frozen(value.start), frozen(value.stop), frozen(value.step))
    return value
