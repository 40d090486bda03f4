"""Algorithms over several processes."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("_checkpoint", "ddp_comm_hooks", "join"), {"Join": f"{__name__}.join:Join"})
