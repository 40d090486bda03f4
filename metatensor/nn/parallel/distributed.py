"""`DistributedDataParallel`, in a process group of one process, which is all that metatensor has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor._core.nested import map_tensors
from metatensor.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Run another module in a process group of one process. No gradients are exchanged.

    Parameters
    ----------
    module : Module
        The module to run, kept as ``module``. At least one of its parameters must require grad.
    device_ids : list, optional
        At most one device, to which inputs are moved.

    The other arguments say how processes exchange gradients and buffers. They are stored and have no effect.

    Raises
    ------
    ValueError
        If `torch.distributed.init_process_group` has not been called or ``device_ids`` names several devices.
    RuntimeError
        If no parameter requires grad.
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
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module, on inputs moved to its device if ``device_ids`` was given."""
        if self.device_ids:
            inputs, kwargs = map_tensors(lambda tensor: tensor.to(self.device), (inputs, kwargs))
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context manager in which no gradients are exchanged. With one process there are none to exchange anyway."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """Context manager that waits for processes with fewer inputs. With one process there are none."""
        yield


def _index(device: Any) -> Any:
    """Return a device's index, or the device itself if it has none."""
    if isinstance(device, int):
        return device
    place = mt.device(device)
    return place if place.index is None else place.index


