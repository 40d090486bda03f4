"""Distributions of transformed variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions._transform import ComposeTransform, Transform, widened
from metatensor.distributions.distribution import Distribution
from metatensor.distributions.independent import Independent
from metatensor.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Parametric):
    """The distribution of y = f(x), where the distribution of x is known and f is a transform.

    Parameters
    ----------
    base_distribution : Distribution
        The distribution of x.
    transforms : Transform or list of Transform
        The transform f, or a list of transforms that are applied in order.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ExpTransform, Normal, TransformedDistribution
    >>> d = TransformedDistribution(Normal(mt.zeros(3, device="meta"), 1.0), ExpTransform())
    >>> d.sample((2,)).shape
    metatensor.Size([2, 3])
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Any

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, (list, tuple)) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"TransformedDistribution(): expected a transform or a list of them, got {transforms!r}")
        self.transforms = list(self.transforms)
        event_dim = self._set_base(base_distribution)
        shape = ComposeTransform(self.transforms).forward_shape(self.base_dist.batch_shape + self.base_dist.event_shape)
        at = len(shape) - event_dim
        if "_parameters" in self.__dict__:  # a family has set its parameters, and thereby its batch shape
            self._event_shape = mt.Size(shape[at:])
            return
        Distribution.__init__(self, shape[:at], shape[at:], validate_args=validate_args)

    def _set_base(self, base: Distribution) -> int:
        """Set the base, expanded to the transforms' parameters. Return the number of event dimensions."""
        whole = ComposeTransform(self.transforms)
        takes, yields = whole.domain.event_dim, whole.codomain.event_dim
        shape = base.batch_shape + base.event_shape
        if len(shape) < takes:
            raise ValueError(
                f"TransformedDistribution(): the transforms need values of {takes} dimensions, and the base has shape {tuple(shape)}"
            )
        wanted = whole.inverse_shape(whole.forward_shape(shape))
        if tuple(wanted) != tuple(shape):
            base = base.expand(wanted[: len(wanted) - len(base.event_shape)])
        event = len(base.event_shape)
        self.base_dist = Independent(base, takes - event) if takes > event else base
        return yields + max(event - takes, 0)

    def _expand_into(self, new: Any, batch_shape: Sequence[int]) -> None:
        super()._expand_into(new, batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:  # type: ignore[override]
        if not self.transforms:
            return self.base_dist.support
        return widened(self.transforms[-1].codomain, max(len(self.event_shape), self.transforms[-1].codomain.event_dim))

    @property
    def has_rsample(self) -> Any:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with mt.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    sample.__doc__, rsample.__doc__ = Distribution.sample.__doc__, Distribution.rsample.__doc__

    def _log_density(self, value: Any) -> Any:
        dims, stretch = len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            stretch = stretch + _sum_rightmost(transform.log_abs_det_jacobian(x, value), dims - transform.domain.event_dim)
            value = x
        return _sum_rightmost(self.base_dist.log_prob(value), dims - len(self.base_dist.event_shape)) - stretch

    def _backward(self, value: Any) -> tuple[Any, Any]:
        """Return the value of the base variable, and 1 if it increases with `value`, -1 if it decreases."""
        sign: Any = 1
        for transform in reversed(self.transforms):
            value, sign = transform.inv(value), sign * transform.sign
        return value, sign

    @staticmethod
    def _mirrored(probability: Any, sign: Any) -> Any:
        """Return the probability, or 1 minus it where `sign` is negative."""
        if isinstance(sign, mt.Tensor):
            return mt.where(sign < 0, 1 - probability, probability)
        return 1 - probability if sign < 0 else probability

    def _cumulative(self, value: Any) -> Any:
        x, sign = self._backward(value)
        return self._mirrored(self.base_dist.cdf(x), sign)

    def _quantile(self, probability: Any) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return self._forward(self.base_dist.icdf(self._mirrored(probability, sign)))
