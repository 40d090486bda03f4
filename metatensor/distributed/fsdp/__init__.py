"""Fully sharded data parallelism. Settings can be created, but functions and classes that shard modules raise."""

from __future__ import annotations

from metatensor._core.absent import functions, kind
from metatensor._core.lazy import attributes
from metatensor.distributed.fsdp._fully_sharded import FullyShardedDataParallel
from metatensor.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType", "fully_shard", "register_fsdp_forward_method",
]  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__, ("_flat_param", "_runtime_utils", "api", "wrap"), {"flat_param": f"{__name__}._flat_param"}
)

_WHY = "metatensor has no communication between processes"
FSDPModule = kind("distributed.fsdp.FSDPModule", _WHY)
UnshardHandle = kind("distributed.fsdp.UnshardHandle", _WHY)
_made = functions("distributed.fsdp", "fully_shard register_fsdp_forward_method share_comm_ctx", _WHY)
fully_shard = _made["fully_shard"]
register_fsdp_forward_method = _made["register_fsdp_forward_method"]
share_comm_ctx = _made["share_comm_ctx"]
