"""Layers that multiply by a matrix."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]

class Identity(Module):
    """Returns its input. Takes any arguments, to stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return input


class Linear(Module):
    """``x @ weight.T + bias``: (..., in_features) to (..., out_features).

    ``weight`` (out_features, in_features) and ``bias`` (out_features,) start uniform in +-1 / sqrt(in_features).
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Parameter

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(mt.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(mt.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values again."""
        init._uniform_by_fan_in_(self.weight, self.bias)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that `MultiheadAttention`'s output projection has in a repr."""


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each k: (..., in1_features), (..., in2_features) to (..., out_features).

    ``weight`` (out_features, in1_features, in2_features) and ``bias`` start uniform in +-1 / sqrt(in1_features).
    ValueError where ``in1_features`` is not positive.
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    weight: Parameter

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, not {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(mt.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(mt.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values again."""
        init._uniform_within_(self.parameters(recurse=False), self.weight.shape[1])

    def forward(self, input1: mt.Tensor, input2: mt.Tensor) -> mt.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
