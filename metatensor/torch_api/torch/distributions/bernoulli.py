"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn.functional import binary_cross_entropy_with_logits
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions._binary import SuccessOrLogits
from metatensor.torch_api.torch.distributions.exp_family import ExponentialFamily
from metatensor.torch_api.torch.distributions.utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(SuccessOrLogits, ExponentialFamily):
    """1 with probability ``probs``, else 0."""

    support = constraints.boolean
    has_enumerate_support = True
    _elementwise = ("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return mt.where(self.probs == 0.5, mt.nan, (self.probs >= 0.5).to(self.probs))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with mt.no_grad():
            return mt.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = mt.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
