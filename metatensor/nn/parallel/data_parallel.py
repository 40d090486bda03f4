"""Modules on several devices of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.nn.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module under the attribute ``module``, as checkpoints of PyTorch's `DataParallel` name it.

    Batches are not split over devices: a call is a call of the module, wherever that is. ValueError for more than one
    device.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DataParallel: batches are not split over devices, got device_ids={list(device_ids)}")
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """A call of the module, wherever that is. ValueError for more than one device."""
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError(f"data_parallel: batches are not split over devices, got device_ids={list(device_ids)}")
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
