"""The base class of distributions that are declared by their parameters, support and formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import metatensor as mt
from metatensor.distributions.constraints import _IndependentConstraint
from metatensor.distributions.distribution import Distribution
from metatensor.distributions.utils import broadcast_all, has_data

__all__ = ["Parametric", "enumerated"]


class Parametric(Distribution):
    """Base class of families that declare their parameters.

    A subclass defines `arg_constraints` and `support`, and passes its parameters to `_set_parameters`. It also defines
    the formulas `_draw`, `_log_density`, `_cumulative` and `_quantile`, as far as they exist. Broadcasting,
    validation, `expand`, `sample`, `rsample`, `log_prob`, `cdf` and `icdf` are inherited.
    """

    _settings: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that have one value for the whole batch. `expand` copies them."""

    _parameters: dict[str, int]
    """Number of event dimensions of each parameter that was passed to the constructor."""

    if TYPE_CHECKING:  # the parameters are attributes

        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def _event_dim(cls, name: str) -> int:
        """Return the number of trailing dimensions that belong to one value of a parameter."""
        for family in cls.__mro__:  # a subclass may override arg_constraints
            regions = family.__dict__.get("arg_constraints")
            if isinstance(regions, dict) and name in regions:
                return regions[name].event_dim
        return 0

    def _set_parameters(self, validate_args: bool | None, event_shape: Sequence[int] = (), **parameters: Any) -> None:
        """Broadcast the parameters against each other, set them as attributes, and validate them.

        Parameters
        ----------
        validate_args : bool or None
            As for `Distribution`.
        event_shape : sequence of int
            Shape of one value of the distribution.
        **parameters : Tensor or number
            Parameters with event dimensions must be tensors. Only the dimensions in front of these are broadcast.
        """
        self._parameters = {name: self._event_dim(name) for name in parameters}
        if not any(self._parameters.values()):
            values = broadcast_all(*parameters.values())
            batch = values[0].shape
        else:
            for name, dims in self._parameters.items():
                if parameters[name].ndim < dims:
                    raise ValueError(
                        f"{type(self).__name__}(): parameter {name} must have at least {dims} dimensions, got shape "
                        f"{tuple(parameters[name].shape)}"
                    )
            batch = mt.broadcast_shapes(*(p.shape[: p.ndim - self._parameters[n]] for n, p in parameters.items()))
            values = tuple(_expanded(p, batch, self._parameters[n]) for n, p in parameters.items())
        self.__dict__.update(zip(parameters, values, strict=True))
        Distribution.__init__(self, batch, event_shape, validate_args=validate_args)

    # Expanding

    @classmethod
    def _declaring_class(cls) -> type:
        """Return the class whose constructor sets the parameters.

        It is the first class of this package in the method resolution order that has a constructor. If there is none,
        it is the last class outside the package that has one.
        """
        constructors = [c for c in cls.__mro__ if "__init__" in c.__dict__ and c not in (Distribution, object)]
        ours = [c for c in constructors if c.__module__.startswith(f"{__package__}.")]
        return (ours or constructors[-1:] or [cls])[0]

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(self._declaring_class(), _instance)
        self._expand_into(new, mt.Size(batch_shape))
        new._batch_shape, new._event_shape = mt.Size(batch_shape), self._event_shape
        new._validate_args = self._validate_args
        return new

    expand.__doc__ = Distribution.expand.__doc__

    def _expand_into(self, new: Any, batch_shape: Sequence[int]) -> None:
        """Set the parameters of `new` to those of this distribution, expanded to `batch_shape`."""
        if "_parameters" in self.__dict__:
            new._parameters = self._parameters
            for name, dims in self._parameters.items():
                new.__dict__[name] = _expanded(self.__dict__[name], batch_shape, dims)
        for name in self._settings:
            new.__dict__[name] = self.__dict__[name]

    # Sampling

    def _draw(self, shape: Any) -> Any:
        """Draw values of `shape`, which consists of the sample, batch and event shapes."""
        raise NotImplementedError(f"{type(self).__name__} cannot be sampled")

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        if not self.has_rsample:
            return super().rsample(sample_shape)
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with mt.no_grad():
            return self.rsample(sample_shape) if self.has_rsample else self._draw(self._extended_shape(sample_shape))

    rsample.__doc__, sample.__doc__ = Distribution.rsample.__doc__, Distribution.sample.__doc__

    # Densities

    def _log_density(self, value: Any) -> Any:
        return super().log_prob(value)

    def _cumulative(self, value: Any) -> Any:
        return super().cdf(value)

    def _quantile(self, probability: Any) -> Any:
        return super().icdf(probability)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(value)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._cumulative(value)

    def icdf(self, value: Any) -> Any:
        return self._quantile(value)

    log_prob.__doc__, cdf.__doc__, icdf.__doc__ = Distribution.log_prob.__doc__, Distribution.cdf.__doc__, Distribution.icdf.__doc__


def _expanded(value: Any, batch_shape: Sequence[int], event_dims: int) -> Any:
    return value.expand((*batch_shape, *value.shape[value.ndim - event_dims :]))


def enumerated(values: Any, batch_shape: Sequence[int], expand: bool) -> Any:
    """Insert batch dimensions after the first dimension of `values`.

    With `expand`, their sizes are those of `batch_shape`, else 1.
    """
    event = values.shape[1:]
    values = values.reshape((-1, *(1 for _ in batch_shape), *event))
    return values.expand((-1, *batch_shape, *event)) if expand else values


def same_for_all(owner: Any, name: str) -> int:
    """Return an integer parameter that has the same value in the whole batch.

    Raises
    ------
    NotImplementedError
        If its value varies or cannot be read.
    """
    value = getattr(owner, name)
    if not has_data(value) or not bool((value == value.flatten()[0]).all()):
        raise NotImplementedError(f"{type(owner).__name__}: {name} must have a known value that is the same for the whole batch")
    return int(value.flatten()[0].item())


def event_of(constraint: Any, dims: int) -> Any:
    """Return `constraint` with at least `dims` event dimensions."""
    missing = dims - constraint.event_dim
    return _IndependentConstraint(constraint, missing) if missing > 0 else constraint
