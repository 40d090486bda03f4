"""Context parallelism: see `context_parallel`."""

from __future__ import annotations

from metatensor._core.absent import kinds
from metatensor.distributed.tensor.experimental._context_parallel._attention import (
    _context_parallel_shard,
    _ContextParallel,
    _disable_context_parallel_dispatcher,
    _enable_context_parallel_dispatcher,
    context_parallel,
    context_parallel_unshard,
)
from metatensor.distributed.tensor.experimental._context_parallel._load_balancer import _HeadTailLoadBalancer, _LoadBalancer
from metatensor.distributed.tensor.experimental._context_parallel._options import _cp_options, _RotateMethod, set_rotate_method
from metatensor.distributed.tensor.experimental._context_parallel._ring import ring_attention
from metatensor.distributed.tensor.experimental._context_parallel._ulysses import ulysses_attention

__all__ = [
    "_ContextParallel", "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard", "_cp_options",
    "_disable_context_parallel_dispatcher", "_enable_context_parallel_dispatcher", "context_parallel", "context_parallel_unshard",
    "ring_attention", "set_rotate_method", "ulysses_attention",
]  # fmt: skip

globals().update(kinds(
    "distributed.tensor.experimental._attention", "_PTRRLoadBalancer _PerDocumentHeadTailLoadBalancer",
    "flex_attention, whose masks it divides, runs on one rank only", _LoadBalancer,
))  # fmt: skip
