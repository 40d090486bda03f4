"""Distributions compared with SciPy and with their definitions. PyTorch is not needed."""

import math

import numpy as np
import pytest
import scipy.stats as st

import metatensor as mt
from metatensor import distributions as ours
from metatensor.distributions import constraints


def f64(value):
    return mt.tensor(value, dtype=mt.float64)


# name: (ours, SciPy's)
CONTINUOUS = {
    "Normal": (lambda: ours.Normal(f64(0.5), 2.0), st.norm(0.5, 2.0)),
    "Laplace": (lambda: ours.Laplace(f64(0.5), 2.0), st.laplace(0.5, 2.0)),
    "Cauchy": (lambda: ours.Cauchy(f64(0.5), 2.0), st.cauchy(0.5, 2.0)),
    "StudentT": (lambda: ours.StudentT(f64(3.5), 0.5, 2.0), st.t(3.5, 0.5, 2.0)),
    "Uniform": (lambda: ours.Uniform(f64(-1.0), 2.5), st.uniform(-1.0, 3.5)),
    "Gumbel": (lambda: ours.Gumbel(f64(0.5), 2.0), st.gumbel_r(0.5, 2.0)),
    "Exponential": (lambda: ours.Exponential(f64(2.5)), st.expon(scale=1 / 2.5)),
    "Gamma": (lambda: ours.Gamma(f64(2.5), 1.5), st.gamma(2.5, scale=1 / 1.5)),
    "Gamma_small": (lambda: ours.Gamma(f64(0.2), 1.5), st.gamma(0.2, scale=1 / 1.5)),
    "Chi2": (lambda: ours.Chi2(f64(3.0)), st.chi2(3.0)),
    "Beta": (lambda: ours.Beta(f64(0.7), 2.0), st.beta(0.7, 2.0)),
    "FisherSnedecor": (lambda: ours.FisherSnedecor(f64(3.0), 7.0), st.f(3.0, 7.0)),
    "InverseGamma": (lambda: ours.InverseGamma(f64(4.5), 1.5), st.invgamma(4.5, scale=1.5)),
    "LogNormal": (lambda: ours.LogNormal(f64(0.3), 0.5), st.lognorm(0.5, scale=math.exp(0.3))),
    "HalfNormal": (lambda: ours.HalfNormal(f64(1.5)), st.halfnorm(scale=1.5)),
    "HalfCauchy": (lambda: ours.HalfCauchy(f64(1.5)), st.halfcauchy(scale=1.5)),
    "Weibull": (lambda: ours.Weibull(f64(1.5), 0.8), st.weibull_min(0.8, scale=1.5)),
    "Pareto": (lambda: ours.Pareto(f64(1.5), 4.5), st.pareto(4.5, scale=1.5)),
    "GeneralizedPareto": (lambda: ours.GeneralizedPareto(f64(0.5), 2.0, 0.2), st.genpareto(0.2, 0.5, 2.0)),
    "GeneralizedPareto_short": (lambda: ours.GeneralizedPareto(f64(0.5), 2.0, -0.4), st.genpareto(-0.4, 0.5, 2.0)),
    "GeneralizedPareto_flat": (lambda: ours.GeneralizedPareto(f64(0.5), 2.0, 0.0), st.genpareto(0.0, 0.5, 2.0)),
    "VonMises": (lambda: ours.VonMises(f64(0.5), 3.0), st.vonmises(3.0, 0.5)),
    "VonMises_flat": (lambda: ours.VonMises(f64(0.0), 1e-3), st.vonmises(1e-3, 0.0)),
}
DISCRETE = {
    "Bernoulli": (lambda: ours.Bernoulli(f64(0.3)), st.bernoulli(0.3)),
    "Geometric": (lambda: ours.Geometric(f64(0.3)), st.geom(0.3, loc=-1)),
    "Binomial": (lambda: ours.Binomial(7, f64(0.3)), st.binom(7, 0.3)),
    "NegativeBinomial": (lambda: ours.NegativeBinomial(f64(3.5), f64(0.3)), st.nbinom(3.5, 0.7)),
    "Poisson": (lambda: ours.Poisson(f64(2.5)), st.poisson(2.5)),
}
QUANTILES = [0.001, 0.1, 0.35, 0.5, 0.8, 0.999]


