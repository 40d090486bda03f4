"""Distributions for tests, and functions to compare the results of two libraries."""

import pytest

POSITIVE = [0.3, 1.0, 2.5, 4.0]
REAL = [-1.5, 0.0, 0.7, 2.0]
UNIT = [0.1, 0.35, 0.5, 0.9]
COUNTS = [0.0, 1.0, 3.0, 5.0]

NUMBERS = ("Normal_numbers", "Bernoulli_number", "Beta_numbers")  # distributions whose parameters are all numbers

# name: (function of (module, tensor constructor), values to evaluate at)
CASES = {
    "Normal": (lambda d, x: d.Normal(x(REAL), x(POSITIVE)), REAL),
    "Normal_numbers": (lambda d, x: d.Normal(0.5, 2.0), REAL),
    "Normal_batch": (lambda d, x: d.Normal(x([[0.0], [1.0]]), x(POSITIVE)), REAL),
    "LogNormal": (lambda d, x: d.LogNormal(x(REAL), x(POSITIVE)), POSITIVE),
    "HalfNormal": (lambda d, x: d.HalfNormal(x(POSITIVE)), POSITIVE),
    "Laplace": (lambda d, x: d.Laplace(x(REAL), x(POSITIVE)), REAL),
    "Cauchy": (lambda d, x: d.Cauchy(x(REAL), x(POSITIVE)), REAL),
    "HalfCauchy": (lambda d, x: d.HalfCauchy(x(POSITIVE)), POSITIVE),
    "StudentT": (lambda d, x: d.StudentT(x(POSITIVE), x(REAL), 2.0), REAL),
    "Gumbel": (lambda d, x: d.Gumbel(x(REAL), x(POSITIVE)), REAL),
    "Uniform": (lambda d, x: d.Uniform(x([-2.0, -1.0, 0.0, 1.0]), 3.0), [-1.0, 0.5, 1.5, 2.0]),
    "Exponential": (lambda d, x: d.Exponential(x(POSITIVE)), POSITIVE),
    "Gamma": (lambda d, x: d.Gamma(x(POSITIVE), x([1.0, 2.0, 0.5, 3.0])), POSITIVE),
    "InverseGamma": (lambda d, x: d.InverseGamma(x(POSITIVE), x([1.0, 2.0, 0.5, 3.0])), POSITIVE),
    "Chi2": (lambda d, x: d.Chi2(x(POSITIVE)), POSITIVE),
    "FisherSnedecor": (lambda d, x: d.FisherSnedecor(x(POSITIVE), x([5.0, 3.0, 6.0, 8.0])), POSITIVE),
    "Beta": (lambda d, x: d.Beta(x(POSITIVE), x([1.0, 2.0, 0.5, 3.0])), UNIT),
    "Beta_numbers": (lambda d, x: d.Beta(2.0, 3.0), UNIT),
    "Kumaraswamy": (lambda d, x: d.Kumaraswamy(x([1.5, 2.0, 3.0, 4.0]), x([1.2, 2.0, 3.0, 5.0])), UNIT),
    "Pareto": (lambda d, x: d.Pareto(x([0.1, 0.2, 0.3, 0.4]), x([1.0, 2.5, 3.0, 4.0])), POSITIVE),
    "Weibull": (lambda d, x: d.Weibull(x(POSITIVE), x([1.0, 2.0, 1.5, 3.0])), POSITIVE),
    "Bernoulli": (lambda d, x: d.Bernoulli(x(UNIT)), [0.0, 1.0, 1.0, 0.0]),
    "Bernoulli_logits": (lambda d, x: d.Bernoulli(logits=x(REAL)), [0.0, 1.0, 1.0, 0.0]),
    "Bernoulli_number": (lambda d, x: d.Bernoulli(0.25), [0.0, 1.0, 1.0, 0.0]),
    "Geometric": (lambda d, x: d.Geometric(x(UNIT)), COUNTS),
    "Geometric_logits": (lambda d, x: d.Geometric(logits=x(REAL)), COUNTS),
    "Binomial": (lambda d, x: d.Binomial(6, x(UNIT)), COUNTS),
    "Binomial_logits": (lambda d, x: d.Binomial(x([5.0, 6.0, 7.0, 8.0]), logits=x(REAL)), COUNTS),
    "NegativeBinomial": (lambda d, x: d.NegativeBinomial(x(POSITIVE), x(UNIT)), COUNTS),
    "NegativeBinomial_logits": (lambda d, x: d.NegativeBinomial(3, logits=x(REAL)), COUNTS),
    "Poisson": (lambda d, x: d.Poisson(x(POSITIVE)), COUNTS),
    "Categorical": (lambda d, x: d.Categorical(x([UNIT, POSITIVE])), [1.0, 3.0]),
    "Categorical_logits": (lambda d, x: d.Categorical(logits=x([REAL, UNIT])), [0.0, 2.0]),
    "OneHotCategorical": (lambda d, x: d.OneHotCategorical(x([UNIT, POSITIVE])), [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
    "OneHotCategoricalStraightThrough": (lambda d, x: d.OneHotCategoricalStraightThrough(logits=x(REAL)), [0.0, 1.0, 0.0, 0.0]),
    "Multinomial": (lambda d, x: d.Multinomial(5, x([UNIT, POSITIVE])), [[1.0, 2.0, 2.0, 0.0], [0.0, 0.0, 1.0, 4.0]]),
    "Dirichlet": (lambda d, x: d.Dirichlet(x([POSITIVE, [1.0, 2.0, 3.0, 4.0]])), [[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]),
    "MultivariateNormal": (
        lambda d, x: d.MultivariateNormal(x([[0.0, 1.0], [2.0, -1.0]]), x([[2.0, 0.5], [0.5, 1.0]])), [[0.5, 0.5], [1.0, 0.0]]),
    "MultivariateNormal_tril": (lambda d, x: d.MultivariateNormal(x([0.0, 1.0]), scale_tril=x([[2.0, 0.0], [0.5, 1.0]])), [0.5, 0.5]),
    "MultivariateNormal_precision": (
        lambda d, x: d.MultivariateNormal(x([0.0, 1.0]), precision_matrix=x([[2.0, 0.5], [0.5, 1.0]])), [0.5, 0.5]),
    "Independent": (lambda d, x: d.Independent(d.Normal(x([REAL, UNIT]), x(POSITIVE)), 1), [REAL, UNIT]),
    "MixtureSameFamily": (
        lambda d, x: d.MixtureSameFamily(d.Categorical(x(UNIT)), d.Normal(x(REAL), x(POSITIVE))), [0.3]),
    "MixtureSameFamily_vectors": (
        lambda d, x: d.MixtureSameFamily(d.Categorical(x([0.3, 0.7])), d.Independent(d.Normal(x([REAL, UNIT]), x(POSITIVE)), 1)), REAL),
    "RelaxedBernoulli": (lambda d, x: d.RelaxedBernoulli(x([0.5]), x(UNIT)), [0.2, 0.5, 0.6, 0.9]),
    "RelaxedOneHotCategorical": (lambda d, x: d.RelaxedOneHotCategorical(x([0.5]), x(UNIT)), [0.1, 0.2, 0.3, 0.4]),
    "LogisticNormal": (lambda d, x: d.LogisticNormal(x(REAL), x(POSITIVE)), [0.1, 0.2, 0.3, 0.2, 0.2]),
    "TransformedDistribution": (
        lambda d, x: d.TransformedDistribution(d.Normal(x(REAL), 1.0), [d.AffineTransform(0.5, -2.0), d.SigmoidTransform()]), UNIT),
    "TransformedDistribution_vector": (
        lambda d, x: d.TransformedDistribution(d.Normal(x(REAL), 1.0), d.StickBreakingTransform()), [0.1, 0.2, 0.3, 0.2, 0.2]),
    "ContinuousBernoulli": (lambda d, x: d.ContinuousBernoulli(x([0.1, 0.5, 0.4, 0.9])), UNIT),
    "ContinuousBernoulli_logits": (lambda d, x: d.ContinuousBernoulli(logits=x([-3.0, 0.0, 0.2, 5.0])), UNIT),
    "GeneralizedPareto": (lambda d, x: d.GeneralizedPareto(x([0.1, 0.2, 0.3, 0.0]), 2.0, x([-0.3, 0.0, 0.3, 0.7])), [0.3, 1.0, 2.5, 4.0]),
    "LKJCholesky": (lambda d, x: d.LKJCholesky(2, x([0.5, 2.0])), [[1.0, 0.0], [0.6, 0.8]]),
    "LKJCholesky_wide": (lambda d, x: d.LKJCholesky(3, x(1.5)), [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]),
    "LowRankMultivariateNormal": (
        lambda d, x: d.LowRankMultivariateNormal(x([[0.0, 1.0], [2.0, -1.0]]), x([[1.0], [0.5]]), x([0.5, 2.0])),
        [[0.5, 0.5], [1.0, 0.0]]),
    "VonMises": (lambda d, x: d.VonMises(x(REAL), x([0.1, 1.0, 5.0, 20.0])), REAL),
    "Wishart": (lambda d, x: d.Wishart(x([3.0, 4.5]), x([[2.0, 0.5], [0.5, 1.0]])), [[2.0, 0.3], [0.3, 1.0]]),
    "Wishart_precision": (lambda d, x: d.Wishart(x(4.0), precision_matrix=x([[2.0, 0.5], [0.5, 1.0]])), [[2.0, 0.3], [0.3, 1.0]]),
    "Wishart_tril": (lambda d, x: d.Wishart(x(4.0), scale_tril=x([[2.0, 0.0], [0.5, 1.0]])), [[2.0, 0.3], [0.3, 1.0]]),
}  # fmt: skip


def maker(t, device="cpu"):
    return lambda values: t.tensor(values, dtype=t.float32, device=device)


def plain(value):
    if hasattr(value, "tolist"):
        return tuple(value.shape), str(value.dtype).split(".")[-1], value.flatten().tolist()
    return tuple(value) if isinstance(value, (tuple, list)) or hasattr(value, "numel") else value


def outcome(act):
    """Return the result of a call, or the name of the exception."""
    try:
        return plain(act())
    except (NotImplementedError, ValueError, AttributeError) as error:
        return type(error).__name__


def assert_close(found, expected, rel=2e-4, what=""):
    if isinstance(expected, tuple) and len(expected) == 3 and isinstance(expected[2], list):
        assert found[:2] == expected[:2], what
        for a, b in zip(found[2], expected[2], strict=True):
            assert a == pytest.approx(b, rel=rel, abs=1e-5, nan_ok=True), (what, found, expected)
    else:
        assert found == expected, what
