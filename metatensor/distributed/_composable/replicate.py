"""Data parallelism as a property of a module, without a wrapper around it."""

from __future__ import annotations

from typing import Any

from metatensor.nn import Module
from metatensor.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DDP", "replicate"]


class DDP:
    """What a module has in addition after `replicate`. Its class becomes a subclass of this one and of its own."""

    _replica: _Replica

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Choose whether the backward passes of later forward passes average gradients."""
        self._replica.syncs = requires_gradient_sync

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        """Let a hook reduce buckets, see `DistributedDataParallel.register_comm_hook`. It is used from the first forward pass on."""
        self._replica.comm_hooks.append((args, kwargs))


class _Replica:
    """Makes the `DistributedDataParallel` of a module in the first forward pass, when its parameters are materialized."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.comm_hooks, self.syncs = settings, [], True  # type: ignore[var-annotated]
        self.wrapped: DistributedDataParallel | None = None

    def before(self, module: Module, args: Any, kwargs: Any) -> None:
        if self.wrapped is None:
            self.wrapped = DistributedDataParallel(module, **self.settings)
        while self.comm_hooks:
            given, named = self.comm_hooks.pop(0)
            self.wrapped.register_comm_hook(*given, **named)
        self.wrapped.require_backward_grad_sync = self.syncs
        self.wrapped._before_forward()

    def after(self, module: Module, args: Any, outputs: Any) -> None:
        if self.wrapped is not None:
            self.wrapped._after_forward(outputs)


def replicate(module: Module, device_mesh: Any = None, ignored_modules: Any = None, **kwargs: Any) -> Module:
    """Average the gradients of a module over processes, as `DistributedDataParallel` does. The module is changed and returned.

    Parameters
    ----------
    module : Module
        The module. It may be on meta: parameters are compared and broadcast in the first forward pass.
    device_mesh : DeviceMesh, optional
        A mesh of one dimension. Default: all processes.
    ignored_modules : iterable of Module, optional
        Submodules whose parameters are left alone.
    **kwargs
        Arguments of `DistributedDataParallel`, such as ``bucket_cap_mb``.

    Returns
    -------
    Module
        ``module``, of a class with the methods ``set_requires_gradient_sync`` and ``register_comm_hook`` in addition.

    Raises
    ------
    RuntimeError
        If ``module`` is replicated already, or the mesh has several dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed._composable.replicate import replicate
    >>> def train():
    ...     mt.distributed.init_process_group()
    ...     model = replicate(mt.nn.Linear(2, 1, bias=False, device="cpu"))
    ...     x = mt.full((1, 2), float(mt.distributed.get_rank()))
    ...     model(x).sum().backward()
    ...     return model.weight.grad.tolist()
    >>> mt.distributed.sim.run(train, world_size=3)
    [[[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 1.0]]]
    """
    if isinstance(module, DDP):
        raise RuntimeError(f"replicate: the {type(module).__name__} is replicated already")
    if device_mesh is not None:
        if device_mesh.ndim != 1:
            raise RuntimeError(f"replicate: expected a mesh of one dimension, got {device_mesh}")
        kwargs["process_group"] = device_mesh.get_group()
    if ignored_modules is not None:
        ignored = {id(p) for one in ignored_modules for p in one.parameters()}
        names = [name for name, p in module.named_parameters() if id(p) in ignored]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    replica = _Replica(kwargs)
    module.__dict__["_replica"] = replica
    module.register_forward_pre_hook(replica.before, prepend=True, with_kwargs=True)
    module.register_forward_hook(replica.after)
    module.__class__ = type(f"DDP{type(module).__name__}", (DDP, type(module)), {"__module__": type(module).__module__})
    return module
