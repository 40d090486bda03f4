"""Constraints: the regions in which parameters and values of distributions lie.

A constraint checks which values of a tensor lie in its region. `event_dim` is the number of trailing dimensions that
form one value: 0 for numbers, 1 for vectors, 2 for matrices. `is_discrete` tells whether the values are discrete.
`metatensor.distributions.biject_to` and `transform_to` return transforms from real numbers to the region.

Constraints without parameters are objects:

- numbers: `real`, `positive`, `nonnegative`, `unit_interval`, `boolean`, `nonnegative_integer`, `positive_integer`
- vectors: `real_vector`, `one_hot`, `simplex`
- matrices: `square`, `symmetric`, `positive_semidefinite`, `positive_definite`, `lower_triangular`, `lower_cholesky`,
  `corr_cholesky`

Constraints with parameters are classes:

- numbers: `greater_than`, `greater_than_eq`, `less_than`, `interval`, `half_open_interval`, `integer_interval`
- vectors: `multinomial`
- combinations of constraints: `independent`, `cat`, `stack`, `MixtureSameFamilyConstraint`

`dependent` and `dependent_property` represent a region that depends on the parameters of a distribution.

>>> import metatensor as mt
>>> from metatensor.distributions import constraints
>>> constraints.interval(0.0, 1.0).check(mt.tensor([0.5, 2.0], device="cpu"))
tensor([ True, False])
>>> constraints.simplex.check(mt.tensor([[0.5, 0.5], [0.5, 0.6]], device="cpu"))
tensor([ True, False])
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import metatensor as mt

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip

SUM_TOLERANCE = 1e-6  # tolerance for the sum of a vector in the simplex, and for the symmetry of matrices


class Constraint:
    """Base class of constraints.

    A subclass defines `check`. It sets `event_dim` if a value is more than a number (the default is 0), and
    `is_discrete` if the values are discrete (the default is False).
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return which values lie in the region.

        Parameters
        ----------
        value : Tensor
            Values of shape ``(*batch, *event)``, where the event has `event_dim` dimensions.

        Returns
        -------
        Tensor
            bool, of shape ``(*batch,)``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement check()")

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


# Regions that depend on parameters --------------------------------------------------------------------


