"""The names of `_context_parallel` under the module name from which programs import them."""

from __future__ import annotations

from metatensor.distributed.tensor.experimental import _context_parallel
from metatensor.distributed.tensor.experimental._context_parallel import (
    _context_parallel_shard,
    _ContextParallel,
    _cp_options,
    _disable_context_parallel_dispatcher,
    _enable_context_parallel_dispatcher,
    _HeadTailLoadBalancer,
    _LoadBalancer,
    _RotateMethod,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)

__all__ = [
    "_ContextParallel", "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard", "_cp_options",
    "_disable_context_parallel_dispatcher", "_enable_context_parallel_dispatcher", "context_parallel", "context_parallel_unshard",
    "set_rotate_method",
]  # fmt: skip

_PTRRLoadBalancer = _context_parallel._PTRRLoadBalancer  # type: ignore[attr-defined]
_PerDocumentHeadTailLoadBalancer = _context_parallel._PerDocumentHeadTailLoadBalancer  # type: ignore[attr-defined]
