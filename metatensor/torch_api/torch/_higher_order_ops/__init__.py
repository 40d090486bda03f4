"""Operators that take functions as arguments. They are Python loops and calls."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch._higher_order_ops.associative_scan import associative_scan
from metatensor.torch_api.torch._higher_order_ops.scan import scan
from metatensor.torch_api.torch.functional import cond, while_loop

__all__ = ["associative_scan", "cond", "scan", "while_loop"]

__getattr__, __dir__ = attributes(__name__)
