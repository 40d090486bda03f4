"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn.functional import binary_cross_entropy_with_logits
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions._binary import SuccessOrLogits
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.utils import broadcast_all, has_data, uniform

__all__ = ["Geometric"]


class Geometric(SuccessOrLogits, Distribution):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer
    _elementwise = ("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and has_data(self.probs) and not (self.probs > 0).all():
            raise ValueError("Geometric: probs must be positive")

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return mt.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        with mt.no_grad():
            u = uniform(self._extended_shape(sample_shape), self.probs, mt.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        sure = (probs == 1) & (value == 0)
        return value * (-mt.where(sure, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
