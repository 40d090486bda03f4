"""Define operators of your own: their schema, meta function, kernels, FLOPs and decomposition.

    @mt.op("acme::rope")
    def rope(x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Spec:
        return mt.Spec(x.shape, x.dtype)

    @rope.kernel("cpu")
    def rope_cpu(out, x, cos, sin): ...

The result is an `Op` like any built-in one, found again as ``mt.ops.acme.rope``. docs/custom-ops.md describes all of it.
"""

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

__all__ = ["decomposition", "define", "flops", "get_op", "infer_schema", "kernel", "meta", "op"]
