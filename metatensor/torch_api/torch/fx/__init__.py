"""Symbolic tracing of modules into graphs."""

from __future__ import annotations

from metatensor.torch_api.torch.fx._wrapped import wrap

__all__ = ["wrap"]
