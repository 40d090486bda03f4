"""A linear layer followed by cross entropy, as one loss."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.modules.linear import Linear
from metatensor.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from metatensor.nn.modules.loss import _WeightedLoss
from metatensor.nn.modules.utils import keep_constants

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the scores that a linear layer computes from the input.

    The input has shape (N, in_features) or (in_features,). The target holds classes and has shape
    ``(N, *out_features)``, or the same without N. The linear layer is the child ``linear``, with
    ``num_classes * prod(out_features)`` outputs.

    Parameters
    ----------
    in_features : int
        Size of the input's last dimension.
    num_classes : int
        Number of classes.
    out_features : tuple of int
        Shape of the target of one example. Default ().
    bias : bool
        Give the linear layer a bias. Default False.
    device, dtype : optional
        Device and dtype of the linear layer.
    reduction : str
        "mean" (the default), "sum" or "none".
    weight : Tensor, optional
        Weight of each class, of shape (num_classes,).
    ignore_index : int, optional
        Target class to ignore.
    label_smoothing : float
        Share of the target probability that is spread evenly over all classes. Default 0.
    options : LinearCrossEntropyOptions, optional
        Accepted for compatibility. The result does not depend on it.

    Raises
    ------
    RuntimeError
        If ``weight`` has another shape or ``label_smoothing`` is outside [0, 1].

    Examples
    --------
    >>> import metatensor as mt
    >>> loss = mt.nn.LinearCrossEntropyLoss(16, 10)
    >>> loss(mt.zeros(8, 16), mt.arange(8)).shape
    metatensor.Size([])
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]
    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: mt.Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: weight must have shape {[num_classes]}, got {list(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"LinearCrossEntropyLoss: label_smoothing must lie in [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        keep_constants(self, vars())
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)
        self.options = options

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        linear, shape = self.linear, (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape((*shape, linear.in_features)),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
