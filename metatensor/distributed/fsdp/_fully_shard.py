"""`fully_shard`, the newer interface of fully sharded data parallelism."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import metatensor as mt
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.fsdp._fsdp_module import FSDPModule
from metatensor.distributed.fsdp._group import ParameterGroup
from metatensor.distributed.fsdp._meshes import DataParallel, data_parallel
from metatensor.distributed.fsdp._parameter import ShardedParameter
from metatensor.distributed.fsdp._state import ModuleState, state_of
from metatensor.distributed.fsdp.api import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from metatensor.distributed.tensor._dtensor import DTensor
from metatensor.distributed.tensor.placement_types import Shard

__all__ = ["fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]

M = TypeVar("M")


def fully_shard(
    module: M, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None, mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None, ignored_params: Iterable[Any] | None = None, dp_mesh_dims: Any = None,
) -> M:  # fmt: skip
    """Shard the parameters of a module over the ranks of a mesh. Gather them while the module runs.

    The parameters become distributed tensors, of which each rank has a part along dimension 0. Those that do not belong to a
    group yet form a new group: apply this function to the layers of a model first, and then to the model.
    A group is gathered by one collective before each forward pass of the module and freed afterwards. The same happens in the
    backward pass, where the next group is gathered while gradients are computed. One collective averages the gradients of a group
    over the ranks and leaves each rank the gradient of its part.

    Parameters
    ----------
    module : Module or list of Module
        The module, or modules that form one group. Their classes are replaced by subclasses that are also `FSDPModule`. A
        parameter without data stays without data. Each rank later creates only its own part of it. Under `deferred_init`, the part
        has the same values as that part of the whole tensor.
    mesh : DeviceMesh, optional
        One dimension: its ranks have different parts. Two dimensions, with names: parts are replicated along the first.
        Default: all ranks.
    reshard_after_forward : bool or int, optional
        Whether the whole parameters are freed after the forward pass. A number N shards them over N consecutive ranks until
        the backward pass. Default: True, but False for the root.
    shard_placement_fn : callable, optional
        A function of a parameter that returns None, a `Shard`, or a `ShardPlacementResult`, whose parameters form a group of
        their own.
    mp_policy : MixedPrecisionPolicy, optional
        The dtypes of gathered parameters, reductions and outputs.
    offload_policy : OffloadPolicy, optional
        With `CPUOffloadPolicy`, parameters and gradients are kept on the cpu. On meta they stay on meta.
    ignored_params : set of Parameter, optional
        Parameters that are left alone.

    Returns
    -------
    Module or list of Module
        The argument.

    Raises
    ------
    ValueError
        If a parameter has no dimensions, the mesh has more than two, ``reshard_after_forward`` does not divide the number of
        shards, or a list of modules without a forward method is given.
    NotImplementedError
        If a parameter is not contiguous, or is sharded unevenly along another dimension than 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.fsdp import fully_shard
    >>> mesh = mt.distributed.init_device_mesh("meta", (8,))
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(64, 64), mt.nn.ReLU(), mt.nn.Linear(64, 64))
    >>> for layer in model:
    ...     _ = fully_shard(layer, mesh=mesh)
    >>> model = fully_shard(model, mesh=mesh)
    >>> model[0].weight.shape, model[0].weight.to_local().shape
    (metatensor.Size([64, 64]), metatensor.Size([8, 64]))
    >>> with mt.distributed.CommunicationLog() as log:
    ...     model(mt.empty(2, 64, device="meta")).sum().backward()
    >>> [one.kind for one in log]
    ['all_gather', 'all_gather', 'all_gather', 'all_gather', 'reduce_scatter', 'reduce_scatter']
    >>> mt.distributed.destroy_process_group()
    """
    modules = tuple(module) if isinstance(module, (list, tuple)) else (module,)
    for one in modules:
        _check_module(one)
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims is not supported; pass the mesh of data parallelism")
    if mesh is None:
        mesh = DeviceMesh(next((p.device.type for one in modules for p in one.parameters()), "cpu"))
    policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    offloads = isinstance(offload_policy, CPUOffloadPolicy)
    meshes, device = data_parallel(mesh), mt.device(mesh.device_type)
    ignored = {id(one) for one in ignored_params or ()}
    managed = _managed_modules(modules)
    _move(managed, device, ignored)
    parameters: dict[DataParallel, list[ShardedParameter]] = {}
    for name, parameter, places in _parameters(modules, managed, ignored):
        given: Any = None if shard_placement_fn is None else shard_placement_fn(parameter)
        own = meshes
        if hasattr(given, "mesh_info"):
            given, own = given.placement, data_parallel(given.mesh_info.mesh)
        made = ShardedParameter(name, parameter, places, own, Shard(0) if given is None else given, policy, offloads)
        made.register(made.sharded)
        parameters.setdefault(own, []).append(made)
    after = True if reshard_after_forward is None else reshard_after_forward
    groups = [ParameterGroup(given, modules, own, device, policy, after) for own, given in parameters.items()]
    if not groups:
        _check_number(after, meshes)
    ModuleState(modules, groups, policy, reshard_after_forward is None)
    for one in modules:
        one.__class__ = _class_of(type(one))
    return module


def _check_number(value: bool | int, meshes: DataParallel) -> None:
    """Raise the error for a wrong ``reshard_after_forward`` although there are no parameters."""
    ParameterGroup([], (), meshes, None, None, value)


def _check_module(module: Any) -> None:
    if not isinstance(module, mt.nn.Module):
        raise TypeError(f"fully_shard: expected a Module, got {type(module).__name__}")
    if isinstance(module, (mt.nn.ModuleList, mt.nn.ModuleDict)) and type(module).forward is mt.nn.Module.forward:
        raise ValueError(f"fully_shard: a {type(module).__name__} has no forward method; apply it to its members")
    if state_of(module) is not None:
        raise AssertionError(f"fully_shard: it was applied to this {type(module).__name__} already")


def _managed_modules(roots: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return the modules below ``roots`` with their names, without those to which `fully_shard` was applied and theirs."""
    found: dict[int, tuple[str, Any]] = {}

    def visit(name: str, module: Any) -> None:
        if id(module) in found or state_of(module) is not None:
            return
        found[id(module)] = name, module
        for child, below in module.named_children():
            visit(f"{name}.{child}" if name else child, below)

    for root in roots:
        visit("", root)
    return list(found.values())


