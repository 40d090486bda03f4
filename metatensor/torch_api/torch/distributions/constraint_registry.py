"""Which transform leads from unconstrained numbers to values that meet a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.torch_api.torch.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from types of constraints to functions that make a transform of a constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Use ``factory`` for a type of constraint, or an instance of it; without a factory, a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"expected a constraint or a type of constraints, got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint. NotImplementedError where there is none."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"there is no transform to {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


def _independent(registry: ConstraintRegistry) -> Any:
    def make(constraint: Any) -> Any:
        return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    return make


def _joined(registry: ConstraintRegistry, kind: Any) -> Any:
    def make(constraint: Any) -> Any:
        more = (constraint.lengths,) if kind is transforms.CatTransform else ()
        return kind([registry(c) for c in constraint.cseq], constraint.dim, *more)

    return make


for _registry in (biject_to, transform_to):
    _registry.register(constraints.real, lambda _: transforms.identity_transform)
    _registry.register(constraints.positive, lambda _: transforms.ExpTransform())
    _registry.register(constraints.nonnegative, lambda _: transforms.ExpTransform())
    _registry.register(constraints.greater_than, lambda c: transforms.ExpTransform() if _zero(c) else _above(c))
    _registry.register(constraints.greater_than_eq, lambda c: transforms.ExpTransform() if _zero(c) else _above(c))
    _registry.register(constraints.less_than, _below)
    _registry.register(constraints.interval, _interval)
    _registry.register(constraints.half_open_interval, _interval)
    _registry.register(constraints.corr_cholesky, lambda _: transforms.CorrCholeskyTransform())
    _registry.register(constraints.independent, _independent(_registry))
    _registry.register(constraints.cat, _joined(_registry, transforms.CatTransform))
    _registry.register(constraints.stack, _joined(_registry, transforms.StackTransform))

biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda _: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda _: transforms.PositiveDefiniteTransform())


def _zero(constraint: Any) -> bool:
    """Whether the lower bound is the number 0."""
    return isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0
