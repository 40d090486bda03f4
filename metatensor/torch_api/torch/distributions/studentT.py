"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.chi2 import Chi2
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.utils import broadcast_all, number_shape, standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution of ``df`` degrees of freedom."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _elementwise = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        shape = number_shape(df, loc, scale)
        super().__init__(self.df.shape if shape is None else shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return mt.where(self.df <= 1, mt.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        spread = self.scale.pow(2) * self.df / (self.df - 2)
        return mt.where(self.df > 2, spread, mt.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = standard_normal(shape, self.df)
        squares = Chi2(self.df).expand(self.batch_shape).rsample(sample_shape)
        return self.loc + self.scale * normal * mt.rsqrt(squares / self.df)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        half = 0.5 * (self.df + 1.0)
        constant = self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + mt.lgamma(0.5 * self.df) - mt.lgamma(half)
        return -half * mt.log1p(y**2.0 / self.df) - constant

    def entropy(self) -> Any:
        half = 0.5 * (self.df + 1)
        beta = mt.lgamma(0.5 * self.df) + math.lgamma(0.5) - mt.lgamma(half)
        return self.scale.log() + half * (mt.digamma(half) - mt.digamma(0.5 * self.df)) + 0.5 * self.df.log() + beta
