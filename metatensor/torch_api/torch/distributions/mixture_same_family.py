"""Mixtures of distributions of one kind."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.categorical import Categorical
from metatensor.torch_api.torch.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of the components, which lie along the last batch dimension, chosen by a categorical distribution."""

    arg_constraints: Any = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("MixtureSameFamily: the mixture must be a Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("MixtureSameFamily: the components must be a Distribution")
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        shape = component_distribution.batch_shape
        for a, b in zip(reversed(mixture_distribution.batch_shape), reversed(shape[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(f"MixtureSameFamily: shapes {tuple(mixture_distribution.batch_shape)} and {tuple(shape[:-1])}")
        if mixture_distribution.logits.shape[-1] != shape[-1]:
            raise ValueError(f"MixtureSameFamily: {mixture_distribution.logits.shape[-1]} probabilities for {shape[-1]} components")
        self._num_component = shape[-1]
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = mt.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        Distribution.__init__(new, batch_shape, new._component_distribution.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return mt.sum(self._weights() * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        weights, dim = self._weights(), -1 - self._event_ndims
        within = mt.sum(weights * self.component_distribution.variance, dim=dim)
        return within + mt.sum(weights * (self.component_distribution.mean - self._pad(self.mean)).pow(2.0), dim=dim)

    def cdf(self, x: Any) -> Any:
        return mt.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        return mt.logsumexp(log_prob + mt.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with mt.no_grad():
            sample_shape = mt.Size(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand((*samples.shape[:dim], 1, *self.event_shape))
            return mt.gather(samples, dim, chosen).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
