"""Helpers for constructors of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present", "factory_kwargs"]


def _ntuple(n: int, name: str) -> Callable[[Any], tuple]:
    def spread(value: Any) -> tuple:
        if type(value) is int or not isinstance(value, Iterable):
            return (value,) * n
        return tuple(value)

    spread.__name__ = spread.__qualname__ = name
    spread.__doc__ = f"Return an iterable as a tuple, and anything else repeated {n} times."
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def keep_constants(module: Any, arguments: Mapping[str, Any]) -> None:
    """Set each attribute listed in ``module.__constants__`` to the constructor argument of the same name."""
    for name in module.__constants__:
        if name in arguments:
            setattr(module, name, arguments[name])


def _reverse_repeat_tuple(values: tuple, n: int) -> tuple:
    """Return each value ``n`` times, the last value first. This is the order of paddings in `pad`."""
    return tuple(x for value in reversed(values) for x in repeat(value, n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the keys of a state dict and of its metadata, in place. Other keys are unchanged.

    Examples
    --------
    >>> from metatensor.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> sorted(state)
    ['bias', 'weight']
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key == prefix.removesuffix(".") or key.startswith(prefix)]:
        metadata[key[len(prefix) :]] = metadata.pop(key)


def factory_kwargs(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments that a layer passes to tensor factories.

    Parameters
    ----------
    kwargs : mapping, optional
        ``device``, ``dtype`` and ``memory_format``, given directly or in a dict under the key "factory_kwargs".

    Returns
    -------
    dict
        The arguments given.

    Raises
    ------
    TypeError
        If there is another key, or a key is given in both ways.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.factory_kwargs({"device": "meta"})
    {'device': 'meta'}
    """
    known = ("device", "dtype", "memory_format")
    given = dict(kwargs or {})
    result = dict(given.pop("factory_kwargs", {}))
    for name, value in given.items():
        if name not in known or name in result:
            raise TypeError(f"factory_kwargs: unexpected or repeated keyword {name!r}")
        result[name] = value
    return result
