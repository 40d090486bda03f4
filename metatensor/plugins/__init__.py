"""Plugins: discovery, loading and listing of devices, operators, checkpoint formats, commands and communicators."""

from metatensor.plugins.loading import (
    BLOCK_VARIABLE,
    GROUPS,
    PluginInfo,
    PluginManager,
    backend,
    commands,
    communicator,
    communicators,
    device_types,
    formats,
    load_ops,
    loaded_backend,
    manager,
    provider,
    provider_of_module,
    register_backend,
    report,
)

__all__ = [
    "BLOCK_VARIABLE", "GROUPS", "PluginInfo", "PluginManager", "backend", "commands", "communicator", "communicators",
    "device_types", "formats", "load_ops", "loaded_backend", "manager", "provider", "provider_of_module", "register_backend",
    "report",
]  # fmt: skip
