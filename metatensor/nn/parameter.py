"""Parameter and Buffer: tensors that a module registers when assigned to it, also while their shape is unknown."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.overrides import default_torch_function
from metatensor._core.tensor import Tensor, _disabled_torch_function_impl
from metatensor.nn._parameter import become as _become
from metatensor.nn._parameter import install as _install_constructor
from metatensor.nn._register import install as _install_class

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _ParameterMeta(type):
    """``isinstance(x, Parameter)`` also for tensors of other classes that `Parameter` has marked."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


def _data_of(cls: type, data: Any) -> Tensor:
    """Return ``data``, an empty tensor for None. TypeError if it is no tensor."""
    if data is None:
        return mt.empty(0)
    if isinstance(data, Tensor):
        return data
    raise TypeError(f"{cls.__name__}: expected a Tensor, got {type(data).__name__}")


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
        data = _data_of(cls, data)
        kind = type(data)
        if kind in (Tensor, Parameter) or issubclass(cls, kind):
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach()
        if type(marked) is not kind:
            raise RuntimeError(
                f"{cls.__name__}: detach() of a {kind.__name__} gave a {type(marked).__name__}; a parameter needs it to keep its class"
            )
        marked._is_param = True
        return marked.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copy = self.data.clone(memory_format=mt.preserve_format)
            memo[id(self)] = type(self)(copy, self.requires_grad)
        return memo[id(self)]

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
        data = _data_of(Buffer, data)
        marked = data.detach()
        marked._is_buffer, marked.persistent = True, persistent
        return marked.requires_grad_(data.requires_grad)

    __torch_function__ = _disabled_torch_function_impl


class UninitializedTensorMixin:
    """A tensor that has a dtype and a device, but no shape yet; `materialize` gives it one.

    Until then it can be moved, converted and copied; any other operation raises ValueError, and asking for its shape
    RuntimeError.
    """

    __slots__ = ()
    cls_to_become: Any = None
    _overrides_operators_only = True
    _allowed = frozenset({"copy_", "to", "_to_copy", "cpu", "cuda", "is_complex", "is_floating_point", "size", "get_device"})

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Allocate it, in place, with this shape; its own device and dtype where none are given."""
        mine = self.data  # type: ignore[attr-defined]
        self.data = mt.empty(
            shape, device=mine.device if device is None else device, dtype=mine.dtype if dtype is None else dtype
        )
        _become(self, self.cls_to_become)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            f"{type(self).__name__}: there is no shape before the module has seen an input; a module that has one "
            "cannot load such a tensor either"
        )

    def numel(self) -> Any:
        """ValueError: there are no elements yet."""
        raise ValueError(f"numel(): a {type(self).__name__} has no shape yet; call the module with an input first")

    nelement = numel

    def share_memory_(self) -> Any:
        """RuntimeError: there is no memory to share yet."""
        raise RuntimeError(f"{type(self).__name__}: there is no memory to share before the module has seen an input")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        tensor: Any = self
        return type(self), (tensor.requires_grad, str(tensor.data.device), tensor.data.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            tensor: Any = self
            memo[id(self)] = type(self)(tensor.requires_grad, tensor.data.device, tensor.data.dtype)  # type: ignore[call-arg]
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.name in cls._allowed:
            return default_torch_function(cls, func, types, args, kwargs)
        raise ValueError(
            f"{func.name}(): an argument is a {cls.__name__}, which has no shape yet; call the module with an input first"
        )


def is_lazy(param: Any) -> bool:
    """Whether something is a parameter or buffer without a shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A `Parameter` whose shape is not known yet. See `UninitializedTensorMixin`."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Tensor._make_subclass(cls, mt.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet; it becomes a `Buffer`. See `UninitializedTensorMixin`."""

    cls_to_become = Buffer
    _is_buffer = True
    persistent = True

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = Tensor._make_subclass(cls, mt.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


_install_class(Parameter)
_install_constructor(Parameter)
