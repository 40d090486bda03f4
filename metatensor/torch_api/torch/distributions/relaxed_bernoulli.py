"""The relaxed Bernoulli distribution (Maddison et al., 2016, arXiv:1611.00712)."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions._binary import SuccessOrLogits
from metatensor.torch_api.torch.distributions.distribution import Distribution
from metatensor.torch_api.torch.distributions.transformed_distribution import TransformedDistribution
from metatensor.torch_api.torch.distributions.transforms import SigmoidTransform
from metatensor.torch_api.torch.distributions.utils import broadcast_all, clamp_probs, uniform

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(SuccessOrLogits, Distribution):
    """The log odds of a relaxed Bernoulli variable."""

    support = constraints.real
    has_rsample = True
    _elementwise = ("probs", "logits", "_param")

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform(shape, probs))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Between 0 and 1, nearer to them the lower the temperature."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probability of 1."""
        return self.base_dist.probs
