"""Families derived from gamma variables: Exponential, Gamma, Chi2, Beta, Dirichlet and FisherSnedecor."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.utils import log_beta, noise

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma"]


class _Exponential(Parametric, ExponentialFamily):
    """Base class of families with density exp(<eta, T(x)> - A(eta)). A subclass defines T as `_statistics`."""

    has_rsample = True
    _mean_carrier_measure = 0.0

    def _statistics(self, value: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_density(self, value: Any) -> Any:
        eta = self._natural_params
        density = -self._log_normalizer(*eta)
        for parameter, statistic in zip(eta, self._statistics(value), strict=True):
            density = density + mt.where(parameter == 0, 0.0, parameter * statistic)
        return density


class Gamma(_Exponential):
    """The gamma distribution.

    Parameters
    ----------
    concentration : float or Tensor
        Shape, often called alpha.
    rate : float or Tensor
        Inverse scale, often called beta. The mean is ``concentration / rate``.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Gamma
    >>> Gamma(mt.tensor([1.0, 3.0], device="cpu"), 2.0).mean
    tensor([0.5000, 1.5000])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return (self.concentration - 1).clamp(min=0.0) / self.rate

    @property
    def variance(self) -> Any:
        return self.mean / self.rate

    def _draw(self, shape: Any) -> Any:
        drawn = mt._standard_gamma(self.concentration.expand(shape)) / self.rate
        return drawn.clamp(min=mt.finfo(drawn.dtype).tiny)

    def _cumulative(self, value: Any) -> Any:
        return mt.special.gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, power: Any, slope: Any) -> Any:  # type: ignore[override]
        return (power + 1).lgamma() - (power + 1) * (-slope).log()

    def _statistics(self, value: Any) -> tuple[Any, ...]:
        return value.log(), value

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return self.concentration.digamma() - self.rate.log(), self.mean


class Chi2(Gamma):
    """The chi-squared distribution: the sum of squares of `df` standard normal variables.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Chi2
    >>> Chi2(mt.tensor([1.0, 3.0], device="cpu")).variance
    tensor([2., 6.])
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, df=df)

    @property
    def concentration(self) -> Any:
        """The shape parameter of the gamma distribution, df / 2."""
        return self.df / 2

    @property
    def rate(self) -> Any:
        """The rate of the gamma distribution, 1 / 2."""
        return mt.full_like(self.df, 0.5)


class Exponential(_Exponential):
    """The exponential distribution.

    Parameters
    ----------
    rate : float or Tensor
        Inverse of the mean.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Exponential
    >>> Exponential(mt.tensor([1.0, 4.0], device="cpu")).mean
    tensor([1.0000, 0.2500])
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, rate=rate)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return mt.zeros_like(self.rate)

    @property
    def variance(self) -> Any:
        return self.mean.square()

    @property
    def stddev(self) -> Any:
        return self.mean

    def _draw(self, shape: Any) -> Any:
        return noise("exponential", shape, self.rate) / self.rate

    def _cumulative(self, value: Any) -> Any:
        return -(-self.rate * value).expm1()

    def _quantile(self, probability: Any) -> Any:
        return -(-probability).log1p() / self.rate

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, slope: Any) -> Any:  # type: ignore[override]
        return -(-slope).log()

    def _statistics(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return (self.mean,)


class Beta(_Exponential):
    """The beta distribution on [0, 1].

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        Positive numbers, often called alpha and beta. The density is proportional to
        ``x**(concentration1 - 1) * (1 - x)**(concentration0 - 1)``.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Beta
    >>> Beta(mt.tensor([1.0, 3.0], device="cpu"), 1.0).mean
    tensor([0.5000, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def _total(self) -> Any:
        return self.concentration1 + self.concentration0

    @property
    def mean(self) -> Any:
        return self.concentration1 / self._total

    @property
    def mode(self) -> Any:
        # If a concentration is at most 1, the mode is a bound: 1 if concentration1 is the larger one, else 0.
        one, zero = ((c - 1).clamp(min=0.0) for c in (self.concentration1, self.concentration0))
        ends = (self.concentration1 > self.concentration0).to(one.dtype)
        return mt.where(one + zero > 0, one / (one + zero), ends)

    @property
    def variance(self) -> Any:
        return self.mean * (self.concentration0 / self._total) / (self._total + 1)

    def _draw(self, shape: Any) -> Any:
        both = mt.stack([self.concentration1, self.concentration0], -1)
        return mt._sample_dirichlet(both.expand((*shape, 2))).select(-1, 0)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1 - 1, self.concentration0 - 1

    def _log_normalizer(self, one: Any, zero: Any) -> Any:  # type: ignore[override]
        return log_beta(one + 1, zero + 1)

    def _statistics(self, value: Any) -> tuple[Any, ...]:
        return value.log(), (-value).log1p()

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        both = self._total.digamma()
        return self.concentration1.digamma() - both, self.concentration0.digamma() - both


class Dirichlet(_Exponential):
    """The Dirichlet distribution on the simplex.

    Parameters
    ----------
    concentration : Tensor
        Positive numbers of shape (..., k).
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Dirichlet
    >>> Dirichlet(mt.tensor([1.0, 1.0, 2.0], device="cpu")).mean
    tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("Dirichlet(): concentration must have at least one dimension, got a scalar")
        self._set_parameters(validate_args, concentration.shape[-1:], concentration=concentration)

    @property
    def _total(self) -> Any:
        return self.concentration.sum(-1, keepdim=True)

    @property
    def mean(self) -> Any:
        return self.concentration / self._total

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        corner = mt.nn.functional.one_hot(self.concentration.argmax(-1), above.shape[-1]).to(above.dtype)
        total = above.sum(-1, keepdim=True)
        return mt.where(total > 0, above / total, corner)

    @property
    def variance(self) -> Any:
        return self.mean * (1 - self.mean) / (self._total + 1)

    def _draw(self, shape: Any) -> Any:
        return mt._sample_dirichlet(self.concentration.expand(shape))

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, powers: Any) -> Any:  # type: ignore[override]
        return (powers + 1).lgamma().sum(-1) - (powers + 1).sum(-1).lgamma()

    def _log_density(self, value: Any) -> Any:
        (powers,) = self._natural_params
        return mt.xlogy(powers, value).sum(-1) - self._log_normalizer(powers)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return (self.concentration.digamma() - self._total.digamma(),)


class FisherSnedecor(Parametric):
    """The F distribution: the ratio of the mean squares of df1 and of df2 standard normal variables.

    Parameters
    ----------
    df1, df2 : float or Tensor
        Degrees of freedom of the numerator and the denominator.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import FisherSnedecor
    >>> FisherSnedecor(mt.tensor([1.0, 2.0], device="cpu"), 4.0).mean
    tensor([2., 2.])
    """

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Any:
        return mt.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        return mt.where(self.df1 > 2, (1 - 2 / self.df1) * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Any:
        spread = 2 * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 4))
        return mt.where(self.df2 > 4, self.mean.square() * spread, math.nan)

    def _draw(self, shape: Any) -> Any:
        top, bottom = (mt._standard_gamma((df / 2).expand(shape)) / df for df in (self.df1, self.df2))
        return (top / bottom).clamp(min=mt.finfo(top.dtype).tiny)

    def _log_density(self, value: Any) -> Any:
        a, b, odds = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        return a * odds.log() + mt.xlogy(a - 1, value) - (a + b) * (odds * value).log1p() - log_beta(a, b)
