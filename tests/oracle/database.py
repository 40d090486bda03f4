"""PyTorch's operator database: operators, samples, tolerances, and the corresponding functions of another module."""

import functools
import random
import types
import warnings

import numpy as np
import torch

from .records import Missing, Resolver

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo.core import DecorateInfo

DTYPES = ("float32", "float64", "int64", "bool", "complex64", "bfloat16", "float16")
SEED = 20260

# Tests of PyTorch that compare the values of an operator's result with another implementation.
_COMPARING = {None, "TestCommon", "TestUnaryUfuncs", "TestBinaryUfuncsDevice", "TestReductions", "TestMasked", "TestDecomp"}
_NAMESPACES = ("", "nn.functional", "linalg", "special", "fft", "masked", "signal.windows", "sparse", "Tensor")


def name_of(op):
    """Return the operator's name, followed by a bar and the name of the variant if there is one."""
    return op.name + ("|" + op.variant_test_name if op.variant_test_name else "")


def entries(ops=None):
    """Return the operators that run on the CPU: all of them, or those with the given names."""
    for op in op_db:
        if ops is None or op.name in ops or name_of(op) in ops:
            # Operators that are compiled from source for an accelerator do not run on the CPU.
            if not op.name.startswith("jiterator_") and op.supported_dtypes("cpu"):
                yield op


def dtypes(op, names=DTYPES):
    """Return the given dtypes that the operator supports. If it supports none of them, return its first dtype."""
    supported = op.supported_dtypes("cpu")
    found = [getattr(torch, name) for name in names if getattr(torch, name) in supported]
    return found or sorted(supported, key=str)[:1]


def seed():
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


def samples(op, dtype, limit=None, reference=False):
    """Return the sample inputs of one dtype, at most ``limit`` of them, evenly spread.

    With ``reference``, return the samples that PyTorch compares with NumPy, of which there are more.
    """
    seed()
    source = op.reference_inputs if reference else op.sample_inputs
    found = list(source("cpu", dtype, requires_grad=False))
    if limit is None or len(found) <= limit:
        return found
    chosen = {round(i * (len(found) - 1) / max(limit - 1, 1)) for i in range(limit)}
    return [found[i] for i in sorted(chosen)]


def tolerance(op, dtype):
    """Return ``(rtol, atol)`` of PyTorch's own tests for results of this dtype."""
    default = torch.testing._comparison.default_tolerances(dtype)
    allowed = [default]
    for entry in (*op.decorators, *op.skips):
        made = [entry]
        if isinstance(entry, DecorateInfo):
            if entry.device_type not in (None, "cpu") or entry.cls_name not in _COMPARING:
                continue
            made = entry.decorators
        for override in made:
            if isinstance(override, toleranceOverride) and dtype in override.d:
                allowed.append((override.d[dtype].rtol, override.d[dtype].atol))
            elif isinstance(override, precisionOverride) and dtype in override.d:
                allowed.append((0, override.d[dtype]))
    return tuple(map(max, zip(*allowed)))


class _Names:
    """A module or namespace whose missing names raise `Missing`."""

    def __init__(self, resolve, path=""):
        self._resolve, self._path = resolve, path

    def __getattr__(self, name):
        path = f"{self._path}.{name}" if self._path else name
        if path in ("ops", "ops.aten"):
            return _Names(self._resolve, path)
        found = self._resolve(path)
        return _Names(self._resolve, path) if isinstance(found, types.ModuleType) else found


def _seeded(function, *args, **kwargs):
    """Call a random function without the fixed seed that the database sets, because results must vary here."""
    return function(*args, **kwargs)


class Translator:
    """Finds the function in ``module`` that corresponds to a function in the database."""

    def __init__(self, module):
        self.module = module
        self._public = Resolver(module)
        self.names = _Names(self.resolve)
        self._paths = None

    def __call__(self, function, name=None):
        """Return the module's counterpart of a function, or raise `Missing`. ``name`` is its name in the database."""
        if isinstance(function, functools.partial):
            return functools.partial(self(function.func, name), *function.args, **function.keywords)
        if isinstance(function, torch.nn.Module):
            return self._module(function)
        own = getattr(function, "__module__", None) or ""
        if isinstance(function, types.FunctionType) and (own.startswith("torch.testing") or function.__name__ == "<lambda>"):
            return self._rebound(function)
        path = self.path(function, name)
        return function if self.module is torch else self.resolve(path)

    def _rebound(self, function):
        """Return a copy of the function whose globals hold the module under test in place of PyTorch."""
        rebound = {**function.__globals__, "torch": self.names, "wrapper_set_seed": _seeded}
        made = types.FunctionType(function.__code__, rebound, function.__name__, function.__defaults__, function.__closure__)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def _module(self, layer):
        """Return the module's layer of the same class. Raise `Missing` for layers with parameters or settings."""
        if repr(layer) != f"{type(layer).__name__}()":
            raise Missing(repr(layer))
        return layer if self.module is torch else self.resolve(f"nn.{type(layer).__name__}")()

    def resolve(self, path):
        """Return the object with a dotted name. A missing ``ops.aten.X`` is looked up as X."""
        try:
            return self._public(path)
        except Missing:
            if not path.startswith("ops.aten."):
                raise
            return self._public(path.split(".")[2])

    def path(self, function, name=None):
        """Return the public dotted path of one of PyTorch's functions."""
        if isinstance(function, torch._ops.OpOverload):
            return "ops." + str(function)
        if isinstance(function, torch._ops.OpOverloadPacket):
            return "ops." + function._qualified_op_name.replace("::", ".")
        if getattr(function, "__module__", "") == "torch._ops.aten":  # a wrapper of an OpOverloadPacket
            return f"ops.aten.{function.__name__}"
        for candidate in ((name or "").removeprefix("torch."), f"Tensor.{getattr(function, '__name__', '')}"):
            if candidate and _lookup(candidate) is function:
                return candidate
        if self._paths is None:
            self._paths = _all_paths()
        found = self._paths.get(function)
        if found is None:
            raise Missing(f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', function)}")
        return found


def _lookup(path):
    found = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _all_paths():
    table = {}
    for space in _NAMESPACES:
        owner = _lookup(space) if space else torch
        for name in sorted(dir(owner), key=lambda n: (n.startswith("_"), n)):
            value = getattr(owner, name, None) if owner is not torch.Tensor or name != "grad" else None
            if callable(value):
                try:
                    table.setdefault(value, f"{space}.{name}" if space else name)
                except TypeError:  # unhashable
                    continue
    return table
