"""What a subclass of Tensor does by default with the results of ops."""

from metatensor._core.tensor import Tensor
from metatensor._core.thread import DisableTorchFunctionSubclass


def _wrap(value, cls):
    if type(value) is Tensor:
        return value.as_subclass(cls)
    if isinstance(value, (list, tuple)):
        parts = [_wrap(v, cls) for v in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(parts)
    return value


def default_torch_function(cls, func, types, args, kwargs):
    """Compute with overriding switched off, then make the results instances of `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return _wrap(result, cls)
