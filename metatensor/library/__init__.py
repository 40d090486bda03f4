"""Custom operators: schema, meta function, kernels, FLOP rule and decomposition.

Example::

    @mt.op("acme::rope")
    def rope(x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Spec:
        return mt.Spec(x.shape, x.dtype)

    @rope.kernel("cpu")
    def rope_cpu(out, x, cos, sin): ...

The result is an `Op` like the built-in ones, and also available as ``mt.ops.acme.rope``. See docs/custom-ops.md.
"""

from metatensor.library.gradients import gradient
from metatensor.library.hints import infer_arguments, infer_schema
from metatensor.library.operators import (
    Namespace,
    decomposition,
    define,
    find_kernel,
    flops,
    get_op,
    kernel,
    kernel_owner,
    meta,
    op,
)

__all__ = ["decomposition", "define", "flops", "get_op", "gradient", "infer_schema", "kernel", "meta", "op"]
