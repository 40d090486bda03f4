"""Checks of the objects that plugins register."""

from __future__ import annotations

from typing import Any

__all__ = ["check_backend", "check_communicators", "check_formats", "check_ops"]


def check_backend(backend: Any) -> None:
    """Raise unless an object is a backend with a usable device type."""
    from metatensor.devices.base import DeviceBackend

    if not isinstance(backend, DeviceBackend):
        raise TypeError(f"expected a DeviceBackend, got {type(backend).__name__}")
    if not (backend.type and backend.type.isidentifier()):
        raise ValueError(f"{backend!r} has no usable device type: it must be a name of letters, digits and underscores")


def check_ops(name: str, ops: list[Any]) -> None:
    """Raise unless all registered objects are operators of the plugin ``name``'s namespace."""
    from metatensor._core.op import Op

    if not ops:
        raise RuntimeError(f"its hook registered no operator of the namespace {name!r}")
    for op in ops:
        if not isinstance(op, Op):
            raise TypeError(f"expected an Op made by metatensor.op, got {type(op).__name__}")
        if not op.name.startswith(name + "::"):
            raise RuntimeError(f"it registers the operator {op.name}, but the entry point may provide only operators of the "
                               f"namespace {name!r}")


def check_formats(formats: list[Any]) -> None:
    """Raise TypeError unless all registered formats have a name.

    Other attributes are not checked until a format is used.
    """
    for item in formats:
        if not isinstance(getattr(item, "name", None), str):
            raise TypeError(f"expected a checkpoint format with a str attribute 'name', got {type(item).__name__}")


def check_communicators(name: str, communicators: list[Any]) -> None:
    """Raise unless the plugin registered exactly one communicator, with the name of its entry point, ``name``."""
    if len(communicators) != 1:
        raise RuntimeError(f"its hook registered {len(communicators)} communicators, not one")
    found = communicators[0]
    if not callable(getattr(found, "connect", None)):
        raise TypeError(f"expected a Communicator, got {type(found).__name__}")
    if found.name != name:
        raise RuntimeError(f"it registers the communicator {found.name!r}, but the entry point may provide only {name!r}")
