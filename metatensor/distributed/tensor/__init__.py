"""Distributed tensors. On a mesh of one process every tensor is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.distributed.device_mesh import DeviceMesh, init_device_mesh
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from metatensor.overloads.tags import is_pointwise

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty",
    "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("_utils", "parallel", "placement_types"))


_SAME_PLACES = frozenset((
    "alias", "bfloat16", "clone", "contiguous", "copy_", "cpu", "cuda", "detach", "detach_", "double", "empty_like", "fill_", "float",
    "full_like", "half", "ones_like", "positive", "rand_like", "randn_like", "requires_grad_", "to", "_to_copy", "type_as", "zero_",
    "zeros_like",
))  # fmt: skip


class DTensor(mt.Tensor):
    """A tensor with a device mesh and one placement per mesh dimension.

    Results of operators have placements if these are certain: if all arguments are replicated, or if an element-wise
    operator is applied to tensors of the same shape and placements. Any other operator on a sharded or partial tensor
    raises NotImplementedError; call ``redistribute`` or ``full_tensor`` first.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> mt.distributed.init_process_group(world_size=1, rank=0)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> distribute_tensor(mt.ones(4, 3), mesh, [Shard(0)]).placements
    (Shard(dim=0),)
    >>> mt.distributed.destroy_process_group()
    """

    _overrides_operators_only = True
    device_mesh: DeviceMesh
    placements: tuple[Placement, ...]

    def __new__(cls, local_tensor: Any, spec: Any, *, requires_grad: bool = False) -> Any:
        return _spread(local_tensor, spec.mesh, spec.placements)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        spread = [one for one in _leaves([*args, *kwargs.values()]) if isinstance(one, DTensor) and "device_mesh" in vars(one)]
        found = super().__torch_function__(func, types, args, kwargs)
        results = [one for one in _leaves((found,)) if isinstance(one, DTensor) and "device_mesh" not in vars(one)]
        if not spread or not results:
            return found
        mesh, placements = spread[0].device_mesh, spread[0].placements
        if any(one.device_mesh != mesh for one in spread):
            raise RuntimeError(f"{func.name}(): the arguments are on different meshes")
        if not all(isinstance(place, Replicate) for one in spread for place in one.placements):
            alike = all(one.placements == placements and one.shape == spread[0].shape for one in spread)
            by_itself = not any(isinstance(place, Partial) for place in placements) and is_pointwise(func)
            same_shape = all(one.shape == spread[0].shape for one in results)
            if not (alike and same_shape and (by_itself or func.functional.name in _SAME_PLACES)):
                raise NotImplementedError(
                    f"{func.name}(): the placements of the result are not known for arguments placed {[one.placements for one in spread]}; "
                    "redistribute them to Replicate() first, or use full_tensor()"
                )
        for one in results:
            one.device_mesh, one.placements = mesh, placements
        return found

    @staticmethod
    def from_local(
        local_tensor: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None, grad_placements: Any = None,
    ) -> Any:  # fmt: skip
        """Return a distributed tensor with ``local_tensor`` as this process's shard, which is the whole tensor."""
        return _spread(local_tensor, device_mesh, placements)

    def to_local(self, *, grad_placements: Any = None) -> Any:
        """Return this process's shard as an ordinary tensor. It has all elements."""
        return self.as_subclass(mt.Tensor)

    def full_tensor(self, *, grad_placements: Any = None) -> Any:
        """Return the complete tensor as an ordinary tensor."""
        return self.as_subclass(mt.Tensor)

    @property
    def _local_tensor(self) -> Any:
        return self.to_local()

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *, async_op: bool = False,
        forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> Any:  # fmt: skip
        """Return the same elements with other placements."""
        return _spread(self.to_local(), device_mesh or self.device_mesh, self.placements if placements is None else placements)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self.to_local()!r}, device_mesh={self.device_mesh}, placements={self.placements})"


def _leaves(values: Any) -> list[Any]:
    """Return the elements of nested lists and tuples."""
    return [leaf for one in values for leaf in (_leaves(one) if isinstance(one, (list, tuple)) else (one,))]


def _spread(tensor: Any, mesh: DeviceMesh | None, placements: Sequence[Placement] | None) -> Any:
    if not isinstance(tensor, mt.Tensor):
        raise TypeError(f"torch.distributed.tensor: expected a tensor, got {type(tensor).__name__}")
    mesh = DeviceMesh(tensor.device.type) if mesh is None else mesh
    placements = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(f"torch.distributed.tensor: {len(placements)} placements for a mesh of {mesh.ndim} dimensions")
    made: Any = tensor.as_subclass(DTensor)
    made.device_mesh = mesh
    made.placements = tuple(
        Shard(one.dim + tensor.dim()) if isinstance(one, Shard) and one.dim < 0 else one for one in placements
    )
    return made


def distribute_tensor(
    tensor: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """Return a distributed leaf tensor with the elements of ``tensor``.

    Parameters
    ----------
    tensor : Tensor
        The tensor to distribute. A `DTensor` is redistributed instead.
    device_mesh : DeviceMesh, optional
        Default: a mesh of one dimension on the tensor's device type.
    placements : sequence of Placement, optional
        One placement per mesh dimension. Default: `Replicate` for all.
    src_data_rank : int, optional
        Ignored.
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    wants = tensor.requires_grad
    made = _spread(tensor.detach(), device_mesh, placements)
    made.requires_grad_(wants)
    return made


def distribute_module(
    module: Any, device_mesh: DeviceMesh | None = None, partition_fn: Callable[..., None] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Call ``partition_fn(name, submodule, mesh)`` for each submodule and register hooks. Return the module.

    ``input_fn(module, inputs, mesh)`` and ``output_fn(module, outputs, mesh)`` are registered as
    forward hooks.
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    if partition_fn is not None:
        for name, submodule in module.named_modules():
            partition_fn(name, submodule, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module


def _maker(name: str) -> Callable[..., Any]:
    def make(*args: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, **options: Any) -> Any:
        device = None if device_mesh is None else device_mesh.device_type
        return _spread(getattr(mt, name)(*args, device=device, **options), device_mesh, placements)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Return the result of `torch.{name}` as a `DTensor`."
    return make


empty, full, ones, rand, randn, zeros = map(_maker, ("empty", "full", "ones", "rand", "randn", "zeros"))
