"""`DTensor`, and the ways in and out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.sharded import DistributedTensor, quietly, set_class, wrap
from metatensor._core.tensor import Tensor, _disabled_torch_function_impl
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor._moving import is_cut, local_shape, moved
from metatensor.distributed.tensor._utils import held_blocks, in_order, whole_stride
from metatensor.distributed.tensor.placement_types import DTensorSpec, Partial, Placement, Replicate, Shard, _StridedShard, interned

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class DTensor(DistributedTensor):
    """A tensor that is distributed over a mesh of processes. Each process holds a part.

    Shape, strides and dtype are those of the whole tensor. Operators run on the parts, and communicate where the placements
    of their arguments require it. `distribute_tensor`, `DTensor.from_local` and the factories of this module create
    distributed tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> mesh = init_device_mesh("meta", (4,))
    >>> x = distribute_tensor(mt.empty(8, 6, device="meta"), mesh, [Shard(0)])
    >>> x.shape, x.to_local().shape
    (metatensor.Size([8, 6]), metatensor.Size([2, 6]))
    >>> x.sum().placements
    (Partial(sum),)
    >>> mt.distributed.destroy_process_group()
    """

    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, local_tensor: Any, spec: DTensorSpec, *, requires_grad: bool = False) -> Any:
        return wrap(local_tensor, spec, requires_grad)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh  # type: ignore[no-any-return]

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One placement for each mesh dimension."""
        return self._spec.placements  # type: ignore[no-any-return]

    @staticmethod
    def from_local(
        local_tensor: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None, grad_placements: Any = None,
    ) -> Any:  # fmt: skip
        """Return a distributed tensor whose part on this process is ``local_tensor``. It is differentiable.

        Parameters
        ----------
        local_tensor : Tensor
            The part.
        device_mesh : DeviceMesh, optional
            Default: a mesh of one dimension with all ranks.
        placements : sequence of Placement, optional
            Default: `Replicate` on all mesh dimensions.
        run_check : bool
            Make the parts of replicated mesh dimensions equal to those of the first rank.
        shape, stride : tuple of int, optional
            Shape and strides of the whole tensor. By default, all shards have the size of ``local_tensor``.
        grad_placements : sequence of Placement, optional
            Placements of the gradient. Default: those of the tensor, replicated where it is partial.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("torch.distributed.tensor.DTensor.from_local: the tensor is a DTensor already")
        mesh, placed = _normalized("DTensor.from_local", local_tensor, device_mesh, placements, local_tensor.dim())
        if (shape is None) != (stride is None):
            raise RuntimeError("torch.distributed.tensor.DTensor.from_local: shape and stride must be given together")
        if shape is None:
            shape, stride = _whole_layout(local_tensor, mesh, placed)
        if run_check:
            local_tensor = _same_everywhere(local_tensor, mesh, placed)
        return _FromLocal.apply(local_tensor, _spec(mesh, placed, shape, stride, local_tensor.dtype), grad_placements)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """Return this process's part as an ordinary tensor. It is differentiable.

        ``grad_placements`` are the placements of the gradient of the part. The default is those of the tensor.
        """
        if not self.requires_grad or not mt.is_grad_enabled():
            return self._local_tensor.detach() if self._local_tensor.requires_grad else self._local_tensor.view_as(self._local_tensor)
        return _ToLocal.apply(self, grad_placements)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Any:
        """Return the whole tensor as an ordinary tensor on every process. It is differentiable."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return _ToLocal.apply(whole, grad_placements) if whole.requires_grad and mt.is_grad_enabled() else whole._local_tensor

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *, async_op: bool = False,
        forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> Any:  # fmt: skip
        """Return the same tensor with other placements on the same mesh. It is differentiable.

        Parameters
        ----------
        device_mesh : DeviceMesh, optional
            Must be the mesh of the tensor.
        placements : sequence of Placement
            One for each mesh dimension.
        async_op : bool
            Ignored: the result is complete.
        forward_dtype, backward_dtype : dtype, optional
            The dtype of the result and of its gradient.

        Raises
        ------
        NotImplementedError
            If the mesh is another one.
        RuntimeError
            If there are no placements, or if one is `Partial` where the tensor is not.
        """
        mesh = self.device_mesh
        if device_mesh is not None and device_mesh != mesh:
            raise NotImplementedError(f"torch.distributed.tensor.DTensor.redistribute: cannot move from {mesh} to {device_mesh}")
        if placements is None:
            raise RuntimeError("torch.distributed.tensor.DTensor.redistribute: placements are required")
        _, placed = _normalized("DTensor.redistribute", self, mesh, placements, self.dim())
        for source, target in zip(self.placements, placed):
            if isinstance(target, Partial) and target != source:
                raise RuntimeError(f"torch.distributed.tensor.DTensor.redistribute: cannot go from {source} to {target}")
        return _Redistribute.apply(self, placed, forward_dtype, backward_dtype)

    def __create_chunk_list__(self) -> Any:
        """Return offsets and sizes of the blocks that this process holds, for distributed checkpoints."""
        from metatensor.distributed.checkpoint.metadata import ChunkStorageMetadata

        return [ChunkStorageMetadata(offsets=mt.Size(offsets), sizes=mt.Size(sizes)) for offsets, sizes, _ in self._blocks()]

    def _blocks(self) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Return the blocks that this process holds: offsets in the tensor, sizes, and offsets in its part.

        Raise ValueError if the tensor is partial, because its parts are not elements of it.
        """
        if any(isinstance(one, Partial) for one in self.placements):
            raise ValueError(f"a tensor with the placements {self.placements} has no elements of its own; redistribute it first")
        return held_blocks(tuple(self.shape), self.device_mesh.shape, self.device_mesh.get_coordinate(), self.placements)

    def _with_local(self, local: Any) -> DTensor:
        """Return a tensor with the same placements whose part is ``local``, of any dtype and on any device."""
        spec = self._spec
        return wrap(local, _spec(spec.mesh, spec.placements, spec.shape, spec.stride, local.dtype))  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Return the elements of the whole tensor as nested lists."""
        return self.full_tensor().tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = wrap(self._local_tensor.detach().clone(memory_format=mt.preserve_format), self._spec, self.requires_grad)
            copied.__dict__.update({name: value for name, value in self.__dict__.items() if name == "_is_param"})
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (self._local_tensor.detach(), self._spec, self.requires_grad, dict(self.__dict__))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self._local_tensor!r}, device_mesh={self.device_mesh}, placements={self.placements})"


