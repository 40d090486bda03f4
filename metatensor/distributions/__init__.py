"""Probability distributions, transforms between them, and divergences.

A distribution object is a batch of distributions whose parameters are tensors. Samples and densities are tensors on the
device of the parameters. On meta, they have shapes but no values.

>>> import metatensor as mt
>>> from metatensor import distributions
>>> d = distributions.Normal(mt.zeros(5, device="meta"), 1.0)
>>> d.sample((3,)).shape, d.log_prob(mt.empty(5, device="meta")).shape
(metatensor.Size([3, 5]), metatensor.Size([5]))
"""

from importlib import import_module as _import_module

from metatensor.distributions import _kl_formulas, constraints, kl, transforms
from metatensor.distributions.binary import Bernoulli, ContinuousBernoulli
from metatensor.distributions.categories import Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough
from metatensor.distributions.constraint_registry import biject_to, transform_to
from metatensor.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson
from metatensor.distributions.distribution import Distribution
from metatensor.distributions.exp_family import ExponentialFamily
from metatensor.distributions.gammas import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma
from metatensor.distributions.images import Gumbel, HalfCauchy, HalfNormal, LogisticNormal, LogNormal
from metatensor.distributions.independent import Independent
from metatensor.distributions.kl import kl_divergence, register_kl
from metatensor.distributions.location_scale import Cauchy, GeneralizedPareto, Laplace, Normal, StudentT, Uniform
from metatensor.distributions.matrices import LKJCholesky, Wishart
from metatensor.distributions.mixture_same_family import MixtureSameFamily
from metatensor.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from metatensor.distributions.powers import InverseGamma, Kumaraswamy, Pareto, Weibull
from metatensor.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from metatensor.distributions.transformed_distribution import TransformedDistribution
from metatensor.distributions.transforms import *  # noqa: F403
from metatensor.distributions.transforms import __all__ as _transform_names
from metatensor.distributions.von_mises import VonMises

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet", "Distribution",
    "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
    "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "StudentT", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl",
    "transform_to", *_transform_names,
]  # fmt: skip

# PyTorch has a module for each distribution. Its module names are aliases of the modules in this package.
_FAMILIES = {
    "binary": "bernoulli continuous_bernoulli",
    "categories": "categorical multinomial one_hot_categorical",
    "counts": "binomial geometric negative_binomial poisson",
    "gammas": "beta chi2 dirichlet exponential fishersnedecor gamma",
    "images": "gumbel half_cauchy half_normal log_normal logistic_normal",
    "location_scale": "cauchy generalized_pareto laplace normal studentT uniform",
    "matrices": "lkj_cholesky wishart",
    "multivariate_normal": "lowrank_multivariate_normal",
    "powers": "inverse_gamma kumaraswamy pareto weibull",
    "relaxed": "relaxed_bernoulli relaxed_categorical",
}
_MODULES = {name: family for family, names in _FAMILIES.items() for name in names.split()}


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _import_module(f"{__name__}.{_MODULES[name]}")
