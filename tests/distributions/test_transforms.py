"""Transforms: values, inverses and Jacobians, compared with PyTorch's and numerical derivatives; caching; composition."""

import pickle

import pytest

import metatensor as mt
from distribution_cases import POSITIVE, REAL, UNIT, assert_close, maker, outcome, plain
from metatensor import distributions as ours

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


NAMES = [n for n in TRANSFORMS if n not in ("softmax", "abs", "cholesky", "definite")]


@pytest.mark.parametrize("name", NAMES)
def test_jacobian_by_differences(name):
    """log |det J| of the free coordinates equals that of central differences in float64."""
    make, values = TRANSFORMS[name]
    transform = make(ours, lambda v: mt.tensor(v, dtype=mt.float64))
    x = mt.tensor(values, dtype=mt.float64)
    size, h = x.numel(), 1e-5
    if name == "inverse":
        size = x.numel()

    def free(y):
        """Return the free coordinates of a value: all but one of a simplex, those below the diagonal of a correlation factor."""
        if name in ("stick", "compose_stick"):
            return y[..., :-1]
        if name == "corr":
            return ours.utils.tril_matrix_to_vec(y, -1)
        return y

    rows = []
    for i in range(size):
        step = mt.zeros(size, dtype=mt.float64)
        step[i] = h
        step = step.reshape(x.shape)
        rows.append(((free(transform(x + step)) - free(transform(x - step))) / (2 * h)).flatten())
    expected = mt.linalg.slogdet(mt.stack(rows))[1].item()
    found = transform.log_abs_det_jacobian(x, transform(x)).sum().item()
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_equality_by_parameters(torch):
    def table(d, t):
        x = maker(t)
        made = [
            d.ExpTransform(), d.ExpTransform(), d.AffineTransform(0.0, 1.0), d.AffineTransform(0.0, 1.0), d.AffineTransform(0.0, 2.0),
            d.AffineTransform(x([0.0]), x([1.0])), d.PowerTransform(x(2.0)), d.PowerTransform(x(2.0)), d.PowerTransform(x(3.0)),
            d.ComposeTransform([d.ExpTransform()]), d.ComposeTransform([d.ExpTransform()]), d.SigmoidTransform(),
        ]  # fmt: skip
        return [[a == b for b in made] for a in made]

    assert table(ours, mt) == table(torch.distributions, torch)


def test_transforms_of_users():
    class Cube(ours.Transform):
        domain = codomain = ours.constraints.real
        bijective = True
        sign = +1

        def __init__(self, factor, cache_size=0):
            super().__init__(cache_size=cache_size)
            self.factor = factor

        def _call(self, x):
            return self.factor * x**3

        def _inverse(self, y):
            return (y / self.factor).abs() ** (1 / 3) * y.sign()

        def log_abs_det_jacobian(self, x, y):
            return (3 * self.factor * x**2).log()

    cube = Cube(2.0)
    assert cube == cube and cube != Cube(2.0)
    cached = cube.with_cache()
    x = mt.tensor([0.3, -0.7])
    assert cached.factor == 2.0 and cached.inv(cached(x)) is x
    d = ours.TransformedDistribution(ours.Normal(mt.zeros(2), 1.0), [cube, ours.AffineTransform(1.0, -1.0)])
    y = d.sample()
    inner = ours.Normal(0.0, 1.0).cdf(cube.inv(1.0 - y))
    assert d.cdf(y).tolist() == pytest.approx((1 - inner).tolist(), rel=1e-5)
    assert d.icdf(d.cdf(y)).tolist() == pytest.approx(y.tolist(), rel=1e-3)
    with pytest.raises(NotImplementedError):
        ours.Transform()(x)


def test_pickles():
    transform = ours.ComposeTransform([ours.ExpTransform(), ours.AffineTransform(1.0, 2.0)])
    transform.inv(transform(mt.ones(1)))
    assert pickle.loads(pickle.dumps(transform)) == transform
    d = pickle.loads(pickle.dumps(ours.LogNormal(mt.zeros(2), 1.0)))
    assert d.batch_shape == (2,) and d.expand((3, 2)).sample().shape == (3, 2)


def test_shapes_that_do_not_fit():
    for act in (
        lambda: ours.ReshapeTransform((4,), (3,)),
        lambda: ours.ReshapeTransform((4,), (2, 2)).forward_shape((3,)),
        lambda: ours.StickBreakingTransform().forward_shape(()),
        lambda: ours.CorrCholeskyTransform().forward_shape((2,)),
        lambda: ours.CorrCholeskyTransform().inverse_shape((2, 3)),
        lambda: ours.CatTransform([ours.ExpTransform()], lengths=[2])(mt.ones(3)),
        lambda: ours.StackTransform([ours.ExpTransform()])(mt.ones(3)),
        lambda: ours.IndependentTransform(ours.ExpTransform(), 2)(mt.ones(3)),
        lambda: ours.StickBreakingTransform().event_dim + ours.ReshapeTransform((4,), (2, 2)).event_dim,
        lambda: ours.TransformedDistribution(ours.Normal(0.0, 1.0), ours.StickBreakingTransform()),
        lambda: ours.TransformedDistribution(ours.Normal(0.0, 1.0), "exp"),
    ):
        with pytest.raises(ValueError):
            act()
