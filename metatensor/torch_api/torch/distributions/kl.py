"""Kullback-Leibler divergences between pairs of distributions, by a table of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import utils
from metatensor.torch_api.torch.distributions.bernoulli import Bernoulli
from metatensor.torch_api.torch.distributions.beta import Beta
from metatensor.torch_api.torch.distributions.binomial import Binomial
from metatensor.torch_api.torch.distributions.categorical import Categorical
from metatensor.torch_api.torch.distributions.cauchy import Cauchy
from metatensor.torch_api.torch.distributions.dirichlet import Dirichlet
from metatensor.torch_api.torch.distributions.exponential import Exponential
from metatensor.torch_api.torch.distributions.gamma import Gamma
from metatensor.torch_api.torch.distributions.geometric import Geometric
from metatensor.torch_api.torch.distributions.gumbel import Gumbel
from metatensor.torch_api.torch.distributions.half_normal import HalfNormal
from metatensor.torch_api.torch.distributions.independent import Independent
from metatensor.torch_api.torch.distributions.laplace import Laplace
from metatensor.torch_api.torch.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from metatensor.torch_api.torch.distributions.normal import Normal
from metatensor.torch_api.torch.distributions.one_hot_categorical import OneHotCategorical
from metatensor.torch_api.torch.distributions.pareto import Pareto
from metatensor.torch_api.torch.distributions.poisson import Poisson
from metatensor.torch_api.torch.distributions.transformed_distribution import TransformedDistribution
from metatensor.torch_api.torch.distributions.uniform import Uniform

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function gives the divergence of a ``type_q`` from a ``type_p``, and of their subclasses."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected a class of distributions, got {kind}")

    def decorate(func: Divergence) -> Divergence:
        _KL_REGISTRY[type_p, type_q] = func
        return func

    return decorate


def _find(p: type, q: type) -> Divergence | None:
    """The function for the nearest pair of base classes, those of ``p`` first."""
    matches = [(a, b) for a, b in _KL_REGISTRY if issubclass(p, a) and issubclass(q, b)]
    if not matches:
        return None
    nearest = min(matches, key=lambda pair: (p.__mro__.index(pair[0]), q.__mro__.index(pair[1])))
    return _KL_REGISTRY[nearest]


def kl_divergence(p: Any, q: Any) -> Any:
    """The divergence of ``q`` from ``p``: the mean, over ``p``, of the difference of the log densities."""
    func = _find(type(p), type(q))
    if func is None:
        raise NotImplementedError(f"kl_divergence: there is none for {type(p).__name__} and {type(q).__name__}")
    return func(p, q)


def _infinite_like(tensor: Any) -> Any:
    return mt.full_like(tensor, math.inf)



@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    softplus = mt.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = mt.where(p.probs == 0, 0.0, mt.where(q.probs == 0, math.inf, t1))
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return t1 + mt.where(p.probs == 1, 0.0, mt.where(q.probs == 1, math.inf, t2))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence: there is none for binomials of which the second has more trials")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return mt.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = mt.where((q.probs == 0).expand_as(t), math.inf, t)
    return mt.where((p.probs == 0).expand_as(t), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    totals = a.sum(-1).lgamma() - b.sum(-1).lgamma()
    spread = (a.digamma() - a.sum(-1, True).digamma()) * (a - b)
    return totals - (a.lgamma() - b.lgamma()).sum(-1) + spread.sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = mt.lgamma(q.concentration) - mt.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * mt.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    t1 = -q.concentration * mt.log(ratio)
    return t1 + ratio + q.concentration.lgamma() + q.concentration * utils.euler_constant - (1 + utils.euler_constant)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    a = p.concentration
    return -p.entropy() - q.rate.log() + q.rate * a / p.rate


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - mt.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    near, far = q.loc / q.scale, p.loc / q.scale
    t1 = ratio.log() + near - far
    t2 = ratio * utils.euler_constant
    return -t1 + t2 + mt.exp(near + (1 + ratio).lgamma() - far) - (1 + utils.euler_constant)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    away = (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * mt.exp(-away / p.scale) - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    away = q.alpha / p.alpha
    kl = q.alpha * ratio.log() - away.log() + away - 1
    return mt.where(p.support.lower_bound < q.support.lower_bound, math.inf, kl)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return mt.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    away = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + (width.pow(2) / 12 + away) / (2 * q.scale.pow(2))


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    square = q.scale.pow(2)
    ratio = p.scale.pow(2) / square
    t = 0.5 * mt.log(2 * ratio / math.pi)
    return -t + ratio + 0.5 * p.loc.pow(2) / square - p.loc * q.loc / square + 0.5 * q.loc.pow(2) / square - 1


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Any:
    square = q.scale.pow(2)
    t1 = 0.5 * mt.log(p.rate.pow(2) * square * 2 * math.pi)
    return t1 - 1 + (p.rate.reciprocal().pow(2) - q.loc * p.rate.reciprocal() + q.loc.pow(2) / 2) / square


@register_kl(Gamma, Normal)
def _gamma_normal(p: Any, q: Any) -> Any:
    square = q.scale.pow(2)
    a, rate = p.concentration, p.rate
    t1 = 0.5 * mt.log(rate.pow(2) * square * 2 * math.pi) - a - a.lgamma() + (a - 1) * a.digamma()
    return t1 + 0.5 * (a.pow(2) + a) / (rate.pow(2) * square) - q.loc * a / (rate * square) + 0.5 * q.loc.pow(2) / square


@register_kl(Beta, Normal)
def _beta_normal(p: Any, q: Any) -> Any:
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    square = q.scale.pow(2)
    t1 = 0.5 * (2 * math.pi * square).log()
    return -p.entropy() + t1 + ((p.variance + mean.pow(2)) * 0.5 - mean * q.loc + q.loc.pow(2) * 0.5) / square


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: vectors of {p.event_shape[0]} and of {q.event_shape[0]} dimensions")
    mine, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = q._half_log_det() - p._half_log_det()
    n = p.event_shape[0]
    batch = mt.broadcast_shapes(mine.shape[:-2], theirs.shape[:-2])
    solved = mt.linalg.solve_triangular(theirs.expand((*batch, n, n)), mine.expand((*batch, n, n)), upper=False)
    trace = solved.pow(2).sum((-2, -1))
    return half + 0.5 * (trace + _batch_mahalanobis(theirs, q.loc - p.loc) - n)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: there is none for events of different dimensions")
    return utils._sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: there is none for different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


def _elsewhere(*pairs: tuple[type, type]) -> None:
    """Pairs of which the second excludes values of the first: the divergence is infinite."""
    for pair in pairs:
        _KL_REGISTRY[pair] = lambda p, q: _infinite_like(p.mean if isinstance(p, (Gamma, Beta, Poisson)) else _any_param(p))


def _any_param(p: Any) -> Any:
    return next(getattr(p, name) for name in ("loc", "rate", "probs", "scale", "low") if hasattr(p, name))


_elsewhere(
    (Beta, Pareto), (Exponential, Beta), (Exponential, Pareto), (Exponential, Uniform), (Gamma, Beta),
    (Gamma, Pareto), (Gamma, Uniform), (Gumbel, Beta), (Gumbel, Exponential), (Gumbel, Gamma), (Gumbel, Pareto),
    (Gumbel, Uniform), (Laplace, Beta), (Laplace, Exponential), (Laplace, Gamma), (Laplace, Pareto), (Laplace, Uniform),
    (Normal, Beta), (Normal, Exponential), (Normal, Gamma), (Normal, Pareto), (Normal, Uniform), (Pareto, Beta),
    (Pareto, Uniform), (Poisson, Bernoulli), (Poisson, Binomial),
)  # fmt: skip
