"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.transformed_distribution import TransformedDistribution
from metatensor.torch_api.torch.distributions.transforms import AffineTransform, ExpTransform
from metatensor.torch_api.torch.distributions.uniform import Uniform
from metatensor.torch_api.torch.distributions.utils import broadcast_all, euler_constant, number_shape

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """Largest values of many: minus the logarithm of exponential variables, shifted and scaled."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _elementwise = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = mt.finfo(self.loc.dtype)
        if number_shape(loc, scale) is not None:
            base = Uniform(limits.tiny, 1 - limits.eps, validate_args=validate_args)
        else:
            base = Uniform(mt.full_like(self.loc, limits.tiny), mt.full_like(self.loc, 1 - limits.eps), validate_args=validate_args)
        minus_one = -mt.ones_like(self.scale)
        transforms = [
            ExpTransform().inv, AffineTransform(loc=0, scale=minus_one), ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale),
        ]  # fmt: skip
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        for name in self._elementwise:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
