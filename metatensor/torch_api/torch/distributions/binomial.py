"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions._binary import SuccessOrLogits
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.utils import broadcast_all

__all__ = ["Binomial"]


class Binomial(SuccessOrLogits, Distribution):
    """The number of successes in ``total_count`` trials."""

    arg_constraints: Any = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True
    _elementwise = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Binomial: give either probs or logits")
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = self.total_count.type_as(given)
        shape = self._take(None if probs is None else given, given if probs is None else None)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with mt.no_grad():
            return mt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = mt.lgamma(n + 1) - mt.lgamma(value + 1) - mt.lgamma(n - value + 1)
        return ways + value * logits - n * (logits.clamp(min=0) + mt.log1p(mt.exp(-mt.abs(logits))))

    def entropy(self) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Binomial.entropy: the numbers of trials differ")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(mt.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Binomial.enumerate_support: the numbers of trials differ")
        values = mt.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
