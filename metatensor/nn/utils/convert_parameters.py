"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import metatensor as mt

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _common_device(tensors: list[mt.Tensor], function: str) -> None:
    devices = sorted({str(tensor.device) for tensor in tensors})
    if len(devices) > 1:
        raise TypeError(f"{function}: the parameters are on several devices: {', '.join(devices)}")


def parameters_to_vector(parameters: Iterable[mt.Tensor]) -> mt.Tensor:
    """The elements of all tensors, one after the other. TypeError where they are on several devices."""
    tensors = list(parameters)
    _common_device(tensors, "parameters_to_vector")
    return mt.cat([tensor.reshape(-1) for tensor in tensors])


def vector_to_parameters(vec: mt.Tensor, parameters: Iterable[mt.Tensor]) -> None:
    """Let each parameter show its part of a vector, as `parameters_to_vector` ordered them.

    The parameters share the vector's storage afterwards. TypeError where ``vec`` is not a tensor or the parameters
    are on several devices.
    """
    if not isinstance(vec, mt.Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec).__name__}")
    tensors = list(parameters)
    _common_device(tensors, "vector_to_parameters")
    start = 0
    for tensor in tensors:
        tensor.data = vec[start : start + tensor.numel()].view_as(tensor).data
        start += tensor.numel()
