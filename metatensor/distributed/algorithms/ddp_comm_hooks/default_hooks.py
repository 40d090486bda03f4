"""Averages in the dtype of the gradients, or in half precision to send fewer bytes."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.distributed import _collectives
from metatensor.distributed._group import the_group
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed.futures import Future
from metatensor.distributed.reducer import GradBucket

__all__ = ["allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]


def _averaged(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Any]:
    """Begin to average a bucket in a dtype. Return a future for the averages in the dtype of the bucket."""
    group, flat = the_group(process_group), bucket.buffer()
    with mt.no_grad():
        sent = (flat if dtype is None else flat.to(dtype)).div_(group.size())
    work = _collectives.all_reduce(sent, ReduceOp.SUM, group, True)
    assert work is not None
    future: Future[Any] = work.get_future()
    return future.then(lambda done: done.value()[0] if dtype is None else flat.copy_(done.value()[0]))


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients of a bucket."""
    return _averaged(process_group, bucket, None)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients of a bucket in float16."""
    return _averaged(process_group, bucket, mt.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """Average the gradients of a bucket in bfloat16."""
    return _averaged(process_group, bucket, mt.bfloat16)
