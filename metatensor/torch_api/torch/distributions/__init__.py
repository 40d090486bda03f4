"""Probability distributions: sampling, densities, moments, divergences, and transforms between them.

Arguments and values are checked where they have data; on meta only shapes come out.
"""

from metatensor._core.lazy import attributes

_MODULES = {
    "Bernoulli": "bernoulli", "Beta": "beta", "Binomial": "binomial", "Categorical": "categorical", "Cauchy": "cauchy",
    "Chi2": "chi2", "Dirichlet": "dirichlet", "Distribution": "distribution", "Exponential": "exponential",
    "ExponentialFamily": "exp_family", "FisherSnedecor": "fishersnedecor", "Gamma": "gamma", "Geometric": "geometric",
    "Gumbel": "gumbel", "HalfCauchy": "half_cauchy", "HalfNormal": "half_normal", "Independent": "independent",
    "InverseGamma": "inverse_gamma", "Kumaraswamy": "kumaraswamy", "Laplace": "laplace", "LogNormal": "log_normal",
    "LogisticNormal": "logistic_normal",
    "MixtureSameFamily": "mixture_same_family", "Multinomial": "multinomial", "MultivariateNormal": "multivariate_normal",
    "NegativeBinomial": "negative_binomial", "Normal": "normal", "OneHotCategorical": "one_hot_categorical",
    "OneHotCategoricalStraightThrough": "one_hot_categorical", "Pareto": "pareto", "Poisson": "poisson",
    "RelaxedBernoulli": "relaxed_bernoulli", "RelaxedOneHotCategorical": "relaxed_categorical", "StudentT": "studentT",
    "TransformedDistribution": "transformed_distribution", "Uniform": "uniform", "Weibull": "weibull",
}  # fmt: skip
_FUNCTIONS = {"biject_to": "constraint_registry", "transform_to": "constraint_registry", "kl_divergence": "kl", "register_kl": "kl"}
_TRANSFORMS = (
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
)  # fmt: skip
_WHERE = _MODULES | _FUNCTIONS | dict.fromkeys(_TRANSFORMS, "transforms")

__all__ = [*_WHERE]

__getattr__, __dir__ = attributes(
    __name__,
    (*set(_WHERE.values()), "constraints", "logistic_normal", "utils"),
    {name: f"{__name__}.{module}:{name}" for name, module in _WHERE.items()},
)
