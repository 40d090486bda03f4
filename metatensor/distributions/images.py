"""Families that are images of simpler ones: LogNormal, HalfNormal, HalfCauchy, Gumbel, Weibull, Pareto, Kumaraswamy,
InverseGamma and LogisticNormal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._elementwise import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from metatensor.distributions._of_arrays import StickBreakingTransform
from metatensor.distributions.gammas import Exponential, Gamma
from metatensor.distributions.location_scale import Cauchy, LocationScale, Normal, Uniform
from metatensor.distributions.transformed_distribution import TransformedDistribution
from metatensor.distributions.utils import broadcast_all, euler_constant, log_beta, noise

__all__ = [
    "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto", "Weibull",
]  # fmt: skip


class _Image(TransformedDistribution):
    """Base class: a family gives its parameters, a base and transforms; density, distribution function and sampling follow."""

    def _set_image(self, validate_args: bool | None, build: Any, **parameters: Any) -> None:
        """Set the parameters, then the base and the transforms that ``build()`` makes of them."""
        self._set_parameters(validate_args, **parameters)
        super().__init__(*build())


class LogNormal(_Image):
    """The log-normal distribution: the exponential of a normal variable.

    Parameters
    ----------
    loc, scale
        Mean and standard deviation of the logarithm: numbers or tensors.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, lambda: (Normal(self.loc, self.scale, False), [ExpTransform()]), loc=loc, scale=scale)

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        return self.scale.square().expm1() * self.mean.square()

    def entropy(self) -> Any:
        """Return the entropy: that of the logarithm, and its mean."""
        return self.base_dist.entropy() + self.loc


class _Folded(_Image):
    """Base class: the size of a variable that is symmetric around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, lambda: (self._whole(0.0, self.scale, False), [AbsTransform()]), scale=scale)

    @property
    def mode(self) -> Any:
        return mt.zeros_like(self.scale)

    def _log_density(self, value: Any) -> Any:
        return mt.where(value >= 0, self.base_dist.log_prob(value) + math.log(2.0), -math.inf)

    def _cumulative(self, value: Any) -> Any:
        return 2 * self.base_dist.cdf(value) - 1

    def _quantile(self, probability: Any) -> Any:
        return self.base_dist.icdf((1 + probability) / 2)

    def entropy(self) -> Any:
        """Return the entropy: that of the whole, less log(2) for the sign."""
        return self.base_dist.entropy() - math.log(2.0)


class HalfNormal(_Folded):
    """The half-normal distribution: the size of a normal variable of mean 0.

    Parameters
    ----------
    scale
        Standard deviation of that variable: a number or tensor.
    """

    _whole = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The half-Cauchy distribution: the size of a Cauchy variable of median 0.

    Parameters
    ----------
    scale
        Scale of that variable, and median of its size: a number or tensor.
    """

    _whole = Cauchy

    @property
    def mean(self) -> Any:
        return mt.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class Gumbel(LocationScale, _Image):  # type: ignore[misc]
    """The Gumbel distribution, which the largest of many values follows.

    Parameters
    ----------
    loc, scale
        Mode and scale: numbers or tensors.
    """

    has_rsample = True  # type: ignore[assignment]
    _z_mean = euler_constant
    _z_variance = math.pi**2 / 6
    _z_entropy = 1 + euler_constant

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_uniform, loc=loc, scale=scale)

    def _from_uniform(self) -> tuple[Any, Any]:
        # loc - scale * log(-log(u))
        zero, one = mt.zeros_like(self.loc), mt.ones_like(self.loc)
        logarithm = ExpTransform().inv
        turned = AffineTransform(zero, -one)
        return Uniform(zero, one, False), [logarithm, turned, logarithm, AffineTransform(self.loc, -self.scale)]

    def _draw(self, shape: Any) -> Any:
        return self.loc - self.scale * noise("exponential", shape, self.loc).log()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw values as a differentiable function of the parameters."""
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw values; the result does not require grad."""
        with mt.no_grad():
            return self.rsample(sample_shape)

    @property
    def mode(self) -> Any:
        return self.loc

    def _z_log_density(self, z: Any) -> Any:
        return -z - (-z).exp()

    def _z_cumulative(self, z: Any) -> Any:
        return (-(-z).exp()).exp()

    def _z_quantile(self, probability: Any) -> Any:
        return -(-probability.log()).log()


