"""Parameters that are computed from others: a module's attribute becomes a function of parameters below it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from metatensor import Tensor
from metatensor.nn._parameter import without_grad
from metatensor.nn.module import Module
from metatensor.nn.modules.container import ModuleDict, ModuleList
from metatensor.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_caching = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within this context a parametrized tensor is computed when it is first read, and kept for later."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _expect(tensor: Any, like_dtype: Any, like_shape: Any, what: str) -> None:
    """ValueError unless it is a tensor of this dtype and shape."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{what} must be a Tensor, not {type(tensor).__name__}; unsafe=True allows that")
    if tensor.dtype != like_dtype or tuple(tensor.shape) != tuple(like_shape):
        raise ValueError(
            f"{what} has dtype {tensor.dtype} and shape {list(tensor.shape)}, the tensor has {like_dtype} and "
            f"{list(like_shape)}; unsafe=True allows that"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, with what the tensor is computed from.

    That is ``original`` or, where the last ``right_inverse`` gave a sequence, ``original0``, ``original1``, ... They
    are parameters if the tensor was one, else buffers. A call computes the tensor.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList: there must be at least one module")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = without_grad(self._first_inverse, original)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(f"right_inverse must give a Tensor or a sequence of them, not {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            value: Any = new
            if value.dtype != dtype:
                raise ValueError(f"right_inverse gave {value.dtype} for a tensor of {dtype}; they must be one for one tensor")
            if value is not original:
                original.data = value.detach()
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(f"right_inverse gave a {type(part).__name__} as element {i}, not a Tensor")
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", part)
        if not unsafe:
            _expect(self(), dtype, shape, "the parametrized tensor")

    def _first_inverse(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass  # the tensor itself is as good
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor is ``value``, or near it, by the modules' ``right_inverse``.

        RuntimeError where a module has none, ValueError where what they give does not fit the originals.
        """
        without_grad(self._assign, value)

    def _assign(self, value: Any) -> None:
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"{type(module).__name__} has no right_inverse, so the tensor cannot be assigned to")
            value = module.right_inverse(value)
        parts = [value] if self.is_tensor else list(value)
        if len(parts) != self.ntensors or not all(isinstance(part, Tensor) for part in parts):
            raise ValueError(f"right_inverse must give {self.ntensors} tensors for this parametrization")
        for own, part in zip(self._originals(), parts):
            if own.dtype != part.dtype:
                raise ValueError(f"right_inverse gave {part.dtype} for an original of {own.dtype}")
            own.data = part.detach()

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Tensor:  # type: ignore[override]
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any where no name is given, is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before anything of it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _inject_class(module: Module) -> None:
    """Make the module an instance of a class of its own, which can have properties."""
    cls = type(module)

    def refuse(self: Any) -> Any:
        raise RuntimeError("a parametrized module is not pickled; save its state_dict() instead")

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica

    members = {"__getstate__": refuse, "__deepcopy__": getattr(cls, "__deepcopy__", deep_copy)}
    own: Any = type(f"Parametrized{cls.__name__}", (cls,), members)
    own.__new__(own)  # a class is made ready for fast look-ups with its first instance
    module.__class__ = own


def _inject_property(module: Module, name: str) -> None:
    def read(self: Any) -> Any:
        if not _caching:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, assign))


def _check_further(module: Module, name: str, parametrization: Module) -> None:
    """A parametrization after others must keep dtype and shape, and so must its inverse."""
    now = getattr(module, name)
    made = parametrization(now)
    _expect(made, now.dtype, now.shape, "the parametrized tensor")
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(made)
        except NotImplementedError:
            return
        _expect(back, now.dtype, now.shape, "right_inverse of it")


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be ``parametrization(original)``; one that is parametrized gets one more.

    The module's class changes to one with a property of that name. Assigning to it goes through
    ``parametrization.right_inverse``, which is also where the original comes from, if there is one. ValueError for a
    name that is no parameter or buffer and, unless ``unsafe``, for results of another dtype or shape.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(f"{type(module).__name__} has no parameter, buffer or parametrized tensor {tensor_name!r}")
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor a plain parameter or buffer again: with its computed value, or with the original one.

    ValueError where it is not parametrized, and for ``leave_parametrized=False`` where there are several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__}: {tensor_name!r} is not parametrized")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            original.data = without_grad(getattr, module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(f"{tensor_name!r} has several originals: there is no value to go back to")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        before = type(module).__bases__[0]
        del module.parametrizations
        module.__class__ = before
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give ``to_module`` the parametrizations of ``from_module``, of one tensor or all, with copies of the originals."""
    if not is_parametrized(from_module):
        return to_module
    if is_parametrized(to_module, tensor_name) and tensor_name is not None and not hasattr(to_module, tensor_name):
        raise AssertionError(f"{type(to_module).__name__} has no tensor {tensor_name!r}")
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            _register(to_module, name, copy.deepcopy(source._originals()[0]))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        for own, given in zip(to_module.parametrizations[name]._originals(), source._originals()):
            own.data = given.detach().clone()
    return to_module
