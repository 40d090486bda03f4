"""Activation layers: elementwise nonlinearities, gated units and softmax."""

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
    """Base of activations whose only option is ``inplace``."""

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
    """Base of activations that work along one dimension."""

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
    """Rectified linear unit, ``max(x, 0)``, elementwise.

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.ReLU()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0., 2.])
    """

    _function = F.relu


class SiLU(_InPlace):
    """Sigmoid linear unit, ``x * sigmoid(x)``, elementwise. It is also called swish.

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.SiLU()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.2689,  1.7616])
    """

    _function = F.silu


class Mish(_InPlace):
    """Mish activation, ``x * tanh(softplus(x))``, elementwise (Misra, 2019).

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Mish()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.3034,  1.9440])
    """

    _function = F.mish


class SELU(_InPlace):
    """Scaled exponential linear unit, elementwise.

    The result is ``scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0))``, with the constants ``scale`` and ``alpha`` of
    Klambauer et al. (2017).

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.SELU()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-1.1113,  2.1014])
    """

    _function = F.selu


class Hardsigmoid(_InPlace):
    """Piecewise linear sigmoid, ``clamp(x / 6 + 1/2, 0, 1)``, elementwise.

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Hardsigmoid()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0.3333, 0.8333])
    """

    _function = F.hardsigmoid

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """Piecewise swish, ``x * clamp(x / 6 + 1/2, 0, 1)``, elementwise (Howard et al., 2019).

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Hardswish()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.3333,  1.6667])
    """

    _function = F.hardswish

    def extra_repr(self) -> str:
        return ""


class Hardtanh(Module):
    """Clamp each element to an interval: ``clamp(x, min_val, max_val)``.

    Parameters
    ----------
    min_val, max_val : float
        Ends of the interval. Defaults -1 and 1.
    inplace : bool
        Overwrite the input with the result. Default False.
    min_value, max_value : float, optional
        Deprecated names of ``min_val`` and ``max_val``. Using one emits a FutureWarning.

    Raises
    ------
    AssertionError
        If ``max_val`` is not greater than ``min_val``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Hardtanh(-2, 2)(mt.tensor([-1.0, 5.0], device="cpu"))
    tensor([-1.,  2.])
    """

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
    """`ReLU` with results limited to 6: ``clamp(x, 0, 6)``, elementwise.

    Parameters
    ----------
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.ReLU6()(mt.tensor([-1.0, 9.0], device="cpu"))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """Replace each element that is not above a threshold: ``x`` if ``x > threshold``, else ``value``.

    Parameters
    ----------
    threshold : float
        Elements at or below this are replaced.
    value : float
        Replacement.
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Threshold(0.5, -7.0)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-7.,  2.])
    """

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
    """Leaky rectifier with a random slope for negative elements (Xu et al., 2015).

    Nonnegative elements are kept. In training mode each negative element is multiplied by a slope drawn uniformly from
    ``[lower, upper)``. In evaluation mode the slope is the mean of the two bounds.

    Parameters
    ----------
    lower, upper : float
        Bounds of the slope. Defaults 1/8 and 1/3.
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.RReLU().eval()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.2292,  2.0000])
    """

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
    """Leaky rectifier, elementwise: ``x`` if ``x > 0``, else ``negative_slope * x``.

    Parameters
    ----------
    negative_slope : float
        Slope for negative elements. Default 0.01.
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LeakyReLU(0.1)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.1000,  2.0000])
    """

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
    """Base of activations with a scale ``alpha`` for negative elements."""

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
    """Exponential linear unit, elementwise: ``x`` if ``x > 0``, else ``alpha * (exp(x) - 1)`` (Clevert et al., 2016).

    Parameters
    ----------
    alpha : float
        Scale for negative elements. Default 1.
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.ELU()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.6321,  2.0000])
    """

    _function = F.elu


class CELU(_Alpha):
    """Differentiable variant of `ELU`: ``x`` if ``x > 0``, else ``alpha * (exp(x / alpha) - 1)`` (Barron, 2017).

    Parameters
    ----------
    alpha : float
        Scale for negative elements. Default 1.
    inplace : bool
        Overwrite the input with the result. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.CELU(2.0)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.7869,  2.0000])
    """

    _function = F.celu


class PReLU(Module):
    """Leaky rectifier with learned slopes: ``x`` if ``x > 0``, else ``weight * x`` (He et al., 2015).

    The output has the shape of the input, (N, C, ...) if there is one slope per channel. The parameter ``weight`` has
    shape (num_parameters,).

    Parameters
    ----------
    num_parameters : int
        1 (the default) for one slope shared by all elements, or C for one slope per channel.
    init : float
        Initial slope. Default 0.25.
    device, dtype : optional
        Device and dtype of ``weight``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.PReLU(8)(mt.empty(2, 8, 5)).shape
    metatensor.Size([2, 8, 5])
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(mt.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GELU(Module):
    """Gaussian error linear unit, elementwise (Hendrycks and Gimpel, 2016).

    The result is ``x * Phi(x)``, where ``Phi`` is the cumulative distribution function of the standard normal.

    Parameters
    ----------
    approximate : str
        "none" (the default) computes ``Phi`` exactly. "tanh" uses the approximation
        ``(1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.GELU()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.1587,  1.9545])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """Smooth rectifier, ``log(1 + exp(beta * x)) / beta``, elementwise.

    Parameters
    ----------
    beta : float
        Sharpness of the bend. Default 1.
    threshold : float
        Where ``beta * x`` exceeds this, the result is ``x``, which avoids overflow. Default 20.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softplus()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0.3133, 2.1269])
    """

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
    """Set small elements to 0: ``x`` if ``abs(x) > lambd``, else 0.

    Parameters
    ----------
    lambd : float
        Largest magnitude that becomes 0. Default 0.5.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Hardshrink()(mt.tensor([-1.0, 0.3], device="cpu"))
    tensor([-1.,  0.])
    """

    _function = F.hardshrink


class Softshrink(_Shrink):
    """Move each element towards 0 by ``lambd``, stopping at 0.

    Parameters
    ----------
    lambd : float
        Distance to move. Default 0.5.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softshrink()(mt.tensor([-1.0, 0.3], device="cpu"))
    tensor([-0.5000,  0.0000])
    """

    _function = F.softshrink


class Sigmoid(Module):
    """Logistic function, ``1 / (1 + exp(-x))``, elementwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Sigmoid()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0.2689, 0.8808])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent, elementwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Tanh()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.7616,  0.9640])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.tanh(input)


