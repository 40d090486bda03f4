"""Construction of modules without initial values."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Return ``module_cls(*args, **kwargs)`` with uninitialized parameters and buffers.

    The module is built on the meta device and then moved with `Module.to_empty`.

    Parameters
    ----------
    module_cls : type
        Subclass of `Module` whose constructor has an argument ``device``.
    *args, **kwargs
        Arguments of the constructor. ``device`` is the device of the result. Default: the default device.

    Raises
    ------
    RuntimeError
        If ``module_cls`` is not such a class.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.utils.skip_init(mt.nn.Linear, 3, 2, device="cpu").weight.shape
    metatensor.Size([2, 3])
    """
    from inspect import signature  # slow to import

    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init: expected a class of modules, got {module_cls!r}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} has no argument 'device'")
    device = kwargs.pop("device", None)
    module = module_cls(*args, device="meta", **kwargs)
    return module.to_empty(device=mt.get_default_device() if device is None else device)
