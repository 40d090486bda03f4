"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn.functional import logsigmoid
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions._binary import SuccessOrLogits
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.gamma import Gamma
from metatensor.torch_api.torch.distributions.utils import broadcast_all

__all__ = ["NegativeBinomial"]


class NegativeBinomial(SuccessOrLogits, Distribution):
    """The number of successes before ``total_count`` failures."""

    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    _elementwise = ("total_count", "probs", "logits", "_param")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("NegativeBinomial: give either probs or logits")
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = self.total_count.type_as(given)
        shape = self._take(None if probs is None else given, given if probs is None else None)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * mt.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / mt.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        with mt.no_grad():
            rates = Gamma(self.total_count, mt.exp(-self.logits), validate_args=False)
            return mt.poisson(rates.sample(sample_shape).view(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        unnormalized = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = mt.lgamma(self.total_count) + mt.lgamma(1.0 + value) - mt.lgamma(self.total_count + value)
        return unnormalized - mt.where(self.total_count + value == 0.0, 0.0, ways)
