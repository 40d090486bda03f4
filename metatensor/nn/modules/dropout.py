"""Dropout layers. They change their input in training mode only."""

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
    """Set each element to 0 with probability ``p`` and divide the others by ``1 - p`` (Srivastava et al., 2014).

    The input has any shape, and the output has the same shape. In evaluation mode the output is the input.

    Parameters
    ----------
    p : float
        Probability of dropping an element. Default 0.5.
    inplace : bool
        Overwrite the input with the result. Default False.

    Raises
    ------
    ValueError
        If ``p`` is not between 0 and 1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Dropout(0.2).eval()(mt.ones(3, device="cpu"))
    tensor([1., 1., 1.])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of an input (N, C, L) or (C, L). See `Dropout` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Dropout1d(0.2)(mt.empty(2, 3, 5)).shape
    metatensor.Size([2, 3, 5])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of an input (N, C, H, W) or (C, H, W). See `Dropout` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Dropout2d(0.2)(mt.empty(2, 3, 4, 4)).shape
    metatensor.Size([2, 3, 4, 4])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of an input (N, C, D, H, W) or (C, D, H, W). See `Dropout` for the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Dropout3d(0.2)(mt.empty(2, 3, 2, 4, 4)).shape
    metatensor.Size([2, 3, 2, 4, 4])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that preserves mean 0 and variance 1, for networks with `SELU` (Klambauer et al., 2017).

    The input has any shape, and the output has the same shape.

    Parameters
    ----------
    p : float
        Probability of dropping an element. Default 0.5.
    inplace : bool
        Stored, but the input is never overwritten. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.AlphaDropout(0.2)(mt.empty(8, 16)).shape
    metatensor.Size([8, 16])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels of an input (N, C, ...).

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.FeatureAlphaDropout(0.2)(mt.empty(8, 3, 16)).shape
    metatensor.Size([8, 3, 16])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
