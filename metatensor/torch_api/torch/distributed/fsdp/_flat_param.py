"""The flattened parameters of `FullyShardedDataParallel`. There are none."""

from metatensor.torch_api.torch._absent import kinds

globals().update(kinds("distributed.fsdp._flat_param", "FlatParamHandle FlatParameter", "metatensor has no communication between processes"))