class _Dependent(Constraint):
    """A region that depends on the parameters of a distribution. It is known only for an instance of the distribution.

    Parameters
    ----------
    is_discrete : bool, optional
        Whether the values are discrete, if that is the same for all parameters.
    event_dim : int, optional
        Number of event dimensions, if it is the same for all parameters.
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._known = {"is_discrete": is_discrete, "event_dim": event_dim}

    def _ask(self, what: str) -> Any:
        """Return `is_discrete` or `event_dim`. Raise NotImplementedError if it is unknown."""
        if self._known[what] is NotImplemented:
            raise NotImplementedError(f"{what} of this constraint depends on the distribution's parameters")
        return self._known[what]

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self._ask("is_discrete")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self._ask("event_dim")

    def __call__(self, **known: Any) -> _Dependent:
        """Return a dependent constraint with `is_discrete` or `event_dim` set."""
        return _Dependent(**{**self._known, **known})

    def check(self, value: Any) -> Any:
        raise ValueError("a dependent constraint cannot check values; use the constraint of a distribution instance")


class _DependentProperty(property, _Dependent):
    """Decorator for a property that returns the constraint of an instance. On the class it is a dependent constraint.

    Parameters
    ----------
    is_discrete : bool, optional
        Whether the values are discrete, if that is the same for all instances.
    event_dim : int, optional
        Number of event dimensions, if it is the same for all instances.

    Examples
    --------
    >>> from metatensor.distributions import constraints
    >>> class Interval:
    ...     high = 2.0
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.interval(0.0, self.high)
    >>> Interval().support
    Interval(lower_bound=0.0, upper_bound=2.0)
    >>> constraints.is_dependent(Interval.support)
    True
    """

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any) -> _DependentProperty:  # type: ignore[override]
        return type(self)(fn, **self._known)


def is_dependent(constraint: Any) -> bool:
    """Return whether the region of a constraint depends on the parameters of a distribution."""
    return isinstance(constraint, _Dependent)


# Ranges of numbers ------------------------------------------------------------------------------------


class _Range(Constraint):
    """Numbers that satisfy a comparison with each bound.

    A subclass names the bounds and their comparisons in its class statement:
    ``class _LessThan(_Range, upper_bound=operator.lt)``.
    """

    _comparisons: ClassVar[dict[str, Callable[[Any, Any], Any]]] = {}

    def __init_subclass__(cls, **comparisons: Callable[[Any, Any], Any]) -> None:
        super().__init_subclass__()
        if comparisons:
            cls._comparisons = comparisons

    def __init__(self, *bounds: Any, **named: Any) -> None:
        named.update(zip((n for n in self._comparisons if n not in named), bounds, strict=False))
        if set(named) != set(self._comparisons):
            raise TypeError(f"{type(self).__name__.lstrip('_')} takes {', '.join(self._comparisons)}")
        for name, bound in named.items():
            setattr(self, name, bound)

    def check(self, value: Any) -> Any:
        inside = value % 1 == 0 if self.is_discrete else None
        for name, holds in self._comparisons.items():
            here = holds(value, getattr(self, name))
            inside = here if inside is None else inside & here
        return inside

    def __repr__(self) -> str:
        return super().__repr__()[:-1] + ", ".join(f"{name}={getattr(self, name)}" for name in self._comparisons) + ")"


class _GreaterThan(_Range, lower_bound=operator.gt):
    """Numbers x > `lower_bound`.

    Parameters
    ----------
    lower_bound : float or Tensor
        Bound that broadcasts with the values.
    """


class _GreaterThanEq(_Range, lower_bound=operator.ge):
    """Numbers x >= `lower_bound`.

    Parameters
    ----------
    lower_bound : float or Tensor
        Bound that broadcasts with the values.
    """


class _LessThan(_Range, upper_bound=operator.lt):
    """Numbers x < `upper_bound`.

    Parameters
    ----------
    upper_bound : float or Tensor
        Bound that broadcasts with the values.
    """


class _Interval(_Range, lower_bound=operator.ge, upper_bound=operator.le):
    """Numbers in the closed interval [`lower_bound`, `upper_bound`].

    Parameters
    ----------
    lower_bound, upper_bound : float or Tensor
        Bounds that broadcast with the values.
    """


class _HalfOpenInterval(_Range, lower_bound=operator.ge, upper_bound=operator.lt):
    """Numbers in the half-open interval [`lower_bound`, `upper_bound`).

    Parameters
    ----------
    lower_bound, upper_bound : float or Tensor
        Bounds that broadcast with the values.
    """


class _IntegerInterval(_Range, lower_bound=operator.ge, upper_bound=operator.le):
    """Integers in the closed interval [`lower_bound`, `upper_bound`].

    Parameters
    ----------
    lower_bound, upper_bound : float or Tensor
        Bounds that broadcast with the values.
    """

    is_discrete = True


class _IntegerGreaterThan(_Range, lower_bound=operator.ge):
    """Integers x >= `lower_bound`.

    Parameters
    ----------
    lower_bound : float or Tensor
        Bound that broadcasts with the values.
    """

    is_discrete = True


class _IntegerLessThan(_Range, upper_bound=operator.le):
    """Integers x <= `upper_bound`.

    Parameters
    ----------
    upper_bound : float or Tensor
        Bound that broadcasts with the values.
    """

    is_discrete = True


class _Real(Constraint):
    """All numbers except NaN."""

    def check(self, value: Any) -> Any:
        return ~mt.isnan(value)


class _Boolean(Constraint):
    """The numbers 0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


# Vectors ----------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors with a single 1 and zeros elsewhere."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return boolean.check(value).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that sum to 1, within a tolerance of 1e-6."""

    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < SUM_TOLERANCE)


