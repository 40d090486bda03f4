"""Operators that take functions as arguments. They are Python loops and calls."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch._higher_order_ops.associative_scan import associative_scan
from metatensor.torch_api.torch._higher_order_ops.scan import scan
from metatensor.torch_api.torch._ops import kernel_elsewhere
from metatensor.torch_api.torch.functional import cond, while_loop

__all__ = ["associative_scan", "cond", "flex_attention", "inductor_compiled_code", "scan", "while_loop"]

flex_attention = kernel_elsewhere("_higher_order_ops.flex_attention")
inductor_compiled_code = kernel_elsewhere("_higher_order_ops.inductor_compiled_code")

__getattr__, __dir__ = attributes(__name__)
