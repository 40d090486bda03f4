"""Lazy layers: their number of input features is inferred from the first input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor.nn._parameter import without_grad
from metatensor.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from metatensor.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from metatensor.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from metatensor.nn.modules.linear import Linear
from metatensor.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin:
    """Mixin for modules whose parameters get their shapes on the first call.

    A subclass registers `UninitializedParameter` and `UninitializedBuffer` objects and defines
    ``initialize_parameters(input)``. After the first call an instance becomes an instance of ``cls_to_become``, unless
    that is None. Loading a state dict gives the parameters their shapes too.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.LazyLinear(4)
    >>> layer.has_uninitialized_params()
    True
    >>> layer(mt.empty(2, 8)).shape
    metatensor.Size([2, 4])
    >>> layer
    Linear(in_features=8, out_features=4, bias=True)
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        handles = (
            self._register_load_state_dict_pre_hook(self._lazy_load_hook),
            self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True),
        )
        self._load_hook, self._initialize_hook = handles

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        buffers = {k: b for k, b in self._buffers.items() if k not in self._non_persistent_buffers_set}
        for name, tensor in [*self._parameters.items(), *buffers.items()]:
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        """Give uninitialized tensors the shapes they have in the state dict, before it is loaded."""
        for name, tensor in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                without_grad(tensor.materialize, given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes that fit the arguments of the first call. Subclasses define this."""
        raise NotImplementedError(f"{type(self).__name__} does not define initialize_parameters()")

    def has_uninitialized_params(self: Any) -> bool:
        """Return True if a parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in [*self._parameters.values(), *self._buffers.values()])

    def _infer_parameters(self: Any, module: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        """Initialize the parameters. This is a forward pre-hook that removes itself."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"{self._get_name()}: initialize_parameters() left parameters without a shape")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(f"{type(self).__name__}: call it with an input before it is replicated")


class _SizedByInput(LazyModuleMixin):
    """Base of lazy layers that infer one size, the attribute named by ``_size``, from the first input.

    The size is 0 until then. If a state dict is loaded first, the parameters get their shapes from it, and the first
    call only sets the size.
    """

    _size: str

    def _size_in(self, input: mt.Tensor) -> int:
        """Check an input and return the size that it determines."""
        raise NotImplementedError

    def _loaded_size(self, input: mt.Tensor) -> int:
        """Check an input against loaded parameters and return the size that they determine."""
        return self._size_in(input)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of parameters and buffers by name, once the size is known."""
        raise NotImplementedError

    def _postpone(self: Any, names: Iterable[str], kind: Any, device: Any, dtype: Any) -> None:
        """Register uninitialized parameters or buffers."""
        for name in names:
            setattr(self, name, kind(device=device, dtype=dtype))

    def reset_parameters(self: Any) -> None:
        """Draw new initial values. Do nothing while a parameter has no shape."""
        if getattr(self, self._size) != 0 and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: mt.Tensor, *args: Any, **kwargs: Any) -> None:
        """Infer the size from an input, and give the parameters shapes and initial values."""
        if not self.has_uninitialized_params():
            if getattr(self, self._size) == 0:
                setattr(self, self._size, self._loaded_size(input))
            return
        setattr(self, self._size, self._size_in(input))
        for name, shape in self._shapes().items():
            tensor = getattr(self, name)
            if is_lazy(tensor):
                tensor.materialize(shape)
        self.reset_parameters()


