"""Device meshes: the ranks of a world as an array whose dimensions have names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.distributed import _group
from metatensor.distributed._world import current_world, observed

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Array(NamedTuple):
    shape: tuple[int, ...]
    ranks: tuple[int, ...]


class DeviceMesh:
    """An array of ranks with optional dimension names.

    The ranks along one dimension, with the same index in all others, form a process group. Every rank of the world creates
    the mesh. If there is no default process group, it is initialized: on device type ``"meta"`` as a simulated world that is
    just large enough, of which only one rank is run, and otherwise from the launcher or the environment.

    Parameters
    ----------
    device_type : str
        Device type of the mesh, such as ``"cpu"``.
    mesh : array_like, optional
        Ranks: an array of any number of dimensions. Default: all ranks of the world, in one dimension.
    mesh_dim_names : tuple of str, optional
        One name per dimension.
    rank : int
        For a simulated world: the rank that is run. Default 0.

    Raises
    ------
    RuntimeError
        If the number of names differs from the number of dimensions, or a rank occurs twice.
    ValueError
        If the world has no such rank.

    Examples
    --------
    >>> import metatensor as mt
    >>> mesh = mt.distributed.init_device_mesh("meta", (64, 8), mesh_dim_names=("dp", "tp"))
    >>> mesh["tp"].size(), mesh["dp"].get_group().size()
    (8, 64)
    >>> mt.distributed.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None, rank: int | None = None,
        backend_override: Any = None, _init_backend: bool = True, _rank: int | None = None, _root: DeviceMesh | None = None,
    ) -> None:  # fmt: skip
        given = None if mesh is None else _array(mesh)
        if mesh_dim_names is not None and given is not None and len(mesh_dim_names) != len(given[0]):
            raise RuntimeError(f"torch.distributed.DeviceMesh: {len(mesh_dim_names)} names for {len(given[0])} dimensions")
        if not _group.is_initialized():
            _join_world(device_type, 1 if given is None else max(given[1], default=0) + 1, rank if rank is not None else _rank)
        size = _group.get_world_size()
        self.device_type = device_type
        self._shape, self._ranks = ((size,), tuple(range(size))) if given is None else given
        if len(set(self._ranks)) != len(self._ranks):
            raise RuntimeError(f"torch.distributed.DeviceMesh: a rank occurs twice in {list(self._ranks)}")
        if self._ranks and not 0 <= min(self._ranks) <= max(self._ranks) < size:
            raise ValueError(f"torch.distributed.DeviceMesh: the world has {size} ranks, got {list(self._ranks)}")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        world = current_world().default
        assert world is not None
        self._rank = world.ranks[world._rank]  # not observed: see `_world.observed`
        self._root = self if _root is None else _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._sliced: dict[tuple[str, ...], DeviceMesh] = {}
        self._cut_from: tuple[DeviceMesh, list[int]] | None = None
        """The mesh that this one was sliced from, and its dimensions there."""
        self._groups: list[Any] | None = None
        self._specs: dict[Any, Any] = {}
        """The interned `DTensorSpec`s of this mesh."""
        self._plans: dict[Any, Any] = {}
        """The plans of calls with tensors on this mesh, see `metatensor._core.sharded`."""
        self._coordinate = self._place_of(self._rank)
        if _root is None and _init_backend:
            self._make_groups()

    def _make_groups(self) -> list[Any]:
        """Return this rank's group along each dimension. All ranks create them in the same order."""
        if self._groups is None:
            made = []
            for dim in range(self.ndim):
                ranks = self._along(dim)
                world = current_world().default
                if ranks is None:
                    made.append(_group.GroupMember.NON_GROUP_MEMBER)
                elif world is not None and ranks == world.ranks:
                    made.append(world)
                else:
                    name = f"mesh_{(self.mesh_dim_names or range(self.ndim))[dim]}"
                    made.append(_group.create_group(ranks, group_desc=name))
            self._groups = made
        return self._groups

    def _along(self, dim: int) -> tuple[int, ...] | None:
        """Return the ranks along a dimension that have this rank's index in all others, or None if it is not in the mesh."""
        if self._coordinate is None:
            return None
        steps = _strides(self._shape)
        start = sum(index * step for index, step in zip(self._coordinate, steps)) - self._coordinate[dim] * steps[dim]
        return tuple(self._ranks[start + index * steps[dim]] for index in range(self._shape[dim]))

    # Shape ------------------------------------------------------------------------

    @property
    def mesh(self) -> Any:
        """The ranks as an int32 tensor on the cpu."""
        return mt.tensor(self._ranks, dtype=mt.int32, device="cpu").reshape(self._shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self._shape

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks, or the size of one dimension."""
        return len(self._ranks) if mesh_dim is None else self._shape[mesh_dim]

    # Sub-meshes -------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the mesh of some dimensions, with this rank's index in all others.

        Names are in the order of the mesh's dimensions. A name given to `_flatten` counts as a dimension. Raise KeyError for
        other names.
        """
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        if names not in self._sliced:
            self._sliced[names] = self._slice(names)
        return self._sliced[names]

    def _slice(self, names: tuple[str, ...]) -> DeviceMesh:
        flattened = self._root._flattened
        if len(names) == 1 and names[0] in flattened and names[0] not in (self.mesh_dim_names or ()):
            return flattened[names[0]]
        known = self.mesh_dim_names or ()
        if not names or any(name not in known for name in names):
            raise KeyError(f"torch.distributed.DeviceMesh: no dimensions {names}; there are {[*known, *flattened]}")
        dims = [known.index(name) for name in names]
        if dims != sorted(set(dims)):
            raise KeyError(f"torch.distributed.DeviceMesh: the dimensions {names} are not in the order of the mesh, {known}")
        return self._of_dims(dims, names)

    def _of_dims(self, dims: list[int], names: tuple[str, ...] | None) -> DeviceMesh:
        """Return the mesh of some dimensions, with this rank's index in all others."""
        at = self._coordinate or (0,) * self.ndim
        steps = _strides(self._shape)
        base = sum(at[dim] * steps[dim] for dim in range(self.ndim) if dim not in dims)
        shape = tuple(self._shape[dim] for dim in dims)
        chosen = [base + sum(index * steps[dim] for index, dim in zip(place, dims)) for place in product(*map(range, shape))]
        made = DeviceMesh(
            self.device_type, _Array(shape, tuple(self._ranks[one] for one in chosen)), mesh_dim_names=names, _root=self._root
        )
        made._groups = [self._make_groups()[dim] for dim in dims]
        made._cut_from = self, dims
        return made

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """Return a mesh of one dimension with the same ranks. The root mesh can be indexed with its name.

        The default name joins those of the dimensions with underscores.
        """
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root
        if name in (root.mesh_dim_names or ()) and self.ndim > 1:
            raise ValueError(f"torch.distributed.DeviceMesh: the mesh has a dimension {name!r} already")
        found = root._flattened.get(name)
        if found is not None and found._ranks == self._ranks:
            return found
        made = DeviceMesh(self.device_type, _Array((len(self._ranks),), self._ranks), mesh_dim_names=(name,), _root=root)
        made._groups = self._make_groups() if self.ndim == 1 else None
        made._make_groups()
        made._cut_from = _Flat(self), [0]  # type: ignore[assignment]
        root._flattened[name] = made
        return made

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str], backend_override: Any = None
    ) -> DeviceMesh:
        """Return a mesh of the same ranks in which a dimension is divided into several, the last of which varies fastest.

        ``backend_override`` is ignored. Raise ValueError if the sizes do not multiply to that of the dimension, if there is not a name
        for each, or if a name is that of another dimension.
        """
        at, sizes, names = self._dim(dim), tuple(mesh_sizes), tuple(mesh_dim_names)
        if prod(sizes) != self._shape[at]:
            raise ValueError(f"torch.distributed.DeviceMesh: a dimension of size {self._shape[at]} cannot be divided into {sizes}")
        others = (*(self.mesh_dim_names or ())[:at], *(self.mesh_dim_names or ())[at + 1 :])
        if len(names) != len(sizes) or len({*names, *others}) != len(names) + len(others):
            raise ValueError(f"torch.distributed.DeviceMesh: the sizes {sizes} need {len(sizes)} names that are no others' of the mesh, "
                             f"got {names}")  # fmt: skip
        known = self.mesh_dim_names or tuple(f"dim_{one}" for one in range(self.ndim))
        shape = (*self._shape[:at], *sizes, *self._shape[at + 1 :])
        made = DeviceMesh(self.device_type, _Array(shape, self._ranks), mesh_dim_names=(*known[:at], *names, *known[at + 1 :]),
                          _root=self._root)  # fmt: skip
        made._cut_from = _Divided(self, at, sizes), list(range(len(shape)))  # type: ignore[assignment]
        return made

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """Return the mesh of the dimensions of several sub-meshes of one root, each of which may be flattened.

        Raise RuntimeError if they have different roots, or share a dimension.
        """
        root = device_mesh_list[0]._root
        names = tuple(name for one in device_mesh_list for name in one.mesh_dim_names or ())
        if any(one._root is not root for one in device_mesh_list):
            raise RuntimeError(f"torch.distributed.DeviceMesh: {', '.join(map(str, device_mesh_list))} do not belong to one mesh")
        if names in root._sliced:
            return root._sliced[names]
        if set(names) <= set(root.mesh_dim_names or ()) and len(names) == sum(one.ndim for one in device_mesh_list):
            return root[names]
        here = root._ranks.index(root._rank) if root._rank in root._ranks else 0
        offsets = [[root._ranks.index(rank) - here for rank in one._ranks] for one in device_mesh_list]
        places = [here + sum(place) for place in product(*offsets)]
        shape = tuple(size for one in device_mesh_list for size in one._shape)
        if len(set(places)) != len(places) or not 0 <= min(places) <= max(places) < len(root._ranks):
            raise RuntimeError(f"torch.distributed.DeviceMesh: {', '.join(map(str, device_mesh_list))} share dimensions")
        ranks = tuple(root._ranks[place] for place in places)
        made = DeviceMesh(root.device_type, _Array(shape, ranks), mesh_dim_names=names or None, _root=root)
        made._groups = [group for one in device_mesh_list for group in one._make_groups()]
        root._sliced[names] = made
        return made

    # This rank --------------------------------------------------------------------

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
        """Return the group of this rank along a dimension."""
        if isinstance(mesh_dim, str) and mesh_dim not in (self.mesh_dim_names or ()) and mesh_dim in self._root._flattened:
            return self._root._flattened[mesh_dim].get_group()
        return self._make_groups()[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """Return the group of this rank along each dimension."""
        return list(self._make_groups())

    def get_rank(self) -> int:
        """Return the rank of this process in the world."""
        return _group.get_rank()

    def _place_of(self, rank: int) -> tuple[int, ...] | None:
        """Return the index of a rank along each dimension, or None if it is not in the mesh.

        For a sub-mesh, ranks of the other sub-meshes along the same dimensions have the index that they have there.
        """
        if rank in self._ranks:
            return _unravel(self._ranks.index(rank), self._shape)
        if self._cut_from is None:
            return None
        whole, dims = self._cut_from
        place = whole._place_of(rank)
        return None if place is None else tuple(place[dim] for dim in dims)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the index of this rank along a dimension. Raise RuntimeError if it is not in the mesh."""
        dim, place_of = self._dim(mesh_dim), self._place_of
        if self._coordinate is None:
            raise RuntimeError(f"torch.distributed.DeviceMesh: rank {self._rank} is not in the mesh")
        return observed(lambda rank: (place_of(rank) or (-1,) * (dim + 1))[dim])

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return the index of this rank along each dimension, or None if it is not in the mesh."""
        return observed(self._place_of)

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None) -> DeviceMesh:
        """Return a mesh for a group, or a mesh with one dimension per group of a list.

        For a list, ``mesh`` gives the ranks.
        """
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        if mesh is None:
            if len(groups) > 1:
                raise ValueError("torch.distributed.DeviceMesh.from_group: several groups need the argument mesh")
            mesh = list(groups[0].ranks)
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if len(groups) != made.ndim:
            raise ValueError(f"torch.distributed.DeviceMesh.from_group: {len(groups)} groups for a mesh of {made.ndim} dimensions")
        made._groups = groups
        return made

    # Comparison -------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self._shape, self._ranks, self.mesh_dim_names

    def __reduce__(self) -> Any:
        return _rebuild, (self.device_type, self._shape, self._ranks, self.mesh_dim_names)

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *_: Any) -> None:
        """Do nothing: entering and leaving a mesh has no effect."""

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        sizes = map(str, self._shape) if names is None else (f"{name}={size}" for name, size in zip(names, self._shape))
        return f"DeviceMesh(({', '.join(sizes)}), {self.device_type!r})"


