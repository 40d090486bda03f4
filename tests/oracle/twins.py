"""Copy arguments between PyTorch and the module under test, in both directions.

Copies keep sizes, strides, storage offset, storage size, lazy conjugation, and sharing of storages.
"""

import importlib

import numpy as np
import torch

from .compare import dtype_name
from .records import Missing


class Unsupported(Exception):
    """An argument that is not plain data, such as a sparse tensor or an object of PyTorch."""


def tree_map(function, x):
    """Apply ``function`` to everything in nested sequences, dicts and slices, except these containers."""
    if type(x) in (tuple, list):
        return type(x)(tree_map(function, item) for item in x)
    if isinstance(x, dict):
        return {key: tree_map(function, item) for key, item in x.items()}
    if isinstance(x, slice):
        return slice(*(tree_map(function, item) for item in (x.start, x.stop, x.step)))
    return function(x)


def leaves(x):
    """Yield what `tree_map` passes to its function, and the items of named results, in order."""
    if isinstance(x, (tuple, list)):
        for item in x:
            yield from leaves(item)
    elif isinstance(x, dict):
        for item in x.values():
            yield from leaves(item)
    elif isinstance(x, slice):
        yield from leaves((x.start, x.stop, x.step))
    else:
        yield x


def tensors(x):
    return [leaf for leaf in leaves(x) if isinstance(leaf, torch.Tensor)]


def apart(x):
    """Return a copy of a tensor with gaps between its elements. Return anything else unchanged."""
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.numel() < 2:
        return x
    return torch.stack([x, torch.zeros_like(x)], -1)[..., 0]


def _plain(t):
    if t.layout is not torch.strided or t.is_quantized or t.is_nested or t.device.type != "cpu":
        raise Unsupported(f"a tensor that is not strided, or not on the cpu: {t.layout}, {t.device}")


def _bytes(t):
    """Return a copy of the contents of a tensor's storage as a NumPy array."""
    storage = t.untyped_storage()
    flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    return flat.numpy().copy()


class Twins:
    """Copies the arguments of one call to ``module``.

    ``translate`` converts arguments that are callable. Without it, they raise `Unsupported`. ``inputs`` lists the
    tensors that were created, in order.
    """

    def __init__(self, module, translate=None):
        self.module = module
        self.translate = translate
        self.inputs = []
        self._storages = {}

    def __call__(self, arguments):
        return tree_map(self.one, arguments)

    def one(self, x):
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if self.module is torch or x is None or isinstance(x, (bool, int, float, complex, str, np.generic, np.ndarray)):
            return x
        if x is Ellipsis:
            return x
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
            return self.attribute(dtype_name(x))
        if isinstance(x, torch.device):
            return self.module.device(str(x))
        if isinstance(x, torch.Generator):
            return self.attribute("Generator")(device="cpu").manual_seed(x.initial_seed())
        if callable(x) and self.translate is not None:
            return self.translate(x)
        raise Unsupported(f"an argument of type {type(x).__name__}")

    def attribute(self, name):
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise Missing(name) from None

    def tensor(self, t):
        _plain(t)
        key = t.untyped_storage()._cdata, t.dtype
        if key not in self._storages:
            self._storages[key] = self._storage(t)
        made = self._storages[key]
        if (t.stride(), t.shape, t.storage_offset()) != (made.stride(), made.shape, 0):
            made = made.as_strided(tuple(t.shape), t.stride(), t.storage_offset())
        if t.is_conj():
            made = made.conj()
        if t.is_neg():
            made = made._neg_view()
        self.inputs.append(made)
        return made

    def _storage(self, t):
        """Return a flat tensor over a copy of the storage."""
        content = _bytes(t)
        flat = self.module.empty((len(content) // t.element_size(),), dtype=self.attribute(dtype_name(t.dtype)), device="cpu")
        if len(content):
            flat.view(self.module.uint8).numpy()[:] = content
        return flat


_ARRAYS = {"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"}


def as_torch(x):
    """Return a result of the module under test with its tensors copied to PyTorch."""
    if isinstance(x, (torch.Tensor, str)) or not hasattr(x, "untyped_storage"):
        if isinstance(x, dict):
            return {key: as_torch(item) for key, item in x.items()}
        if isinstance(x, (tuple, list)):
            return [as_torch(item) for item in x]
        return x
    name = dtype_name(x.dtype)
    if x.device.type != "cpu":
        raise ValueError(f"a result on {x.device}")
    if name in _ARRAYS:
        return torch.from_numpy(np.array(x.detach().resolve_conj().resolve_neg().numpy()))
    module = importlib.import_module(type(x).__module__.partition(".")[0])
    flat = module.empty((x.numel(),), dtype=x.dtype, device="cpu")
    flat.copy_(x.detach().reshape(-1))
    raw = torch.from_numpy(flat.view(module.uint8).numpy()) if x.numel() else torch.empty(0, dtype=torch.uint8)
    return raw.view(getattr(torch, name)).reshape(tuple(x.shape))
