"""A parameter that `fully_shard` manages: its shard, and the whole tensor that exists while its module runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.attribution import categorize
from metatensor._core.sharded import wrap
from metatensor._core.storage import refill, release, restore_version, visible_version
from metatensor._core.storage_views import tensor_from_storage
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.fsdp._meshes import DataParallel
from metatensor.distributed.tensor._dtensor import DTensor, _spec
from metatensor.distributed.tensor._moving import local_shape, moved
from metatensor.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard

__all__ = ["ShardedParameter"]


class ShardedParameter:
    """A parameter whose shard is kept, and whose whole tensor is there from `fill` to `free`.

    Parameters
    ----------
    name : str
        Its name, for errors.
    parameter : Parameter
        The parameter: a plain tensor, or a distributed one that tensor parallelism has placed.
    places : list of (Module, str)
        The modules that have it, and its name there.
    meshes : DataParallel
        The mesh over which it is sharded.
    shard : Shard
        The dimension along which it is sharded.
    policy : MixedPrecisionPolicy
        The dtypes.
    offload : bool
        Whether the shard and its gradient are on the cpu.

    Attributes
    ----------
    sharded : Parameter
        The shard, a distributed tensor.
    whole : Parameter or None
        The parameter with which the module runs. Its memory is freed and allocated again.
    """

    def __init__(
        self, name: str, parameter: Any, places: list[tuple[Any, str]], meshes: DataParallel, shard: Shard, policy: Any, offload: bool
    ) -> None:
        self.name, self.places, self.meshes, self.policy, self.offload = name, places, meshes, policy, offload
        self.also: str | None = getattr(parameter, "_fsdp_name", None)
        """The name of the same parameter in another group, or None."""
        parameter._fsdp_name = name
        self.inner = parameter._spec if isinstance(parameter, DTensor) else None
        """How tensor parallelism placed the parameter, or None."""
        part = (parameter._local_tensor if self.inner is not None else parameter).detach()
        self.dim = _checked_dim(name, part, shard)
        self.shape = tuple(part.shape)
        """The shape of the tensor that is gathered: with tensor parallelism, this rank's part of the parameter."""
        self.count = meshes.shard_count
        if self.dim and self.shape[self.dim] % self.count:
            raise NotImplementedError(
                f"fully_shard: {name} of shape {list(self.shape)} cannot be sharded evenly along dimension {self.dim} over {self.count} "
                "ranks"
            )
        self.sharded = self._shard_of(part, parameter)
        self.requires_grad = parameter.requires_grad
        self.whole: Any = None
        self.post_forward: Any = None
        """The shard on a smaller mesh, between forward and backward, or None."""
        self.accumulated: Any = None
        """Gradients of backward passes that were not reduced, in the dtype of reductions, or None."""
        self._storage: Any = None

    # Shards -----------------------------------------------------------------------

    def _shard_of(self, part: Any, parameter: Any) -> Any:
        """Return the parameter with this process's shard."""
        mesh, placements = self.meshes.mesh, self.meshes.placements(Shard(self.dim))
        local = moved(part, mesh, self.shape, (Replicate(),) * mesh.ndim, placements)
        if self.offload and local.device.type != "meta":
            local = local.to("cpu")
        if self.inner is not None:
            inner = self.inner
            factor = prod(size for size, one in zip(inner.mesh.shape, inner.placements) if isinstance(one, Shard) and one.dim == self.dim)
            shard: Placement = Shard(self.dim) if factor == 1 else _StridedShard(self.dim, split_factor=factor)
            mesh = DeviceMesh._concatenate([mesh, inner.mesh])
            placements = (*self.meshes.placements(shard), *inner.placements)
            if local_shape(inner.shape, mesh, placements) != tuple(local.shape):
                raise NotImplementedError(
                    f"fully_shard: {self.name} of shape {list(inner.shape)} with placements {inner.placements} cannot be sharded evenly "
                    f"along dimension {self.dim} over {self.count} ranks"
                )
        self.spec = _spec(mesh, placements, parameter.shape, parameter.stride(), parameter.dtype)
        return mt.nn.Parameter(wrap(local, self.spec), parameter.requires_grad)  # type: ignore[arg-type]

    @property
    def local(self) -> Any:
        """This process's shard, an ordinary tensor: that of the smaller mesh, if there is one."""
        return self.sharded._local_tensor.detach() if self.post_forward is None else self.post_forward._local_tensor

    @property
    def dtype(self) -> Any:
        """The dtype of the shard."""
        return self.sharded.dtype

    @property
    def whole_dtype(self) -> Any:
        """The dtype in which the parameter is gathered."""
        given = self.policy.param_dtype
        return given if given is not None and self.dtype.is_floating_point else self.dtype

    def gradient_of_shard(self, local: Any) -> Any:
        """Return a distributed tensor like the shard over ``local``."""
        spec = self.spec
        return wrap(local, spec if local.dtype == spec.dtype else _spec(spec.mesh, spec.placements, spec.shape, spec.stride, local.dtype))

    def padded_numel(self, count: int | None = None) -> int:
        """Return the size of the largest shard over ``count`` ranks in elements. All ranks send that many."""
        return prod(self.padded_shape(self.count if count is None else count))

    def padded_shape(self, count: int) -> tuple[int, ...]:
        """Return the shape of the largest shard over ``count`` ranks."""
        shape = list(self.shape)
        shape[self.dim] = -(-shape[self.dim] // count)
        return tuple(shape)

    def find(self) -> None:
        """Take the parameter that the module has now, which may have been replaced or moved since."""
        module, name = self.places[0]
        found = module._parameters.get(name)
        if found is None or found is self.whole:
            return
        if not isinstance(found, DTensor) or found.placements != self.spec.placements or found.device_mesh != self.spec.mesh:
            raise ValueError(
                f"fully_shard: {self.name} was replaced by {_described(found)}; expected a DTensor with placements {self.spec.placements} "
                f"on {self.spec.mesh}"
            )
        if found is not self.sharded or found.dtype != self.spec.dtype:
            self.spec = found._spec
            self.sharded = found
        self.requires_grad = found.requires_grad
        self.register(found)

    def register(self, parameter: Any) -> None:
        """Make a tensor the parameter of the modules."""
        for module, name in self.places:
            module._parameters[name] = parameter

    # The whole tensor ---------------------------------------------------------------

    def fill(self, pieces: Any, count: int) -> None:
        """Allocate the whole tensor and copy to it the shards of ``count`` ranks, the rows of ``pieces``."""
        device = pieces.device
        if self._storage is not None and (self._storage.device != device or self.whole.dtype != self.whole_dtype):
            self.whole = self._storage = None  # the module was converted
        size = self.padded_numel(count) * count
        nbytes = size * self.whole_dtype.itemsize
        if self._storage is None:
            self._storage = mt.empty(size, dtype=self.whole_dtype, device=device).untyped_storage()
            self.whole = self._parameter()
        else:
            refill(self._storage, nbytes)
        version = visible_version(self._storage)
        flat = tensor_from_storage(self._storage, self.whole_dtype, (size,), (1,))
        if self.dim:
            shards = pieces.contiguous().view(self.whole_dtype).view(count, *self.padded_shape(count)).unbind(0)
            mt.cat(shards, self.dim, out=flat.view(self.shape))
        elif size:
            flat.view(pieces.dtype).view(count, -1).copy_(pieces)
        restore_version(self._storage, version)
        categorize(flat, "parameter")
        self.whole.requires_grad_(self.requires_grad)

    def _parameter(self) -> Any:
        plain = tensor_from_storage(self._storage, self.whole_dtype, self.shape, _contiguous(self.shape))
        if self.inner is not None:
            inner = self.inner
            plain = wrap(plain, _spec(inner.mesh, inner.placements, inner.shape, inner.stride, self.whole_dtype))
        made = mt.nn.Parameter(plain, self.requires_grad)
        if self.requires_grad:
            made.register_post_accumulate_grad_hook(_count_as_gradient)
        return made

    def keep_part(self, meshes: DataParallel) -> None:
        """Copy the shard on a smaller mesh from the whole tensor."""
        group = meshes.shard_group
        numel = self.padded_numel(group.size())
        if self.dim:
            raise NotImplementedError(
                f"fully_shard: {self.name} is sharded along dimension {self.dim}; then reshard_after_forward must be a bool"
            )
        flat = tensor_from_storage(self._storage, self.whole_dtype, (self._storage.nbytes() // self.whole_dtype.itemsize,), (1,))
        shape = local_shape(self.shape, meshes.mesh, (Replicate(), Shard(0)))
        start, size = min(numel * group._rank, prod(self.shape)), prod(shape)
        local = flat[start : start + size].view(shape).clone()
        mesh, placements = meshes.mesh, (Replicate(), Shard(0))
        spec = _spec(mesh, placements, self.shape, _contiguous(self.shape), self.whole_dtype)
        self.post_forward = mt.nn.Parameter(wrap(local, spec), self.requires_grad)  # type: ignore[arg-type]
        categorize(local, "parameter")

    def free(self) -> None:
        """Free the memory of the whole tensor."""
        if self._storage is not None:
            release(self._storage)

    # Gradients --------------------------------------------------------------------------

    def take_gradient(self) -> Any:
        """Return the gradient of the whole tensor, a plain tensor, and forget it; None if there is none."""
        found, self.accumulated = self.accumulated, None
        if found is None and self.whole is not None:
            found, self.whole.grad = self.whole.grad, None
        return None if found is None else self._plain(found)

    def accumulate(self, dtype: Any) -> None:
        """Keep the gradient in ``dtype`` until it is reduced."""
        grad = None if self.whole is None else self.whole.grad
        if grad is None:
            return
        if self.accumulated is not None:
            self.accumulated += grad
        elif dtype is None or grad.dtype == dtype:
            return
        else:
            self.accumulated = grad.to(dtype)
        self.whole.grad = None

    def add_accumulated(self) -> None:
        """Add the gradient of this backward pass to those of earlier ones that are kept in another dtype."""
        if self.accumulated is not None and self.whole.grad is not None:
            self.accumulated += self.whole.grad
            self.whole.grad = None

    def _plain(self, grad: Any) -> Any:
        if self.inner is None:
            return grad.detach()
        if grad.placements != self.inner.placements:
            grad = grad.redistribute(placements=self.inner.placements)
        return grad._local_tensor.detach()


def _count_as_gradient(parameter: Any) -> None:
    grad = parameter.grad
    categorize(grad._local_tensor if isinstance(grad, DTensor) else grad, "gradient")


def _checked_dim(name: str, part: Any, shard: Shard) -> int:
    if not part.ndim:
        raise ValueError(f"fully_shard: the parameter {name} has no dimensions; give it one of size 1")
    if not isinstance(shard, Shard):
        raise AssertionError(f"fully_shard: shard_placement_fn must return Shard or None, got {shard!r} for {name}")
    if not -part.ndim <= shard.dim < part.ndim:
        raise AssertionError(f"fully_shard: {shard} is out of range for {name} of shape {list(part.shape)}")
    if not part.is_contiguous():
        raise NotImplementedError(f"fully_shard: {name} of shape {list(part.shape)} and strides {list(part.stride())} is not contiguous")
    return shard.dim % part.ndim


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(max(size, 1) for size in shape[dim + 1 :]) for dim in range(len(shape)))


def _described(found: Any) -> str:
    where = f" with placements {found.placements}" if isinstance(found, DTensor) else ""
    return f"a {type(found).__name__}{where} of shape {list(found.shape)}"
