"""Instance normalization layers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.modules.batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    _dims: int  # dimensions of an input, including batch and channel

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: mt.Tensor) -> None:
        self._expect_dims(input, self._dims - 1, self._dims)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        self._check_input_dim(input)
        channel = input.dim() - self._dims + 1
        if self.affine and input.shape[channel] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels in dimension {channel}, "
                f"got shape {list(input.shape)}"
            )
        output = F.instance_norm(
            input if channel == 1 else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return output if channel == 1 else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of an input (N, C, L) or (C, L) (Ulyanov et al., 2016).

    Each channel of each example is normalized by its own mean and variance: ``(x - mean) / sqrt(variance + eps)``. The
    output has the shape of the input.

    Parameters
    ----------
    num_features : int
        Number of channels C.
    eps : float
        Value added to the variance. Default 1e-5.
    momentum : float, optional
        Share of the new batch in the running averages. Default 0.1.
    affine : bool
        Whether to multiply by a ``weight`` (C,) and, if ``bias`` is true, to add a ``bias`` (C,). Default False.
    track_running_stats : bool
        Update running averages of mean and variance in training mode, and use them in evaluation mode. Default False.
    device, dtype : optional
        Device and dtype of parameters and running averages.
    bias : bool
        Whether there is a ``bias`` if ``affine`` is true. Default True.

    Raises
    ------
    ValueError
        On a call whose input has the wrong number of dimensions or, if ``affine`` is true, of channels.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.InstanceNorm1d(3)(mt.empty(8, 3, 5)).shape
    metatensor.Size([8, 3, 5])
    """

    _dims = 3


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of an input (N, C, H, W) or (C, H, W). See `InstanceNorm1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.InstanceNorm2d(3)(mt.empty(8, 3, 4, 4)).shape
    metatensor.Size([8, 3, 4, 4])
    """

    _dims = 4


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of an input (N, C, D, H, W) or (C, D, H, W). See `InstanceNorm1d` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.InstanceNorm3d(3)(mt.empty(8, 3, 2, 4, 4)).shape
    metatensor.Size([8, 3, 2, 4, 4])
    """

    _dims = 5