set_class(DTensor)


def _rebuild(local: Any, spec: DTensorSpec, requires_grad: bool, attributes: dict[str, Any]) -> DTensor:
    made = wrap(local, _spec(spec.mesh, spec.placements, spec.shape, spec.stride, spec.dtype), requires_grad)
    made.__dict__.update(attributes)
    return made  # type: ignore[no-any-return]


def _spec(mesh: Any, placements: tuple[Placement, ...], shape: Sequence[int], stride: Sequence[int], dtype: Any) -> DTensorSpec:
    return quietly(interned, mesh, placements, tuple(shape), tuple(stride), dtype)  # type: ignore[no-any-return]


def _normalized(
    name: str, tensor: Any, mesh: DeviceMesh | None, placements: Sequence[Placement] | None, ndim: int
) -> tuple[DeviceMesh, tuple[Placement, ...]]:
    """Return the mesh, and placements with non-negative dimensions. Raise an error if they do not fit the tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"torch.distributed.tensor.{name}: expected a tensor, got {type(tensor).__name__}")
    mesh = DeviceMesh(tensor.device.type) if mesh is None else mesh
    given = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(given) != mesh.ndim:
        raise ValueError(f"torch.distributed.tensor.{name}: {len(given)} placements for a mesh of {mesh.ndim} dimensions")
    found: list[Placement] = []
    for one in given:
        if isinstance(one, (Shard, _StridedShard)):
            if not -ndim <= one.dim < ndim:
                raise IndexError(f"torch.distributed.tensor.{name}: {one} is out of range for a tensor of {ndim} dimensions")
            dim = one.dim % ndim
            one = Shard(dim) if isinstance(one, Shard) else _StridedShard(dim, split_factor=one.split_factor)
        elif not isinstance(one, (Replicate, Partial)):
            raise TypeError(f"torch.distributed.tensor.{name}: expected placements, got {one!r}")
        found.append(one)
    return mesh, tuple(found)


def _whole_layout(local: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[list[int], list[int]]:
    """Return the shape and strides of a tensor all of whose shards are like ``local``."""
    shape, stride = list(local.shape), list(local.stride())
    for size, one in zip(mesh.shape, placements):
        if isinstance(one, (Shard, _StridedShard)):
            shape[one.dim] *= size
            for dim in range(len(stride)):
                if dim != one.dim and stride[dim] >= stride[one.dim]:
                    stride[dim] *= size
    return shape, stride


def _same_everywhere(local: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    for dim, one in enumerate(placements):
        if isinstance(one, Replicate) and mesh.size(dim) > 1:
            group = mesh.get_group(dim)
            local = collectives.wait_tensor(collectives.broadcast(local, group.ranks[0], group))
    return local


# Gradients ------------------------------------------------------------------------------------------------------


def _without_partial(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    return tuple(Replicate() if isinstance(one, Partial) else one for one in placements)


class _FromLocal(mt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Any, spec: DTensorSpec, grad_placements: Any) -> Any:
        ctx.mesh, ctx.placements = spec.mesh, tuple(grad_placements or _without_partial(spec.placements))
        return wrap(local.detach(), spec)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _part(grad, ctx.placements), None, None


class _ToLocal(mt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, grad_placements: Any) -> Any:
        ctx.spec, ctx.placements = tensor._spec, tuple(grad_placements or tensor.placements)
        return tensor._local_tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        spec = ctx.spec
        return wrap(grad, _spec(spec.mesh, ctx.placements, spec.shape, whole_stride(grad, spec.shape), grad.dtype)), None


class _Redistribute(mt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: tuple[Placement, ...], dtype: Any, backward_dtype: Any) -> Any:
        spec = tensor._spec
        ctx.placements, ctx.dtype, ctx.backward_dtype = spec.placements, tensor.dtype, backward_dtype
        local = tensor._local_tensor if dtype is None else tensor._local_tensor.to(dtype)
        found = moved(local, spec.mesh, spec.shape, spec.placements, placements)
        stride = spec.stride if found is local else whole_stride(found, spec.shape)
        return wrap(found.detach(), _spec(spec.mesh, placements, spec.shape, stride, found.dtype))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.backward_dtype is not None:
            grad = grad.to(ctx.backward_dtype)
        # The gradient of a partial tensor is the same on all processes.
        target = tuple(
            source if not isinstance(source, Partial) else here if isinstance(here, Partial) else Replicate()
            for source, here in zip(ctx.placements, grad.placements)
        )
        return DTensor.redistribute(grad, placements=target).to(ctx.dtype), None, None, None


def _part(grad: Any, placements: Sequence[Placement]) -> Any:
    if not isinstance(grad, DTensor):
        return grad
    return moved(grad._local_tensor, grad.device_mesh, grad.shape, grad.placements, placements)


# Functions --------------------------------------------------------------------------------------------------------


def distribute_tensor(
    tensor: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> Any:  # fmt: skip
    """Return a distributed leaf tensor with the elements of ``tensor``.

    Parameters
    ----------
    tensor : Tensor
        The whole tensor. A `DTensor` is redistributed instead.
    device_mesh : DeviceMesh, optional
        Default: a mesh of one dimension with all ranks.
    placements : sequence of Placement, optional
        One placement per mesh dimension. Default: `Replicate` for all.
    src_data_rank : int or None
        The rank along each mesh dimension whose values are used. None: each process uses its own, without communication.

    Raises
    ------
    ValueError
        If the number of placements is not that of the mesh dimensions.
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    mesh, placed = _normalized("distribute_tensor", tensor, device_mesh, placements, getattr(tensor, "ndim", 0))
    if not tensor.is_leaf:
        raise RuntimeError("torch.distributed.tensor.distribute_tensor: the tensor is not a leaf; use DTensor.from_local")
    whole = tensor.detach()
    local = whole
    if src_data_rank is not None and (whole.device.type != "meta" or mesh.device_type == "meta"):  # without data on a real mesh, none move
        for dim in range(mesh.ndim):
            if mesh.size(dim) > 1:
                group = mesh.get_group(dim)
                local = collectives.wait_tensor(collectives.broadcast(local, group.ranks[src_data_rank], group))
    local = moved(local, mesh, whole.shape, (Replicate(),) * mesh.ndim, placed)
    if any(isinstance(one, Partial) for one in placed) and local is whole:
        local = local.clone()
    stride = whole.stride()
    if local is not whole:
        local = in_order(local, stride)
        stride = whole_stride(local, whole.shape) if 0 in stride else stride
    return wrap(local, _spec(mesh, placed, whole.shape, stride, whole.dtype), tensor.requires_grad)


