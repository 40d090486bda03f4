"""Registries of transforms from real numbers to constrained regions.

`biject_to(constraint)` returns a bijection from unconstrained values to the region. `transform_to(constraint)` returns
a transform that need not be injective, but is cheaper or better suited to optimization. For most constraints both
return the same transform.

>>> import metatensor as mt
>>> from metatensor.distributions import biject_to, constraints, transform_to
>>> x = mt.zeros(2, device="cpu")
>>> biject_to(constraints.simplex)(x), transform_to(constraints.simplex)(x)
(tensor([0.3333, 0.3333, 0.3333]), tensor([0.5000, 0.5000]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A registry of functions that create a transform for a constraint. The key is the class of the constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register the function that creates the transform for a class of constraints.

        Parameters
        ----------
        constraint : Constraint or subclass of Constraint
            The class, or an instance of it.
        factory : callable, optional
            Function that takes a constraint and returns a transform. If omitted, a decorator is returned.

        Raises
        ------
        TypeError
            If `constraint` is not a constraint.

        Examples
        --------
        >>> from metatensor.distributions import constraints, transform_to, transforms
        >>> class Negative(constraints.Constraint):
        ...     def check(self, value):
        ...         return value < 0
        >>> @transform_to.register(Negative)
        ... def to_negative(constraint):
        ...     return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(0.0, -1.0)])
        >>> len(transform_to(Negative()).parts)
        2
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise TypeError(f"register(): expected a constraint or a class of them, got {constraint!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """Return the transform for a constraint.

        Raises
        ------
        NotImplementedError
            If no transform is registered for the class of `constraint`.
        """
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"no transform is registered for constraints of type {type(constraint).__name__}") from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _affine(loc: Any, scale: Any) -> Any:
    return transforms.AffineTransform(loc, scale)


def _into_interval(c: Any) -> Any:
    squash = transforms.SigmoidTransform()
    if isinstance(c.lower_bound, (int, float)) and isinstance(c.upper_bound, (int, float)) and (c.lower_bound, c.upper_bound) == (0, 1):
        return squash
    return transforms.ComposeTransform([squash, _affine(c.lower_bound, c.upper_bound - c.lower_bound)])


def _above(c: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), _affine(c.lower_bound, 1)])


def _below(c: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), _affine(c.upper_bound, -1)])


def _parts(registry: ConstraintRegistry) -> dict[type, Callable[[Any], Any]]:
    """Return the factories for constraints that combine other constraints.

    Their transforms combine the transforms that `registry` returns for the parts.
    """
    return {
        constraints._IndependentConstraint: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints._Cat: lambda c: transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths),
        constraints._Stack: lambda c: transforms.StackTransform([registry(part) for part in c.cseq], c.dim),
    }


_BIJECTIONS: dict[type, Callable[[Any], Any]] = {
    constraints._Real: lambda c: transforms.identity_transform,
    constraints._GreaterThan: _above,
    constraints._GreaterThanEq: _above,
    constraints._LessThan: _below,
    constraints._Interval: _into_interval,
    constraints._HalfOpenInterval: _into_interval,
    constraints._CorrCholesky: lambda c: transforms.CorrCholeskyTransform(),
    constraints._Simplex: lambda c: transforms.StickBreakingTransform(),
}
_OVERPARAMETRIZED: dict[type, Callable[[Any], Any]] = {
    constraints._Simplex: lambda c: transforms.SoftmaxTransform(),
    constraints._LowerCholesky: lambda c: transforms.LowerCholeskyTransform(),
    constraints._PositiveDefinite: lambda c: transforms.PositiveDefiniteTransform(),
    constraints._PositiveSemidefinite: lambda c: transforms.PositiveDefiniteTransform(),
}

for _registry, _table in ((biject_to, _BIJECTIONS), (transform_to, {**_BIJECTIONS, **_OVERPARAMETRIZED})):
    for _kind, _factory in {**_table, **_parts(_registry)}.items():
        _registry.register(_kind, _factory)
