"""Families that are images of simpler ones: LogNormal, LogisticNormal, HalfNormal, HalfCauchy and Gumbel.

(Those whose transforms have exponents are in `powers`.)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._elementwise import AbsTransform, AffineTransform, ExpTransform
from metatensor.distributions._of_arrays import StickBreakingTransform
from metatensor.distributions.location_scale import Cauchy, LocationScale, Normal, Uniform
from metatensor.distributions.transformed_distribution import TransformedDistribution
from metatensor.distributions.utils import broadcast_all, euler_constant, noise

__all__ = ["Gumbel", "HalfCauchy", "HalfNormal", "LogNormal", "LogisticNormal"]


class Image(TransformedDistribution):
    """Base class: a family gives its parameters, a base and transforms; density, distribution function and sampling follow."""

    def _set_image(self, validate_args: bool | None, build: Any, **parameters: Any) -> None:
        """Set the parameters, then the base and the transforms that ``build()`` makes of them."""
        self._set_parameters(validate_args, **parameters)
        super().__init__(*build())


class LogNormal(Image):
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


class _Folded(Image):
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


class Gumbel(LocationScale, Image):  # type: ignore[misc]
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


class LogisticNormal(Image):
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
