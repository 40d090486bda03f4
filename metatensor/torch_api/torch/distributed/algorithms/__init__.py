"""Algorithms over several processes."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("join",), {"Join": f"{__name__}.join:Join"})
