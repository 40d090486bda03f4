"""Settings of PyTorch's function transforms. `torch.func` works."""

from __future__ import annotations

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("config",))
