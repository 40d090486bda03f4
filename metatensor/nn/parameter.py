"""Parameter and Buffer: tensors that a module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor, _disabled_torch_function_impl
from metatensor.nn._parameter import install as _install_constructor
from metatensor.nn._register import install as _install_class

__all__ = ["Buffer", "Parameter"]


class _ParameterMeta(type):
    """``isinstance(x, Parameter)`` also for tensors of other classes that `Parameter` has marked."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that belongs to a module: assigned as an attribute, it appears in ``module.parameters()``.

    Args:
        data: the tensor whose storage it shares, detached; an empty one where None. A tensor of a class of its own
            keeps that class, and is marked as a parameter.
        requires_grad: whether gradients are to be computed for it, also inside `no_grad`.

    Raises TypeError where ``data`` is not a tensor, RuntimeError where a subclass's ``detach`` changes its class.
    """

    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = mt.empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"{cls.__name__}: expected a Tensor, got {type(data).__name__}")
        if type(data) is Tensor or type(data) is Parameter or issubclass(cls, type(data)):
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"{cls.__name__}: detach() of a {type(data).__name__} gave a {type(marked).__name__}; "
                "a parameter needs it to keep its class"
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=mt.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class _BufferMeta(type):
    """``isinstance(x, Buffer)`` for tensors that `Buffer` has marked, which keep their class."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that, assigned as an attribute of a module, is registered as a buffer.

    Args:
        data: the tensor whose storage it shares, detached; an empty one where None.
        persistent: whether it is part of the module's ``state_dict``.

    The result is a tensor of ``data``'s own class, marked as a buffer.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = mt.empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(f"Buffer: expected a Tensor, got {type(data).__name__}")
        marked = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked

    __torch_function__ = _disabled_torch_function_impl


_install_class(Parameter)
_install_constructor(Parameter)
