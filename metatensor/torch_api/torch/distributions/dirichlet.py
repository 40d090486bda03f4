"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.exp_family import ExponentialFamily
from metatensor.torch_api.torch.distributions.utils import standard_gamma

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Points of the simplex, by concentrations in the last dimension."""

    arg_constraints: Any = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: there must be at least one dimension")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Dirichlet, _instance)
        batch_shape = mt.Size(batch_shape)
        new.concentration = self.concentration.expand(batch_shape + self.event_shape)
        super(Dirichlet, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        corners = mt.nn.functional.one_hot(mode.argmax(dim=-1), self.concentration.shape[-1]).to(mode)
        return mt.where((self.concentration < 1).all(dim=-1, keepdim=True), corners, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, True)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return mt.xlogy(a - 1.0, value).sum(-1) + mt.lgamma(a.sum(-1)) - mt.lgamma(a).sum(-1)

    def entropy(self) -> Any:
        a = self.concentration
        k, total = a.size(-1), a.sum(-1)
        return mt.lgamma(a).sum(-1) - mt.lgamma(total) - (k - total) * mt.digamma(total) - ((a - 1.0) * mt.digamma(a)).sum(-1)
