"""`FullyShardedDataParallel`: the older interface, which wraps a module. It uses the mechanism of `fully_shard`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor.distributed._group import ProcessGroup
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.fsdp import _full_state
from metatensor.distributed.fsdp._fully_shard import fully_shard
from metatensor.distributed.fsdp._state import ModuleState, state_of
from metatensor.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    FullStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from metatensor.distributed.fsdp.wrap import wrap_children
from metatensor.distributed.reducer import broadcast_coalesced
from metatensor.distributed.tensor._dtensor import DTensor

__all__ = ["FullyShardedDataParallel"]

INNER = _full_state.INNER
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEPT = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(mt.nn.Module):
    """Shard the parameters of a module over the ranks of a process group. New code should use `fully_shard`.

    The parameters of one instance are gathered together, and their gradients are reduced together, without those of
    instances inside it. Each parameter is a distributed tensor. In PyTorch, parameters are parts of one flat parameter.

    Parameters
    ----------
    module : Module
        The module to run, kept as ``module``. It is changed.
    process_group : ProcessGroup, optional
        The ranks. Default: all.
    sharding_strategy : ShardingStrategy, optional
        ``FULL_SHARD`` (default), ``SHARD_GRAD_OP`` (whole parameters are kept between forward and backward pass), ``NO_SHARD``
        (only gradients are averaged), or ``HYBRID_SHARD``, which needs ``device_mesh``.
    cpu_offload : CPUOffload, optional
        Whether parameters are kept on the cpu.
    auto_wrap_policy : callable, optional
        Which submodules get instances of their own.
    mixed_precision : MixedPrecision, optional
        The dtypes of parameters, reductions and buffers. ``keep_low_precision_grads`` is not supported.
    ignored_modules : iterable of Module, optional
        Modules that are not changed.
    ignored_states : iterable, optional
        Parameters that are not changed, or modules.
    param_init_fn : callable, optional
        Called with each submodule that has parameters on meta. It must give them data.
    device_id : int or device, optional
        The device to which the module is moved.
    sync_module_states : bool
        Whether to begin with the parameters and buffers of rank 0. Default False.
    device_mesh : DeviceMesh, optional
        In place of ``process_group``: one dimension, or two for ``HYBRID_SHARD``.

    The other arguments have no effect: backward passes prefetch the next parameters, and original parameters are kept.

    Raises
    ------
    ValueError
        If both ``process_group`` and ``device_mesh`` are given, or the mesh does not fit the strategy.
    NotImplementedError
        If ``mixed_precision.keep_low_precision_grads`` is True.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.fsdp import FullyShardedDataParallel
    >>> def train():
    ...     mt.distributed.init_process_group()
    ...     model = FullyShardedDataParallel(mt.nn.Linear(4, 4, device="meta"))
    ...     model(mt.empty(2, 4, device="meta")).sum().backward()
    ...     return model.module.weight.to_local().shape
    >>> mt.distributed.sim.run(train, world_size=2)
    [metatensor.Size([2, 4]), metatensor.Size([2, 4])]
    """

    def __init__(
        self, module: Any, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None, backward_prefetch: BackwardPrefetch | None = None,
        mixed_precision: MixedPrecision | None = None, ignored_modules: Iterable[Any] | None = None,
        param_init_fn: Callable[[Any], None] | None = None, device_id: Any = None, sync_module_states: bool = False,
        forward_prefetch: bool = False, limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None, device_mesh: DeviceMesh | None = None, *, _is_outer: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError(
                "FullyShardedDataParallel: keep_low_precision_grads is not supported; gradients have the dtype of the parameters"
            )
        ignored_modules, ignored_parameters = _ignored(ignored_modules, ignored_states)
        if param_init_fn is not None:
            _initialize(module, param_init_fn, ignored_modules)
        mesh = _mesh(module, process_group, strategy, device_mesh, device_id)
        if sync_module_states and _is_outer:
            with mt.no_grad():
                kept = [one for one in [*module.parameters(), *module.buffers()] if id(one) not in ignored_parameters]
                for group in mesh.get_all_groups():
                    broadcast_coalesced(kept, group)
        self.sharding_strategy, self.mixed_precision, self.device_mesh = strategy, mixed_precision, mesh
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT)
        self._whole = False
        if auto_wrap_policy is not None:
            wrapper = functools.partial(
                FullyShardedDataParallel, sharding_strategy=strategy, cpu_offload=cpu_offload, mixed_precision=mixed_precision,
                ignored_states=list(ignored_states or ()), device_mesh=mesh, _is_outer=False,
            )  # fmt: skip
            wrap_children(module, auto_wrap_policy, wrapper, ignored_modules, ignored_parameters)
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            for buffer in module.buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.to(mixed_precision.buffer_dtype)
        self._fsdp_wrapped_module = module
        fully_shard(
            module, mesh=mesh, reshard_after_forward=False if strategy in _KEPT else None,
            mp_policy=_policy(mixed_precision, _is_outer),
            ignored_params=[one for one in module.parameters() if id(one) in ignored_parameters],
            offload_policy=CPUOffloadPolicy() if cpu_offload is not None and cpu_offload.offload_params else None,
        )  # fmt: skip

    # The module -------------------------------------------------------------------------

    @property
    def module(self) -> Any:
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            return getattr(super().__getattr__(INNER), name)  # type: ignore[misc]

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*args, **kwargs)

    @staticmethod
    def fsdp_modules(module: Any, root_only: bool = False) -> list[Any]:
        """Return the submodules of a module that are instances of this class; with ``root_only`` the outermost ones."""
        found = [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]
        if not root_only:
            return found
        inside = {id(inner) for one in found for inner in one.modules() if inner is not one}
        return [one for one in found if id(one) not in inside]

    def check_is_root(self) -> bool:
        """Return whether the module is the outermost instance, the one that is called first. It is False before the first forward pass."""
        return bool(self._state().is_root)

    def _state(self) -> ModuleState:
        state = state_of(self.module)
        assert state is not None
        return state

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield parameters. Inside `summon_full_params`, they have the names that they had before wrapping."""
        for name, one in super().named_parameters(*args, **kwargs):
            yield (_full_state.clean(name) if self._whole else name), one

    # Gradients --------------------------------------------------------------------------

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context manager in which gradients are accumulated on each rank and not reduced."""
        groups = [group for one in self.fsdp_modules(self) for group in one._state().groups]
        before = [(group.reduces, group.reduces_replicas) for group in groups]
        for group in groups:
            group.reduces = group.reduces_replicas = False
        try:
            yield
        finally:
            for group, values in zip(groups, before):
                group.reduces, group.reduces_replicas = values

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients of all ranks to a norm of at most ``max_norm``. Return the norm before scaling, a plain tensor."""
        total = mt.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Raise NotImplementedError: use `fully_shard` and ``set_all_reduce_hook``."""
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook: use fully_shard and its set_all_reduce_hook")

    # Whole parameters and state dicts ---------------------------------------------------

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Any, recurse: bool = True, writeback: bool = True, rank0_only: bool = False, offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Context manager in which the modules have whole parameters.

        Parameters
        ----------
        module : Module
            The module.
        recurse : bool
            Whether instances inside of it take part. Default True.
        writeback : bool
            Whether changes of the parameters are kept. Default True.
        rank0_only, offload_to_cpu : bool
            Whether only rank 0 has them; whether they are on the cpu.
        with_grads : bool
            Not supported.

        Raises
        ------
        NotImplementedError
            If ``with_grads``, or if ``rank0_only`` and ``writeback``.
        """
        if with_grads or (rank0_only and writeback):
            which = "with_grads" if with_grads else "rank0_only together with writeback"
            raise NotImplementedError(f"FullyShardedDataParallel.summon_full_params: {which} is not supported")
        found = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            found = [one for one in found if one is module]
        with _full_state.whole_parameters([one._state() for one in found], writeback, rank0_only, offload_to_cpu):
            for one in found:
                one._whole = True
            try:
                yield
            finally:
                for one in found:
                    one._whole = False

    @staticmethod
    def set_state_dict_type(
        module: Any, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None, optim_state_dict_config: Any = None
    ) -> StateDictSettings:
        """Set the kind of state dicts of the instances in a module. Return the previous settings.

        Raise NotImplementedError for LOCAL_STATE_DICT.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("FullyShardedDataParallel.set_state_dict_type: there are no flat parameters, so no LOCAL_STATE_DICT")
        found = FullyShardedDataParallel.fsdp_modules(module)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        settings = StateDictSettings(state_dict_type, *_full_state.configs(state_dict_type, state_dict_config, optim_state_dict_config))
        for one in found:
            one._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Any) -> StateDictSettings:
        """Return the settings of state dicts of the instances in a module."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig())

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Any, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None, optim_state_dict_config: Any = None
    ) -> Iterator[None]:
        """Context manager with another kind of state dicts. See `set_state_dict_type`."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for one in FullyShardedDataParallel.fsdp_modules(module):
                one._settings = before

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return the state of the module, with the names that it has without this class."""
        return _full_state.saved(self, super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars), prefix)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load the state of the module: whole tensors, of which each rank takes its part, or distributed ones."""
        return super().load_state_dict(_full_state.to_load(self, state_dict), strict, assign)

    @staticmethod
    def optim_state_dict(model: Any, optim: Any, optim_state_dict: Any = None, group: ProcessGroup | None = None) -> dict[str, Any]:
        """Return the state of an optimizer by names of parameters, with whole or distributed tensors as `set_state_dict_type` says."""
        return _full_state.optimizer_saved(model, optim, optim.state_dict() if optim_state_dict is None else optim_state_dict)

    full_optim_state_dict = sharded_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model: Any, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False, load_directly: bool = False,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Convert the result of `optim_state_dict` to what ``optim.load_state_dict`` accepts, and return that.

        With ``load_directly``, also load it into ``optim``.
        """
        found = _full_state.optimizer_to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found


