"""The module from which libraries import the `Tensor` class."""

from __future__ import annotations

from metatensor import Tensor
from metatensor.checkpoint.rebuilding import _rebuild_from_type, _rebuild_from_type_v2  # noqa: F401

__all__ = ["Tensor"]
