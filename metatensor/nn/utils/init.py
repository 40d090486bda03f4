"""Building a module without computing its initial values."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """``module_cls(*args, **kwargs)`` with uninitialised parameters and buffers, on the device that ``kwargs`` names.

    The module is built on meta and then moved with `Module.to_empty`. RuntimeError for a class that is not a Module
    or whose constructor has no ``device`` argument.
    """
    from inspect import signature  # slow to import, and nothing else here needs it

    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init: expected a class of modules, got {module_cls!r}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} has no argument 'device'")
    device = kwargs.pop("device", None)
    module = module_cls(*args, device="meta", **kwargs)
    return module.to_empty(device=mt.get_default_device() if device is None else device)
