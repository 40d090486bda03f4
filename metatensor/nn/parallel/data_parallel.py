"""`DataParallel`, which calls its module on a single device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.nn.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Wrapper that calls ``module``. Batches are not split over devices.

    The wrapped module is the child ``module``, so the names in checkpoints are those of PyTorch's `DataParallel`.

    Parameters
    ----------
    module : Module
        Module to call. It remains on its device.
    device_ids : sequence, optional
        At most one device. The value is ignored.
    output_device, dim : optional
        Ignored.

    Raises
    ------
    ValueError
        If there is more than one device.

    Examples
    --------
    >>> import metatensor as mt
    >>> list(mt.nn.DataParallel(mt.nn.Linear(3, 2)).state_dict())
    ['module.weight', 'module.bias']
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
    """Return ``module(*inputs, **module_kwargs)``. Raise ValueError for more than one device."""
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError(f"data_parallel: batches are not split over devices, got device_ids={list(device_ids)}")
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
