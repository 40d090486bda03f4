"""Minimal devices: memory is a bytearray, and kernels are functions of NumPy arrays."""

import math

import numpy as np

from metatensor import Tensor
from metatensor.devices import DeviceBackend
from metatensor.testing.values import FORMATS


class Small(DeviceBackend):
    """A device whose only kernels are those in `kernels`: functions that take arrays and return an array."""

    def __init__(self, type, kernels, fallback=None):
        self.type, self.kernels, self.fallback = type, kernels, fallback
        self.seen = []

    def allocate(self, nbytes, index):
        self.check_index(max(index, 0))
        try:
            return bytearray(nbytes)
        except (MemoryError, OverflowError) as error:
            raise self.out_of_memory(nbytes) from error

    def array(self, tensor):
        """Return a strided view of a tensor's memory."""
        dtype = FORMATS[tensor.dtype.name].raw
        memory = np.frombuffer(tensor.untyped_storage().data, np.uint8)
        if not tensor.numel():
            return np.empty(tuple(tensor.shape), dtype)
        steps = [step * tensor.itemsize for step in tensor.stride()]
        reach = sum((size - 1) * step for size, step in zip(tensor.shape, steps, strict=True)) + tensor.itemsize
        start = tensor.storage_offset() * tensor.itemsize
        return np.lib.stride_tricks.as_strided(memory[start : start + reach].view(dtype) if reach % tensor.itemsize == 0 else None,
                                               tuple(tensor.shape), steps)  # fmt: skip

    def to_host(self, tensor):
        return self.host_bytes(tensor, self.array(tensor).tobytes())

    def from_host(self, tensor, data):
        data = self.host_bytes(tensor, data)
        self.array(tensor)[...] = np.frombuffer(data, FORMATS[tensor.dtype.name].raw).reshape(tuple(tensor.shape))

    def kernel(self, name):
        function = self.kernels.get(name)
        return None if function is None else lambda out, *args: self.run(name, function, out, args)

    def run(self, name, function, out, args):
        self.seen.append((name, args))
        given = [self.array(value) if isinstance(value, Tensor) else value for value in args]
        with np.errstate(all="ignore"):
            self.array(out)[...] = function(*given)


def many(x, dim):
    return tuple(range(x.ndim)) if dim is None or dim == () else dim


KERNELS = {
    "add": lambda a, b, alpha: a + b * alpha, "sub": lambda a, b, alpha: a - b * alpha, "mul": np.multiply,
    "div": lambda a, b, mode: np.divide(a, b), "exp": np.exp, "sqrt": np.sqrt, "reciprocal": np.reciprocal,
    "erf": np.vectorize(math.erf, otypes=["f8"]),
    "sum": lambda x, dim, keepdim, dtype: x.sum(many(x, dim), keepdims=keepdim),
    "amax": lambda x, dim, keepdim: x.max(many(x, dim), keepdims=keepdim),
    "any": lambda x, dim, keepdim: x.any(many(x, dim), keepdims=keepdim),
    "le": np.less_equal, "eq": np.equal, "where": np.where, "mm": lambda a, b, dtype: a @ b, "bmm": lambda a, b, dtype: a @ b,
}  # fmt: skip
