"""Densities, moments, shapes and samples of every distribution, compared with PyTorch's, and on meta."""

import pytest

import metatensor as mt
from distribution_cases import CASES, NUMBERS, UNIT, assert_close, maker, outcome, plain
from metatensor import distributions as ours

HEAVY = {  # with parameters for which the fourth moment exists
    "StudentT_moments": lambda d, x: d.StudentT(x([9.0, 20.0]), x([-1.0, 2.0]), 2.0),
    "FisherSnedecor_moments": lambda d, x: d.FisherSnedecor(x([3.0, 9.0]), x([30.0, 40.0])),
    "Pareto_moments": lambda d, x: d.Pareto(x([1.0, 2.0]), x([9.0, 20.0])),
    "InverseGamma_moments": lambda d, x: d.InverseGamma(x([9.0, 20.0]), x([2.0, 3.0])),
}
PROPERTIES = ["mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "has_rsample", "has_enumerate_support"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_like_torch(name, torch):
    make, values = CASES[name]
    mine, other = make(ours, maker(mt)), make(torch.distributions, maker(torch))
    # PyTorch does not print parameters that belong to another object, and prints computed logits of a mixture.
    if not repr(other).endswith("()") and not name.startswith("Mixture"):
        assert repr(mine) == repr(other).replace("torch.Size", "metatensor.Size")
    value, their_value = mt.tensor(values), torch.tensor(values)
    for prop in PROPERTIES:
        if (name, prop) == ("Kumaraswamy", "mode"):  # PyTorch returns NaN
            assert mine.mode.tolist() == pytest.approx([0.7310044, 0.5773503, 0.6299605, 0.6303647])
            continue
        if (name, prop) == ("Beta", "mode"):  # PyTorch returns NaN for the first one, whose density is infinite at 0
            assert mine.mode.tolist() == pytest.approx([0.0, 0.0, 1.0, 0.6])
            continue
        assert_close(outcome(lambda p=prop: getattr(mine, p)), outcome(lambda p=prop: getattr(other, p)), what=prop)
    for method in ("log_prob", "cdf"):
        found = outcome(lambda m=method: getattr(mine, m)(value))
        expected = outcome(lambda m=method: getattr(other, m)(their_value))
        assert_close(found, expected, what=method)
    if len(other.event_shape) == 0:
        unit = UNIT[: len(values)]
        assert_close(
            outcome(lambda: mine.icdf(mt.tensor(unit))), outcome(lambda: other.icdf(torch.tensor(unit))), rel=2e-3, what="icdf"
        )
    for method in ("entropy", "perplexity", "enumerate_support"):
        assert_close(outcome(getattr(mine, method)), outcome(getattr(other, method)), what=method)
    assert_close(outcome(lambda: mine.enumerate_support(expand=False)), outcome(lambda: other.enumerate_support(expand=False)))
    assert repr(mine.support).replace("metatensor.", "torch.") == repr(other.support) or "tensor" in repr(other.support)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_expand_and_sample_shapes(name, torch):
    make, values = CASES[name]
    values = values[:3] if name in NUMBERS else values
    mine, other = make(ours, maker(mt)), make(torch.distributions, maker(torch))
    for d in (mine, other):
        assert d.expand((3, *d.batch_shape)).batch_shape == (3, *d.batch_shape)
    expanded, theirs = mine.expand((3, *mine.batch_shape)), other.expand((3, *other.batch_shape))
    assert type(expanded) is type(mine)
    assert_close(plain(expanded.log_prob(mt.tensor(values))), plain(theirs.log_prob(torch.tensor(values))))
    for shape in ((), (2,), (2, 3)):
        drawn, expected = expanded.sample(shape), theirs.sample(shape)
        assert tuple(drawn.shape) == tuple(expected.shape) and plain(drawn)[1] == plain(expected)[1]
        assert mine.support.check(drawn).all() or name.startswith(("Simplex", "Dirichlet", "Logistic", "Relaxed", "Transformed"))
    if other.has_rsample:
        assert tuple(mine.rsample((2,)).shape) == tuple(other.rsample((2,)).shape)


@pytest.mark.parametrize("name", [n for n in CASES if n not in NUMBERS])
def test_shapes_on_meta(name):
    make, values = CASES[name]
    here, there = make(ours, maker(mt)), make(ours, maker(mt, "meta"))
    value = mt.tensor(values, device="meta")
    assert there.batch_shape == here.batch_shape and there.event_shape == here.event_shape
    expected = here.log_prob(mt.tensor(values))
    found = there.log_prob(value)
    assert found.is_meta and found.shape == expected.shape and found.dtype == expected.dtype
    for shape in ((), (2, 3)):
        drawn = there.sample(shape)
        assert drawn.is_meta and drawn.shape == here.sample(shape).shape
    if not name.startswith(("Binomial", "Multinomial")):
        try:
            entropy = here.entropy()
        except NotImplementedError:
            return
        assert there.entropy().shape == entropy.shape


@pytest.mark.parametrize(
    "name", ["Normal", "LogNormal", "HalfNormal", "Laplace", "Gumbel", "Uniform", "Exponential", "Gamma", "Beta", "Kumaraswamy", "Weibull",
             "Bernoulli", "Geometric", "Binomial", "NegativeBinomial", "Poisson", "OneHotCategorical", "Multinomial", "Dirichlet",
             "MultivariateNormal", "MixtureSameFamily", "Chi2", "ContinuousBernoulli", "LowRankMultivariateNormal", "Wishart",
             "StudentT_moments", "FisherSnedecor_moments", "Pareto_moments", "InverseGamma_moments", "Independent"],
)  # fmt: skip
def test_moments_of_samples(name):
    mt.manual_seed(11)
    make = HEAVY[name] if name in HEAVY else CASES[name][0]
    d = make(ours, maker(mt))
    n = 4000
    drawn = d.sample((n,))
    bounds = 6 * (d.variance / n).sqrt() + 1e-3
    if name == "LogNormal":  # the tail of the widest one is too heavy
        assert ((drawn.mean(0) - d.mean).abs() < bounds)[:2].all()
    else:
        assert ((drawn.mean(0) - d.mean).abs() < bounds).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in CASES if n not in NUMBERS])
def test_gradient_flags(name, torch):
    """`rsample` and densities require grad if the parameters do, `sample` never does."""

    def flags(d, t, device="cpu"):
        made = CASES[name][0](d, lambda v: t.tensor(v, dtype=t.float32, device=device, requires_grad=True))
        value = t.tensor(CASES[name][1], device=device)
        found = {"log_prob": made.log_prob(value).requires_grad, "sample": made.sample((2,)).requires_grad}
        if made.has_rsample:
            found["rsample"] = made.rsample((2,)).requires_grad
        for what in ("mean", "variance"):
            try:
                found[what] = getattr(made, what).requires_grad
            except NotImplementedError:
                pass
        return found

    expected = flags(torch.distributions, torch)
    assert flags(ours, mt) == expected
    assert flags(ours, mt, "meta") == expected


def test_beta_of_one_parameter_that_requires_grad():
    p = mt.tensor(2.0, requires_grad=True)
    for d in (ours.Beta(p, 1.0), ours.Beta(1.0, p), ours.Gamma(p, 1.0), ours.Gamma(1.0, p), ours.StudentT(p), ours.Chi2(p)):
        assert d.rsample().requires_grad and not d.sample().requires_grad
