"""Bernoulli, and ContinuousBernoulli, whose density on [0, 1] has the same form."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._pairs import BinaryPair
from metatensor.distributions._parametric import enumerated
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.utils import clamp_probs, noise, softplus

__all__ = ["Bernoulli", "ContinuousBernoulli"]


class Bernoulli(BinaryPair, ExponentialFamily):
    """The Bernoulli distribution: 1 with a given probability, else 0.

    Parameters
    ----------
    probs : float or Tensor, optional
        Probability of 1.
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of 1.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Bernoulli
    >>> Bernoulli(mt.tensor([0.5, 0.2], device="cpu")).variance
    tensor([0.2500, 0.1600])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0.0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_pair(validate_args, probs, logits)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        likelier = (self.probs > 0.5).to(self.probs.dtype)
        return mt.where(self.probs == 0.5, math.nan, likelier)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: Any) -> Any:
        return mt.bernoulli(self.probs.expand(shape))

    def _log_density(self, value: Any) -> Any:
        return value * self.logits - softplus(self.logits)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return 0 and 1 along a new first dimension. With `expand`, they are expanded over the batch."""
        both = mt.arange(2, dtype=self._param.dtype, device=self._param.device)
        return enumerated(both, self.batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, logits: Any) -> Any:  # type: ignore[override]
        return softplus(logits)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return (self.probs,)


class ContinuousBernoulli(BinaryPair, ExponentialFamily):
    """The continuous Bernoulli distribution on [0, 1].

    The density is proportional to ``probs**x * (1 - probs)**(1 - x)``.

    Parameters
    ----------
    probs : float or Tensor, optional
        Parameter in (0, 1). It is not the mean. At 0.5 the distribution is uniform.
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of `probs`.
    lims : tuple of float
        Two probabilities. Between them, power series around 0.5 replace formulas that would lose precision.
        Default: (0.499, 0.501).
    validate_args : bool, optional
        As for `Distribution`.

    Notes
    -----
    Loaiza-Ganem and Cunningham introduced this distribution (2019, arXiv:1907.06845).

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(mt.tensor([0.5], device="cpu")).mean
    tensor([0.5000])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0.0
    _settings = ("_lims",)

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ) -> None:
        self._lims = lims
        self._set_pair(validate_args, probs, logits)
        if "probs" in self._parameters:
            self.probs = clamp_probs(self.probs)

    # The density is exp(eta x - A(eta)), where eta are the logits and A(eta) = log((exp(eta) - 1) / eta).

    @property
    def _slope(self) -> Any:
        """The logits as a divisor: 0 is replaced by a negligible number."""
        return mt.where(self.logits == 0, 1e-30, self.logits)

    def _log_normalizer(self, logits: Any) -> Any:  # type: ignore[override]
        size = mt.where(logits == 0, 1e-30, logits.abs())
        return logits.clamp(min=0.0) + (-(-size).expm1() / size).log()

    def _by_series(self, exact: Any, *coefficients: float) -> Any:
        """Return ``exact(eta)``, or a power series in eta**2 near 0, where the exact formula loses precision."""
        p, square, series = self.logits.sigmoid(), self.logits.square(), 0.0
        for c in reversed(coefficients):
            series = c + square * series
        close = ((p > self._lims[0]) & (p < self._lims[1])) | (square < 0.1)
        return mt.where(close, series, exact(mt.where(close, 1.0, self.logits)))

    @property
    def mean(self) -> Any:
        lean = self._by_series(
            lambda eta: (1 - eta.reciprocal() + eta.expm1().reciprocal() - 0.5) / eta, 1 / 12, -1 / 720, 1 / 30240, -1 / 1209600
        )
        return 0.5 + self.logits * lean

    @property
    def variance(self) -> Any:
        return self._by_series(
            lambda eta: eta.square().reciprocal() - (2 * (eta / 2).sinh()).square().reciprocal(),
            1 / 12, -1 / 240, 1 / 6048, -1 / 172800,
        )  # fmt: skip

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return (self.mean,)

    def _log_density(self, value: Any) -> Any:
        return value * self.logits - self._log_normalizer(self.logits)

    def _draw(self, shape: Any) -> Any:
        return self._quantile(noise("uniform", shape, self._param))

    def _cumulative(self, value: Any) -> Any:
        # (exp(eta x) - 1) / (exp(eta) - 1). If eta > 0, both are divided by exp(eta).
        eta = self._slope
        size = eta.abs()
        falling = (-size * value).expm1() / (-size).expm1()
        return mt.where(eta > 0, falling * (eta * (value - 1)).exp(), falling).clamp(0.0, 1.0)

    def _quantile(self, probability: Any) -> Any:
        eta = self._slope
        size = eta.abs()
        # `distance` is measured from the bound at which the density is larger.
        share = mt.where(eta > 0, 1 - probability, probability)
        distance = -(share * (-size).expm1()).log1p() / size
        return mt.where(eta > 0, 1 - distance, distance)
