"""PyTorch's private module `torch._tensor`, from which some libraries import `Tensor`."""

from __future__ import annotations

from metatensor import Tensor
from metatensor.checkpoint.rebuilding import _rebuild_from_type, _rebuild_from_type_v2  # noqa: F401

__all__ = ["Tensor"]
