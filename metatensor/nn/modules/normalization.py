"""Layer, group, root-mean-square and local response normalization layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape(normalized_shape: int | Iterable[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Layer normalization over the last dimensions (Ba et al., 2016).

    The result is ``(x - mean) / sqrt(variance + eps)``, multiplied by ``weight`` and added to ``bias``. Mean and biased
    variance are those over the last ``len(normalized_shape)`` dimensions. Both parameters have shape
    ``normalized_shape``. The output has the shape of the input.

    Parameters
    ----------
    normalized_shape : int or iterable of int
        Sizes of the last dimensions. An int stands for one dimension.
    eps : float
        Value added to the variance. Default 1e-5.
    elementwise_affine : bool
        Whether to multiply by a ``weight`` and, if ``bias`` is true, to add a ``bias``. Default True.
    bias : bool
        Whether there is a ``bias`` if ``elementwise_affine`` is true. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LayerNorm(16)(mt.empty(2, 5, 16)).shape
    metatensor.Size([2, 5, 16])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Iterable[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = _shape(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(mt.empty(shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if elementwise_affine and bias:
            self.bias = Parameter(mt.empty(shape, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Root-mean-square normalization over the last dimensions (Zhang and Sennrich, 2019).

    The result is ``x / sqrt(mean(x**2) + eps)``, multiplied by ``weight``. The mean is taken over the last
    ``len(normalized_shape)`` dimensions. The output has the shape of the input.

    Parameters
    ----------
    normalized_shape : int or iterable of int
        Sizes of the last dimensions. An int stands for one dimension.
    eps : float, optional
        Value added to the mean square. None (the default) means the machine epsilon of the dtype.
    elementwise_affine : bool
        Whether to multiply by a ``weight`` of shape ``normalized_shape``. Default True.
    device, dtype : optional
        Device and dtype of ``weight``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.RMSNorm(16)(mt.empty(2, 5, 16)).shape
    metatensor.Size([2, 5, 16])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Iterable[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = _shape(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(mt.empty(shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalization of groups of channels of each example (Wu and He, 2018).

    Input and output have shape (N, num_channels, ...). The channels are split into ``num_groups`` equal groups. Each
    group of an example becomes ``(x - mean) / sqrt(variance + eps)``, multiplied by ``weight`` and added to ``bias``,
    both of shape (num_channels,).

    Parameters
    ----------
    num_groups : int
        Number of groups. It must divide ``num_channels``.
    num_channels : int
        Number of channels.
    eps : float
        Value added to the variance. Default 1e-5.
    affine : bool
        Whether to multiply by a ``weight`` and, if ``bias`` is true, to add a ``bias``. Default True.
    device, dtype : optional
        Device and dtype of the parameters.
    bias : bool
        Whether there is a ``bias`` if ``affine`` is true. Default True.

    Raises
    ------
    ValueError
        If ``num_groups`` does not divide ``num_channels``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.GroupNorm(2, 6)(mt.empty(8, 6, 4, 4)).shape
    metatensor.Size([8, 6, 4, 4])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} is not divisible by num_groups={num_groups}")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        if affine:
            self.weight = Parameter(mt.empty(num_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(mt.empty(num_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Local response normalization across neighbouring channels (Krizhevsky et al., 2012).

    The input is divided by ``(k + alpha * m) ** beta``, where ``m`` is the mean square over ``size`` neighbouring
    channels. Input and output have shape (N, C, ...).

    Parameters
    ----------
    size : int
        Number of neighbouring channels.
    alpha : float
        Weight of the mean square. Default 1e-4.
    beta : float
        Exponent. Default 0.75.
    k : float
        Constant term. Default 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LocalResponseNorm(2)(mt.empty(8, 6, 4, 4)).shape
    metatensor.Size([8, 6, 4, 4])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Older form of `LocalResponseNorm` for an input (N, C, H, W).

    The window of a channel reaches ``(size - 1) // 2`` channels in both directions. As in PyTorch, the running sum over
    the window never drops channel 0 once it has been included.

    Parameters
    ----------
    size, alpha, beta, k
        As in `LocalResponseNorm`.

    Raises
    ------
    ValueError
        On a call with an input that does not have 4 dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.CrossMapLRN2d(3)(mt.empty(8, 6, 4, 4)).shape
    metatensor.Size([8, 6, 4, 4])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: expected 4 dimensions, got shape {list(input.shape)}")
        channels = input.shape[1]
        reach = min(int((self.size - 1) / 2 + 1), channels)
        sums = (input * input).cumsum(1)
        ahead = mt.cat([sums[:, reach - 1 :], *[sums[:, -1:]] * (reach - 1)], 1)
        behind = mt.cat([mt.zeros_like(sums[:, :reach]), sums[:, : channels - reach] - sums[:, :1]], 1)
        return input * ((ahead - behind) * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
