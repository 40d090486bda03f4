"""The ranks of a program that runs a layout: a mesh, and the groups that share samples, sequences, matrices, experts or stages."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor import init_device_mesh
from metatensor.plan.layouts import Degrees

__all__ = ["Ranks"]


class Ranks:
    """The meshes of a layout on a rank.

    Parameters
    ----------
    degrees : Degrees
        The layout.
    mesh : DeviceMesh or None
        The ranks. Default: all of the program.
    device : str
        The type of device of the mesh.

    Attributes
    ----------
    mesh : DeviceMesh
        All ranks, with the dimensions "pipeline", "data", "context" if sequences are divided, and "tensor".
    replicas : DeviceMesh
        The ranks with the same parameters.
    context, tensor : DeviceMesh or None
        The ranks that divide sequences and matrices, None for one.
    expert : DeviceMesh or None
        The ranks that divide experts, and in a second dimension each expert. None if nothing divides them.
    expert_replicas : DeviceMesh
        The ranks with the same experts.
    """

    def __init__(self, degrees: Degrees, mesh: Any, device: str) -> None:
        self.mesh = mesh = _mesh(degrees, mesh, device)
        self.context = mesh["context"] if degrees.context > 1 else None
        self.tensor = mesh["tensor"] if degrees.tensor > 1 else None
        self.replicas = mesh["data", "context"]._flatten("replicas") if degrees.context > 1 else mesh["data"]
        self.expert, self.expert_replicas = None, self.replicas
        if degrees.expert > 1 or degrees.tensor > 1:
            shape = degrees.pipeline, degrees.expert_replicas, degrees.expert, degrees.tensor
            ranks = mt.tensor(list(mesh._ranks), device="cpu").view(shape)
            whole = DeviceMesh(device, ranks, mesh_dim_names=("pipeline", "expert_replicas", "expert", "tensor"))
            self.expert = whole["expert", "tensor"] if degrees.tensor > 1 else whole["expert"]
            self.expert_replicas = whole["expert_replicas"]

    def ends(self, first: int, last: int) -> Any:
        """Return the group of two ranks at these places of the pipeline. None if the places are the same; all ranks call it."""
        if first == last:
            return None
        places = [list(self.mesh._ranks)[i * (n := self.mesh.size() // self.mesh.size(0)) : (i + 1) * n] for i in (first, last)]
        pairs = DeviceMesh(self.mesh.device_type, places, mesh_dim_names=("ends", "others"))
        return pairs.get_group("ends")

    @property
    def tensor_group(self) -> Any:
        """The group of tensor parallelism, None for one rank."""
        return self.tensor.get_group() if self.tensor is not None else None


def _mesh(degrees: Degrees, mesh: Any, device: str) -> Any:
    sizes = {"pipeline": degrees.pipeline, "data": degrees.data, "context": degrees.context, "tensor": degrees.tensor}
    if degrees.context == 1:
        del sizes["context"]
    names, shape = tuple(sizes), tuple(sizes.values())
    if mesh is None:
        size = dist.get_world_size()
        if size != degrees.devices:
            raise ValueError(f"apply: the layout {degrees} is for {degrees.devices} ranks, but the program has {size}")
        return init_device_mesh(device, shape, mesh_dim_names=names)
    if tuple(mesh.mesh_dim_names or ()) != names or tuple(mesh.shape) != shape:
        dims = ", ".join(f"{name} {n}" for name, n in sizes.items())
        raise ValueError(f"apply: the layout {degrees} needs a mesh with the dimensions {dims}, got {list(mesh.shape)} named "
                         f"{mesh.mesh_dim_names}")  # fmt: skip
    return mesh