class Weibull(_Image):
    """The Weibull distribution: scale * E ** (1 / concentration), where E is exponential.

    Parameters
    ----------
    scale, concentration
        Scale and shape: numbers or tensors.
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_exponential, scale=scale, concentration=concentration)

    def _from_exponential(self) -> tuple[Any, Any]:
        zero = mt.zeros_like(self.scale)
        return Exponential(zero + 1, False), [PowerTransform(1 / self.concentration), AffineTransform(zero, self.scale)]

    def _raw_moment(self, n: int) -> Any:
        return self.scale**n * (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Any:
        return self._raw_moment(1)

    @property
    def mode(self) -> Any:
        return self.scale * (1 - 1 / self.concentration).clamp(min=0.0) ** (1 / self.concentration)

    @property
    def variance(self) -> Any:
        return self._raw_moment(2) - self.mean.square()

    def entropy(self) -> Any:
        """Return the entropy."""
        return 1 + euler_constant * (1 - 1 / self.concentration) + (self.scale / self.concentration).log()


class Pareto(_Image):
    """The Pareto distribution: scale * exp(E), where E is exponential of rate alpha.

    Parameters
    ----------
    scale
        Smallest value: a number or tensor.
    alpha
        Exponent of the tail: a number or tensor.
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_exponential, scale=scale, alpha=alpha)

    def _from_exponential(self) -> tuple[Any, Any]:
        return Exponential(self.alpha, False), [ExpTransform(), AffineTransform(mt.zeros_like(self.scale), self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        return mt.where(self.alpha > 1, self.scale * self.alpha / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        finite = self.alpha * (self.scale / (self.alpha - 1)).square() / (self.alpha - 2)
        return mt.where(self.alpha > 2, finite, math.inf)

    def entropy(self) -> Any:
        """Return the entropy."""
        return 1 + 1 / self.alpha + (self.scale / self.alpha).log()


class Kumaraswamy(_Image):
    """The Kumaraswamy distribution on [0, 1], close to the beta distribution but with a simple distribution function.

    Parameters
    ----------
    concentration1, concentration0
        Weights of the ends 1 and 0: numbers or tensors. The distribution function is
        ``1 - (1 - x**concentration1)**concentration0``.
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_uniform, concentration1=concentration1, concentration0=concentration0)

    def _from_uniform(self) -> tuple[Any, Any]:
        zero, one = mt.zeros_like(self.concentration1), mt.ones_like(self.concentration1)
        reverse = AffineTransform(one, -one)
        base = Uniform(zero, one, False)
        return base, [PowerTransform(1 / self.concentration0), reverse, PowerTransform(1 / self.concentration1)]

    def _raw_moment(self, n: int) -> Any:
        b = self.concentration0
        return b * log_beta(1 + n / self.concentration1, b).exp()

    @property
    def mean(self) -> Any:
        return self._raw_moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        inner = ((a - 1) / (a * b - 1)) ** (1 / a)
        return mt.where((a >= 1) & (b >= 1) & (a * b > 1), inner, math.nan)

    @property
    def variance(self) -> Any:
        return self._raw_moment(2) - self.mean.square()

    def entropy(self) -> Any:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - (a * b).log()


class InverseGamma(_Image):
    """The inverse gamma distribution: the reciprocal of a gamma variable.

    Parameters
    ----------
    concentration, rate
        Parameters of that gamma variable: numbers or tensors.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_gamma, concentration=concentration, rate=rate)

    def _from_gamma(self) -> tuple[Any, Any]:
        return Gamma(self.concentration, self.rate, False), [PowerTransform(-mt.ones_like(self.rate))]

    @property
    def mean(self) -> Any:
        return mt.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        return mt.where(self.concentration > 2, self.mean.square() / (self.concentration - 2), math.inf)

    def entropy(self) -> Any:
        """Return the entropy: that of the gamma variable x, and the mean of the log slope, -2 log(x)."""
        return self.base_dist.entropy() - 2 * self.base_dist._mean_statistics[0]


class LogisticNormal(_Image):
    """The logistic-normal distribution on the simplex: stick breaking of a normal vector.

    Parameters
    ----------
    loc, scale
        Mean and standard deviation of the vector's elements: tensors of shape (..., n), for values of n + 1 parts.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = (p if p.ndim else p.unsqueeze(0) for p in broadcast_all(loc, scale))
        TransformedDistribution.__init__(self, Normal(loc, scale, validate_args), StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the normal vector."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the normal vector's elements."""
        return self.base_dist.base_dist.scale
