"""Renaming of a device type, which metatensor does not have: the plugin of a device names its type."""

__all__ = ["rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Raise NotImplementedError. Custom devices are plugins: see docs/writing-a-device.md."""
    raise NotImplementedError("rename_privateuse1_backend: in metatensor a device is a plugin, see docs/writing-a-device.md")
