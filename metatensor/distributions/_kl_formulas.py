"""Formulas for the Kullback-Leibler divergence.

Pairs of continuous families use KL(p || q) = -E_p[log q] - H(p). `_MEANS` lists the expectations that are known for
each family p, and `_CROSS_ENTROPIES` has functions that compute -E_p[log q] from them for each family q. Two members
of one exponential family use the Bregman divergence of its log normalizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.distributions.binary import Bernoulli, ContinuousBernoulli
from metatensor.distributions.categories import Categorical, OneHotCategorical
from metatensor.distributions.counts import Binomial, Geometric, Poisson
from metatensor.distributions.exp_family import ExponentialFamily, bregman
from metatensor.distributions.gammas import Beta, Dirichlet, Exponential, Gamma
from metatensor.distributions.images import Gumbel
from metatensor.distributions.independent import Independent
from metatensor.distributions.kl import kl_divergence, register_kl
from metatensor.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from metatensor.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from metatensor.distributions.powers import Pareto
from metatensor.distributions.transformed_distribution import TransformedDistribution
from metatensor.distributions.utils import HALF_LOG_2PI, _sum_rightmost, euler_constant, has_data, log_beta

# Pairs of continuous families ----------------------------------------------------------------------------


def _mean_log_uniform(low: Any, high: Any) -> Any:
    """Return the mean of log(x) for uniform x between two nonnegative bounds."""
    return (mt.xlogy(high, high) - mt.xlogy(low, low)) / (high - low) - 1


def _normal_distance(p: Any, point: Any) -> Any:
    """Return the mean distance of a normal variable from a point."""
    offset = p.loc - point
    z = offset / p.scale
    return offset * (z / math.sqrt(2)).erf() + 2 * p.scale * (-0.5 * z.square() - HALF_LOG_2PI).exp()


_MEANS: dict[type, dict[str, Callable[..., Any]]] = {
    Beta: {"log": lambda p: p._mean_statistics[0], "log1m": lambda p: p._mean_statistics[1]},
    ContinuousBernoulli: {},
    Exponential: {
        "log": lambda p: -euler_constant - p.rate.log(),
        "exp": lambda p, t: p.rate / (p.rate - t),
    },
    Gamma: {"log": lambda p: p._mean_statistics[0], "exp": lambda p, t: (-p.concentration * (-t /
    p.rate).log1p()).exp()}, Gumbel: {"exp": lambda p, t: (p.loc * t + (1 - p.scale * t).lgamma()).exp()}, Laplace: {
        "distance": lambda p, point: (p.loc - point).abs() + p.scale * (-(p.loc - point).abs() / p.scale).exp(),
    },
    Normal: {"distance": _normal_distance, "exp": lambda p, t: (p.loc * t + (p.scale * t).square() / 2).exp()},
    Pareto: {"log": lambda p: p.scale.log() + 1 / p.alpha},
    Uniform: {
        "log": lambda p: _mean_log_uniform(p.low, p.high),
        "log1m": lambda p: _mean_log_uniform(1 - p.high, 1 - p.low),
        "exp": lambda p, t: ((p.high * t).exp() - (p.low * t).exp()) / (t * (p.high - p.low)),
    },
}
"""Expectations of log(x), log(1 - x), exp(t x) and |x - point| under p, by family."""


def _cross_normal(q: Any, p: Any, mean: Any) -> Any:
    spread = p.variance + (p.mean - q.loc).square()
    return q.scale.log() + HALF_LOG_2PI + spread / (2 * q.scale.square())


def _cross_gamma(q: Any, p: Any, mean: Any) -> Any:
    a, b = q.concentration, q.rate
    return a.lgamma() - a * b.log() - (a - 1) * mean["log"](p) + b * p.mean


def _cross_beta(q: Any, p: Any, mean: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    return log_beta(a, b) - (a - 1) * mean["log"](p) - (b - 1) * mean["log1m"](p)


def _cross_gumbel(q: Any, p: Any, mean: Any) -> Any:
    return q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean["exp"](p, -1 / q.scale)


_CROSS_ENTROPIES: dict[type, tuple[set[str], Callable[..., Any]]] = {
    Beta: ({"log", "log1m"}, _cross_beta),
    ContinuousBernoulli: (set(), lambda q, p, mean: q._log_normalizer(q.logits) - q.logits * p.mean),
    Exponential: (set(), lambda q, p, mean: q.rate * p.mean - q.rate.log()),
    Gamma: ({"log"}, _cross_gamma),
    Gumbel: ({"exp"}, _cross_gumbel),
    Laplace: ({"distance"}, lambda q, p, mean: (2 * q.scale).log() + mean["distance"](p, q.loc) / q.scale),
    Normal: (set(), _cross_normal),
    Pareto: ({"log"}, lambda q, p, mean: (q.alpha + 1) * mean["log"](p) - q.alpha * q.scale.log() - q.alpha.log()),
    Uniform: (set(), lambda q, p, mean: (q.high - q.low).log()),
}
"""Pairs by family q: the names of the required expectations under p, and a function that computes -E_p[log q]."""

_LOWER = {Beta: 0.0, ContinuousBernoulli: 0.0, Exponential: 0.0, Gamma: 0.0, Pareto: "scale", Uniform: "low"}
_UPPER = {Beta: 1.0, ContinuousBernoulli: 1.0, Uniform: "high"}
"""Finite bounds of supports, by family: numbers, or names of parameters."""


def _end(ends: dict[type, Any], family: type, d: Any, unbounded: float) -> Any:
    end = ends.get(family, unbounded)
    return getattr(d, end) if isinstance(end, str) else end


def _never_within(p: type, q: type) -> bool:
    """Return True if the support of a member of family p never lies inside that of a member of family q."""
    from_zero = _LOWER.get(p) == 0.0 and q is Pareto
    return from_zero or (q in _LOWER and p not in _LOWER) or (q in _UPPER and p not in _UPPER)


def _within(family_p: type, p: Any, family_q: type, q: Any) -> Any:
    """Return whether the support of p is inside that of q, as a bool or a bool tensor."""
    low = _end(_LOWER, family_p, p, -math.inf) >= _end(_LOWER, family_q, q, -math.inf)
    high = _end(_UPPER, family_p, p, math.inf) <= _end(_UPPER, family_q, q, math.inf)
    return low & high


def _by_cross_entropy(family_p: type, family_q: type) -> Callable[[Any, Any], Any]:
    _, cross_entropy = _CROSS_ENTROPIES[family_q]

    def divergence(p: Any, q: Any) -> Any:
        result = cross_entropy(q, p, _MEANS[family_p]) - p.entropy()
        inside = _within(family_p, p, family_q, q)
        return result if inside is True else mt.where(inside, result, math.inf)

    return divergence


def _infinite(p: Any, q: Any) -> Any:
    model = p.mean
    shape = mt.broadcast_shapes(p.batch_shape, q.batch_shape)
    return mt.full(shape, math.inf, dtype=model.dtype, device=model.device)


for _p, _has in _MEANS.items():
    for _q, (_needs, _) in _CROSS_ENTROPIES.items():
        if _never_within(_p, _q):
            register_kl(_p, _q)(_infinite)
        elif _needs <= set(_has):
            register_kl(_p, _q)(_by_cross_entropy(_p, _q))

# Two members of one family ---------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: Any, q: Any) -> Any:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence(): no formula is registered for {type(p).__name__} and {type(q).__name__}, which are different "
            "exponential families"
        )
    return bregman(p, q)


for _family in (Beta, ContinuousBernoulli, Dirichlet, Exponential, Gamma):  # and their subclasses
    register_kl(_family, _family)(bregman)


@register_kl(Normal, Normal)
def _normals(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio - 1 - ratio.log() + ((p.loc - q.loc) / q.scale).square())


@register_kl(Laplace, Laplace)
def _laplaces(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return ratio * (-distance / p.scale).exp() + distance / q.scale - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Any, q: Any) -> Any:
    apart = mt.hypot(p.scale - q.scale, p.loc - q.loc)
    return (apart.square() / (4 * p.scale * q.scale)).log1p()


# Discrete families -----------------------------------------------------------------------------------------


def _of_outcome(p: Any, log_p: Any, q: Any, log_q: Any) -> Any:
    """Return p log(p / q), the contribution of one outcome, with its limits where a probability is 0."""
    possible = mt.where(q == 0, math.inf, p * (log_p - log_q))
    return mt.where(p == 0, 0.0, possible)


def _of_trial(p: Any, q: Any) -> Any:
    """Return the divergence between two Bernoulli distributions."""
    sigmoid = mt.nn.functional.logsigmoid
    yes = _of_outcome(p.probs, sigmoid(p.logits), q.probs, sigmoid(q.logits))
    return yes + _of_outcome(1 - p.probs, sigmoid(-p.logits), 1 - q.probs, sigmoid(-q.logits))


register_kl(Bernoulli, Bernoulli)(_of_trial)


@register_kl(Binomial, Binomial)
def _binomials(p: Any, q: Any) -> Any:
    fewer = p.total_count < q.total_count
    if has_data(fewer) and bool(fewer.any()):
        raise NotImplementedError("kl_divergence(): there is no closed form if the first Binomial has fewer trials than the second")
    return mt.where(p.total_count > q.total_count, math.inf, p.total_count * _of_trial(p, q))


@register_kl(Geometric, Geometric)
def _geometrics(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() * p.mean - q.probs.log()


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categories(p: Any, q: Any) -> Any:
    return _of_outcome(p.probs, p.logits, q.probs, q.logits).sum(-1)


@register_kl(Poisson, Poisson)
def _poissons(p: Any, q: Any) -> Any:
    return _of_outcome(p.rate, p.rate.log(), q.rate, q.rate.log()) + q.rate - p.rate


@register_kl(Bernoulli, Poisson)
def _bernoulli_and_poisson(p: Any, q: Any) -> Any:
    return q.rate - mt.xlogy(p.probs, q.rate) - p.entropy()


register_kl(Poisson, Bernoulli)(_infinite)
register_kl(Poisson, Binomial)(_infinite)

# Normal vectors --------------------------------------------------------------------------------------------


def _gaussians(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence(): the event shapes {tuple(p.event_shape)} and {tuple(q.event_shape)} differ")
    # The trace of (precision of q) @ (covariance of p) is the sum of the squared Mahalanobis distances, under q, of the
    # columns of p's factor.
    trace = q._distance(p._factor()).sum(-1)
    apart = q._distance((q.loc - p.loc).unsqueeze(-1)).squeeze(-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + apart - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_gaussians)

# Combined distributions ---------------------------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independents(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"kl_divergence(): reinterpreted_batch_ndims differ: {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"kl_divergence(): no formula is registered for {type(p).__name__} and {type(q).__name__}, and their transforms differ"
        )
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(extra, 0))