class LogSigmoid(Module):
    """Logarithm of the logistic function, ``log(sigmoid(x))``, elementwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LogSigmoid()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-1.3133, -0.1269])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """Softsign, ``x / (1 + abs(x))``, elementwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softsign()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.5000,  0.6667])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """Difference ``x - tanh(x)``, elementwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Tanhshrink()(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-0.2384,  1.0360])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.tanhshrink(input)


class GLU(_OfDim):
    """Gated linear unit: one half of the input times the sigmoid of the other half (Dauphin et al., 2017).

    The input is split in two along ``dim``, whose size must be even. The output has half that size.

    Parameters
    ----------
    dim : int
        Dimension to split. Default -1.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.GLU()(mt.empty(4, 6)).shape
    metatensor.Size([4, 3])
    """

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.glu(input, self.dim)


class Softmax(_OfDim):
    """Softmax along one dimension: ``exp(x)`` divided by its sum along ``dim``.

    The output has the shape of the input.

    Parameters
    ----------
    dim : int, optional
        Dimension whose results sum to 1. None (the default) means 0 for an input of 0, 1 or 3 dimensions and 1
        otherwise.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softmax(0)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0.0474, 0.9526])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softmax(input, self.dim)


class Softmin(_OfDim):
    """Softmax of the negated input, along one dimension.

    Parameters
    ----------
    dim : int, optional
        Dimension whose results sum to 1. For None (the default), see `Softmax`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softmin(0)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([0.9526, 0.0474])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_OfDim):
    """Logarithm of the softmax along one dimension.

    Parameters
    ----------
    dim : int, optional
        Dimension along which to normalize. For None (the default), see `Softmax`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.LogSoftmax(0)(mt.tensor([-1.0, 2.0], device="cpu"))
    tensor([-3.0486, -0.0486])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of an image (N, C, H, W) or (C, H, W).

    Raises
    ------
    ValueError
        If the input does not have 3 or 4 dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Softmax2d()(mt.empty(2, 3, 4, 5)).shape
    metatensor.Size([2, 3, 4, 5])
    """

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected an input of 3 or 4 dimensions, got shape {list(input.shape)}")
        return F.softmax(input, -3)
