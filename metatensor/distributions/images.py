"""Families of transformed variables: LogNormal, LogisticNormal, HalfNormal, HalfCauchy and Gumbel.

Families whose transforms have exponents are in `powers`.
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
    """Base class of families that are defined by a base distribution and transforms. All formulas follow from these."""

    def _set_image(self, validate_args: bool | None, build: Any, **parameters: Any) -> None:
        """Set the parameters. Then set the base distribution and the transforms, which ``build()`` returns."""
        self._set_parameters(validate_args, **parameters)
        super().__init__(*build())


class LogNormal(Image):
    """The log-normal distribution: the exponential of a normal variable.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mean and standard deviation of the logarithm.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import LogNormal
    >>> LogNormal(mt.zeros(2, device="cpu"), 1.0).mean
    tensor([1.6487, 1.6487])
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
        """Return the entropy in nats: the entropy of the logarithm plus its mean."""
        return self.base_dist.entropy() + self.loc


class _Folded(Image):
    """Base class of distributions of the absolute value of a variable that is symmetric around 0."""

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
        """Return the entropy in nats: the entropy of the symmetric variable minus log(2)."""
        return self.base_dist.entropy() - math.log(2.0)


class HalfNormal(_Folded):
    """The half-normal distribution: the absolute value of a normal variable with mean 0.

    Parameters
    ----------
    scale : float or Tensor
        Standard deviation of the normal variable.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import HalfNormal
    >>> HalfNormal(mt.ones(2, device="cpu")).mean
    tensor([0.7979, 0.7979])
    """

    _whole = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The half-Cauchy distribution: the absolute value of a Cauchy variable with median 0.

    Parameters
    ----------
    scale : float or Tensor
        Scale of the Cauchy variable. It is the median of the absolute value.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import HalfCauchy
    >>> HalfCauchy(2.0).cdf(mt.tensor([2.0], device="cpu"))
    tensor([0.5000])
    """

    _whole = Cauchy

    @property
    def mean(self) -> Any:
        return mt.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class Gumbel(LocationScale, Image):  # type: ignore[misc]
    """The Gumbel distribution, the limit distribution of the maximum of many values.

    Parameters
    ----------
    loc, scale : float or Tensor
        Mode and scale.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Gumbel
    >>> Gumbel(mt.zeros(1, device="cpu"), 1.0).mean
    tensor([0.5772])
    """

    has_rsample = True  # type: ignore[assignment]
    _z_mean = euler_constant
    _z_variance = math.pi**2 / 6
    _z_entropy = 1 + euler_constant

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_image(validate_args, self._from_uniform, loc=loc, scale=scale)

    def _from_uniform(self) -> tuple[Any, Any]:
        # loc - scale * log(-log(u)), where u is uniform
        zero, one = mt.zeros_like(self.loc), mt.ones_like(self.loc)
        logarithm = ExpTransform().inv
        turned = AffineTransform(zero, -one)
        return Uniform(zero, one, False), [logarithm, turned, logarithm, AffineTransform(self.loc, -self.scale)]

    def _draw(self, shape: Any) -> Any:
        return self.loc - self.scale * noise("exponential", shape, self.loc).log()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw a sample that is differentiable with respect to the parameters."""
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw a sample. The result does not require grad."""
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
    loc, scale : Tensor
        Mean and standard deviation of the n elements of the vector, of shape (..., n). Values have n + 1 elements.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import LogisticNormal
    >>> LogisticNormal(mt.zeros(4, 2, device="meta"), mt.ones(4, 2, device="meta")).sample().shape
    metatensor.Size([4, 3])
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
        """The standard deviations of the elements of the normal vector."""
        return self.base_dist.base_dist.scale
