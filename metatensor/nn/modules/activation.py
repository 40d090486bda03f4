"""Nonlinearities."""

from __future__ import annotations

import warnings
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(Module):
    """A nonlinearity whose only option is to work in place."""

    __constants__ = ["inplace"]
    _function: Any

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._function(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _OfDim(Module):
    """A nonlinearity along one dimension."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class ReLU(_InPlace):
    """``max(x, 0)``."""

    _function = F.relu


class SiLU(_InPlace):
    """``x * sigmoid(x)``, also called swish."""

    _function = F.silu


class Mish(_InPlace):
    """``x * tanh(softplus(x))``."""

    _function = F.mish


class SELU(_InPlace):
    """``scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0))`` with the constants of Klambauer and others, 2017."""

    _function = F.selu


class Hardsigmoid(_InPlace):
    """``clamp(x / 6 + 1/2, 0, 1)``."""

    _function = F.hardsigmoid

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """``x * clamp(x / 6 + 1/2, 0, 1)``."""

    _function = F.hardswish

    def extra_repr(self) -> str:
        return ""


class Hardtanh(Module):
    """``clamp(x, min_val, max_val)``. AssertionError where ``max_val <= min_val``."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            warnings.warn("Hardtanh: min_value and max_value are called min_val and max_val", FutureWarning, 2)
            min_val = min_val if min_value is None else min_value
            max_val = max_val if max_value is None else max_value
        if max_val <= min_val:
            raise AssertionError(f"{type(self).__name__}: min_val={min_val} must be less than max_val={max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """``clamp(x, 0, 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """``x`` where ``x > threshold``, ``value`` elsewhere."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """``x`` where positive, else ``x`` times a slope from [lower, upper): drawn in training, their mean otherwise."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    """``x`` where positive, ``negative_slope * x`` elsewhere."""

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class _Alpha(Module):
    """A nonlinearity with a scale for negative values."""

    __constants__ = ["alpha", "inplace"]
    _function: Any

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._function(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""

    _function = F.elu


class CELU(_Alpha):
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere."""

    _function = F.celu


class PReLU(Module):
    """``x`` where positive, ``weight * x`` elsewhere, with one learned weight, or one for each channel."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(mt.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every weight ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GELU(Module):
    """``x`` times the normal distribution function of it; ``approximate="tanh"`` is the usual approximation."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x > threshold``."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    __constants__ = ["lambd"]
    _function: Any

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return self._function(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """``x`` where ``abs(x) > lambd``, 0 elsewhere."""

    _function = F.hardshrink


class Softshrink(_Shrink):
    """``x`` moved towards 0 by ``lambd``, and not beyond."""

    _function = F.softshrink


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.tanh(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + abs(x))``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.tanhshrink(input)


class GLU(_OfDim):
    """The first half of ``dim`` times the sigmoid of the second half."""

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.glu(input, self.dim)


class Softmax(_OfDim):
    """``exp(x)`` divided by its sum along ``dim``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softmax(input, self.dim)


class Softmin(_OfDim):
    """`Softmax` of ``-x``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_OfDim):
    """The logarithm of `Softmax`."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """`Softmax` over the channels of (N, C, H, W) or (C, H, W); ValueError for other numbers of dimensions."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected an input of 3 or 4 dimensions, got shape {list(input.shape)}")
        return F.softmax(input, -3)
