"""Kullback-Leibler divergence, with a registry of formulas by pairs of families."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from metatensor.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Return a decorator that registers a formula for the divergence between two families.

    The formula is also used for subclasses, unless a more specific one is registered for them.

    Parameters
    ----------
    type_p, type_q : type
        Subclasses of `Distribution`.

    Raises
    ------
    TypeError
        If one of them is not a subclass of `Distribution`.
    """
    for given in (type_p, type_q):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise TypeError(f"register_kl(): expected subclasses of Distribution, got {given!r}")

    def decorate(formula: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = formula
        _formula_for.cache_clear()
        return formula

    return decorate


@functools.lru_cache(maxsize=512)
def _formula_for(type_p: type, type_q: type) -> Any:
    """Return the formula of the most specific pair of classes, or None.

    Pairs are compared by the distance of each class in the method resolution order. If no pair is the nearest for both
    classes, the one nearest to `type_p` is used, with a warning.
    """
    far_p, far_q = ({c: n for n, c in enumerate(t.__mro__)} for t in (type_p, type_q))
    ranks = {(far_p[a], far_q[b]): (a, b) for a, b in _KL_REGISTRY if a in far_p and b in far_q}
    if not ranks:
        return None
    first = min(ranks)
    if min(q for _, q in ranks) < first[1]:
        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) is ambiguous: register a formula for this pair", RuntimeWarning,
            stacklevel=3,
        )  # fmt: skip
    return _KL_REGISTRY[ranks[first]]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return the Kullback-Leibler divergence KL(p || q), the mean of log p(x) - log q(x) under p, in nats.

    Parameters
    ----------
    p, q : Distribution
        Distributions whose batch shapes broadcast.

    Returns
    -------
    Tensor
        One number for each distribution of the broadcast batch. It is infinite if q has density 0 where p has not.

    Raises
    ------
    NotImplementedError
        If there is no formula for the two families.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import Normal, kl_divergence
    >>> loc = mt.tensor([0.0, 2.0], device="cpu")
    >>> kl_divergence(Normal(loc, 1.0), Normal(mt.zeros(2, device="cpu"), 1.0))
    tensor([0., 2.])
    """
    formula = _formula_for(type(p), type(q))  # type: ignore[arg-type]
    if formula is None:
        raise NotImplementedError(f"kl_divergence(): no formula is registered for {type(p).__name__} and {type(q).__name__}")
    return formula(p, q)
