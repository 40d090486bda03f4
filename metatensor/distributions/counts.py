"""Distributions of counts: Geometric, Binomial, NegativeBinomial and Poisson."""

from __future__ import annotations

from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._pairs import BinaryPair
from metatensor.distributions._parametric import Parametric, enumerated, same_for_all
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.utils import has_data, noise, softplus

__all__ = ["Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def _log_choose(n: Any, k: Any) -> Any:
    """Return the logarithm of the binomial coefficient."""
    return (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()


class Geometric(BinaryPair):
    """The geometric distribution: the number of failures before the first success.

    Parameters
    ----------
    probs : float or Tensor, optional
        Probability of success, in (0, 1].
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of success.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Geometric
    >>> Geometric(mt.tensor([0.5, 0.25], device="cpu")).mean
    tensor([1., 3.])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_pair(validate_args, probs, logits)
        if self._validate_args and probs is not None and has_data(self.probs) and not bool((self.probs > 0).all()):
            raise ValueError(f"Geometric(): probs must be positive, got {self.probs}")

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return mt.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return self.mean / self.probs

    def _draw(self, shape: Any) -> Any:
        # The integer part of an exponential waiting time is geometric.
        return (noise("exponential", shape, self.probs) / -(-self.probs).log1p()).floor()

    def _log_density(self, value: Any) -> Any:
        return mt.special.xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Any:
        """Return the entropy in nats: the entropy of one trial times the expected number of trials."""
        return (softplus(self.logits) - self.logits * self.probs) / self.probs


class Binomial(BinaryPair):
    """The binomial distribution: the number of successes in `total_count` trials.

    Parameters
    ----------
    total_count : int or Tensor
        Number of trials. Default: 1.
    probs : float or Tensor, optional
        Probability of success.
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of success.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Binomial
    >>> Binomial(10, mt.tensor([0.5, 0.2], device="cpu")).mean
    tensor([5., 2.])
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = probs if logits is None else logits
        if isinstance(total_count, mt.Tensor) and isinstance(given, mt.Tensor):
            total_count = total_count.to(given.dtype)
        self._set_pair(validate_args, probs, logits, total_count=total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return mt.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Any:
        return self.mean * (1 - self.probs)

    def _draw(self, shape: Any) -> Any:
        return mt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_density(self, value: Any) -> Any:
        return value * self.logits - self.total_count * softplus(self.logits) + _log_choose(self.total_count, value)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return 0 to `total_count` along a new first dimension. With `expand`, they are expanded over the batch.

        Raises
        ------
        NotImplementedError
            If `total_count` varies over the batch.
        """
        values = mt.arange(same_for_all(self, "total_count") + 1, dtype=self._param.dtype, device=self._param.device)
        return enumerated(values, self.batch_shape, expand)

    def entropy(self) -> Any:
        """Return the entropy in nats, as a sum over the support. `total_count` must be the same in the whole batch."""
        log_prob = self._log_density(self.enumerate_support(expand=False))
        return -(log_prob.exp() * log_prob).sum(0)


class NegativeBinomial(BinaryPair):
    """The negative binomial distribution: the number of successes before `total_count` failures.

    Parameters
    ----------
    total_count : float or Tensor
        Number of failures, not necessarily an integer.
    probs : float or Tensor, optional
        Probability of success, in [0, 1).
        Exactly one of `probs` and `logits` must be given.
    logits : float or Tensor, optional
        Log odds of success.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import NegativeBinomial
    >>> NegativeBinomial(3.0, mt.tensor([0.5], device="cpu")).mean
    tensor([3.])
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = probs if logits is None else logits
        if isinstance(total_count, mt.Tensor) and isinstance(given, mt.Tensor):
            total_count = total_count.to(given.dtype)
        self._set_pair(validate_args, probs, logits, total_count=total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        before_last = (self.total_count - 1).clamp(min=0.0)
        return (before_last * self.logits.exp()).floor()

    @property
    def variance(self) -> Any:
        return self.mean * (1 + self.logits.exp())

    def _draw(self, shape: Any) -> Any:
        # a Poisson variable whose rate is gamma distributed
        return mt.poisson(mt._standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def _log_density(self, value: Any) -> Any:
        r = self.total_count
        orders = (r + value).lgamma() - (value + 1).lgamma() - r.lgamma()
        orders = mt.where(r + value == 0, 0.0, orders)
        return orders - value * softplus(-self.logits) - r * softplus(self.logits)


class Poisson(Parametric, ExponentialFamily):
    """The Poisson distribution.

    Parameters
    ----------
    rate : float or Tensor
        Mean.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Poisson
    >>> Poisson(mt.tensor([2.0], device="cpu")).log_prob(mt.zeros(1, device="cpu"))
    tensor([-2.])
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, rate=rate)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def _draw(self, shape: Any) -> Any:
        return mt.poisson(self.rate.expand(shape))

    def _log_density(self, value: Any) -> Any:
        return mt.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, log_rate: Any) -> Any:  # type: ignore[override]
        return log_rate.exp()

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        return (self.rate,)
