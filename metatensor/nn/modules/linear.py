"""Linear and bilinear layers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]

class Identity(Module):
    """Layer that returns its input.

    Parameters
    ----------
    *args, **kwargs
        Ignored, so that the class can stand in for any other layer.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Identity(54, unused=True)(mt.empty(2, 3)).shape
    metatensor.Size([2, 3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return input


class Linear(Module):
    """Affine map ``x @ weight.T + bias`` of the last dimension: (..., in_features) to (..., out_features).

    ``weight`` has shape (out_features, in_features), and ``bias`` has shape (out_features,). Both are initialized
    uniformly within ±1 / sqrt(in_features).

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension of input and output.
    bias : bool
        Add a bias. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Linear(8, 4)(mt.empty(2, 5, 8)).shape
    metatensor.Size([2, 5, 4])
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
        """Draw new initial values."""
        init._uniform_by_fan_in_(self.weight, self.bias)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Class of `MultiheadAttention`'s output projection. It differs from `Linear` in its name only."""


class Bilinear(Module):
    """Bilinear map: ``x1 @ weight[k] @ x2 + bias[k]`` is feature ``k`` of the output.

    Inputs (..., in1_features) and (..., in2_features) give an output (..., out_features). ``weight`` has shape
    (out_features, in1_features, in2_features), and ``bias`` has shape (out_features,). Both are initialized uniformly
    within ±1 / sqrt(in1_features).

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last dimension of both inputs and of the output.
    bias : bool
        Add a bias. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    ValueError
        If ``in1_features`` is not positive.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Bilinear(8, 6, 4)(mt.empty(2, 8), mt.empty(2, 6)).shape
    metatensor.Size([2, 4])
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
        """Draw new initial values."""
        init._uniform_within_(self.parameters(recurse=False), self.weight.shape[1])

    def forward(self, input1: mt.Tensor, input2: mt.Tensor) -> mt.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
