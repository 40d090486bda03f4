"""The uniform distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.utils import broadcast_all, has_data, number_shape

__all__ = ["Uniform"]


class Uniform(Distribution):
    """All values from ``low`` up to ``high`` alike."""

    has_rsample = True
    _elementwise = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        shape = number_shape(low, high)
        super().__init__(self.low.shape if shape is None else shape, validate_args=validate_args)
        if self._validate_args and has_data(self.low) and has_data(self.high) and not mt.lt(self.low, self.high).all():
            raise ValueError("Uniform: low must be below high")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return mt.full_like(self.low, float("nan"))

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.low + mt.rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value) & self.high.gt(value)
        return mt.log(inside.type_as(self.low)) - mt.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return mt.log(self.high - self.low)