def optional(act):
    try:
        return act()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    make, other = CONTINUOUS[name]
    d = make()
    points = other.ppf(QUANTILES)
    assert d.log_prob(f64(points)).tolist() == pytest.approx(other.logpdf(points), rel=1e-9, abs=1e-9)
    cdf, icdf = optional(lambda: d.cdf(f64(points))), optional(lambda: d.icdf(f64(QUANTILES)))
    if cdf is not None:
        assert cdf.tolist() == pytest.approx(QUANTILES, rel=1e-6)
    if icdf is not None:
        assert icdf.tolist() == pytest.approx(points, rel=1e-6)
    if not name.startswith("VonMises"):  # its mean and variance are circular
        for found, expected in ((d.mean, other.mean()), (d.variance, other.var())):
            if math.isfinite(expected):
                assert found.item() == pytest.approx(expected, rel=1e-9)
        assert optional(d.entropy) is None or d.entropy().item() == pytest.approx(float(other.entropy()), rel=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_of_continuous(name):
    mt.manual_seed(3)
    make, other = CONTINUOUS[name]
    drawn = make().sample((4000,)).numpy()
    assert st.kstest(drawn, other.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    make, other = DISCRETE[name]
    d = make()
    counts = np.arange(0.0, 2.0 if name == "Bernoulli" else 8.0)
    assert d.log_prob(f64(counts)).exp().tolist() == pytest.approx(other.pmf(counts), rel=1e-9)
    assert (d.mean.item(), d.variance.item()) == pytest.approx((other.mean(), other.var()), rel=1e-9)
    assert optional(d.entropy) is None or d.entropy().item() == pytest.approx(float(other.entropy()), rel=1e-6)
    mt.manual_seed(3)
    drawn = d.sample((4000,)).numpy()
    seen = np.array([(drawn == c).mean() for c in counts])
    deviation = np.sqrt(other.pmf(counts) * (1 - other.pmf(counts)) / 4000)
    assert (np.abs(seen - other.pmf(counts)) < 5 * deviation + 1e-9).all()


def integral(d, low, high, n=200_000):
    x = f64(low + (high - low) * (np.arange(n) + 0.5) / n)
    density = d.log_prob(x).exp()
    return [(density * x**k).mean().item() * (high - low) for k in (0, 1, 2)]


@pytest.mark.parametrize("p", [0.02, 0.3, 0.4995, 0.5, 0.5001, 0.77, 0.999])
def test_continuous_bernoulli_by_integration(p):
    d = ours.ContinuousBernoulli(f64(p))
    whole, mean, square = integral(d, 0.0, 1.0)
    assert whole == pytest.approx(1.0, rel=1e-8)
    assert (d.mean.item(), d.variance.item()) == pytest.approx((mean, square - mean**2), rel=1e-6)
    x = f64([0.0, 0.01, 0.3, 0.9, 1.0])
    assert d.icdf(d.cdf(x)).tolist() == pytest.approx(x.tolist(), abs=1e-9)
    assert d.cdf(f64(0.3)).item() == pytest.approx(integral(d, 0.0, 0.3)[0], rel=1e-6)
    mt.manual_seed(1)
    assert st.kstest(d.sample((4000,)).numpy(), lambda v: d.cdf(f64(v)).numpy()).pvalue > 1e-4
    middle = f64((np.arange(20_000) + 0.5) / 20_000)
    assert d.entropy().item() == pytest.approx(-(d.log_prob(middle).exp() * d.log_prob(middle)).mean().item(), abs=1e-6)


def test_continuous_bernoulli_far_out():
    d = ours.ContinuousBernoulli(logits=mt.tensor([-200.0, 200.0]))
    x = mt.tensor([0.01, 0.99])
    assert d.log_prob(x).tolist() == pytest.approx([-2 + math.log(200)] * 2, rel=1e-5)
    assert d.cdf(x).tolist() == pytest.approx([1 - math.exp(-2), math.exp(-2)], rel=1e-5)
    assert d.icdf(d.cdf(x)).tolist() == pytest.approx(x.tolist(), rel=1e-5)


def test_kumaraswamy_by_integration():
    d = ours.Kumaraswamy(f64(1.5), 2.5)
    whole, mean, square = integral(d, 0.0, 1.0)
    assert (whole, d.mean.item(), d.variance.item()) == pytest.approx((1.0, mean, square - mean**2), rel=1e-6)
    x = f64([0.1, 0.5, 0.9])
    assert d.cdf(x).tolist() == pytest.approx((1 - (1 - x**1.5) ** 2.5).tolist())
    mt.manual_seed(1)
    assert st.kstest(d.sample((4000,)).numpy(), lambda v: 1 - (1 - v**1.5) ** 2.5).pvalue > 1e-4


@pytest.mark.parametrize("name", ["Bernoulli", "Logit", "mixture"])
def test_densities_integrate_to_one(name):
    d, low, high = {
        "Bernoulli": (ours.RelaxedBernoulli(f64(1.3), f64(0.3)), 0.0, 1.0),
        "Logit": (ours.relaxed.LogitRelaxedBernoulli(f64(0.7), f64(0.3)), -60.0, 60.0),
        "mixture": (ours.MixtureSameFamily(ours.Categorical(f64([0.3, 0.7])), ours.Normal(f64([-1.0, 2.0]), 0.5)), -8.0, 9.0),
    }[name]
    assert integral(d, low, high)[0] == pytest.approx(1.0, rel=1e-4)


def test_relaxed_categories_integrate_to_one():
    d = ours.RelaxedOneHotCategorical(f64(1.5), f64([0.2, 0.5, 0.3]))
    n = 400
    at = (np.arange(n) + 0.5) / n
    a, b = (v.ravel() for v in np.meshgrid(at, at))
    keep = a + b < 1
    points = f64(np.stack([a[keep], b[keep], 1 - a[keep] - b[keep]], -1))
    assert d.log_prob(points).exp().sum().item() / n**2 == pytest.approx(1.0, rel=1e-2)


def test_dirichlet():
    d = ours.Dirichlet(f64([0.5, 2.0, 3.5]))
    other = st.dirichlet([0.5, 2.0, 3.5])
    x = f64([0.2, 0.3, 0.5])
    assert d.log_prob(x).item() == pytest.approx(other.logpdf(x.numpy()))
    assert d.entropy().item() == pytest.approx(float(other.entropy()))
    mt.manual_seed(2)
    assert st.kstest(d.sample((4000,))[:, 0].numpy(), st.beta(0.5, 5.5).cdf).pvalue > 1e-4
    tiny = ours.Dirichlet(mt.full((3,), 1e-4)).sample((200,))
    assert bool(constraints.simplex.check(tiny).all()) and tiny.isfinite().all()


COVARIANCE = [[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]]


def normals():
    cov = f64(COVARIANCE)
    loc = f64([0.5, -1.0, 2.0])
    factor, diag = f64([[1.0], [0.5], [-0.3]]), f64([0.5, 1.0, 0.7])
    return {
        "covariance": (ours.MultivariateNormal(loc, cov), COVARIANCE),
        "precision": (ours.MultivariateNormal(loc, precision_matrix=mt.linalg.inv(cov)), COVARIANCE),
        "tril": (ours.MultivariateNormal(loc, scale_tril=mt.linalg.cholesky(cov)), COVARIANCE),
        "low_rank": (ours.LowRankMultivariateNormal(loc, factor, diag), (factor @ factor.mT + diag.diag_embed()).tolist()),
    }


@pytest.mark.parametrize("name", ["covariance", "precision", "tril", "low_rank"])
def test_normal_vectors(name):
    d, covariance = normals()[name]
    other = st.multivariate_normal([0.5, -1.0, 2.0], covariance)
    mt.manual_seed(0)
    drawn = d.sample((5, 2000))
    assert d.log_prob(drawn).flatten()[:50].tolist() == pytest.approx(other.logpdf(drawn.reshape(-1, 3).numpy())[:50])
    assert d.entropy().item() == pytest.approx(other.entropy())
    assert np.allclose(d.covariance_matrix.numpy(), covariance)
    assert np.allclose(d.precision_matrix.numpy(), np.linalg.inv(covariance))
    assert np.allclose(d.scale_tril.numpy(), np.linalg.cholesky(covariance))
    assert np.allclose(d.variance.numpy(), np.diag(covariance))
    assert np.allclose(np.cov(drawn.reshape(-1, 3).numpy().T), covariance, atol=0.12)
    assert d.expand((4, 2)).log_prob(drawn[0, :2]).shape == (4, 2)


def test_batches_of_normal_vectors_and_samples():
    """Sample dimensions become columns of one solve, with the same results as separate solves."""
    mt.manual_seed(0)
    roots = mt.randn(4, 1, 3, 3, dtype=mt.float64)
    covariance = roots @ roots.mT + mt.eye(3, dtype=mt.float64)
    d = ours.MultivariateNormal(mt.randn(5, 3, dtype=mt.float64), covariance)
    x = d.sample((2, 6))
    assert x.shape == (2, 6, 4, 5, 3)
    found = d.log_prob(x)
    one = st.multivariate_normal(d.loc[2, 3].numpy(), covariance[2, 0].numpy())
    assert found[1, 4, 2, 3].item() == pytest.approx(one.logpdf(x[1, 4, 2, 3].numpy()))
    assert d.log_prob(x[0, 0, :, :1]).shape == (4, 5)


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_wishart(given):
    scale = f64([[2.0, 0.5], [0.5, 1.0]])
    matrix = {"covariance_matrix": scale, "precision_matrix": mt.linalg.inv(scale), "scale_tril": mt.linalg.cholesky(scale)}[given]
    d = ours.Wishart(f64(4.5), **{given: matrix})
    other = st.wishart(4.5, scale.numpy())
    x = f64([[3.0, 0.4], [0.4, 2.0]])
    assert d.log_prob(x).item() == pytest.approx(other.logpdf(x.numpy()))
    assert d.entropy().item() == pytest.approx(float(other.entropy()))
    assert np.allclose(d.mean.numpy(), other.mean()) and np.allclose(d.variance.numpy(), other.var())
    mt.manual_seed(0)
    drawn = d.sample((4000,))
    assert bool(d.support.check(drawn).all())
    # A quadratic form of a Wishart matrix is a scaled chi-squared variable.
    assert st.kstest(drawn[:, 0, 0].numpy(), st.chi2(4.5, scale=2.0).cdf).pvalue > 1e-4
    determinants = mt.linalg.det(drawn).log().mean().item()
    assert determinants == pytest.approx(d._mean_statistics[1].item(), abs=0.06)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_lkj(dim):
    mt.manual_seed(0)
    d = ours.LKJCholesky(dim, f64([0.5, 1.0, 4.0]))
    drawn = d.sample((3000,))
    assert bool(d.support.check(drawn).all())
    correlations = drawn @ drawn.mT
    for i, eta in enumerate((0.5, 1.0, 4.0)):  # each correlation has a beta distribution on (-1, 1)
        a = eta + (dim - 2) / 2
        assert st.kstest(correlations[:, i, dim - 1, 0].numpy(), st.beta(a, a, -1, 2).cdf).pvalue > 1e-4
    if dim == 2:
        angle = f64((np.arange(20_000) + 0.5) / 20_000 * 2 - 1)
        rows = mt.stack([mt.stack([mt.ones_like(angle), mt.zeros_like(angle)], -1), mt.stack([angle, (1 - angle**2).sqrt()], -1)], -2)
        density = ours.LKJCholesky(2, f64(1.5)).log_prob(rows).exp()
        assert density.mean().item() * 2 == pytest.approx(1.0, rel=1e-4)


def test_multinomial():
    p = [0.2, 0.5, 0.3]
    d, other = ours.Multinomial(6, f64(p)), st.multinomial(6, p)
    x = f64([1.0, 3.0, 2.0])
    assert d.log_prob(x).item() == pytest.approx(other.logpmf(x.numpy()))
    assert d.entropy().item() == pytest.approx(float(other.entropy()))
    mt.manual_seed(0)
    drawn = d.sample((3000,))
    assert bool((drawn.sum(-1) == 6).all())
    assert drawn.mean(0).tolist() == pytest.approx([1.2, 3.0, 1.8], abs=0.12)
    assert ours.Multinomial(0, f64(p)).sample((2,)).tolist() == [[0.0] * 3] * 2


def test_categories():
    mt.manual_seed(0)
    d = ours.Categorical(mt.tensor([[0.1, 0.2, 0.7], [0.6, 0.4, 0.0]]))
    drawn = d.sample((4000,))
    assert [(drawn[:, i] == c).float().mean().item() for i in (0, 1) for c in (0, 1, 2)] == pytest.approx(
        [0.1, 0.2, 0.7, 0.6, 0.4, 0.0], abs=0.04
    )
    assert d.sample((0,)).shape == (0, 2) and d.sample((0,)).dtype == mt.int64
    hot = ours.OneHotCategorical(mt.tensor([0.0, 1.0]))
    assert hot.log_prob(mt.tensor([0.0, 1.0])).item() == pytest.approx(0.0, abs=1e-6)


def test_ends_of_supports():
    assert ours.Uniform(0.0, 1.0).log_prob(mt.tensor([0.0, 0.5])).tolist() == [0.0, 0.0]
    assert ours.Uniform(0.0, 1.0).log_prob(mt.tensor(1.0)).item() == -math.inf
    assert ours.Gamma(1.0, 2.0).log_prob(mt.tensor(0.0)).item() == pytest.approx(math.log(2))
    assert ours.Beta(1.0, 1.0).log_prob(mt.tensor([0.0, 1.0])).tolist() == [0.0, 0.0]
    assert ours.Geometric(1.0).log_prob(mt.tensor(0.0)).item() == 0.0
    assert ours.Geometric(1.0).sample((3,)).tolist() == [0.0] * 3
    assert ours.Poisson(0.0).log_prob(mt.tensor([0.0, 1.0])).tolist() == [0.0, -math.inf]
    assert ours.NegativeBinomial(0.0, mt.tensor(0.5)).log_prob(mt.tensor(0.0)).item() == 0.0
    assert ours.HalfNormal(1.0, validate_args=False).log_prob(mt.tensor(-1.0)).item() == -math.inf


def test_logistic_normal_is_a_transformed_normal():
    d = ours.LogisticNormal(f64([0.5, -1.0]), f64([0.5, 1.0]))
    n = 400
    at = (np.arange(n) + 0.5) / n
    a, b = (v.ravel() for v in np.meshgrid(at, at))
    keep = a + b < 1 - 1e-9
    points = f64(np.stack([a[keep], b[keep], 1 - a[keep] - b[keep]], -1))
    assert d.log_prob(points).exp().sum().item() / n**2 == pytest.approx(1.0, rel=1e-2)
    assert ours.LogisticNormal(0.0, 1.0).event_shape == (2,) and d.loc.tolist() == [0.5, -1.0]
