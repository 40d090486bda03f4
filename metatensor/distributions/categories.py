"""Distributions over categories: Categorical, OneHotCategorical, OneHotCategoricalStraightThrough and Multinomial."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._pairs import CategoryPair
from metatensor.distributions._parametric import enumerated
from metatensor.distributions.counts import Binomial

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class _Categories(CategoryPair):
    """Base class of distributions with k categories along the last dimension of the parameter."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def _draw_indices(self, shape: Any) -> Any:
        """Draw indices of categories. Return them in the given shape, which must end with the batch shape."""
        k, batch = self._num_events, math.prod(self.batch_shape)
        draws = math.prod(shape[: len(shape) - len(self.batch_shape)])
        if draws * batch == 0:
            return mt.zeros(shape, dtype=mt.int64, device=self._param.device)
        rows = mt.multinomial(self.probs.reshape(batch, k), draws, True)
        return rows.t().reshape(shape)

    def _one_hot(self, indices: Any) -> Any:
        return mt.nn.functional.one_hot(indices, self._num_events).to(self._param.dtype)

    def entropy(self) -> Any:
        """Return the entropy of one draw, in nats."""
        return mt.special.entr(self.probs).sum(-1)


class Categorical(_Categories):
    """The categorical distribution: an index from 0 to k - 1.

    Parameters
    ----------
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
    >>> from metatensor.distributions import Categorical
    >>> d = Categorical(mt.tensor([1.0, 1.0, 2.0], device="cpu"))
    >>> d.log_prob(mt.tensor([0, 2], device="cpu")).exp()
    tensor([0.2500, 0.5000])
    """

    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_categories(validate_args, probs, logits, is_event=False)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    def _undefined(self) -> Any:
        return mt.full_like(self._param[..., 0], math.nan)

    @property
    def mean(self) -> Any:
        return self._undefined()  # categories are not numbers

    @property
    def variance(self) -> Any:
        return self._undefined()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    def _draw(self, shape: Any) -> Any:
        return self._draw_indices(shape)

    def _log_density(self, value: Any) -> Any:
        indices, logits = mt.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, indices[..., :1]).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return the indices 0 to k - 1 along a new first dimension, expanded over the batch if `expand`."""
        return enumerated(mt.arange(self._num_events, device=self._param.device), self.batch_shape, expand)


class OneHotCategorical(_Categories):
    """The categorical distribution of one-hot vectors.

    Parameters
    ----------
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
    >>> from metatensor.distributions import OneHotCategorical
    >>> d = OneHotCategorical(mt.ones(4, 3, device="meta"))
    >>> d.batch_shape, d.event_shape
    (metatensor.Size([4]), metatensor.Size([3]))
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_categories(validate_args, probs, logits, is_event=True)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: Any) -> Any:
        return self._one_hot(self._draw_indices(shape[:-1]))

    def _log_density(self, value: Any) -> Any:
        # A product of value and logits would be NaN if the probability of another category is 0.
        return mt.where(value > 0, self.logits, 0.0).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return the k unit vectors along a new first dimension. With `expand`, they are expanded over the batch."""
        return enumerated(mt.eye(self._num_events, dtype=self._param.dtype, device=self._param.device), self.batch_shape, expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose samples have the gradient of the probabilities (the straight-through estimator).

    The parameters are those of `OneHotCategorical`.
    """

    has_rsample = True

    def _draw(self, shape: Any) -> Any:
        drawn = super()._draw(shape)
        return drawn + (self.probs - self.probs.detach())


class Multinomial(_Categories):
    """The multinomial distribution: the number of times that each of k categories occurs in `total_count` draws.

    Parameters
    ----------
    total_count : int
        Number of draws. Default: 1.
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
    >>> from metatensor.distributions import Multinomial
    >>> Multinomial(8, mt.tensor([1.0, 1.0, 2.0], device="cpu")).mean
    tensor([2., 2., 4.])
    """

    _settings = ("total_count",)
    total_count: int

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(f"Multinomial(): total_count must be an int, got {type(total_count).__name__}")
        self.total_count = total_count
        self._set_categories(validate_args, probs, logits, is_event=True)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        return self.mean * (1 - self.probs)

    def _draw(self, shape: Any) -> Any:
        chosen = self._draw_indices((self.total_count, *shape[:-1])).movedim(0, -1)
        counts = mt.zeros(shape, dtype=self._param.dtype, device=self._param.device)
        return counts.scatter_add(-1, chosen, mt.ones(chosen.shape, dtype=counts.dtype, device=counts.device))

    def _log_density(self, value: Any) -> Any:
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + mt.where(value == 0, 0.0, value * self.logits).sum(-1)

    def entropy(self) -> Any:
        """Return the entropy in nats: the entropy of the sequence of draws, minus that of its order given the counts."""
        n = self.total_count
        counts = Binomial(n, probs=self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)
        forgotten = (counts._log_density(values).exp() * (values + 1).lgamma()).sum((0, -1))
        one_draw = super().entropy()
        return n * one_draw - mt.full_like(one_draw, n + 1.0).lgamma() + forgotten

