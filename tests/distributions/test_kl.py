"""Divergences, compared with PyTorch's and with numerical integration; choice of formulas."""

import math
import warnings

import numpy as np
import pytest

import metatensor as mt
from distribution_cases import assert_close, maker, plain
from metatensor import distributions as ours


def pairs():
    makers = {
        "Normal": lambda d, x, k: d.Normal(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
        "HalfNormal": lambda d, x, k: d.HalfNormal(x([1.0, 2.0 + k])),
        "Laplace": lambda d, x, k: d.Laplace(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
        "Cauchy": lambda d, x, k: d.Cauchy(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
        "Gumbel": lambda d, x, k: d.Gumbel(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
        "Exponential": lambda d, x, k: d.Exponential(x([1.0, 2.0 + k])),
        "Gamma": lambda d, x, k: d.Gamma(x([1.0, 2.0 + k]), x([1.5, 0.5 + k])),
        "Beta": lambda d, x, k: d.Beta(x([1.0, 2.0 + k]), x([1.5, 0.5 + k])),
        "Pareto": lambda d, x, k: d.Pareto(x([1.0, 2.0 - k]), x([3.5, 2.5 + k])),
        "Uniform": lambda d, x, k: d.Uniform(x([0.0, 0.2 - k]), x([1.0, 0.8 + k])),
        "Bernoulli": lambda d, x, k: d.Bernoulli(x([0.1, 0.5 - k / 4])),
        "Geometric": lambda d, x, k: d.Geometric(x([0.1, 0.5 - k / 4])),
        "Binomial": lambda d, x, k: d.Binomial(5, x([0.1, 0.5 - k / 4])),
        "Poisson": lambda d, x, k: d.Poisson(x([1.0, 2.0 + k])),
        "Categorical": lambda d, x, k: d.Categorical(x([0.1, 0.5, 0.3 + k])),
        "OneHotCategorical": lambda d, x, k: d.OneHotCategorical(x([0.1, 0.5, 0.3 + k])),
        "Dirichlet": lambda d, x, k: d.Dirichlet(x([0.1, 0.5, 0.3 + k])),
        "MultivariateNormal": lambda d, x, k: d.MultivariateNormal(x([0.1, 0.5 + k]), x([[2.0, k], [k, 1.0]])),
        "Independent": lambda d, x, k: d.Independent(d.Normal(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])), 1),
        "ContinuousBernoulli": lambda d, x, k: d.ContinuousBernoulli(x([0.1, 0.5 - k / 4])),
        "LowRankMultivariateNormal": lambda d, x, k: d.LowRankMultivariateNormal(x([0.1, k]), x([[1.0], [k]]), x([0.5, 2.0])),
        "HalfCauchy": lambda d, x, k: d.HalfCauchy(x([1.0, 2.0 + k])),
        "Chi2": lambda d, x, k: d.Chi2(x([1.0, 2.0 + k])),
        "LogNormal": lambda d, x, k: d.LogNormal(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
    }
    return [(a, b, makers[a], makers[b]) for a in makers for b in makers]


def test_every_pair_of_pytorch(torch):
    compared = set()
    for a, b, make_p, make_q in pairs():
        for k in (0.0, 0.5):
            p, q = make_p(torch.distributions, maker(torch), k), make_q(torch.distributions, maker(torch), 0.5 - k)
            try:
                expected = torch.distributions.kl_divergence(p, q)
            except (NotImplementedError, ValueError):
                continue
            found = ours.kl_divergence(make_p(ours, maker(mt), k), make_q(ours, maker(mt), 0.5 - k))
            if {a, b} == {"Uniform", "ContinuousBernoulli"}:  # PyTorch returns infinity if the supports share a bound
                found, expected = found[1:], expected[1:]
            assert_close(plain(found), plain(expected), rel=1e-3, what=(a, b))
            compared.add((a, b))
    registered = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY if "torch" in p.__module__}
    abstract = {("ExponentialFamily", "ExponentialFamily"), ("TransformedDistribution", "TransformedDistribution")}
    assert not registered - compared - abstract


@pytest.mark.slow
def test_divergences_on_meta_and_registering():
    p = ours.Normal(mt.empty(3, device="meta"), mt.empty(3, device="meta"))
    assert ours.kl_divergence(p, p).shape == (3,)
    for a, b, make_p, make_q in pairs():
        on_meta = [make(ours, maker(mt, "meta"), 0.5) for make in (make_p, make_q)]
        try:
            expected = ours.kl_divergence(make_p(ours, maker(mt), 0.5), make_q(ours, maker(mt), 0.5))
        except (NotImplementedError, ValueError):
            continue
        found = ours.kl_divergence(*on_meta)
        assert found.is_meta and found.shape == expected.shape and found.dtype == expected.dtype, (a, b)

    class Mine(ours.Normal):
        pass

    @ours.register_kl(Mine, ours.Normal)
    def mine(p, q):
        return "mine"

    assert ours.kl_divergence(Mine(0.0, 1.0), ours.Normal(0.0, 1.0)) == "mine"
    assert ours.kl_divergence(ours.Normal(0.0, 1.0), Mine(0.0, 1.0)).item() == 0.0
    with pytest.raises(NotImplementedError):
        ours.kl_divergence(ours.Normal(0.0, 1.0), ours.Dirichlet(mt.ones(2)))
    with pytest.raises(TypeError):
        ours.register_kl(3, ours.Normal)


CONTINUOUS = {
    "Beta": (lambda: ours.Beta(F64(2.0), 3.5), (0.0, 1.0)),
    "ContinuousBernoulli": (lambda: ours.ContinuousBernoulli(F64(0.8)), (0.0, 1.0)),
    "Exponential": (lambda: ours.Exponential(F64(1.5)), (0.0, 40.0)),
    "Gamma": (lambda: ours.Gamma(F64(2.5), 1.5), (0.0, 60.0)),
    "Gumbel": (lambda: ours.Gumbel(F64(0.5), 1.5), (-10.0, 60.0)),
    "Laplace": (lambda: ours.Laplace(F64(0.5), 1.5), (-50.0, 50.0)),
    "Normal": (lambda: ours.Normal(F64(0.5), 1.5), (-15.0, 15.0)),
    "Pareto": (lambda: ours.Pareto(F64(0.5), 6.0), (0.5, 60.0)),
    "Uniform": (lambda: ours.Uniform(F64(0.5), 0.9), (0.5, 0.9)),
}


def F64(value):
    return mt.tensor(value, dtype=mt.float64)


@pytest.mark.parametrize("p", CONTINUOUS)
def test_is_the_integral(p):
    mt.manual_seed(0)
    make, (low, high) = CONTINUOUS[p]
    d = make()
    middles = low + (high - low) * ((np.arange(200_000) + 0.5) / 200_000)
    x = mt.from_numpy(middles)
    log_p = d.log_prob(x)
    finite = 0
    for q, (make_q, _) in CONTINUOUS.items():
        try:
            found = ours.kl_divergence(d, make_q()).item()
        except NotImplementedError:
            continue
        if math.isinf(found):
            assert (make_q().support.check(d.sample((5000,))).logical_not()).any() or (p, q) == ("Beta", "Pareto")
            continue
        other = make_q()
        other._validate_args = False
        terms = (log_p.exp() * (log_p - other.log_prob(x))).nan_to_num()
        assert found == pytest.approx(terms.mean().item() * (high - low), rel=2e-3, abs=2e-4), q
        finite += 1
    assert finite >= 2


def test_nothing_apart_is_exactly_zero():
    for d in (ours.Normal(3.0, 0.1), ours.Laplace(1.0, 2.0), ours.Gamma(2.0, 3.0), ours.Beta(0.3, 2.0), ours.Exponential(0.7),
              ours.Bernoulli(0.3), ours.Categorical(mt.ones(3)), ours.Dirichlet(mt.tensor([0.5, 2.0])), ours.Cauchy(0.0, 1.0)):  # fmt: skip
        assert ours.kl_divergence(d, d).item() == 0.0, d


@pytest.mark.slow
def test_wishart_without_gradients():
    p, q = (ours.Wishart(F64(df), mt.eye(2, dtype=mt.float64) * s) for df, s in ((4.0, 1.0), (5.0, 2.0)))
    mt.manual_seed(0)
    drawn = p.sample((20_000,))
    assert ours.kl_divergence(p, q).item() == pytest.approx((p.log_prob(drawn) - q.log_prob(drawn)).mean().item(), rel=0.05)


def test_the_nearest_pair_is_chosen_and_ambiguity_is_said():
    class Left(ours.Normal):
        pass

    class Right(ours.Normal):
        pass

    ours.register_kl(Left, ours.Normal)(lambda p, q: "left")
    ours.register_kl(ours.Normal, Right)(lambda p, q: "right")
    with pytest.warns(RuntimeWarning, match="Left, Right"):
        assert ours.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "left"
    ours.register_kl(Left, Right)(lambda p, q: "both")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ours.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "both"


def test_what_has_no_formula_says_so():
    class Family(ours.ExponentialFamily):
        arg_constraints = {}
        _natural_params = property(lambda self: (mt.ones(()),))
        _mean_carrier_measure = 0.0

        def _log_normalizer(self, eta):
            return eta.exp()

    assert ours.kl_divergence(Family(), Family()).item() == 0  # from the gradient of the log normalizer
    with pytest.raises(NotImplementedError, match="different exponential families"):
        ours.kl_divergence(ours.Normal(0.0, 1.0), ours.Dirichlet(mt.ones(2)))
    with pytest.raises(NotImplementedError, match="fewer trials"):
        ours.kl_divergence(ours.Binomial(3, mt.tensor(0.5)), ours.Binomial(4, mt.tensor(0.5)))
    with pytest.raises(NotImplementedError, match="transforms differ"):
        ours.kl_divergence(ours.Weibull(1.0, 1.0), ours.Weibull(1.0, 2.0))
