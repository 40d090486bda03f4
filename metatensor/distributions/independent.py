"""Distributions whose trailing batch dimensions are event dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions._transform import widened
from metatensor.distributions.distribution import Distribution
from metatensor.distributions.utils import _sum_rightmost

__all__ = ["Independent"]


class Independent(Parametric):
    """A distribution whose trailing batch dimensions are treated as event dimensions.

    `log_prob` sums over these dimensions, since the elements are independent.

    Parameters
    ----------
    base_distribution : Distribution
        Distribution of the elements.
    reinterpreted_batch_ndims : int
        Number of trailing batch dimensions that become event dimensions.
    validate_args : bool, optional
        As for `Distribution`.

    Raises
    ------
    ValueError
        If the base has fewer batch dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Independent, Normal
    >>> d = Independent(Normal(mt.zeros(4, 3, device="meta"), 1.0), 1)
    >>> d.batch_shape, d.event_shape
    (metatensor.Size([4]), metatensor.Size([3]))
    """

    arg_constraints: ClassVar[Any] = {}
    _settings = ("reinterpreted_batch_ndims",)

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        batch = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if batch < 0:
            raise ValueError(
                f"Independent(): reinterpreted_batch_ndims is {reinterpreted_batch_ndims}, but the batch shape of the base is "
                f"{tuple(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        super().__init__(shape[:batch], shape[batch:], validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Sequence[int]) -> None:
        super()._expand_into(new, batch_shape)
        new.base_dist = self.base_dist.expand((*batch_shape, *self.event_shape[: self.reinterpreted_batch_ndims]))

    @property
    def has_rsample(self) -> Any:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        region = self.base_dist.support
        return widened(region, region.event_dim + self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: the support of several values together is too large to enumerate")
        return self.base_dist.enumerate_support(expand)

    for _method in (sample, rsample, log_prob, entropy, enumerate_support):
        _method.__doc__ = getattr(Distribution, _method.__name__).__doc__
    del _method

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
