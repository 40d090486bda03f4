"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.categories import Categorical
from metatensor.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Parametric):
    """A mixture of k distributions of one family.

    Parameters
    ----------
    mixture_distribution : Categorical
        Weights of the components, with batch shape (...) and k categories.
    component_distribution : Distribution
        The components, with batch shape (..., k).
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Categorical, MixtureSameFamily, Normal
    >>> weights = mt.ones(3, device="meta")
    >>> mixture = MixtureSameFamily(Categorical(weights), Normal(mt.zeros(3, device="meta"), 1.0))
    >>> mixture.batch_shape, mixture.sample((5,)).shape
    (metatensor.Size([]), metatensor.Size([5]))
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"MixtureSameFamily(): the mixture must be a Categorical, got {type(mixture_distribution).__name__}")
        if not isinstance(component_distribution, Distribution):
            raise ValueError(f"MixtureSameFamily(): the components must be a Distribution, got {type(component_distribution).__name__}")
        batch, weights = component_distribution.batch_shape, mixture_distribution.batch_shape
        k = mixture_distribution._num_events
        if len(batch) == 0 or batch[-1] != k or any(a not in (b, 1) and b != 1 for a, b in zip(weights[::-1], batch[-2::-1], strict=False)):
            raise ValueError(
                f"MixtureSameFamily(): weights of {k} components in the batch shape {tuple(weights)} do not fit components of the batch "
                f"shape {tuple(batch)}"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Sequence[int]) -> None:
        super()._expand_into(new, batch_shape)
        components = self._component_distribution
        new._component_distribution = components.expand((*batch_shape, components.batch_shape[-1]))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the index of the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The distributions of the components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _over_events(self, weights: Any) -> Any:
        """Append one dimension of size 1 to weights of shape (..., k) for each event dimension."""
        return weights.reshape((*weights.shape, *(1 for _ in self.event_shape)))

    def _average(self, values: Any) -> Any:
        """Return the weighted mean over the components, whose dimension comes just before the event dimensions."""
        return (self._over_events(self._mixture_distribution.probs) * values).sum(-1 - len(self.event_shape))

    @property
    def mean(self) -> Any:
        return self._average(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        # variance within the components + variance of their means
        parts = self._component_distribution
        between = parts.mean - self.mean.unsqueeze(-1 - len(self.event_shape))
        return self._average(parts.variance + between.square())

    def _to_components(self, value: Any) -> Any:
        return value.unsqueeze(-1 - len(self.event_shape))

    def _cumulative(self, value: Any) -> Any:
        return (self._component_distribution.cdf(self._to_components(value)) * self._mixture_distribution.probs).sum(-1)

    def _log_density(self, value: Any) -> Any:
        log_densities = self._component_distribution.log_prob(self._to_components(value))
        return (log_densities + self._mixture_distribution.logits).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with mt.no_grad():
            drawn = self._component_distribution.sample(sample_shape)
            at = -1 - len(self.event_shape)
            which = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            which = self._over_events(which.unsqueeze(-1)).expand((*which.shape, 1, *self.event_shape))
            return drawn.gather(at, which).squeeze(at)

    sample.__doc__ = Distribution.sample.__doc__

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n  {self._mixture_distribution},\n  {self._component_distribution})"
