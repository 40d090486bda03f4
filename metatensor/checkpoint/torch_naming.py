"""Map classes, functions and values of this package to their names in PyTorch's pickles, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import metatensor as mt
from metatensor._core.op import Op
from metatensor.interchange.torch_modules import name_of, target_of

__all__ = ["Name", "find", "name_in_torch"]


class Name:
    """The module and name of an object of PyTorch. Equal names are the same object, so the pickler writes each once."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @staticmethod
    @lru_cache(256)
    def of(module: str, name: str) -> Name:
        """Return the unique object for a name."""
        return Name(module, name)

    def __call__(self, *args: Any) -> Any:
        """Raise TypeError.

        Picklers require functions to be callable. Only the reader of the pickle calls the function with this name.
        """
        raise TypeError(f"{self.module}.{self.name} is a name in a pickle and cannot be called")


def name_in_torch(obj: Any, name: str | None = None) -> tuple[str, str] | None:
    """Return the module and name of ``obj`` in PyTorch, or None if ``obj`` is not part of this package.

    ``name`` is the name within its module if the object's ``__reduce__`` returned one.
    """
    kind = type(obj)
    if kind is Name:
        return obj.module, obj.name
    if kind is mt.dtype or kind is mt.memory_format:
        return "torch", obj.name
    if kind is Op:
        module, _, short = f"torch.{obj.name}".rpartition(".")
        return (module, short) if _is_there(module, short, obj) else None
    home = getattr(obj, "__module__", None)
    if not isinstance(home, str) or not home.startswith("metatensor."):
        return None
    if isinstance(obj, type) and obj in _CORE:
        return _CORE[obj]
    short = name or str(getattr(obj, "__qualname__", None) or getattr(obj, "__name__", ""))
    for theirs in _homes(name_of(home)):
        if _is_there(theirs, short, obj):
            return theirs, short
    return None


def _homes(theirs: str | None) -> Iterator[str]:
    """Yield the modules in which PyTorch may define the contents of our module with the alias ``theirs``.

    The likeliest come first.
    """
    yield from (home for prefix, homes in HOMES.items() if (theirs or "torch").startswith(prefix) for home in homes)
    if theirs is None:
        yield "torch"
    elif "._" not in theirs:
        yield theirs
    else:
        while theirs:
            head, _, last = theirs.rpartition(".")
            if not last.startswith("_"):
                yield theirs
            theirs = head


HOMES = {
    "torch.nn.module": ("torch.nn.modules.module",),
    "torch.nn._hooks": ("torch.utils.hooks", "torch.nn.modules.module"),
    "torch.nn.modules.rnn_cells": ("torch.nn.modules.rnn",),
    "torch.nn.modules.lazy": tuple(f"torch.nn.modules.{name}" for name in ("linear", "conv", "batchnorm", "instancenorm")),
    "torch.nn.modules.linear_cross_entropy": ("torch.nn.modules.loss",),
    "torch.nn.modules.attention": ("torch.nn.modules.activation",),
    "torch.nn.modules.parameters": ("torch.nn.modules.container",),
    "torch.optim._": ("torch.optim.lr_scheduler",),
    "torch.distributions": ("torch.distributions",),
    "torch": ("torch.autograd.grad_mode", "torch.storage"),
}
"""Prefixes of our modules' aliases, with the modules in which PyTorch defines their contents."""

_CORE = {
    mt.dtype: ("torch", "dtype"), mt.device: ("torch", "device"), mt.layout: ("torch", "layout"), mt.Generator: ("torch._C", "Generator"),
    mt.memory_format: ("torch", "memory_format"), mt.UntypedStorage: ("torch.storage", "UntypedStorage"), mt.Size: ("torch", "Size"),
    mt.Tensor: ("torch", "Tensor"),
}  # fmt: skip
"""PyTorch's names of core classes that have other names or modules in this package."""


def _is_there(module: str, name: str, obj: Any) -> bool:
    try:
        return find(module, name) is obj
    except (ImportError, AttributeError):
        return False


# From PyTorch's names ---------------------------------------------------------------

# Compiled modules of PyTorch that occur in pickles, and the public modules with the same functions.
_COMPILED = {"torch._C._nn": "nn.functional", "torch._C._linalg": "linalg", "torch._C._special": "special", "torch._C._fft": "fft"}
_MOVED: dict[tuple[str, str], Callable[[], Any]] = {
    ("torch._C", "_VariableFunctionsClass"): lambda: mt,
    ("torch._C", "_VariableFunctions"): lambda: mt,
    ("torch._C", "_TensorBase"): lambda: mt.Tensor,
}


def find(module: str, name: str) -> Any:
    """Return this package's counterpart of a name in PyTorch. Raise ImportError or AttributeError if there is none."""
    moved = _MOVED.get((module, name))
    if moved is not None:
        return moved()
    if module in _COMPILED:
        space = _COMPILED[module]
        value: Any = import_module(f"metatensor.{space}")
        return getattr(value, re.sub(f"^{space}_", "", name))
    target = target_of(module)
    value = sys.modules.get(target) or _module(target)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _module(name: str) -> Any:
    """Import a module of this package, or return an attribute of a package that PyTorch has as a module."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        package, _, last = name.rpartition(".")
        if not package:
            raise
        return getattr(_module(package), last)
