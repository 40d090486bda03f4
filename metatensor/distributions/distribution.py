"""The base class of distributions: shapes, validation, and the interface that every distribution has."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions.utils import has_data, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """Base class of probability distributions.

    A distribution object is a batch of distributions of one family. A sample has the shape
    ``sample_shape + batch_shape + event_shape``. `log_prob` returns one number for each value, so its result has the
    shape ``sample_shape + batch_shape``.

    Parameters
    ----------
    batch_shape : sequence of int
        Shape of the batch. Each element of the batch is an independent distribution with its own parameters.
    event_shape : sequence of int
        Shape of one value: () for numbers, (d,) for vectors of d elements.
    validate_args : bool, optional
        Check the parameters now, and values when they are passed to `log_prob` or `cdf`. The default is set by
        `set_default_validate_args`. Initially it is True unless Python runs with ``-O``. For tensors without data (on
        meta, deferred or fake) only the shapes are checked.

    Raises
    ------
    ValueError
        If a parameter violates its constraint in `arg_constraints`.

    Notes
    -----
    A subclass defines `arg_constraints`, `support`, `log_prob`, and `rsample` or `sample`. A method or property that a
    family does not define raises NotImplementedError.

    In most families, scalar parameters are numbers or tensors, and the batch shape is the shape to which they
    broadcast.

    Examples
    --------
    >>> import metatensor as mt
    >>> d = mt.distributions.Normal(mt.zeros(5, 1, device="meta"), mt.ones(3, device="meta"))
    >>> d.batch_shape, d.event_shape
    (metatensor.Size([5, 3]), metatensor.Size([]))
    >>> d.sample((2,)).shape
    metatensor.Size([2, 5, 3])
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of `validate_args` for distributions that are created from now on.

        Raises
        ------
        ValueError
            If `value` is neither True nor False.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args(): expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = mt.Size(batch_shape), mt.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self).__name__} does not define arg_constraints; set validate_args=False to silence this", stacklevel=3)
            return
        for name, constraint in regions.items():
            derived = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if derived or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not has_data(value):
                continue
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"{type(self).__name__}(): parameter {name} of shape {tuple(value.shape)} must satisfy {constraint!r}, got {value}"
                )

    # Shapes

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one value."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Any:
        """Return the shape of a sample: ``sample_shape + batch_shape + event_shape``."""
        return mt.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return a distribution of the same family whose parameters are expanded to `batch_shape`.

        Parameters
        ----------
        batch_shape : sequence of int
            The new batch shape. The current one must be expandable to it.
        _instance : Distribution, optional
            An object that is filled and returned. Subclasses that override this method pass one. By default a new
            object is created.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.distributions.Normal(mt.zeros(3, device="meta"), 1.0).expand((2, 3)).batch_shape
        metatensor.Size([2, 3])
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement expand()")

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return `_instance`, or a new object of this class without attributes.

        Raise NotImplementedError if this class overrides the constructor of `cls`.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(f"{type(self).__name__} has a constructor of its own, so it must define expand() too")
        return type(self).__new__(type(self))

    # Regions

    @property
    def arg_constraints(self) -> Mapping[str, Any]:
        """The constraint of each parameter, by parameter name."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint that every value of the distribution satisfies."""
        raise NotImplementedError(f"{type(self).__name__} does not define support")

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless `value` is a tensor with a matching shape and with values in the support."""
        name = type(self).__name__
        if not isinstance(value, mt.Tensor):
            raise ValueError(f"{name}: a value must be a tensor, got {type(value).__name__}")
        event = len(self._event_shape)
        if tuple(value.shape)[value.ndim - event :] != tuple(self._event_shape) or value.ndim < event:
            raise ValueError(f"{name}: a value of shape {tuple(value.shape)} does not end with the event shape {tuple(self._event_shape)}")
        try:
            mt.broadcast_shapes(value.shape, self._extended_shape())
        except RuntimeError:
            raise ValueError(
                f"{name}: a value of shape {tuple(value.shape)} does not broadcast with one sample, which has the shape "
                f"{tuple(self._extended_shape())}"
            ) from None
        if not has_data(value):
            return
        try:
            inside = self.support.check(value)
        except NotImplementedError:
            warnings.warn(f"{name} does not define a support; set validate_args=False to silence this", stacklevel=3)
            return
        if has_data(inside) and not bool(inside.all()):
            raise ValueError(f"{name}: the value of shape {tuple(value.shape)} is not within the support {self.support!r}: {value}")

    # To be defined by families

    @property
    def mean(self) -> Any:
        """The mean, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mean")

    @property
    def mode(self) -> Any:
        """The value of highest density or probability, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance of each element, of shape ``batch_shape + event_shape``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation: the square root of `variance`."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw a sample that is differentiable with respect to the parameters.

        Parameters
        ----------
        sample_shape : sequence of int
            Shape of the set of independent draws from each distribution of the batch. Default: one draw.

        Returns
        -------
        Tensor
            Shape ``sample_shape + batch_shape + event_shape``.

        Raises
        ------
        NotImplementedError
            If the family cannot be sampled this way: `has_rsample` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement rsample()")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw a sample. The result does not require grad.

        Parameters
        ----------
        sample_shape : sequence of int
            Shape of the set of independent draws from each distribution of the batch. Default: one draw.

        Returns
        -------
        Tensor
            Shape ``sample_shape + batch_shape + event_shape``.
        """
        with mt.no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Any:
        """Draw `n` samples. Deprecated: use ``sample((n,))``."""
        warnings.warn("sample_n() is deprecated: use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density at `value`, or of the probability for discrete distributions.

        Parameters
        ----------
        value : Tensor
            Values. The shape broadcasts with ``batch_shape + event_shape`` and ends with `event_shape`.

        Returns
        -------
        Tensor
            One number for each value: the broadcast shape without the event dimensions.

        Raises
        ------
        ValueError
            If values are validated, and `value` is not a tensor, does not fit the shapes, or is outside the support.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement log_prob()")

    def cdf(self, value: Any) -> Any:
        """Return the cumulative distribution function at `value`: the probability of values up to `value`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cdf()")

    def icdf(self, value: Any) -> Any:
        """Return the quantile for the probability `value`: the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement icdf()")

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return all values of a discrete distribution, along a new first dimension.

        Parameters
        ----------
        expand : bool
            Expand the values over the batch. If False, the batch dimensions have size 1. Default: True.

        Raises
        ------
        NotImplementedError
            If the support cannot be enumerated: `has_enumerate_support` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support()")

    def entropy(self) -> Any:
        """Return the entropy of each distribution of the batch, in nats."""
        raise NotImplementedError(f"{type(self).__name__} does not implement entropy()")

    def perplexity(self) -> Any:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        parts = [
            f"{name}: {value.item() if value.numel() == 1 and has_data(value) else value.shape}" for name, value in shown.items()
        ]
        return f"{type(self).__name__}({', '.join(parts)})"
