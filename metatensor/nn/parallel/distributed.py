"""`DistributedDataParallel`: the ranks of a process group train copies of a module on their parts of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor._core.nested import map_tensors
from metatensor.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Train copies of a module on several ranks, each on its part of a batch.

    All ranks begin with the parameters and buffers of rank 0. During a backward pass the gradients are averaged over the
    ranks, in buckets, while other gradients are still being computed. In a group of one process nothing is exchanged.

    Parameters
    ----------
    module : Module
        The module to run, kept as ``module``. At least one of its parameters must require grad.
    device_ids : list, optional
        At most one device, to which inputs are moved.
    broadcast_buffers : bool
        Whether forward passes begin by copying the buffers of rank 0. Default True.
    init_sync : bool
        Whether to begin with the parameters and buffers of rank 0, and to check that the ranks have the same parameters.
    process_group : ProcessGroup, optional
        The ranks. Default: all.
    bucket_cap_mb : float, optional
        Size limit of buckets in MiB. Default 25, and 1 for the first bucket.
    find_unused_parameters : bool
        Whether the loss may not depend on all parameters. Each forward pass then searches the graph of the outputs.
    static_graph : bool
        The same: the graph is searched in each forward pass.

    The other arguments have no effect: gradients are copied between parameters and buckets
    (``gradient_as_bucket_view``).

    Raises
    ------
    ValueError
        If `torch.distributed.init_process_group` has not been called or ``device_ids`` names several devices.
    RuntimeError
        If no parameter requires grad, or the parameters of the ranks differ.
    NotImplementedError
        If ``mixed_precision`` is given in a group of several ranks.

    Examples
    --------
    >>> import metatensor as mt
    >>> def train():
    ...     mt.distributed.init_process_group()
    ...     model = mt.nn.parallel.DistributedDataParallel(mt.nn.Linear(2, 1, bias=False))
    ...     x = mt.full((1, 2), float(mt.distributed.get_rank()))
    ...     model(x).sum().backward()
    ...     return model.module.weight.grad.tolist()
    >>> mt.distributed.sim.run(train, world_size=3)
    [[[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 1.0]]]
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        if not later("is_initialized")():
            raise ValueError("DistributedDataParallel: there is no process group; call torch.distributed.init_process_group first")
        parameters = list(module.parameters())
        if not any(p.requires_grad for p in parameters):
            raise RuntimeError("DistributedDataParallel: no parameter of the module requires grad, so there is nothing to exchange")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DistributedDataParallel: device_ids may name one device, got {list(device_ids)}")
        self.module = module
        self.device_ids = [_index(device) for device in device_ids] if device_ids else None
        self.output_device = _index(output_device) if output_device is not None else self.device_ids and self.device_ids[0]
        self.device = parameters[0].device
        self.dim, self.broadcast_buffers, self.process_group = dim, broadcast_buffers is not False, process_group
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.mixed_precision = gradient_as_bucket_view, mixed_precision
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._several = later("get_world_size")(process_group) > 1
        self._reducer: Any = None
        if self._several:
            if mixed_precision is not None:
                raise NotImplementedError("DistributedDataParallel: mixed_precision is not supported; use autocast")
            self._connect(init_sync, bucket_cap_mb)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Sequence[str]) -> None:
        """Leave parameters and buffers of a module, given by name, as they are when it is wrapped later."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)

    def _connect(self, init_sync: bool, bucket_cap_mb: Any) -> None:
        """Begin with equal parameters, and prepare the averaging of gradients."""
        communication = later("reducer")
        group = later("the_group")(self.process_group)
        ignored = set(getattr(self.module, "_ddp_params_and_buffers_to_ignore", ()))
        trained, seen = [], set()
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad and name not in ignored and id(parameter) not in seen:
                seen.add(id(parameter))
                trained.append((name, parameter))
        self._ignored = ignored
        if init_sync:
            communication.check_same_parameters([one for _, one in trained], group)
            with mt.no_grad():
                kept = [one for name, one in self.module.named_parameters() if name not in ignored]
                communication.broadcast_coalesced([*kept, *self._buffers_to_copy()], group)
        size = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        first = communication.FIRST_BUCKET if bucket_cap_mb is None else size
        self._reducer = communication.Reducer(
            trained, self.process_group, size, first, self.find_unused_parameters or self.static_graph
        )

    def _buffers_to_copy(self) -> list[Any]:
        return [one for name, one in self.module.named_buffers() if name not in self._ignored]

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let ``hook(state, bucket)`` reduce each bucket, and return a future for the flat tensor, instead of averaging it.

        Raise RuntimeError if there is a hook already or the group has one rank.
        """
        if self._reducer is None or self._reducer.hook is not None:
            raise RuntimeError("DistributedDataParallel.register_comm_hook: " + (
                "the group has one rank" if self._reducer is None else "there is a communication hook already"))  # fmt: skip
        self._reducer.hook_state, self._reducer.hook = state, hook

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module, on inputs moved to its device if ``device_ids`` was given."""
        if self.device_ids:
            inputs, kwargs = map_tensors(lambda tensor: tensor.to(self.device), (inputs, kwargs))
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        self._before_forward()
        outputs = self.module(*inputs, **kwargs)
        self._after_forward(outputs)
        return outputs

    def _before_forward(self) -> None:
        """Copy the buffers of the first rank, if they may have changed."""
        if self._reducer is not None and self.require_forward_param_sync and self.broadcast_buffers:
            later("reducer").broadcast_coalesced(self._buffers_to_copy(), later("the_group")(self.process_group))

    def _after_forward(self, outputs: Any) -> None:
        """Let the backward pass of ``outputs`` average gradients, if it should."""
        if self._reducer is None:
            return
        syncs = mt.is_grad_enabled() and self.require_backward_grad_sync
        self.require_forward_param_sync = syncs
        if syncs:
            self._reducer.prepare(outputs)
        else:
            self._reducer.cancel()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context manager in which gradients are accumulated and not averaged.

        The next backward pass outside of it averages their sums.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Context manager that waits for processes with fewer inputs. With one process there are none.

        Raise NotImplementedError in a group of several ranks.
        """
        if self._several:
            raise NotImplementedError("DistributedDataParallel.join: give all ranks the same number of batches, or use DistributedSampler")
        yield


def _index(device: Any) -> Any:
    """Return a device's index, or the device itself if it has none."""
    if isinstance(device, int):
        return device
    place = mt.device(device)
    return place if place.index is None else place.index