class _Flat(NamedTuple):
    """A mesh seen as one dimension."""

    mesh: DeviceMesh

    def _place_of(self, rank: int) -> tuple[int] | None:
        place = self.mesh._place_of(rank)
        return None if place is None else (sum(index * step for index, step in zip(place, _strides(self.mesh.shape))),)


class _Divided(NamedTuple):
    """A mesh of which one dimension is seen as several."""

    mesh: DeviceMesh
    dim: int
    sizes: tuple[int, ...]

    def _place_of(self, rank: int) -> tuple[int, ...] | None:
        place = self.mesh._place_of(rank)
        return None if place is None else (*place[: self.dim], *_unravel(place[self.dim], self.sizes), *place[self.dim + 1 :])


def _rebuild(device_type: str, shape: tuple[int, ...], ranks: tuple[int, ...], names: tuple[str, ...] | None) -> DeviceMesh:
    return DeviceMesh(device_type, _Array(shape, ranks), mesh_dim_names=names)


def _array(mesh: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the elements of an array of ranks: an `_Array`, nested lists, or a tensor."""
    if isinstance(mesh, _Array):
        return mesh
    if hasattr(mesh, "tolist"):
        mesh = mesh.tolist()
    shape, level = [], [mesh]
    while level and isinstance(level[0], (list, tuple, range)):
        shape.append(len(level[0]))
        if any(len(one) != shape[-1] for one in level):
            raise ValueError("torch.distributed.DeviceMesh: the lists of ranks have different lengths")
        level = [one for members in level for one in members]
    return tuple(shape), tuple(int(one) for one in level)


def _strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[dim + 1 :]) for dim in range(len(shape))]


def _unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(index // step % size for size, step in zip(shape, _strides(shape)))


def _join_world(device_type: str, size: int, rank: int | None) -> None:
    """Create the default group: on meta a simulated world of ``size`` ranks, unless the process was launched."""
    if device_type == "meta" and current_world().launch is None:
        _group.init_process_group("fake", world_size=size, rank=rank or 0)
    else:
        _group.init_process_group()


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None,
    rank: int | None = None,
) -> DeviceMesh:  # fmt: skip
    """Create a mesh of the first ranks of the world, with the given shape and dimension names.

    Parameters
    ----------
    device_type : str
        Device type without an index. With ``"meta"`` and no process group, the mesh makes a simulated world of its size.
    mesh_shape : sequence of int
        Size of each dimension.
    mesh_dim_names : tuple of str, optional
        One distinct name per dimension.
    backend_override
        Ignored.
    rank : int, optional
        The rank of a simulated world that is run. Default 0.

    Raises
    ------
    RuntimeError
        If the names do not match the shape or repeat, if the mesh has more ranks than the world, or if ``device_type`` has an
        index.
    """
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"torch.distributed.init_device_mesh: two dimensions share a name in {mesh_dim_names}")
    if mesh_dim_names is not None and len(shape) != len(mesh_dim_names):
        raise RuntimeError(f"torch.distributed.init_device_mesh: {len(mesh_dim_names)} names for {len(shape)} dimensions")
    if not device_type.isalpha():
        raise RuntimeError(f"torch.distributed.init_device_mesh: expected a device type without a number, got {device_type!r}")
    size = prod(shape)
    if not _group.is_initialized():
        _join_world(device_type, size, rank)
    if size > _group.get_world_size():
        raise RuntimeError(
            f"torch.distributed.init_device_mesh: a mesh of shape {shape} has {size} ranks, but the world has {_group.get_world_size()}"
        )
    return DeviceMesh(device_type, _Array(shape, tuple(range(size))), mesh_dim_names=mesh_dim_names)
