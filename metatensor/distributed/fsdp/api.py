"""Settings of fully sharded data parallelism."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "DataParallelMeshDims", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy",
    "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(enum.Enum):
    """What is sharded: parameters, gradients, optimizer states, or some of them."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


@dataclass(frozen=True)
class DataParallelMeshDims:
    """The dimensions of a mesh over which `fully_shard` shards and replicates. It raises NotImplementedError for them."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None


class BackwardPrefetch(enum.Enum):
    """When the backward pass prefetches the next parameters."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """Whether a state dict holds complete, local flattened, or sharded parameters."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """Whether an optimizer state is keyed by parameter names or by numbers."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclass
class MixedPrecision:
    """Dtypes of parameters, reductions and buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (mt.nn.modules.batchnorm._BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters are kept on the cpu while they are not used."""

    offload_params: bool = False


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of parameters, reductions and outputs."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Keep parameters on their device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Keep parameters on the cpu while they are not used, optionally in pinned memory."""

    pin_memory: bool = True


@dataclass
class StateDictConfig:
    """Whether to move state dicts to the cpu."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Settings of complete state dicts. With ``rank0_only`` only rank 0 gets one."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Settings of state dicts with local flattened parameters."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Settings of state dicts with sharded parameters."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether to move optimizer states to the cpu."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Settings of complete optimizer states. With ``rank0_only`` only rank 0 gets one."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Settings of local flattened optimizer states."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Settings of sharded optimizer states."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dict and its two settings."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
