"""Instance normalisation."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.modules.batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    _dims: int  # with a batch and a channel dimension

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
    """Normalise each channel of each example on its own: (N, C, L) or (C, L), to the same shape.

    With ``track_running_stats``, running averages of mean and variance are kept in training and used in evaluation.
    ``affine`` adds a weight and, with ``bias``, a bias per channel; ValueError where the channels are not
    ``num_features`` then, and for another number of dimensions.
    """

    _dims = 3


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each example: (N, C, H, W) or (C, H, W). See `InstanceNorm1d`."""

    _dims = 4


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each example: (N, C, D, H, W) or (C, D, H, W). See `InstanceNorm1d`."""

    _dims = 5
