"""Fisher's and Snedecor's distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.gamma import Gamma
from metatensor.torch_api.torch.distributions.utils import broadcast_all, number_shape

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """Ratios of chi-squared variables over their degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _elementwise = ("df1", "df2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        shape = number_shape(df1, df2)
        super().__init__(self.df1.shape if shape is None else shape, validate_args=validate_args)

    def _gammas(self) -> tuple[Gamma, Gamma]:
        return Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    @property
    def mean(self) -> Any:
        df2 = mt.where(self.df2 <= 2, mt.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mt.where(self.df1 <= 2, mt.nan, mode)

    @property
    def variance(self) -> Any:
        df2 = mt.where(self.df2 <= 4, mt.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        upper, lower = (gamma.expand(self.batch_shape).rsample(sample_shape).view(shape) for gamma in self._gammas())
        tiny = mt.finfo(lower.dtype).tiny
        return (upper / lower.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return constant + a * ratio.log() + (a - 1) * mt.log(value) - (a + b) * mt.log1p(ratio * value)
