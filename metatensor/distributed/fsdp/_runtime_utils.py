"""The internals of `FullyShardedDataParallel`, which metatensor does not have."""

from metatensor._core.absent import function

__all__ = ["_lazy_init"]

_lazy_init = function("distributed.fsdp._runtime_utils._lazy_init", "metatensor has no communication between processes")
