"""Archives of models with their code, which metatensor neither writes nor reads."""

from __future__ import annotations

from typing import Any

from metatensor._core.absent import kinds

__all__ = ["PackageExporter", "PackageImporter", "is_from_package"]

_made = kinds("package", "PackageExporter PackageImporter", "metatensor neither writes nor reads torch.package archives")
PackageExporter, PackageImporter = _made["PackageExporter"], _made["PackageImporter"]


def is_from_package(obj: Any) -> bool:
    """Return False, because nothing is loaded from such archives."""
    return False
