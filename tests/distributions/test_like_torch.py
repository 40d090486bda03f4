"""Distributions: densities, moments, divergences and shapes beside PyTorch's; samples by their moments; shapes on meta."""

import inspect
import math

import pytest

import metatensor as mt
from metatensor import distributions as ours

POSITIVE = [0.3, 1.0, 2.5, 4.0]
REAL = [-1.5, 0.0, 0.7, 2.0]
UNIT = [0.1, 0.35, 0.5, 0.9]
COUNTS = [0.0, 1.0, 3.0, 5.0]

# name: (maker from (module, tensor maker), values to evaluate at)
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
}  # fmt: skip

PROPERTIES = ["mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "has_rsample", "has_enumerate_support"]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def maker(t, device="cpu"):
    return lambda values: t.tensor(values, dtype=t.float32, device=device)


def plain(value):
    if hasattr(value, "tolist"):
        return tuple(value.shape), str(value.dtype).split(".")[-1], value.flatten().tolist()
    return tuple(value) if isinstance(value, (tuple, list)) or hasattr(value, "numel") else value


def outcome(act):
    """What is returned, or the name of the error."""
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_like_torch(name, torch):
    make, values = CASES[name]
    mine, other = make(ours, maker(mt)), make(torch.distributions, maker(torch))
    value, their_value = mt.tensor(values), torch.tensor(values)
    for prop in PROPERTIES:
        if (name, prop) == ("Kumaraswamy", "mode"):  # PyTorch's is NaN
            assert mine.mode.tolist() == pytest.approx([0.7310044, 0.5773503, 0.6299605, 0.6303647])
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
    assert repr(mine) == repr(other).replace("torch.Size", "metatensor.Size") or "Size" in repr(other)
    assert repr(mine.support) == repr(other.support) or "tensor" in repr(other.support)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_expand_and_sample_shapes(name, torch):
    make, values = CASES[name]
    values = values[:3] if name.endswith(("_number", "_numbers")) else values
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


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("Normal_numbers", "Bernoulli_number", "Beta_numbers")])
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
             "MultivariateNormal", "MixtureSameFamily", "Chi2"],
)  # fmt: skip
def test_moments_of_samples(name):
    mt.manual_seed(11)
    make, _ = CASES[name]
    d = make(ours, maker(mt))
    n = 4000
    drawn = d.sample((n,))
    bounds = 6 * (d.variance / n).sqrt() + 1e-3
    if name == "LogNormal":  # its tail is too heavy for the widest of them
        assert ((drawn.mean(0) - d.mean).abs() < bounds)[:2].all()
    else:
        assert ((drawn.mean(0) - d.mean).abs() < bounds).all()


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
        "LogNormal": lambda d, x, k: d.LogNormal(x([0.0, 1.0 + k]), x([1.0, 2.0 + k])),
    }
    return [(a, b, makers[a], makers[b]) for a in makers for b in makers]


def test_divergences(torch):
    compared = 0
    for a, b, make_p, make_q in pairs():
        p, q = make_p(torch.distributions, maker(torch), 0.0), make_q(torch.distributions, maker(torch), 0.5)
        try:
            expected = torch.distributions.kl_divergence(p, q)
        except (NotImplementedError, ValueError):
            continue
        try:
            found = ours.kl_divergence(make_p(ours, maker(mt), 0.0), make_q(ours, maker(mt), 0.5))
        except NotImplementedError:
            assert (a, b) in MISSING, (a, b)
            continue
        assert_close(plain(found), plain(expected), what=(a, b))
        compared += 1
    assert compared >= 50


# Pairs for which PyTorch has a formula and metatensor none.
MISSING = {
    (a, b)
    for a in ("Beta", "Exponential", "Gamma", "Gumbel", "Normal", "Pareto", "Uniform", "Poisson")
    for b in ("Beta", "Exponential", "Gamma", "Gumbel", "Laplace", "Normal", "Pareto", "Binomial", "Uniform")
} | {("Bernoulli", "Poisson")}


def test_divergences_on_meta_and_registering():
    p = ours.Normal(mt.empty(3, device="meta"), mt.empty(3, device="meta"))
    assert ours.kl_divergence(p, p).shape == (3,)

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


