"""The flattened parameters of `FullyShardedDataParallel`, which cannot be created."""

from metatensor._core.absent import kinds

__all__ = ["FlatParamHandle", "FlatParameter"]

_made = kinds("distributed.fsdp._flat_param", " ".join(__all__), "metatensor has no communication between processes")
FlatParamHandle, FlatParameter = _made["FlatParamHandle"], _made["FlatParameter"]