class _Multinomial(Constraint):
    """Vectors of nonnegative numbers whose sum is at most `upper_bound`.

    Parameters
    ----------
    upper_bound : int or Tensor
        Largest sum.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# Matrices ---------------------------------------------------------------------------------------------


class _Matrix(Constraint):
    event_dim = 2


class _LowerTriangular(_Matrix):
    """Matrices that are zero above the diagonal."""

    def check(self, value: Any) -> Any:
        return (value.triu(1) == 0).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower Cholesky factors of correlation matrices: lower Cholesky factors whose rows have norm 1."""

    def check(self, value: Any) -> Any:
        tolerance = 10 * value.shape[-1] * mt.finfo(value.dtype).eps
        lengths = mt.linalg.vector_norm(value, dim=-1)
        return super().check(value) & ((lengths - 1).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    """Matrices with as many rows as columns."""

    def check(self, value: Any) -> Any:
        rows, columns = value.shape[-2:]
        return mt.full(value.shape[:-2], rows == columns, dtype=mt.bool, device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transposes. The tolerances are those of `metatensor.isclose` with atol=1e-6."""

    def check(self, value: Any) -> Any:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return mt.isclose(value, value.mT, atol=SUM_TOLERANCE).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return symmetric & (mt.linalg.eigvalsh(value) >= 0).all(-1) if value.shape[-2] == value.shape[-1] else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return symmetric & (mt.linalg.cholesky_ex(value).info == 0) if value.shape[-2] == value.shape[-1] else symmetric


# Combinations of constraints ----------------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """The region of values whose elements all satisfy `base_constraint`.

    Parameters
    ----------
    base_constraint : Constraint
        Constraint on the elements.
    reinterpreted_batch_ndims : int
        Number of trailing batch dimensions that become event dimensions.

    Raises
    ------
    TypeError
        If `base_constraint` is not a constraint.
    ValueError
        If `reinterpreted_batch_ndims` is not a nonnegative int.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import constraints
    >>> constraints.independent(constraints.positive, 1).check(mt.ones(2, 3, device="cpu"))
    tensor([True, True])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if isinstance(base_constraint, _DependentProperty) or not isinstance(base_constraint, Constraint):
            raise TypeError(f"independent(): expected a constraint, got {base_constraint!r}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ValueError(f"independent(): reinterpreted_batch_ndims must be a nonnegative int, got {reinterpreted_batch_ndims!r}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        inside, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if inside.ndim < n:
            raise ValueError(f"a value of shape {tuple(value.shape)} has fewer than the {self.event_dim} dimensions of {self!r}")
        return inside if n == 0 else inside.flatten(inside.ndim - n).all(-1)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}{self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: the values that lie in the support of every component.

    Parameters
    ----------
    base_constraint : Constraint
        Support of the components, whose parameters have the batch shape (..., k) for k components.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"MixtureSameFamilyConstraint(): expected a constraint, got {base_constraint!r}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        components_at = value.ndim - self.event_dim
        inside = self.base_constraint.check(value.unsqueeze(components_at))
        return inside.all(-1)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}{self.base_constraint!r})"


class _Sequence(Constraint):
    """Base class of constraints on the parts of a value along a dimension.

    Parameters
    ----------
    cseq : sequence of Constraint
        Constraint of each part.
    dim : int
        Dimension along which the parts lie. Default: 0.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise TypeError(f"expected constraints, got {self.cseq}")

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)


class _Cat(_Sequence):
    """A constraint for each of several consecutive parts along a dimension.

    Parameters
    ----------
    cseq : sequence of Constraint
        Constraint of each part.
    dim : int
        Dimension along which the parts lie. Default: 0.
    lengths : sequence of int, optional
        Length of each part. Default: 1 each.

    Raises
    ------
    ValueError
        If there are not as many lengths as constraints.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"cat(): {len(self.cseq)} constraints, but {len(self.lengths)} lengths")

    def check(self, value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        return mt.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Sequence):
    """A constraint for each slice along a dimension.

    Parameters
    ----------
    cseq : sequence of Constraint
        Constraint of each slice.
    dim : int
        Dimension along which the slices lie. Default: 0.
    """

    def check(self, value: Any) -> Any:
        parts = value.unbind(self.dim)
        return mt.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


# The public names ---------------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
cat = _Cat
stack = _Stack

real = _Real()
real_vector = independent(real, 1)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
boolean, one_hot, simplex, multinomial = _Boolean(), _OneHot(), _Simplex(), _Multinomial
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
