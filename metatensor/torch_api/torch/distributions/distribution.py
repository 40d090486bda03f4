"""The base of distributions."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.utils import has_data, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A batch of distributions: samples have the shape sample_shape + `batch_shape` + `event_shape`."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args: Any = __debug__
    _elementwise: ClassVar[tuple[str, ...]] = ()
    """Parameters of the shape of the batch, which `expand` expands. Those that are not set are left alone."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where nothing else is said."""
        if value not in (True, False):
            raise ValueError(f"Distribution: expected a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = mt.Size(batch_shape)
        self._event_shape = mt.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(f"{type(self).__name__} has no arg_constraints; use validate_args=False", stacklevel=2)
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if has_data(value) and not constraint.check(value).all():
                raise ValueError(f"{type(self).__name__}: {name} must be {constraint!r}, got {value}")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, expanded to a batch shape."""
        if not self._elementwise:
            raise NotImplementedError(f"{type(self).__name__}: a distribution must define expand")
        owner: Any = next(c for c in type(self).__mro__ if "_elementwise" in c.__dict__)
        new = self._get_checked_instance(owner, _instance)
        batch_shape = mt.Size(batch_shape)
        for name in self._elementwise:
            if name in self.__dict__:
                setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> mt.Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> mt.Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """A constraint for each parameter."""
        raise NotImplementedError(f"{type(self).__name__}.arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that samples meet."""
        raise NotImplementedError(f"{type(self).__name__}.support")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Any:
        """Where the density is largest."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples, without gradients."""
        with mt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__}.rsample")

    def sample_n(self, n: int) -> Any:
        """``n`` samples."""
        warnings.warn("sample_n(n) is deprecated: use sample((n,))", UserWarning, stacklevel=2)
        return self.sample(mt.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at ``value``."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of values up to ``value``."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Any) -> Any:
        """The value up to which the probability is ``value``."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that a discrete distribution may have, along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return mt.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> mt.Size:
        return mt.Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """ValueError where ``value`` does not fit the shape or, having data, is outside the support."""
        name = type(self).__name__
        if not isinstance(value, mt.Tensor):
            raise ValueError(f"{name}: expected a tensor as value, got {type(value).__name__}")
        event_start = value.dim() - len(self._event_shape)
        if tuple(value.shape[max(event_start, 0) :]) != tuple(self._event_shape):
            raise ValueError(f"{name}: a value has shape {tuple(self._event_shape)} on the right, got {tuple(value.shape)}")
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"{name}: values of shape {tuple(value.shape)} do not broadcast with {expected}")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{name} has no support to check values against; use validate_args=False", stacklevel=3)
            return
        if has_data(value) and not support.check(value).all():
            raise ValueError(f"{name}: a value must be {support!r}, got {value}")

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"{type(self).__name__}: a subclass with its own __init__ must define expand")
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        parts = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown.items()]
        return f"{type(self).__name__}({', '.join(parts)})"
