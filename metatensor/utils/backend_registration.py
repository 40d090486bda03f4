"""Names for devices of one's own. In metatensor a device is a plugin and has its name from there."""

__all__ = ["rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """NotImplementedError, with what to do instead."""
    raise NotImplementedError("rename_privateuse1_backend: in metatensor a device is a plugin, see docs/writing-a-device.md")