def _policy(given: MixedPrecision | None, outer: bool) -> MixedPrecisionPolicy:
    if given is None:
        return MixedPrecisionPolicy()
    casts = given.cast_forward_inputs or (outer and given.cast_root_forward_inputs)
    return MixedPrecisionPolicy(given.param_dtype, given.reduce_dtype, None, casts)


def _ignored(modules: Iterable[Any] | None, states: Iterable[Any] | None) -> tuple[set[int], set[int]]:
    """Return the ids of ignored modules, and of ignored parameters and buffers."""
    given = [*(modules or ()), *(states or ())]
    inside = [one for module in given if isinstance(module, mt.nn.Module) for one in module.modules()]
    tensors = [one for module in inside for one in [*module.parameters(), *module.buffers()]]
    return {id(one) for one in inside}, {id(one) for one in [*tensors, *(one for one in given if isinstance(one, mt.Tensor))]}


def _initialize(module: Any, function: Callable[[Any], None], ignored: set[int]) -> None:
    """Call ``function`` with the submodules that have parameters or buffers on meta, so that it gives them data."""
    for one in list(module.modules()):
        own = [*one.parameters(recurse=False), *one.buffers(recurse=False)]
        if id(one) not in ignored and any(tensor.is_meta for tensor in own):
            function(one)


def _mesh(module: Any, group: Any, strategy: ShardingStrategy, mesh: DeviceMesh | None, device: Any) -> DeviceMesh:
    """Return the mesh that a strategy needs."""
    if group is not None and mesh is not None:
        raise ValueError("FullyShardedDataParallel: give process_group or device_mesh, not both")
    if strategy in _HYBRID:
        if mesh is None or mesh.ndim != 2:
            raise ValueError(f"FullyShardedDataParallel: {strategy.name} needs a device_mesh of two dimensions: replicas, shards")
        return mesh
    kind = next((one.device.type for one in module.parameters()), "cpu") if device is None else mt.device(device).type
    if mesh is None:
        mesh = DeviceMesh(kind) if group is None else DeviceMesh.from_group(group, kind)
    if mesh.ndim != 1 and strategy is not ShardingStrategy.NO_SHARD:
        raise ValueError(f"FullyShardedDataParallel: {strategy.name} needs a device_mesh of one dimension, got {mesh}")
    if strategy is ShardingStrategy.NO_SHARD and mesh.ndim == 1:
        return DeviceMesh(mesh.device_type, [[rank] for rank in mesh._ranks], mesh_dim_names=("replicate", "shard"))
    return mesh
