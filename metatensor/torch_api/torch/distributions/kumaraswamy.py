"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.transformed_distribution import TransformedDistribution
from metatensor.torch_api.torch.distributions.transforms import AffineTransform, PowerTransform
from metatensor.torch_api.torch.distributions.uniform import Uniform
from metatensor.torch_api.torch.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Much like the beta distribution, with a simpler density."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    _elementwise = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            mt.full_like(self.concentration0, 0), mt.full_like(self.concentration0, 1), validate_args=validate_args
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        """The mean of the ``n``-th power."""
        a, b = self.concentration1, self.concentration0
        arg = 1 + n / a
        return mt.exp(mt.lgamma(arg) + mt.lgamma(b) - mt.lgamma(arg + b)) * b

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        for name in self._elementwise:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return mt.where((a < 1) | (b < 1), mt.nan, ((a - 1) / (a * b - 1)).pow(a.reciprocal()))

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        t1, t0 = 1 - a.reciprocal(), 1 - b.reciprocal()
        harmonic = mt.digamma(b + 1) + euler_constant
        return t0 + t1 * harmonic - mt.log(a) - mt.log(b)
