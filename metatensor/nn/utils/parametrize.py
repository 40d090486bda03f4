"""Parametrizations: parameters that are computed from other parameters."""

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
    """Context manager that caches parametrized tensors: each is computed on first access and reused until the end."""
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
    """Raise ValueError unless ``tensor`` is a tensor of the given dtype and shape."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{what} must be a Tensor, not {type(tensor).__name__}; unsafe=True allows that")
    if tensor.dtype != like_dtype or tuple(tensor.shape) != tuple(like_shape):
        raise ValueError(
            f"{what} has dtype {tensor.dtype} and shape {list(tensor.shape)}, but the tensor has dtype {like_dtype} and "
            f"shape {list(like_shape)}; unsafe=True allows a difference"
        )


class ParametrizationList(ModuleList):
    """Parametrizations of one tensor, in order, with the original tensors that it is computed from.

    The child modules are the parametrizations. Calling the list computes the tensor. The original tensor is the
    attribute ``original``. If the last ``right_inverse`` returned a sequence, the originals are ``original0``,
    ``original1`` and so on. Originals are parameters if the tensor was one, else buffers.

    Parameters
    ----------
    modules : sequence of Module
        Parametrizations.
    original : Tensor
        Tensor to parametrize.
    unsafe : bool
        Allow the parametrization to change dtype and shape. Default False.

    Raises
    ------
    ValueError
        If there are no modules, or a result has the wrong type, dtype or shape.
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
                raise ValueError(f"right_inverse returned dtype {value.dtype} for a tensor of {dtype}; a single "
                                 "original must keep the dtype")
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
                    pass  # keep the value as the original
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Assign ``value`` to the parametrized tensor.

        The modules' ``right_inverse`` methods compute the originals from it.

        Raises
        ------
        RuntimeError
            If a module has no ``right_inverse``.
        ValueError
            If the results do not match the originals.
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
    """Return True if a tensor of a module is parametrized: ``tensor_name``, or any tensor if no name is given."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before its tensors were parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def _inject_class(module: Module) -> None:
    """Give the module a class of its own, to which properties can be added."""
    cls = type(module)

    def refuse(self: Any) -> Any:
        raise RuntimeError("a parametrized module cannot be pickled; save its state_dict() instead")

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica

    members = {"__getstate__": refuse, "__deepcopy__": getattr(cls, "__deepcopy__", deep_copy)}
    own: Any = type(f"Parametrized{cls.__name__}", (cls,), members)
    own.__new__(own)  # creating an instance installs the compiled attribute look-up in the class
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
    """Raise ValueError if an additional parametrization, or its inverse, changes dtype or shape."""
    now = getattr(module, name)
    made = parametrization(now)
    _expect(made, now.dtype, now.shape, "the parametrized tensor")
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(made)
        except NotImplementedError:
            return
        _expect(back, now.dtype, now.shape, "the result of right_inverse")


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replace a parameter or buffer by ``parametrization(original)``. Further parametrizations are applied in order.

    The module gets a class of its own with a property ``tensor_name``. The original is the current value, or what the
    parametrization's method ``right_inverse`` computes from it, if there is one. The method also allows assignments to
    the property: it computes the original from the assigned value.

    Parameters
    ----------
    module : Module
        Module to change.
    tensor_name : str
        Name of the parameter or buffer.
    parametrization : Module
        Module whose call computes the tensor.
    unsafe : bool
        Allow the parametrization to change dtype and shape. Default False.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If there is no parameter or buffer of that name, or a result has the wrong type, dtype or shape.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils.parametrize import register_parametrization
    >>> class Symmetric(mt.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(mt.nn.Linear(3, 3, device="cpu"), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
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
    """Remove all parametrizations of a tensor, which becomes a plain parameter or buffer again.

    Parameters
    ----------
    module : Module
        Module to change.
    tensor_name : str
        Name of the tensor.
    leave_parametrized : bool
        Keep the computed value (the default) instead of the original one.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If the tensor is not parametrized, or ``leave_parametrized`` is False and there are several originals.
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
    """Copy the parametrizations and originals of one or all tensors of ``from_module`` to ``to_module``.

    Return ``to_module``.
    """
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
