"""Distributions of variables transformed by powers or `exp`: Weibull, Pareto, Kumaraswamy and InverseGamma."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._elementwise import AffineTransform, ExpTransform, PowerTransform
from metatensor.distributions.gammas import Exponential, Gamma
from metatensor.distributions.images import Image
from metatensor.distributions.location_scale import Uniform
from metatensor.distributions.utils import euler_constant, log_beta

__all__ = ["InverseGamma", "Kumaraswamy", "Pareto", "Weibull"]


class Weibull(Image):
    """The Weibull distribution: scale * E ** (1 / concentration), where E is exponential with rate 1.

    Parameters
    ----------
    scale, concentration : float or Tensor
        Scale and shape.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Weibull
    >>> Weibull(2.0, mt.ones(1, device="cpu")).mean
    tensor([2.])
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
        """Return the entropy of each distribution of the batch, in nats."""
        return 1 + euler_constant * (1 - 1 / self.concentration) + (self.scale / self.concentration).log()


class Pareto(Image):
    """The Pareto distribution: scale * exp(E), where E is exponential with rate alpha.

    Parameters
    ----------
    scale : float or Tensor
        Smallest value.
    alpha : float or Tensor
        Exponent of the tail.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Pareto
    >>> Pareto(1.0, mt.tensor([2.0], device="cpu")).mean
    tensor([2.])
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
        """Return the entropy of each distribution of the batch, in nats."""
        return 1 + 1 / self.alpha + (self.scale / self.alpha).log()


class Kumaraswamy(Image):
    """The Kumaraswamy distribution on [0, 1]. It resembles the beta distribution, but has a simpler `cdf`.

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        Parameters of ``cdf(x) = 1 - (1 - x**concentration1)**concentration0``.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Kumaraswamy
    >>> Kumaraswamy(mt.ones(1, device="cpu"), 1.0).mean
    tensor([0.5000])
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
        """Return the entropy of each distribution of the batch, in nats."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - (a * b).log()


class InverseGamma(Image):
    """The inverse gamma distribution: the reciprocal of a gamma variable.

    Parameters
    ----------
    concentration, rate : float or Tensor
        Parameters of the gamma variable.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import InverseGamma
    >>> InverseGamma(mt.tensor([3.0], device="cpu"), 2.0).mean
    tensor([1.])
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
        """Return the entropy in nats: the entropy of the gamma variable x plus the mean of -2 log(x)."""
        return self.base_dist.entropy() - 2 * self.base_dist._mean_statistics[0]