TRANSFORMS = {
    "exp": (lambda d, x: d.ExpTransform(), REAL),
    "abs": (lambda d, x: d.AbsTransform(), POSITIVE),
    "power": (lambda d, x: d.PowerTransform(x(2.0)), POSITIVE),
    "sigmoid": (lambda d, x: d.SigmoidTransform(), REAL),
    "softplus": (lambda d, x: d.SoftplusTransform(), REAL),
    "tanh": (lambda d, x: d.TanhTransform(), REAL),
    "affine": (lambda d, x: d.AffineTransform(x(REAL), x(POSITIVE)), REAL),
    "affine_event": (lambda d, x: d.AffineTransform(1.0, x(POSITIVE), event_dim=1), [REAL, UNIT]),
    "affine_number": (lambda d, x: d.AffineTransform(1.0, -2.0), REAL),
    "softmax": (lambda d, x: d.SoftmaxTransform(), REAL),
    "stick": (lambda d, x: d.StickBreakingTransform(), REAL),
    "corr": (lambda d, x: d.CorrCholeskyTransform(), [0.1, -0.5, 0.3]),
    "cholesky": (lambda d, x: d.LowerCholeskyTransform(), [[1.0, 0.0], [0.5, 2.0]]),
    "definite": (lambda d, x: d.PositiveDefiniteTransform(), [[1.0, 0.0], [0.5, 0.3]]),
    "compose": (lambda d, x: d.ComposeTransform([d.AffineTransform(x(REAL), 2.0), d.TanhTransform()]), REAL),
    "compose_stick": (lambda d, x: d.ComposeTransform([d.AffineTransform(x(REAL), 2.0), d.StickBreakingTransform()]), REAL),
    "independent": (lambda d, x: d.IndependentTransform(d.ExpTransform(), 1), [REAL, UNIT]),
    "reshape": (lambda d, x: d.ReshapeTransform((4,), (2, 2)), [REAL, UNIT]),
    "cat": (lambda d, x: d.CatTransform([d.ExpTransform(), d.AffineTransform(0, 2.0)], dim=0, lengths=[1, 3]), REAL),
    "stack": (lambda d, x: d.StackTransform([d.ExpTransform(), d.TanhTransform()], dim=0), [REAL, UNIT]),
    "cumulative": (lambda d, x: d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)), REAL),
    "inverse": (lambda d, x: d.ExpTransform().inv, POSITIVE),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, torch):
    make, values = TRANSFORMS[name]

    def run(d, t):
        transform = make(d, maker(t))
        x = t.tensor(values)
        y = transform(x)
        back = transform.inv(y)
        return [
            plain(y), plain(back), outcome(lambda: transform.log_abs_det_jacobian(x, y)),
            outcome(lambda: transform.inv.log_abs_det_jacobian(y, x)),
            tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape)), transform.bijective,
            transform.domain.event_dim, transform.codomain.event_dim, transform == transform, transform.inv.inv is transform,
            outcome(lambda: transform.sign), repr(transform.domain), repr(transform.codomain),
        ]  # fmt: skip

    for found, expected in zip(run(ours, mt), run(torch.distributions, torch), strict=True):
        assert_close(found, expected, what=name)
    x = mt.tensor(values, device="meta")
    transform = make(ours, maker(mt, "meta"))
    if name != "cumulative":
        assert transform(x).is_meta and transform.inv(transform(x)).shape == x.shape


def test_cached_transforms_invert_exactly():
    transform = ours.TanhTransform(cache_size=1)
    x = mt.tensor([20.0])
    assert transform.inv(transform(x)) is x
    assert ours.TanhTransform().with_cache()._cache_size == 1
    with pytest.raises(ValueError):
        ours.TanhTransform(cache_size=2)


def constraint_cases(c, x):
    matrices = [[[1.0, 0.0], [0.5, 2.0]], [[1.0, 0.5], [0.5, 2.0]], [[1.0, 3.0], [3.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]]]
    plain_values = [-1.0, 0.0, 0.5, 1.0, 2.0, math.nan]
    vectors = [[0.2, 0.8], [0.0, 1.0], [1.0, 1.0], [-0.5, 1.5]]
    scalars = [
        c.boolean, c.nonnegative_integer, c.positive_integer, c.integer_interval(0, 1), c.real, c.positive, c.nonnegative,
        c.greater_than(0.5), c.greater_than_eq(0.5), c.less_than(0.5), c.unit_interval, c.interval(0.0, 1.0),
        c.half_open_interval(0.0, 1.0),
    ]  # fmt: skip
    for constraint in scalars:
        yield constraint, x(plain_values)
    for constraint in (c.simplex, c.one_hot, c.multinomial(1.0), c.real_vector, c.independent(c.positive, 1)):
        yield constraint, x(vectors)
    for constraint in (c.lower_triangular, c.lower_cholesky, c.square, c.symmetric, c.corr_cholesky):
        yield constraint, x(matrices)
    yield c.positive_definite, x(matrices[1:2])
    yield c.positive_semidefinite, x(matrices[1:3])
    yield c.cat([c.positive, c.real], 0, [2, 2]), x([1.0, -1.0, 1.0, -1.0])
    yield c.stack([c.positive, c.real], 0), x([[1.0, -1.0], [1.0, -1.0]])