def distribute_module(
    module: Any, device_mesh: DeviceMesh | None = None, partition_fn: Callable[..., None] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Convert the parameters and buffers of a module to distributed tensors. Return the module.

    Parameters
    ----------
    module : Module
        The module. It is changed.
    device_mesh : DeviceMesh, optional
        Default: a mesh of one dimension with all ranks.
    partition_fn : callable, optional
        ``partition_fn(name, submodule, mesh)`` is called for each submodule. What it leaves is replicated.
    input_fn, output_fn : callable, optional
        ``input_fn(module, inputs, mesh)`` and ``output_fn(module, outputs, mesh)`` are registered as forward hooks.
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        _replicate(submodule, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module


def _replicate(module: Any, mesh: DeviceMesh) -> None:
    """Replicate the plain parameters and buffers of a module, without those of its submodules."""
    for table in (module._parameters, module._buffers):
        plain = {name: one for name, one in table.items() if isinstance(one, Tensor) and not isinstance(one, DTensor)}
        for name, one in plain.items():
            made = distribute_tensor(one.detach(), mesh)
            table[name] = made if table is module._buffers else mt.nn.Parameter(made, one.requires_grad)


def _factory(name: str) -> Callable[..., Any]:
    def make(
        *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        if name == "full":
            size, options["fill_value"] = (size[0],), options.pop("fill_value") if len(size) < 2 else size[1]
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
        mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
        whole = mt.empty(shape, device="meta")
        _, placed = _normalized(name, whole, mesh, placements, len(shape))
        if any(isinstance(one, Partial) for one in placed):
            raise ValueError(f"torch.distributed.tensor.{name}: a new tensor cannot be {placed}")
        random = name in ("rand", "randn") and mesh.device_type != "meta"
        local = getattr(mt, name)(shape if random else local_shape(shape, mesh, placed), dtype=dtype, device=mesh.device_type, **options)
        if random and any(map(is_cut, placed)):
            local = moved(local, mesh, shape, (Replicate(),) * mesh.ndim, placed)
        return wrap(local, _spec(mesh, placed, shape, whole.stride(), local.dtype), requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (f"Return the result of `torch.{name}` as a `DTensor`, of which this process creates its part.\n\n"
                    "The values do not depend on the mesh. ``device_mesh`` and ``placements`` say how it is placed.")  # fmt: skip
    return make


empty, full, ones, rand, randn, zeros = map(_factory, ("empty", "full", "ones", "rand", "randn", "zeros"))