def _parameters(
    roots: tuple[Any, ...], managed: list[tuple[str, Any]], ignored: set[int]
) -> list[tuple[str, Any, list[tuple[Any, str]]]]:
    """Return each parameter of the modules, with its name and all modules that have it."""
    found: dict[int, tuple[str, Any, list[tuple[Any, str]]]] = {}
    for path, module in managed:
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in ignored:
                continue
            entry = found.setdefault(id(parameter), (f"{path}.{name}" if path else name, parameter, []))
            entry[2].append((module, name))
    return list(found.values())


def _move(managed: list[tuple[str, Any]], device: Any, ignored: set[int]) -> None:
    """Move tensors of the modules that are neither on meta nor on the device of the mesh to that device."""
    done: set[int] = set()
    for path, module in managed:
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None or id(tensor) in ignored or id(tensor) in done:
                    continue
                done.add(id(tensor))
                if tensor.device.type in (device.type, "meta"):
                    continue
                if isinstance(tensor, DTensor):
                    raise ValueError(f"fully_shard: {path}.{name} is a DTensor on {tensor.device}, but the mesh is on {device}")
                if device.type == "meta" and tensor.untyped_storage().data is not None and table is module._parameters:
                    raise ValueError(
                        f"fully_shard: {path}.{name} holds data on {tensor.device}, but the mesh is on meta; build the model on meta"
                    )
                with mt.no_grad():
                    tensor.data = tensor.to(device)


def _class_of(cls: Any) -> type:
    """Return the subclass of a module's class that has the methods of `FSDPModule`."""
    if "_fsdp_class" not in cls.__dict__:
        members = {"__module__": cls.__module__, "__deepcopy__": _no_copy}
        cls._fsdp_class = type(f"FSDP{cls.__name__}", (FSDPModule, cls), members)
    return cls._fsdp_class  # type: ignore[no-any-return]


def _no_copy(self: Any, memo: Any) -> Any:
    raise AssertionError(f"{type(self).__name__}: modules to which fully_shard was applied cannot be copied; copy their state dict")


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let a method of a module gather the parameters as a forward pass does.

    Do nothing if `fully_shard` was not applied to the module.

    Parameters
    ----------
    module : Module
        The module.
    method_name : str
        The name of the method.

    Raises
    ------
    ValueError
        If there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"register_fsdp_forward_method: a {type(module).__name__} has no method {method_name!r}")

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        state = state_of(module)
        assert state is not None
        args, kwargs = state.before_forward(module, args, kwargs)
        return state.after_forward(module, method(*args, **kwargs))

    setattr(module, method_name, call)


def share_comm_ctx(modules: Iterable[FSDPModule]) -> None:
    """Let several roots share the buffers of collectives. Raise ValueError if one is not an `FSDPModule`."""
    given = list(modules)
    for one in given:
        if not isinstance(one, FSDPModule):
            raise ValueError(f"share_comm_ctx: expected modules to which fully_shard was applied, got a {type(one).__name__}")
    states = [one._get_fsdp_state() for one in given]
    for state in states[1:]:
        state.share(states[0].communication)
