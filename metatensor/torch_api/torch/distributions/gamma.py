"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.exp_family import ExponentialFamily
from metatensor.torch_api.torch.distributions.utils import broadcast_all, number_shape, standard_gamma

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Sums of ``concentration`` waiting times at a ``rate``."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _elementwise = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = number_shape(concentration, rate)
        super().__init__(self.concentration.shape if shape is None else shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        drawn.detach().clamp_(min=mt.finfo(drawn.dtype).tiny)
        return drawn

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = mt.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        a, b = self.concentration, self.rate
        return mt.xlogy(a, b) + mt.xlogy(a - 1, value) - b * value - mt.lgamma(a)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return mt.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - mt.log(self.rate) + mt.lgamma(a) + (1.0 - a) * mt.digamma(a)
