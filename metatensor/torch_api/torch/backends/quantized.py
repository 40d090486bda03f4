"""Libraries of quantized operators. There are none, because metatensor has no quantized tensors."""

from __future__ import annotations

__all__ = ["engine", "supported_engines"]

engine = "none"
supported_engines: list[str] = ["none"]
