"""The flattened parameters of `FullyShardedDataParallel`, which cannot be created."""

from metatensor._core.absent import kinds

__all__ = ["FlatParamHandle", "FlatParameter"]

_made = kinds("distributed.fsdp._flat_param", " ".join(__all__), "sharded parameters are DTensors here, not parts of flat tensors")
FlatParamHandle, FlatParameter = _made["FlatParamHandle"], _made["FlatParameter"]
