"""The GPUs of Apple's machines, for which metatensor has a backend only where a plugin provides one."""

from __future__ import annotations

from metatensor.torch_api.torch._devices import DeviceApi, backend

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_available() -> bool:
    """Whether a plugin provides a device of type mps that can be used."""
    return DeviceApi("mps").is_available()


def is_built() -> bool:
    """Whether a plugin provides the device type mps."""
    return backend("mps") is not None


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of at least that version."""
    import platform

    version = platform.mac_ver()[0]
    return bool(version) and tuple(map(int, version.split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 of at least that minor version."""
    return is_macos_or_newer(13, minor)
