"""Where libraries look for the class of tensors."""

from __future__ import annotations

from typing import Any

from metatensor import Tensor

__all__ = ["Tensor"]


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple, state: Any) -> Any:
    """A tensor of a subclass, from what makes a plain one, and its Python attributes."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if hasattr(new_type, "__setstate__"):
        made.__setstate__(state)
        return made
    slots = {}
    if isinstance(state, tuple):
        state, slots = state
    for name, value in {**(state or {}), **(slots or {})}.items():
        setattr(made, name, value)
    return made
