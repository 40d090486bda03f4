"""Random operators under `vmap`: numbers for all members from one call, or one draw that they share."""

import pytest

import metatensor as mt
from metatensor.func import _batched, vmap

F = mt.nn.functional
X = mt.ones(3, 2, 4, 16, dtype=mt.float64)
HALF = X / 2
G = mt.full((3, 4), 0.5)

DRAWS = {
    "rand": lambda x: mt.rand(64),
    "randn": lambda x: mt.randn(8, 8),
    "randint": lambda x: mt.randint(100, (64,)),
    "randint from": lambda x: mt.randint(-5, 5, (64,)),
    "randperm": lambda x: mt.randperm(40),
    "normal of a size": lambda x: mt.normal(1.0, 2.0, (64,)),
    "rand_like": mt.rand_like,
    "randn_like": mt.randn_like,
    "randint_like": lambda x: mt.randint_like(x, 100),
    "rand_like of a shared tensor": lambda x: mt.rand_like(HALF[0]),
    "bernoulli of a shared tensor": lambda x: mt.bernoulli(HALF[0]),
    "dropout of a shared tensor": lambda x: F.dropout(HALF[0]),
    "bernoulli": lambda x: mt.bernoulli(x / 2),
    "bernoulli of a number": lambda x: mt.bernoulli(x, 0.5),
    "bernoulli_": lambda x: x.clone().bernoulli_(x / 2),
    "uniform_": lambda x: x.clone().uniform_(),
    "normal_": lambda x: x.clone().normal_(1, 2),
    "exponential_": lambda x: x.clone().exponential_(),
    "random_": lambda x: x.clone().random_(1000),
    "normal": lambda x: mt.normal(x, x * 2),
    "normal of one tensor": lambda x: mt.normal(1.0, x),
    "dropout": lambda x: F.dropout(x),
    "dropout in place": lambda x: F.dropout(x.clone(), inplace=True),
    "dropout1d": lambda x: F.dropout1d(x.reshape(2, 64, 1)),
    "dropout2d": lambda x: F.dropout2d(x.reshape(2, 64, 1, 1)),
    "dropout3d": lambda x: F.dropout3d(x.reshape(128, 1, 1, 1)),
    "alpha_dropout": lambda x: F.alpha_dropout(x, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.reshape(2, 64, 1), training=True),
    "native_dropout": lambda x: mt.native_dropout(x, 0.5, True)[0],
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.cumsum(-1).cumsum(-2), 2, output_size=(2, 5)),
    "fractional_max_pool2d of an image": lambda x: F.fractional_max_pool2d(
        x.reshape(128).cumsum(0).reshape(4, 2, 16), 2, output_size=(1, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "multi-head attention": lambda x: F.multi_head_attention_forward(
        *[x[:1, :, :4].mT.reshape(4, 1, 4)] * 3, 4, 2, HALF[0, 0, :, :12].mT, None, None, None, False, 0.5, HALF[0, 0, :, :4], None)[0],
}  # fmt: skip
APART_ONLY = {
    "multinomial": lambda x: mt.multinomial(x[0, 0], 8),
    "multinomial with replacement": lambda x: mt.multinomial(x[0], 32, True),
    "poisson": lambda x: mt.poisson(x * 9),
    "binomial": lambda x: mt.binomial(x * 50, HALF[0]),
}


@pytest.fixture(autouse=True)
def together(monkeypatch):
    """Operators must not run for one member after another."""

    def refuse(func, *args):
        raise AssertionError(f"{func.name} runs for one member after another")

    monkeypatch.setattr(_batched, "_by_member", refuse)


@pytest.mark.parametrize("name", [*DRAWS, *APART_ONLY])
def test_different_numbers(name):
    mt.manual_seed(3)
    function = {**DRAWS, **APART_ONLY}[name]
    y = vmap(function, randomness="different")(X)
    one = function(X[0])
    assert y.shape == (3, *one.shape) and y.dtype is one.dtype
    assert not mt.equal(y[0], y[1]) and not mt.equal(y[1], y[2])


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_numbers(name):
    function = DRAWS[name]
    y = vmap(function, randomness="same")(X)
    one = function(X[0])
    assert y.shape == (3, *one.shape) and y.dtype is one.dtype
    assert mt.equal(y[0], y[1]) and mt.equal(y[1], y[2])


@pytest.mark.parametrize("name", APART_ONLY)
def test_the_same_numbers_of_different_distributions_raise(name):
    with pytest.raises(RuntimeError, match="same numbers"):
        vmap(APART_ONLY[name], randomness="same")(X)


@pytest.mark.parametrize("name", [*DRAWS, *APART_ONLY])
def test_random_operators_raise_by_default(name):
    with pytest.raises(RuntimeError, match="randomness="):
        vmap({**DRAWS, **APART_ONLY}[name])(X)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "rrelu", "feature_alpha_dropout"])
def test_operators_that_draw_nothing_do_not_raise(name):
    function = getattr(F, name)
    assert vmap(lambda x: function(x, training=False))(X).shape == X.shape
    if name in ("rrelu", "alpha_dropout"):
        assert mt.equal(vmap(function)(X), function(X))  # by default


def test_distributions():
    mt.manual_seed(0)
    x = mt.full((3, 20000), 0.3, dtype=mt.float64)
    draw = {"bernoulli": mt.bernoulli, "normal": lambda x: mt.normal(x, x * 2), "native": lambda x: mt.native_dropout(x, 0.4, True)[0]}
    for function in draw.values():
        for randomness in ("different", "same"):
            y = vmap(function, randomness=randomness)(x)
            assert (y.mean(1) - 0.3).abs().max() < 0.02
    normal = vmap(draw["normal"], randomness="different")(x)
    assert (normal.std(1) - 0.6).abs().max() < 0.02
    dropped = vmap(draw["native"], randomness="same")(x)
    assert set(dropped[dropped != 0].tolist()) == {0.3 / 0.6}


def test_permutations():
    order = vmap(lambda x: mt.randperm(9), randomness="different")(X)
    assert (order.sort(1).values == mt.arange(9)).all()


def test_nested():
    y = vmap(lambda row: vmap(lambda x: x + mt.rand(8), randomness="different")(row), randomness="same")(mt.zeros(2, 3, 8))
    assert mt.equal(y[0], y[1]) and not mt.equal(y[0, 0], y[0, 1])


def test_gradients_of_dropout():
    from metatensor.func import grad

    for randomness in ("different", "same"):
        found = vmap(grad(lambda x: F.dropout(x).sum()), randomness=randomness)(X)
        assert set(found.flatten().tolist()) == {0, 2}
