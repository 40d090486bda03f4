"""Continuous relaxations of Bernoulli and categorical variables, known as concrete or Gumbel-softmax distributions."""

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
    """The distribution of the log odds of a relaxed Bernoulli variable: (logits + logistic noise) / temperature.

    Parameters
    ----------
    temperature : float or Tensor
        Positive number. Samples approach those of the discrete distribution as it approaches 0.
    probs : float or Tensor, optional
        Probability of 1.
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of 1.
    validate_args : bool, optional
        As for `Distribution`.

    Notes
    -----
    See Maddison, Mnih and Teh, "The concrete distribution" (2017).

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions.relaxed import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(0.5, mt.full((4,), 0.3, device="meta")).sample().shape
    metatensor.Size([4])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _settings = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._set_pair(validate_args, probs, logits)

    def _draw(self, shape: Any) -> Any:
        # The difference of the logarithms of two exponential variables has the logistic distribution.
        first, second = (noise("exponential", shape, self._param).log() for _ in range(2))
        return (self.logits + first - second) / self.temperature

    def _log_density(self, value: Any) -> Any:
        z = self.logits - value * self.temperature
        scale = self.temperature if isinstance(self.temperature, mt.Tensor) else mt.full_like(z, self.temperature)
        return scale.log() - softplus(z) - softplus(-z)


class ExpRelaxedCategorical(CategoryPair):
    """The logarithm of a relaxed one-hot vector: log_softmax((logits + Gumbel noise) / temperature).

    Parameters
    ----------
    temperature : float or Tensor
        Positive number. Samples approach those of the discrete distribution as it approaches 0.
    probs : Tensor, optional
        Nonnegative weights of shape (..., k), which are normalized to sum to 1. Exactly one of `probs` and `logits`
        must be given.
    logits : Tensor, optional
        Logarithms of weights, of shape (..., k).
    validate_args : bool, optional
        As for `Distribution`.

    Notes
    -----
    See Maddison, Mnih and Teh, "The concrete distribution" (2017).

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions.relaxed import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(0.5, mt.ones(4, 3, device="meta")).sample().shape
    metatensor.Size([4, 3])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # more precisely, the vectors x for which the sum of exp(x) is 1
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
    """Base class of distributions that transform one of the two above and have its parameters."""

    has_rsample = True  # type: ignore[assignment]
    _base: Any
    _into: Any

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        base = self._base(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, self._into(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
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
    """The relaxed Bernoulli distribution on (0, 1), whose samples are differentiable.

    Parameters
    ----------
    temperature : float or Tensor
        Positive number. Samples approach those of the discrete distribution as it approaches 0.
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
    >>> from metatensor.distributions import RelaxedBernoulli
    >>> RelaxedBernoulli(0.5, mt.full((4,), 0.3, device="meta")).sample((2,)).shape
    metatensor.Size([2, 4])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _base, _into = LogitRelaxedBernoulli, SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """The relaxed one-hot categorical distribution on the simplex, whose samples are differentiable.

    Parameters
    ----------
    temperature : float or Tensor
        Positive number. Samples approach those of the discrete distribution as it approaches 0.
    probs : Tensor, optional
        Nonnegative weights of shape (..., k), which are normalized to sum to 1. Exactly one of `probs` and `logits`
        must be given.
    logits : Tensor, optional
        Logarithms of weights, of shape (..., k).
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import RelaxedOneHotCategorical
    >>> RelaxedOneHotCategorical(0.5, mt.ones(4, 3, device="meta")).sample((2,)).shape
    metatensor.Size([2, 4, 3])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    _base, _into = ExpRelaxedCategorical, ExpTransform
