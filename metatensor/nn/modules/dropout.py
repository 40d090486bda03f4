"""Layers that drop values at random, in training only."""

from __future__ import annotations

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: the probability must be between 0 and 1, not {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero each element with probability ``p`` and divide the others by 1 - p; any shape."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zero whole channels with probability ``p``: (N, C, L) or (C, L)."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zero whole channels with probability ``p``: (N, C, H, W) or (C, H, W)."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zero whole channels with probability ``p``: (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of inputs that a `SELU` network normalises; any shape."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels: (N, C, ...)."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
