"""`Parameter` and `Buffer`, the tensors that a module registers on assignment, and their uninitialized variants."""

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
    """Metaclass that makes ``isinstance(x, Parameter)`` true for tensors that `Parameter` has marked."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


def _data_of(cls: type, data: Any) -> Tensor:
    """Return ``data``, or an empty tensor for None. Raise TypeError if it is not a tensor."""
    if data is None:
        return mt.empty(0)
    if isinstance(data, Tensor):
        return data
    raise TypeError(f"{cls.__name__}: expected a Tensor, got {type(data).__name__}")


class Parameter(Tensor, metaclass=_ParameterMeta):
    """Tensor that a module registers as a parameter when it is assigned as an attribute.

    Parameters
    ----------
    data : Tensor, optional
        Tensor to share storage with. The parameter is detached from it. Default: an empty tensor. An instance of a
        tensor subclass keeps its class and is marked as a parameter.
    requires_grad : bool
        Whether gradients are computed for it, even if it is created under `no_grad`. Default True.

    Raises
    ------
    TypeError
        If ``data`` is not a tensor.
    RuntimeError
        If ``data`` is of a tensor subclass whose ``detach()`` returns an instance of another class.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.Module()
    >>> layer.weight = mt.nn.Parameter(mt.ones(2, 3))
    >>> [p.shape for p in layer.parameters()]
    [metatensor.Size([2, 3])]
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
                f"{cls.__name__}: detach() of a {kind.__name__} must return the same class, got {type(marked).__name__}"
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
    """Metaclass that makes ``isinstance(x, Buffer)`` true for tensors that `Buffer` has marked."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """Tensor that a module registers as a buffer when it is assigned as an attribute.

    The result is an instance of the class of ``data``, marked as a buffer.

    Parameters
    ----------
    data : Tensor, optional
        Tensor to share storage with. The buffer is detached from it. Default: an empty tensor.
    persistent : bool
        Include the buffer in the module's `state_dict`. Default True.

    Raises
    ------
    TypeError
        If ``data`` is not a tensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.Module()
    >>> layer.mean = mt.nn.Buffer(mt.zeros(3))
    >>> list(layer.state_dict())
    ['mean']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = _data_of(Buffer, data)
        marked = data.detach()
        marked._is_buffer, marked.persistent = True, persistent
        return marked.requires_grad_(data.requires_grad)

    __torch_function__ = _disabled_torch_function_impl


class UninitializedTensorMixin:
    """Mixin for tensors with a dtype and a device but no shape yet. `materialize` gives them one.

    Until then the tensor can be moved, converted and copied. Other operations raise ValueError, and reading its shape
    raises RuntimeError.
    """

    __slots__ = ()
    cls_to_become: Any = None
    _overrides_operators_only = True
    _allowed = frozenset({"copy_", "to", "_to_copy", "cpu", "cuda", "is_complex", "is_floating_point", "size", "get_device"})

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Allocate the tensor in place.

        Parameters
        ----------
        shape : sequence of int
            Shape of the tensor.
        device, dtype : optional
            Default: the tensor's own.
        """
        mine = self.data  # type: ignore[attr-defined]
        self.data = mt.empty(
            shape, device=mine.device if device is None else device, dtype=mine.dtype if dtype is None else dtype
        )
        _become(self, self.cls_to_become)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            f"{type(self).__name__}: there is no shape before the module has received an input; "
            "a module whose tensors have shapes cannot load it"
        )

    def numel(self) -> Any:
        """Raise ValueError: the tensor has no elements yet."""
        raise ValueError(f"numel(): a {type(self).__name__} has no shape yet; call the module with an input first")

    nelement = numel

    def share_memory_(self) -> Any:
        """Raise RuntimeError: the tensor has no memory yet."""
        raise RuntimeError(f"{type(self).__name__}: there is no memory to share before the module has received an input")

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
    """Return True for a parameter or buffer without a shape."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """`Parameter` without a shape. `materialize` turns it into a `Parameter`.

    Parameters
    ----------
    requires_grad : bool
        Whether gradients are computed for it. Default True.
    device, dtype : optional
        Device and dtype of the future tensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> p = mt.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', metatensor.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Tensor._make_subclass(cls, mt.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """Buffer without a shape. `materialize` turns it into a `Buffer`.

    Parameters
    ----------
    requires_grad : bool
        Whether gradients are computed for it. Default False.
    device, dtype : optional
        Device and dtype of the future tensor.
    persistent : bool
        Include the buffer in the module's `state_dict`. Default True.
    """

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
