"""Fully sharded data parallelism: `fully_shard`, and the older class `FullyShardedDataParallel`."""

from __future__ import annotations

from metatensor._core.lazy import attributes
from metatensor.distributed.fsdp._fsdp_module import FSDPModule, UnshardHandle
from metatensor.distributed.fsdp._fully_shard import fully_shard, register_fsdp_forward_method, share_comm_ctx
from metatensor.distributed.fsdp._fully_sharded import FullyShardedDataParallel
from metatensor.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    DataParallelMeshDims,
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
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule",
    "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy", "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType", "UnshardHandle", "fully_shard", "register_fsdp_forward_method",
    "share_comm_ctx",
]  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__, ("_flat_param", "_runtime_utils", "api", "fully_sharded_data_parallel", "sharded_grad_scaler", "wrap"),
    {"flat_param": f"{__name__}._flat_param"}
)
