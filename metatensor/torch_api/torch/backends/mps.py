"""Availability of Apple GPUs, which metatensor supports only through a plugin."""

from __future__ import annotations

from metatensor.torch_api.torch._devices import DeviceApi, backend

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_available() -> bool:
    """Return whether there is a device of type mps."""
    return DeviceApi("mps").is_available()


def is_built() -> bool:
    """Return whether a plugin provides the device type mps."""
    return backend("mps") is not None


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return whether the system is macOS with at least the given version."""
    import platform

    version = platform.mac_ver()[0]
    return bool(version) and tuple(map(int, version.split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return whether the system is macOS with at least version 13.`minor`."""
    return is_macos_or_newer(13, minor)
