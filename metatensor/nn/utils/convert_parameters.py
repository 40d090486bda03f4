"""Conversion between parameters and a single vector."""

from __future__ import annotations

from collections.abc import Iterable

import metatensor as mt

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _common_device(tensors: list[mt.Tensor], function: str) -> None:
    devices = sorted({str(tensor.device) for tensor in tensors})
    if len(devices) > 1:
        raise TypeError(f"{function}: the parameters are on several devices: {', '.join(devices)}")


def parameters_to_vector(parameters: Iterable[mt.Tensor]) -> mt.Tensor:
    """Return the elements of all tensors concatenated in one vector.

    Raise TypeError if the tensors are on several devices.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.utils.parameters_to_vector(mt.nn.Linear(3, 2).parameters()).shape
    metatensor.Size([8])
    """
    tensors = list(parameters)
    _common_device(tensors, "parameters_to_vector")
    return mt.cat([tensor.reshape(-1) for tensor in tensors])


def vector_to_parameters(vec: mt.Tensor, parameters: Iterable[mt.Tensor]) -> None:
    """Set parameters to consecutive parts of a vector, in the order of `parameters_to_vector`.

    Afterwards the parameters share the vector's storage.

    Parameters
    ----------
    vec : Tensor
        Vector.
    parameters : iterable of Tensor
        Tensors to change. They keep their shapes.

    Raises
    ------
    TypeError
        If ``vec`` is not a tensor or the parameters are on several devices.
    """
    if not isinstance(vec, mt.Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec).__name__}")
    tensors = list(parameters)
    _common_device(tensors, "vector_to_parameters")
    start = 0
    for tensor in tensors:
        tensor.data = vec[start : start + tensor.numel()].view_as(tensor).data
        start += tensor.numel()
