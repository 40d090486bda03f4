"""The legacy constructor: ``Tensor(2, 3)`` and ``Tensor([1, 2])``."""

from metatensor import plugins
from metatensor._core.device import Device, get_default_device
from metatensor._core.dtype import get_default_dtype
from metatensor._core.op import op_by_name
from metatensor._core.size import Size
from metatensor._core.tensor import Tensor

__all__ = ["legacy_tensor"]


def _with_values():
    """Return the default device, or cpu if the default is meta, because the given values are likely to be read.

    PyTorch's constructor ignores the default device.
    """
    default = get_default_device()
    if default.type == "meta" and "cpu" in plugins.device_types():
        return Device("cpu")
    return default


def legacy_tensor(*args, device=None):
    """Implement ``Tensor(*args, device=device)``.

    Without arguments, return an empty tensor. For integers or a `Size`, return an uninitialized tensor of these sizes.
    For a sequence, return a tensor of its values. All of these have the default dtype. For a tensor, return an alias of
    it, on ``device`` if that is not None. Raise TypeError for other arguments.
    """
    empty, make = op_by_name("empty"), op_by_name("tensor")
    dtype = get_default_dtype()
    if not args:
        return empty((0,), dtype=dtype, device=device)
    first = args[0]
    if len(args) == 1:
        if isinstance(first, Tensor):
            return op_by_name("alias")(first if device is None else first.to(device)).detach()
        if isinstance(first, Size):
            return empty(first, dtype=dtype, device=device)
        if not hasattr(first, "__index__") or hasattr(first, "__setitem__"):  # arrays have both
            if isinstance(first, (str, bytes)) or not hasattr(first, "__len__"):
                raise TypeError(f"Tensor(): data must be a sequence, got {type(first).__name__}")
            return make(first, dtype=dtype, device=_with_values() if device is None else device)
    return empty(args, dtype=dtype, device=device)
