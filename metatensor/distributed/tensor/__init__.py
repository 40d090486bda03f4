"""Distributed tensors: tensors whose parts lie on the processes of a mesh."""

from __future__ import annotations

from metatensor._core.lazy import attributes
from metatensor.distributed.device_mesh import DeviceMesh, init_device_mesh
from metatensor.distributed.tensor._dtensor import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("_utils", "experimental", "parallel", "placement_types", "sharding"))
