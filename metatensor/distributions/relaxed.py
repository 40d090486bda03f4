"""Continuous relaxations of binary and categorical variables (the concrete, or Gumbel-softmax, distributions)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._elementwise import ExpTransform, SigmoidTransform
from metatensor.distributions._pairs import BinaryPair, CategoryPair
from metatensor.distributions.transformed_distribution import TransformedDistribution
from metatensor.distributions.utils import noise, softplus

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(BinaryPair):
    """The log odds of a relaxed Bernoulli variable: a logistic variable around `logits`, divided by the temperature.

    Parameters
    ----------
    temperature
        Positive tensor.
    probs
        Probability of 1: a number or tensor. Give this or `logits`.
    logits
        Log odds of 1.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _settings = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._set_pair(validate_args, probs, logits)

    def _draw(self, shape: Any) -> Any:
        # The difference of the logarithms of two exponential variables is logistic.
        first, second = (noise("exponential", shape, self._param).log() for _ in range(2))
        return (self.logits + first - second) / self.temperature

    def _log_density(self, value: Any) -> Any:
        z = self.logits - value * self.temperature
        scale = self.temperature if isinstance(self.temperature, mt.Tensor) else mt.full_like(z, self.temperature)
        return scale.log() - softplus(z) - softplus(-z)


class ExpRelaxedCategorical(CategoryPair):
    """The logarithm of a relaxed one-hot variable: log softmax of logits and Gumbel noise, over the temperature.

    Parameters
    ----------
    temperature
        Positive tensor.
    probs
        Tensor of shape (..., k): weights that are not negative; they are normalized. Give this or `logits`.
    logits
        Tensor of shape (..., k): logarithms of the weights.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # only a surface of it, on which exp(x) sums to 1
    has_rsample = True
    _settings = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._set_categories(validate_args, probs, logits, is_event=True)

    def _draw(self, shape: Any) -> Any:
        gumbel = -noise("exponential", shape, self._param).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def _log_density(self, value: Any) -> Any:
        k = self._num_events
        scores = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        scale = self.temperature if isinstance(self.temperature, mt.Tensor) else mt.full_like(scores, self.temperature)
        return scores + math.lgamma(k) + (k - 1) * scale.log()


class _Relaxed(TransformedDistribution):
    """Base class: parameters are those of the base, whose values are transformed."""

    has_rsample = True  # type: ignore[assignment]
    _base: Any
    _into: Any

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        base = self._base(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, self._into(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature: samples come close to those of the discrete variable as it falls to 0."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logits of the discrete variable."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities of the discrete variable."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """The relaxed Bernoulli distribution on (0, 1), which can be sampled with gradients.

    Parameters
    ----------
    temperature
        Positive tensor.
    probs
        Probability of 1: a number or tensor. Give this or `logits`.
    logits
        Log odds of 1.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _base, _into = LogitRelaxedBernoulli, SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """The relaxed one-hot categorical distribution on the simplex, which can be sampled with gradients.

    Parameters
    ----------
    temperature
        Positive tensor.
    probs
        Tensor of shape (..., k): weights that are not negative; they are normalized. Give this or `logits`.
    logits
        Tensor of shape (..., k): logarithms of the weights.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    _base, _into = ExpRelaxedCategorical, ExpTransform