class LazyLinear(_SizedByInput, Linear):
    """`Linear` that infers ``in_features`` from its first input and then becomes a `Linear`.

    Parameters
    ----------
    out_features, bias, device, dtype
        As in `Linear`.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.LazyLinear(4)
    >>> layer(mt.empty(2, 8)).shape, layer.in_features
    (metatensor.Size([2, 4]), 8)
    """

    cls_to_become = Linear
    _size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._postpone(("weight", "bias") if bias else ("weight",), UninitializedParameter, device, dtype)

    def _size_in(self, input: mt.Tensor) -> int:
        return input.shape[-1]

    def _loaded_size(self, input: mt.Tensor) -> int:
        if input.shape[-1] != self.weight.shape[-1]:
            raise AssertionError(
                f"LazyLinear: an input of shape {list(input.shape)} does not fit the weight that was loaded, "
                f"of shape {list(self.weight.shape)}"
            )
        return input.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class _LazyConvNd(_SizedByInput):
    _size = "in_channels"

    def _postpone_conv(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self._postpone(("weight", "bias") if bias else ("weight",), UninitializedParameter, device, dtype)

    def _size_in(self: Any, input: mt.Tensor) -> int:
        spatial = len(self.kernel_size)
        if input.dim() not in (spatial + 1, spatial + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected {spatial + 1} or {spatial + 2} dimensions, got shape {list(input.shape)}"
            )
        channels = input.shape[-spatial - 1]
        if channels % self.groups:
            raise ValueError(f"{type(self).__name__}: the input has {channels} channels, which groups={self.groups} does not divide")
        return channels

    def _loaded_size(self: Any, input: mt.Tensor) -> int:
        return self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups

    def _shapes(self: Any) -> dict[str, tuple[int, ...]]:
        first, second = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        return {"weight": (first, second // self.groups, *self.kernel_size), "bias": (self.out_channels,)}


class _LazyConv(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._postpone_conv(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    """`Conv1d` that infers ``in_channels`` from its first input and then becomes a `Conv1d`.

    The other parameters are those of `Conv1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConv1d(8, 3)(mt.empty(2, 4, 10)).shape
    metatensor.Size([2, 8, 8])
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    """`Conv2d` that infers ``in_channels`` from its first input and then becomes a `Conv2d`.

    The other parameters are those of `Conv1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConv2d(8, 3)(mt.empty(2, 4, 10, 10)).shape
    metatensor.Size([2, 8, 8, 8])
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    """`Conv3d` that infers ``in_channels`` from its first input and then becomes a `Conv3d`.

    The other parameters are those of `Conv1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConv3d(8, 1)(mt.empty(2, 4, 3, 5, 5)).shape
    metatensor.Size([2, 8, 3, 5, 5])
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._postpone_conv(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):  # type: ignore[misc]
    """`ConvTranspose1d` that infers ``in_channels`` from its first input and then becomes a `ConvTranspose1d`.

    The other parameters are those of `ConvTranspose1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConvTranspose1d(8, 2, stride=2)(mt.empty(2, 4, 10)).shape
    metatensor.Size([2, 8, 20])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):  # type: ignore[misc]
    """`ConvTranspose2d` that infers ``in_channels`` from its first input and then becomes a `ConvTranspose2d`.

    The other parameters are those of `ConvTranspose1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConvTranspose2d(8, 2, stride=2)(mt.empty(2, 4, 5, 5)).shape
    metatensor.Size([2, 8, 10, 10])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):  # type: ignore[misc]
    """`ConvTranspose3d` that infers ``in_channels`` from its first input and then becomes a `ConvTranspose3d`.

    The other parameters are those of `ConvTranspose1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyConvTranspose3d(8, 2, stride=2)(mt.empty(2, 4, 2, 5, 5)).shape
    metatensor.Size([2, 8, 4, 10, 10])
    """

    cls_to_become = ConvTranspose3d


class _LazyNorm(_SizedByInput):
    """Base of norms that infer ``num_features`` from dimension 1 of the first input."""

    _size = "num_features"

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self._postpone(("weight", "bias") if bias else ("weight",), UninitializedParameter, device, dtype)
        if track_running_stats:
            self._postpone(("running_mean", "running_var"), UninitializedBuffer, device, dtype)
            self.num_batches_tracked = mt.zeros((), dtype=mt.int64, device=device)

    def _size_in(self, input: mt.Tensor) -> int:
        return input.shape[1]

    def _shapes(self: Any) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):  # type: ignore[misc]
    """`BatchNorm1d` that infers ``num_features`` from its first input and then becomes a `BatchNorm1d`.

    The other parameters are those of `BatchNorm1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.LazyBatchNorm1d()
    >>> layer(mt.empty(8, 3, 5)).shape, layer.num_features
    (metatensor.Size([8, 3, 5]), 3)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):  # type: ignore[misc]
    """`BatchNorm2d` that infers ``num_features`` from its first input and then becomes a `BatchNorm2d`.

    The other parameters are those of `BatchNorm1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyBatchNorm2d()(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 3, 4, 4])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):  # type: ignore[misc]
    """`BatchNorm3d` that infers ``num_features`` from its first input and then becomes a `BatchNorm3d`.

    The other parameters are those of `BatchNorm1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyBatchNorm3d()(mt.empty(8, 3, 2, 4, 4)).shape
    metatensor.Size([8, 3, 2, 4, 4])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):  # type: ignore[misc]
    """`InstanceNorm1d` that infers ``num_features`` from its first input and then becomes an `InstanceNorm1d`.

    The other parameters are those of `InstanceNorm1d`, but ``affine`` and ``track_running_stats`` default to True.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyInstanceNorm1d()(mt.empty(8, 3, 5)).shape
    metatensor.Size([8, 3, 5])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):  # type: ignore[misc]
    """`InstanceNorm2d` that infers ``num_features`` from its first input and then becomes an `InstanceNorm2d`.

    The other parameters are those of `LazyInstanceNorm1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyInstanceNorm2d()(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 3, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):  # type: ignore[misc]
    """`InstanceNorm3d` that infers ``num_features`` from its first input and then becomes an `InstanceNorm3d`.

    The other parameters are those of `LazyInstanceNorm1d`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LazyInstanceNorm3d()(mt.empty(8, 3, 2, 4, 4)).shape
    metatensor.Size([8, 3, 2, 4, 4])
    """

    cls_to_become = InstanceNorm3d
