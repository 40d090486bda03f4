"""Device meshes over a single process: they only have a shape and dimension names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed import _group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An array of process ranks with optional dimension names. Every dimension has size 1.

    If there is no default process group, creating a mesh initializes it. World size and rank must then be in the
    environment variables WORLD_SIZE and RANK.

    Parameters
    ----------
    device_type : str
        Device type of the mesh, such as ``"cpu"``.
    mesh : array_like, optional
        Ranks: an array of any number of dimensions whose only element is 0. Default: ``[0]``.
    mesh_dim_names : tuple of str, optional
        One name per dimension.

    Raises
    ------
    NotImplementedError
        If the mesh has more than one rank.
    RuntimeError
        If the number of names differs from the number of dimensions.
    """

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None, **options: Any
    ) -> None:
        ranks = mt.as_tensor([0] if mesh is None else mesh, dtype=mt.int32, device="cpu")
        if ranks.numel() != 1 or int(ranks.max()) != 0:
            raise NotImplementedError(
                f"torch.distributed.DeviceMesh: metatensor has one process, of rank 0; got a mesh of "
                f"{ranks.numel()} ranks, {ranks.tolist()}"
            )
        if mesh_dim_names is not None and len(mesh_dim_names) != ranks.dim():
            raise RuntimeError(f"torch.distributed.DeviceMesh: {len(mesh_dim_names)} names for {ranks.dim()} dimensions")
        if not _group.is_initialized():
            _group.init_process_group()
        self.device_type, self.mesh = device_type, ranks
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._flattened: dict[str, DeviceMesh] = {}

    # Shape ------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.mesh.dim())

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions, all 1."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes or the size of one dimension. Both are 1."""
        return int(self.mesh.numel()) if mesh_dim is None else self.shape[mesh_dim]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names[0] in self._flattened and len(names) == 1:
            return self._flattened[names[0]]
        known = self.mesh_dim_names or ()
        if any(name not in known for name in names):
            raise KeyError(f"torch.distributed.DeviceMesh: no dimensions {names}; there are {[*known, *self._flattened]}")
        return self._of(names)

    def _of(self, names: tuple[str, ...] | None) -> DeviceMesh:
        return DeviceMesh(self.device_type, self.mesh.reshape([1] * len(names or ())), mesh_dim_names=names)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        self._flattened[name] = self._of((name,))
        return self._flattened[name]

    # This process -----------------------------------------------------------------

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(f"torch.distributed.DeviceMesh: mesh_dim is required for a mesh of {self.ndim} dimensions")
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"torch.distributed.DeviceMesh: no dimension {mesh_dim!r}; there are {list(self.mesh_dim_names or ())}")
            assert self.mesh_dim_names is not None
            return self.mesh_dim_names.index(mesh_dim)
        return range(self.ndim)[mesh_dim]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the group of the processes along a dimension."""
        self._dim(mesh_dim)
        return _group.GroupMember.WORLD

    def get_all_groups(self) -> list[Any]:
        """Return the group of each dimension."""
        return [_group.GroupMember.WORLD] * self.ndim

    def get_rank(self) -> int:
        """Return the rank of this process in the world."""
        return _group.get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the index of this process along a dimension."""
        self._dim(mesh_dim)
        return 0

    def get_coordinate(self) -> tuple[int, ...]:
        """Return the index of this process along each dimension."""
        return (0,) * self.ndim

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None) -> DeviceMesh:
        """Return a mesh for a group, or a mesh with one dimension per group of a list."""
        dims = len(group) if isinstance(group, (list, tuple)) else 1
        return DeviceMesh(device_type, mt.zeros([1] * dims, dtype=mt.int32), mesh_dim_names=mesh_dim_names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, self.mesh_dim_names

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *_: Any) -> None:
        """Do nothing: entering and leaving a mesh has no effect."""

    def __repr__(self) -> str:
        sizes = map(str, self.shape) if self.mesh_dim_names is None else (f"{name}=1" for name in self.mesh_dim_names)
        return f"DeviceMesh(({', '.join(sizes)}), {self.device_type!r})"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None
) -> DeviceMesh:
    """Create a mesh with the given shape and dimension names.

    Parameters
    ----------
    device_type : str
        Device type without an index.
    mesh_shape : sequence of int
        Size of each dimension, which must be 1.
    mesh_dim_names : tuple of str, optional
        One distinct name per dimension.

    Raises
    ------
    NotImplementedError
        If the mesh has more than one process.
    RuntimeError
        If the names do not match the shape or repeat, or if ``device_type`` has an index.
    """
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"torch.distributed.init_device_mesh: two dimensions share a name in {mesh_dim_names}")
    if mesh_dim_names is not None and len(shape) != len(mesh_dim_names):
        raise RuntimeError(f"torch.distributed.init_device_mesh: {len(mesh_dim_names)} names for {len(shape)} dimensions")
    if not device_type.isalpha():
        raise RuntimeError(f"torch.distributed.init_device_mesh: expected a device type without a number, got {device_type!r}")
    size = 1
    for one in shape:
        size *= one
    _group.only_this_process("init_device_mesh", size)
    return DeviceMesh(device_type, mt.zeros(shape, dtype=mt.int32), mesh_dim_names=mesh_dim_names)
