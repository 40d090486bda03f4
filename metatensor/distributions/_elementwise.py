"""Transforms that map each element separately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._transform import Transform, widened
from metatensor.distributions.utils import _sum_rightmost, softplus

__all__ = [
    "AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftplusTransform", "TanhTransform",
]  # fmt: skip


class _Increasing(Transform):
    """Base class of increasing bijections of numbers without parameters."""

    domain, bijective, sign, _compared = constraints.real, True, +1, ()  # type: ignore[assignment]


class ExpTransform(_Increasing):
    """Map real numbers to positive numbers by ``y = exp(x)``.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ExpTransform
    >>> ExpTransform()(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([1.0000, 2.7183])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(_Increasing):
    """Map real numbers to (0, 1) by ``y = 1 / (1 + exp(-x))``.

    Results are clamped to numbers between 0 and 1, exclusive.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import SigmoidTransform
    >>> SigmoidTransform()(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([0.5000, 0.7311])
    """

    codomain = constraints.unit_interval

    @staticmethod
    def _inside(y: Any) -> Any:
        return y.clamp(mt.finfo(y.dtype).tiny, 1 - mt.finfo(y.dtype).eps)

    def _call(self, x: Any) -> Any:
        return self._inside(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        return self._inside(y).logit()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(x) - softplus(-x)


class SoftplusTransform(_Increasing):
    """Map real numbers to positive numbers by ``y = log(1 + exp(x))``.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import SoftplusTransform
    >>> SoftplusTransform()(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([0.6931, 1.3133])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(_Increasing):
    """Map real numbers to (-1, 1) by ``y = tanh(x)``.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import TanhTransform
    >>> TanhTransform()(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([0.0000, 0.7616])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return log_sech_squared(x)


def log_sech_squared(x: Any) -> Any:
    """Compute log(1 - tanh(x)**2) without cancellation."""
    size = x.abs()
    return 2 * (math.log(2.0) - size - (-2 * size).exp().log1p())


class AbsTransform(Transform):
    """Map real numbers to their absolute values.

    The transform is not bijective: its inverse returns the nonnegative preimage, and it has no `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import AbsTransform
    >>> t = AbsTransform()
    >>> t.inv(t(mt.tensor([-2.0, 3.0], device="cpu")))
    tensor([2., 3.])
    """

    domain, codomain, _compared = constraints.real, constraints.positive, ()

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class _WithParameters(Transform):
    """Base class of bijections whose parameters, named in `_compared`, broadcast with the input."""

    bijective = True

    def _parameter_shapes(self) -> list[Any]:
        return [getattr(getattr(self, name), "shape", ()) for name in self._compared or ()]

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return mt.broadcast_shapes(shape, *self._parameter_shapes())

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.forward_shape(shape)


class PowerTransform(_WithParameters):
    """Map positive numbers to positive numbers by ``y = x ** exponent``.

    Parameters
    ----------
    exponent : float or Tensor
        Exponent, not 0. It broadcasts with the input.
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import PowerTransform
    >>> PowerTransform(2.0)(mt.tensor([1.0, 3.0], device="cpu"))
    tensor([1., 9.])
    """

    domain = codomain = constraints.positive
    _compared = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, mt.Tensor) else mt.tensor(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()


class AffineTransform(_WithParameters):
    """Map real numbers to real numbers by ``y = loc + scale * x``.

    Parameters
    ----------
    loc : float or Tensor
        Value at x = 0. It broadcasts with the input.
    scale : float or Tensor
        Slope, not 0. It broadcasts with the input.
    event_dim : int
        Number of trailing dimensions that form one value: 0 for numbers, 1 for vectors. Default: 0.
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import AffineTransform
    >>> AffineTransform(1.0, -2.0)(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([ 1., -1.])
    """

    _compared = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return widened(constraints.real, self._event_dim)

    codomain = domain

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, mt.Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return x * self.scale + self.loc

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale if isinstance(self.scale, mt.Tensor) else mt.full_like(x, self.scale)
        shape = mt.broadcast_shapes(x.shape, scale.shape)
        return _sum_rightmost(scale.abs().log().expand(shape), self._event_dim)


class CumulativeDistributionTransform(Transform):
    """Map the values of a continuous distribution to [0, 1] by its cumulative distribution function.

    Parameters
    ----------
    distribution : Distribution
        Distribution of numbers that has `cdf`, `icdf` and `log_prob`.
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import CumulativeDistributionTransform, Normal
    >>> d = Normal(mt.zeros(1, device="cpu"), 1.0)
    >>> CumulativeDistributionTransform(d)(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([0.5000, 0.8413])
    """

    bijective, codomain, sign = True, constraints.unit_interval, +1  # type: ignore[assignment]
    _compared = ("distribution",)

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
