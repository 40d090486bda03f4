"""Location-scale families: loc + scale * z, where z has a standard distribution without these parameters.

The families are Normal, Laplace, Cauchy, StudentT, Uniform and GeneralizedPareto. Gumbel is in `images`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.utils import HALF_LOG_2PI, log_beta, noise

__all__ = ["Cauchy", "GeneralizedPareto", "Laplace", "LocationScale", "Normal", "StudentT", "Uniform"]


class LocationScale(Parametric):
    """Base class of location-scale families.

    A subclass defines the distribution of the standard variable z: `_z_draw`, `_z_log_density`, `_z_cumulative`,
    `_z_quantile`. The moments of z (`_z_mean`, ...) are numbers, or properties if they depend on further parameters.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _z_mean: Any = 0.0
    _z_mode: Any = 0.0
    _z_variance: Any = math.nan
    _z_entropy: Any = math.nan

    def _z_draw(self, shape: Any) -> Any:
        raise NotImplementedError

    def _z_log_density(self, z: Any) -> Any:
        raise NotImplementedError

    def _z_cumulative(self, z: Any) -> Any:
        return super()._cumulative(z)

    def _z_quantile(self, probability: Any) -> Any:
        return super()._quantile(probability)

    def _draw(self, shape: Any) -> Any:
        return self.loc + self.scale * self._z_draw(shape)

    def _log_density(self, value: Any) -> Any:
        return self._z_log_density((value - self.loc) / self.scale) - self.scale.log()

    def _cumulative(self, value: Any) -> Any:
        return self._z_cumulative((value - self.loc) / self.scale)

    def _quantile(self, probability: Any) -> Any:
        return self.loc + self.scale * self._z_quantile(probability)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * self._z_mean

    @property
    def mode(self) -> Any:
        return self.loc + self.scale * self._z_mode

    @property
    def variance(self) -> Any:
        return self.scale.square() * self._z_variance

    def entropy(self) -> Any:
        """Return the entropy of each distribution of the batch, in nats: the entropy of z plus log(scale)."""
        return self.scale.log() + self._z_entropy


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution.

    Parameters
    ----------
    loc, scale
        Mean and standard deviation: numbers or tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Normal
    >>> Normal(mt.zeros(3, device="meta"), 1.0).sample((2,)).shape
    metatensor.Size([2, 3])
    """

    _z_variance = 1.0
    _z_entropy = 0.5 + HALF_LOG_2PI
    _mean_carrier_measure = 0.0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    def _z_draw(self, shape: Any) -> Any:
        return noise("normal", shape, self.loc)

    def _z_log_density(self, z: Any) -> Any:
        return -0.5 * z.square() - HALF_LOG_2PI

    def _z_cumulative(self, z: Any) -> Any:
        return mt.special.ndtr(z)

    def _z_quantile(self, probability: Any) -> Any:
        return mt.special.ndtri(probability)

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, first: Any, second: Any) -> Any:  # type: ignore[override]
        return HALF_LOG_2PI - 0.5 * (-2.0 * second).log() - first.square() / (4.0 * second)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return self.loc, self.loc.square() + self.scale.square()


class Laplace(LocationScale):
    """The Laplace (double exponential) distribution.

    Parameters
    ----------
    loc : float or Tensor
        Mean.
    scale : float or Tensor
        Mean absolute deviation from `loc`.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Laplace
    >>> Laplace(mt.zeros(2, device="cpu"), 1.0).variance
    tensor([2., 2.])
    """

    _z_variance = 2.0
    _z_entropy = 1.0 + math.log(2.0)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    def _z_draw(self, shape: Any) -> Any:
        return noise("exponential", shape, self.loc) - noise("exponential", shape, self.loc)

    def _z_log_density(self, z: Any) -> Any:
        return -z.abs() - math.log(2.0)

    def _z_cumulative(self, z: Any) -> Any:
        tail = 0.5 * (-z.abs()).exp()
        return mt.where(z < 0, tail, 1 - tail)

    def _z_quantile(self, probability: Any) -> Any:
        return mt.where(probability < 0.5, (2 * probability).log(), -(2 * (1 - probability)).log())


class Cauchy(LocationScale):
    """The Cauchy distribution, which has neither mean nor variance.

    Parameters
    ----------
    loc : float or Tensor
        Median.
    scale : float or Tensor
        Half width at half maximum of the density.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Cauchy
    >>> Cauchy(0.0, mt.ones(2, device="cpu")).cdf(mt.tensor([0.0, 1.0], device="cpu"))
    tensor([0.5000, 0.7500])
    """

    _z_variance = math.inf
    _z_entropy = math.log(4 * math.pi)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Any:
        return mt.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Any:
        return mt.full_like(self.loc, math.inf)

    @property
    def mode(self) -> Any:
        return self.loc

    def _z_draw(self, shape: Any) -> Any:
        return noise("cauchy", shape, self.loc)

    def _z_log_density(self, z: Any) -> Any:
        return -math.log(math.pi) - z.square().log1p()

    def _z_cumulative(self, z: Any) -> Any:
        return 0.5 + z.atan() / math.pi

    def _z_quantile(self, probability: Any) -> Any:
        return (math.pi * (probability - 0.5)).tan()


class StudentT(LocationScale):
    """Student's t distribution.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom.
    loc : float or Tensor
        Location. It is the mean if df > 1. Otherwise the mean is NaN. Default: 0.
    scale : float or Tensor
        Scale. Default: 1.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import StudentT
    >>> StudentT(mt.tensor([3.0, 4.0], device="cpu")).variance
    tensor([3., 2.])
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive, **LocationScale.arg_constraints}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Any:
        return self.loc.where(self.df > 1, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def _z_variance(self) -> Any:
        finite = mt.where(self.df > 2, self.df / (self.df - 2), math.inf)
        return mt.where(self.df > 1, finite, math.nan)

    @property
    def _z_entropy(self) -> Any:
        half, more = self.df / 2, (self.df + 1) / 2
        return more * (more.digamma() - half.digamma()) + self._log_width

    @property
    def _log_width(self) -> Any:
        """The logarithm of the integral of (1 + z**2 / df) ** (-(df + 1) / 2) over z."""
        return 0.5 * self.df.log() + log_beta(self.df / 2, mt.full_like(self.df, 0.5))

    def _z_draw(self, shape: Any) -> Any:
        # z = x / sqrt(m), with x standard normal and m the mean of df squares of other standard normal variables.
        mean_square = mt._standard_gamma((self.df / 2).expand(shape)) / (self.df / 2)
        return noise("normal", shape, self.df) * mean_square.rsqrt()

    def _z_log_density(self, z: Any) -> Any:
        return -0.5 * (self.df + 1) * (z.square() / self.df).log1p() - self._log_width


class Uniform(LocationScale):
    """The uniform distribution on [low, high).

    Parameters
    ----------
    low, high : float or Tensor
        Bounds.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Uniform
    >>> Uniform(0.0, mt.tensor([1.0, 4.0], device="cpu")).mean
    tensor([0.5000, 2.0000])
    """

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Constraint of each parameter, by name."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.interval(self.low, self.high)

    @property
    def loc(self) -> Any:
        """The lower bound."""
        return self.low

    @property
    def scale(self) -> Any:
        """The difference of the bounds."""
        return self.high - self.low

    _z_mean = 0.5
    _z_mode = math.nan
    _z_variance = 1 / 12
    _z_entropy = 0.0

    def _z_draw(self, shape: Any) -> Any:
        return mt.rand(shape, dtype=self.low.dtype, device=self.low.device)

    def _log_density(self, value: Any) -> Any:
        inside = (value >= self.low) & (value < self.high)
        return mt.where(inside, -self.scale.log(), -math.inf)

    def _z_cumulative(self, z: Any) -> Any:
        return z.clamp(0.0, 1.0)

    def _z_quantile(self, probability: Any) -> Any:
        return probability


class GeneralizedPareto(LocationScale):
    """The generalized Pareto distribution, a model for the excess of values over a high threshold.

    Parameters
    ----------
    loc, scale : float or Tensor
        Lower bound and scale.
    concentration : float or Tensor
        Shape of the tail. At 0 the distribution is exponential. Above 0 the tail is a power law. Below 0 the support is
        bounded.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import GeneralizedPareto
    >>> GeneralizedPareto(0.0, 1.0, mt.tensor([0.0, 0.5], device="cpu")).mean
    tensor([1., 2.])
    """

    arg_constraints: ClassVar[Any] = {**LocationScale.arg_constraints, "concentration": constraints.real}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        k = self.concentration
        return constraints.interval(self.loc, mt.where(k < 0, self.loc - self.scale / k, math.inf))

    def _hazard(self, z: Any) -> Any:
        """Return the exponential variable that corresponds to z: log(1 + k z) / k, or z if k is 0."""
        k = self.concentration
        flat = k.abs() < mt.finfo(k.dtype).eps
        return mt.where(flat, z, (k * z).log1p() / mt.where(flat, 1.0, k))

    def _from_hazard(self, e: Any) -> Any:
        k = self.concentration
        flat = k.abs() < mt.finfo(k.dtype).eps
        return mt.where(flat, e, (k * e).expm1() / mt.where(flat, 1.0, k))

    def _z_draw(self, shape: Any) -> Any:
        return self._from_hazard(noise("exponential", shape, self.loc))

    def _z_log_density(self, z: Any) -> Any:
        return -(1 + self.concentration) * self._hazard(z)

    def _z_cumulative(self, z: Any) -> Any:
        return -(-self._hazard(z)).expm1()

    def _z_quantile(self, probability: Any) -> Any:
        return self._from_hazard(-(-probability).log1p())

    def log_survival_function(self, value: Any) -> Any:
        """Return the logarithm of the probability of a value greater than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return -self._hazard((value - self.loc) / self.scale)

    def log_cdf(self, value: Any) -> Any:
        """Return the logarithm of `cdf` at `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    @property
    def _z_mean(self) -> Any:
        k = self.concentration
        return mt.where(k < 1, 1 / (1 - k), math.nan)

    @property
    def _z_variance(self) -> Any:
        k = self.concentration
        return mt.where(k < 0.5, 1 / ((1 - k).square() * (1 - 2 * k)), math.nan)

    @property
    def _z_entropy(self) -> Any:
        return 1 + self.concentration