def test_constraints(torch):
    theirs = list(constraint_cases(torch.distributions.constraints, maker(torch)))
    for (mine, value), (other, their_value) in zip(constraint_cases(ours.constraints, maker(mt)), theirs, strict=True):
        assert mine.check(value).tolist() == other.check(their_value).tolist(), repr(other)
        assert repr(mine) == repr(other) or "object at" in repr(other)
        assert (mine.event_dim, mine.is_discrete) == (other.event_dim, other.is_discrete)
    assert ours.constraints.is_dependent(ours.Uniform.support) and not ours.constraints.is_dependent(ours.constraints.real)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(registry, torch):
    values = [0.3, -0.5, 1.2]

    def run(d, t, constraint):
        transform = getattr(d, registry)(constraint(d.constraints))
        return plain(transform(t.tensor(values)))

    for constraint in (
        lambda c: c.real, lambda c: c.positive, lambda c: c.greater_than(2.0), lambda c: c.less_than(2.0),
        lambda c: c.unit_interval, lambda c: c.interval(-1.0, 3.0), lambda c: c.simplex, lambda c: c.real_vector,
        lambda c: c.independent(c.positive, 1), lambda c: c.corr_cholesky,
    ):  # fmt: skip
        assert_close(run(ours, mt, constraint), run(torch.distributions, torch, constraint))
    with pytest.raises(NotImplementedError):
        getattr(ours, registry)(ours.constraints.boolean)


@pytest.mark.parametrize(
    "act",
    [
        lambda d, x: d.Normal(x([0.0]), x([-1.0])),
        lambda d, x: d.Normal("a", 1.0),
        lambda d, x: d.Bernoulli(x([1.5])),
        lambda d, x: d.Bernoulli(),
        lambda d, x: d.Bernoulli(0.5, 0.5),
        lambda d, x: d.Categorical(x(0.5)),
        lambda d, x: d.Categorical(x([-0.5, 1.5])),
        lambda d, x: d.Uniform(1.0, 0.0),
        lambda d, x: d.Normal(0.0, 1.0).log_prob(3),
        lambda d, x: d.Normal(x([0.0, 1.0]), 1.0).log_prob(x([1.0, 2.0, 3.0])),
        lambda d, x: d.Exponential(1.0).log_prob(x([-1.0])),
        lambda d, x: d.Dirichlet(x([1.0, 1.0])).log_prob(x([0.5, 0.7])),
        lambda d, x: d.MultivariateNormal(x([0.0]), x([[1.0]]), x([[1.0]])),
        lambda d, x: d.MultivariateNormal(x([0.0, 0.0]), x([[1.0, 2.0], [2.0, 1.0]])),
        lambda d, x: d.Independent(d.Normal(0.0, 1.0), 1),
        lambda d, x: d.Geometric(x([0.0])),
    ],
)
def test_refused(act, torch):
    with pytest.raises(ValueError):
        act(torch.distributions, maker(torch))
    with pytest.raises(ValueError):
        act(ours, maker(mt))


def test_checks_can_be_switched_off():
    ours.Normal(0.0, -1.0, validate_args=False)
    try:
        ours.Distribution.set_default_validate_args(False)
        ours.Normal(0.0, -1.0)
    finally:
        ours.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        ours.Distribution.set_default_validate_args(3)


def test_a_subclass_outside():
    class Shifted(ours.Distribution):
        arg_constraints = {"shift": ours.constraints.real}
        support = ours.constraints.real

        def __init__(self, shift, validate_args=None):
            self.shift = shift
            super().__init__(shift.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            return self.shift.expand(self._extended_shape(sample_shape))

    d = Shifted(mt.tensor([1.0, 2.0]))
    assert d.sample((3,)).shape == (3, 2)
    with pytest.raises(NotImplementedError):
        d.log_prob(mt.tensor(1.0))
    with pytest.raises(NotImplementedError):
        d.expand((2, 2))

    class Named(ours.Normal):
        def __init__(self, name):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError):
        Named("a").expand((2,))


def test_signatures(torch):
    for name in ours.__all__:
        other = getattr(torch.distributions, name)
        if inspect.isclass(other):
            mine = inspect.signature(getattr(ours, name).__init__).parameters
            assert list(mine) == list(inspect.signature(other.__init__).parameters), name


def test_helpers(torch):
    from torch.distributions import utils as theirs

    from metatensor.distributions import utils

    for t, u in ((mt, utils), (torch, theirs)):
        vec = t.tensor([1.0, 2.0, 3.0])
        assert u.vec_to_tril_matrix(vec).tolist() == [[1.0, 0.0], [2.0, 3.0]]
        assert u.vec_to_tril_matrix(vec, diag=-1).tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 3.0, 0.0]]
        assert u.tril_matrix_to_vec(u.vec_to_tril_matrix(vec)).tolist() == [1.0, 2.0, 3.0]
        assert u.clamp_probs(t.tensor([0.0, 1.0])).tolist()[0] > 0
        a, b = u.broadcast_all(t.zeros(2, 1, dtype=t.float64), 3)
        assert a.shape == b.shape and b.dtype == t.float64
        with pytest.raises(ValueError):
            u.broadcast_all([1.0])
