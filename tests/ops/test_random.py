"""Random numbers: distributions, reproducibility by ticket and by slice, generators, metadata, errors."""

import copy
import math
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.stats

import metatensor as mt
from ops.against import attempt, metadata, raises_alike, shadow, tensors_of, twin
from ops.pairs import values

N = 40_000


def empty(device, *shape, dtype=mt.float32):
    return mt.zeros(shape, dtype=dtype).to(device)


def moments(sample, mean, variance):
    """Check that a sample's mean and variance are within five standard errors of the expected values."""
    sample = np.asarray(sample, "float64").reshape(-1)
    assert abs(sample.mean() - mean) < 5 * math.sqrt(variance / sample.size) + 1e-12
    spread = ((sample - sample.mean()) ** 2).std()
    assert abs(sample.var() - variance) < 5 * spread / math.sqrt(sample.size) + 1e-12


# Distributions ------------------------------------------------------------------------------

FILLS = {
    "uniform_": ((2.0, 5.0), 3.5, 0.75),
    "normal_": ((1.0, 2.0), 1.0, 4.0),
    "exponential_": ((2.0,), 0.5, 0.25),
    "log_normal_": ((0.1, 0.25), math.exp(0.1 + 0.03125), (math.exp(0.0625) - 1) * math.exp(0.2 + 0.0625)),
    "geometric_": ((0.25,), 4.0, 12.0),
    "bernoulli_": ((0.3,), 0.3, 0.21),
    "random_": ((3, 13), 7.5, 99 / 12),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.bfloat16])
def test_fills(name, dtype, device):
    mt.manual_seed(1)
    arguments, mean, variance = FILLS[name]
    t = empty(device, 200, N // 200, dtype=dtype)
    assert getattr(t, name)(*arguments) is t
    if dtype is mt.bfloat16:
        assert abs(values(t).mean() - mean) < 0.05 * max(1, mean)  # rounding error of 8 bits
    else:
        moments(values(t), mean, variance)


def test_cauchy(device):
    mt.manual_seed(1)
    sample = values(empty(device, N).cauchy_(1.0, 2.0))
    quartiles = np.quantile(sample, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [-1, 1, 3], atol=0.15)


def test_factories(device):
    mt.manual_seed(2)
    moments(values(mt.rand(N, device=device)), 0.5, 1 / 12)
    moments(values(mt.randn(N, device=device)), 0, 1)
    moments(values(mt.randint(-3, 7, (N,), device=device)), 1.5, 99 / 12)
    pair = values(mt.randn(N, device=device, dtype=mt.complex64))
    moments(pair.real, 0, 0.5)
    moments(pair.imag, 0, 0.5)
    permutation = values(mt.randperm(100, device=device))
    assert sorted(permutation.tolist()) == list(range(100))
    assert permutation.tolist() != list(range(100))


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64])
def test_uniform_stays_below_its_end(dtype, device):
    mt.manual_seed(3)
    got = values(mt.rand(N, device=device, dtype=dtype))
    assert got.min() >= 0 and got.max() < 1
    got = values(empty(device, N, dtype=dtype).uniform_(1.0, 1.5))
    assert got.min() >= 1 and got.max() < 1.5


@pytest.mark.parametrize("dtype", [mt.uint8, mt.int8, mt.int32, mt.int64, mt.bool, mt.float32, mt.bfloat16])
def test_whole_range(dtype, device):
    mt.manual_seed(4)
    sample = values(empty(device, N, dtype=dtype).random_()).astype("float64")
    top = {mt.bool: 1, mt.float32: 1 << 24, mt.bfloat16: 1 << 8}.get(dtype) or np.iinfo(dtype.name).max
    assert sample.min() >= 0 and sample.max() <= top
    assert abs(sample.mean() / top - 0.5) < 0.02


def test_large_bounds(device):
    mt.manual_seed(5)
    low, high = -(1 << 63), (1 << 63) - 1
    sample = values(mt.randint(low, high, (1000,), device=device))
    assert (sample < 0).mean() == pytest.approx(0.5, abs=0.1)
    third = (1 << 64) // 3  # the span does not divide 2**64, so some words are drawn again
    sample = values(mt.randint(0, third, (20000,), device=device))
    assert sample.min() >= 0 and sample.max() < third
    assert abs(sample.astype("float64").mean() / third - 0.5) < 0.02


@pytest.mark.parametrize("rate", [0.0, 0.5, 7.0, 1000.0])
def test_poisson(rate, device):
    mt.manual_seed(6)
    moments(values(mt.poisson(mt.full((N,), rate).to(device))), rate, rate)


@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 30.0, 1e4])
def test_standard_gamma(shape, device):
    mt.manual_seed(6)
    sample = values(mt._standard_gamma(mt.full((N,), shape, dtype=mt.float64).to(device)))
    assert scipy.stats.kstest(sample, scipy.stats.gamma(shape).cdf).pvalue > 1e-4
    with pytest.raises(RuntimeError, match="negative"):
        mt._standard_gamma(mt.tensor([-1.0]).to(device))


@pytest.mark.slow
def test_sample_dirichlet(device):
    mt.manual_seed(6)
    weights = mt.tensor([1e-4, 0.5, 2.0]).expand(N, 3).to(device)
    sample = values(mt._sample_dirichlet(weights))
    assert abs(sample.sum(-1) - 1).max() < 1e-5 and sample.min() >= 0
    assert scipy.stats.kstest(sample[:, 1], scipy.stats.beta(0.5, 2.0).cdf).pvalue > 1e-4
    tiny = values(mt._sample_dirichlet(mt.full((N, 2), 1e-5).to(device)))  # gamma variables too small for float64
    assert abs(tiny.sum(-1) - 1).max() < 1e-5 and tiny[:, 0].mean() == pytest.approx(0.5, abs=0.1)
    assert mt._sample_dirichlet(mt.ones(0, 3).to(device)).shape == (0, 3)


@pytest.mark.parametrize("count, p", [(0, 0.5), (1, 0.3), (20, 0.1), (1000, 0.7), (5, 0.0), (5, 1.0)])
def test_binomial(count, p, device):
    mt.manual_seed(7)
    sample = values(mt.binomial(mt.full((N,), float(count)).to(device), mt.full((N,), p).to(device)))
    assert sample.min() >= 0 and sample.max() <= count
    moments(sample, count * p, count * p * (1 - p))


def test_probabilities_in_a_tensor(device):
    mt.manual_seed(8)
    p = mt.from_numpy(np.repeat([0.0, 0.2, 1.0], N)).to(device)
    got = values(mt.bernoulli(p)).reshape(3, N)
    assert not got[0].any() and got[2].all()
    moments(got[1], 0.2, 0.16)
    mean = mt.from_numpy(np.repeat([1.0, 5.0], N)).to(device)
    got = values(mt.normal(mean, mt.from_numpy(np.repeat([1.0, 0.5], N)).to(device))).reshape(2, N)
    moments(got[0], 1, 1)
    moments(got[1], 5, 0.25)
    moments(values(mt.normal(0.0, mt.full((N,), 2.0).to(device))), 0, 4)


def test_multinomial(device):
    mt.manual_seed(9)
    weights = mt.from_numpy(np.array([0.0, 1.0, 3.0, 0.0, 6.0], "float32")).to(device)
    share = np.bincount(values(mt.multinomial(weights, N, replacement=True)), minlength=5) / N
    np.testing.assert_allclose(share, [0, 0.1, 0.3, 0, 0.6], atol=0.02)
    rows = values(mt.multinomial(weights.expand(1000, 5).clone(), 3))
    assert all(sorted(row) == [1, 2, 4] for row in rows.tolist())
    assert (rows[:, 0] == 4).mean() == pytest.approx(0.6, abs=0.06)
    with pytest.raises(RuntimeError, match="fewer than 4"):
        mt.multinomial(weights, 4)
    for bad in ([0.0, 0.0], [-1.0, 2.0], [math.inf, 1.0]):
        with pytest.raises(RuntimeError, match="finite"):
            mt.multinomial(mt.from_numpy(np.array(bad)).to(device), 1, True)


def test_gumbel_softmax(device):
    mt.manual_seed(10)
    logits = mt.from_numpy(np.log([[0.1, 0.2, 0.7]])).to(device).expand(20000, 3)
    soft = values(mt.nn.functional.gumbel_softmax(logits))
    np.testing.assert_allclose(soft.sum(axis=1), 1)
    hard = values(mt.nn.functional.gumbel_softmax(logits, hard=True))
    np.testing.assert_allclose(hard.max(axis=1), 1)
    np.testing.assert_allclose(hard.mean(axis=0), [0.1, 0.2, 0.7], atol=0.02)
    np.testing.assert_allclose(np.eye(3)[soft.argmax(axis=1)].mean(axis=0), [0.1, 0.2, 0.7], atol=0.02)
    assert mt.nn.functional.gumbel_softmax(mt.empty(4, 5, device="meta"), dim=0).shape == (4, 5)


# Tickets -----------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda d: mt.rand(5, 7, device=d),
    "randn": lambda d: mt.randn(5, 7, device=d),
    "randint": lambda d: mt.randint(0, 1000, (5, 7), device=d),
    "randperm": lambda d: mt.randperm(20, device=d),
    "rand_like": lambda d: mt.rand_like(empty(d, 5, 7)),
    "normal_": lambda d: empty(d, 5, 7).normal_(),
    "bernoulli": lambda d: mt.bernoulli(empty(d, 5, 7) + 0.5),
    "poisson": lambda d: mt.poisson(empty(d, 5, 7) + 3),
    "_standard_gamma": lambda d: mt._standard_gamma(empty(d, 5, 7) + 3),
    "_sample_dirichlet": lambda d: mt._sample_dirichlet(empty(d, 5, 7) + 3),
    "multinomial": lambda d: mt.multinomial(empty(d, 5, 7) + 1, 3),
    "dropout": lambda d: mt.nn.functional.dropout(empty(d, 5, 7) + 1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_seed_same_values_everywhere(name, device):
    mt.manual_seed(10)
    here = values(DRAWS[name](device))
    mt.manual_seed(10)
    np.testing.assert_array_equal(here, values(DRAWS[name]("cpu")))
    assert (values(DRAWS[name](device)) != here).any()


@pytest.mark.parametrize("name", DRAWS)
def test_one_ticket_each_on_meta_too(name):
    generator = mt.manual_seed(11)
    DRAWS[name]("cpu")
    after = bytes(generator.get_state().tolist())
    mt.manual_seed(11)
    if name == "multinomial":
        mt.multinomial(mt.empty(5, 7, device="meta"), 3)
    elif name in ("normal_", "rand_like"):
        (mt.rand_like if name == "rand_like" else mt.Tensor.normal_)(mt.empty(5, 7, device="meta"))
    elif name in ("bernoulli", "poisson", "_standard_gamma", "_sample_dirichlet"):
        getattr(mt, name)(mt.empty(5, 7, device="meta"))
    elif name == "dropout":
        mt.nn.functional.dropout(mt.empty(5, 7, device="meta"))
    else:
        DRAWS[name]("meta")
    assert bytes(generator.get_state().tolist()) == after
    assert after[8:] == (1).to_bytes(8, "little")


@pytest.mark.parametrize("name", ["rand", "randn", "randint", "exponential_", "geometric_", "random_", "cauchy_", "log_normal_"])
def test_elements_do_not_depend_on_the_rest(name, monkeypatch):
    """The first elements of a larger draw with the same ticket are those of a smaller one, however it is divided."""
    from metatensor.devices.array_kit import distributions

    def draw(n):
        mt.manual_seed(12)
        if name == "randint":
            return values(mt.randint(0, 1 << 40, (n,)))
        return values(getattr(mt, name)(n) if hasattr(mt, name) and not name.endswith("_") else getattr(mt.zeros(n), name)(*args))

    args = (0.3,) if name == "geometric_" else ()
    whole = draw(1000)
    np.testing.assert_array_equal(draw(100), whole[:100])
    monkeypatch.setattr(distributions, "HOST_PIECE", 64)
    np.testing.assert_array_equal(draw(1000), whole)


def test_logical_order(device):
    """Element i is counted in the order of indices, for all strides."""
    mt.manual_seed(13)
    plain = values(empty(device, 4, 6).normal_())
    mt.manual_seed(13)
    np.testing.assert_array_equal(values(empty(device, 6, 4).t().normal_()), plain)
    mt.manual_seed(13)
    np.testing.assert_array_equal(values(empty(device, 4, 12)[:, ::2].normal_()), plain)


def test_ticket_drawn_again():
    """A recorded (seed, ticket) reproduces its values and takes no new ticket."""
    generator = mt.Generator().manual_seed(14)
    mt.rand(3, generator=generator)
    second = values(mt.rand(3, generator=generator))
    np.testing.assert_array_equal(values(mt.rand(3, generator=(14, 1))), second)


# Generators ------------------------------------------------------------------------------------


def test_generator():
    g = mt.Generator()
    assert g.device == mt.device("cpu")
    assert g.manual_seed(-1) is g
    assert g.initial_seed() == (1 << 64) - 1
    first = values(mt.rand(4, generator=g))
    state = g.get_state()
    second = values(mt.rand(4, generator=g))
    for other in (g.clone_state(), pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        np.testing.assert_array_equal(values(mt.rand(4, generator=other)), values(mt.rand(4, generator=g.clone_state())))
    g.set_state(state)
    np.testing.assert_array_equal(values(mt.rand(4, generator=g)), second)
    g.set_state(bytes(state.tolist()))
    np.testing.assert_array_equal(values(mt.rand(4, generator=g)), second)
    g.manual_seed(-1)
    np.testing.assert_array_equal(values(mt.rand(4, generator=g)), first)
    assert g.seed() == g.initial_seed()


def test_process_generator():
    assert mt.manual_seed(5) is mt.default_generator
    assert mt.initial_seed() == 5
    state = mt.get_rng_state()
    first = values(mt.rand(4))
    mt.set_rng_state(state)
    np.testing.assert_array_equal(values(mt.rand(4)), first)
    assert mt.seed() == mt.initial_seed()


@pytest.mark.slow
def test_state_without_a_cpu_device():
    """If no device can hold a tensor, the state is bytes, and random ops on meta are still counted."""
    code = """if True:
        import metatensor as mt
        mt.manual_seed(3)
        state = mt.get_rng_state()
        mt.rand(2, device="meta")
        assert type(state) is bytes and mt.get_rng_state() != state
        mt.set_rng_state(state)
        assert mt.get_rng_state() == state
    """
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"METATENSOR_BLOCK_PLUGINS": "cpu"})


def test_bad_generators():
    with pytest.raises(ValueError, match="2\\*\\*64"):
        mt.manual_seed(1 << 64)
    with pytest.raises(TypeError, match="int"):
        mt.manual_seed("seed")
    with pytest.raises(TypeError, match="generator"):
        mt.rand(3, generator=5, device="meta")
    with pytest.raises(RuntimeError, match="16 bytes"):
        mt.Generator().set_state(b"123")
    with pytest.raises(TypeError, match="uint8"):
        mt.Generator().set_state(mt.zeros(16))
    with pytest.raises(TypeError, match="get_state"):
        mt.Generator().set_state(3)


def test_threads_never_share_a_ticket():
    g = mt.Generator().manual_seed(0)
    t = mt.empty(3, device="meta")

    def work():
        for _ in range(2000):
            t.uniform_(generator=g)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int.from_bytes(bytes(g.get_state().tolist())[8:], "little") == 8000


# Metadata and errors ------------------------------------------------------------------------------

CALLS = {
    "rand": lambda lib, d: lib.rand(2, 3, device=d),
    "rand tuple": lambda lib, d: lib.rand((2, 3), device=d, dtype=lib.float64),
    "rand scalar": lambda lib, d: lib.randn((), device=d),
    "rand none": lambda lib, d: lib.rand(device=d),
    "rand negative": lambda lib, d: lib.rand(-1, device=d),
    "rand int": lambda lib, d: lib.rand(3, dtype=lib.int64, device=d),
    "randn int": lambda lib, d: lib.randn(3, dtype=lib.int64, device=d),
    "grad": lambda lib, d: lib.randn(3, requires_grad=True, device=d),
    "randint": lambda lib, d: lib.randint(5, (2, 3), device=d),
    "randint low": lambda lib, d: lib.randint(-2, 5, (2, 3), device=d, dtype=lib.int8),
    "randint names": lambda lib, d: lib.randint(low=1, high=3, size=(2,), device=d),
    "randint float": lambda lib, d: lib.randint(5, (2,), device=d, dtype=lib.float32),
    "randint empty": lambda lib, d: lib.randint(3, 3, (2,), device=d),
    "randint size": lambda lib, d: lib.randint(3, 2, device=d),
    "randint too far": lambda lib, d: lib.randint(0, 300, (2,), device=d, dtype=lib.uint8),
    "randperm": lambda lib, d: lib.randperm(4, device=d),
    "randperm none": lambda lib, d: lib.randperm(0, device=d, dtype=lib.int32),
    "randperm negative": lambda lib, d: lib.randperm(-1, device=d),
    "randperm too far": lambda lib, d: lib.randperm(300, device=d, dtype=lib.uint8),
    "normal": lambda lib, d: lib.normal(0.0, 1.0, (2, 3), device=d),
    "normal std": lambda lib, d: lib.normal(0.0, -1.0, (2, 3), device=d),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", CALLS)
def test_factories_of_torch(name):
    import torch

    here = [attempt(CALLS[name], mt, [d]) for d in ("cpu", "meta")]
    there = [attempt(CALLS[name], torch, [d]) for d in ("cpu", "meta")]
    for got in here:
        if isinstance(there[0], Exception):
            assert raises_alike(got, *there), (got, there)
        else:
            assert metadata(got) in [metadata(t) for t in there if not isinstance(t, Exception)]
            assert got.requires_grad == there[0].requires_grad


ON_TENSORS = {
    "rand_like": lambda lib, t: lib.rand_like(t),
    "randn_like": lambda lib, t: lib.randn_like(t, dtype=lib.float64, memory_format=lib.contiguous_format),
    "randint_like": lambda lib, t: lib.randint_like(t, 3),
    "randint_like low": lambda lib, t: lib.randint_like(t, 1, 3),
    "randint_like empty": lambda lib, t: lib.randint_like(t, 3, 1),
    "bernoulli": lambda lib, t: lib.bernoulli(t),
    "bernoulli p": lambda lib, t: lib.bernoulli(t, 0.5),
    "bernoulli bad p": lambda lib, t: lib.bernoulli(t, 2.0),
    "bernoulli_": lambda lib, t: t.bernoulli_(0.5),
    "bernoulli_ shape": lambda lib, t: t.bernoulli_(t[..., :1]),
    "poisson": lambda lib, t: lib.poisson(t),
    "_standard_gamma": lambda lib, t: lib._standard_gamma(t),
    "_sample_dirichlet": lambda lib, t: lib._sample_dirichlet(t),
    "multinomial": lambda lib, t: lib.multinomial(t, 2),
    "multinomial many": lambda lib, t: lib.multinomial(t, 9),
    "multinomial none": lambda lib, t: lib.multinomial(t, 0),
    "normal": lambda lib, t: lib.normal(t, 1.0),
    "normal both": lambda lib, t: lib.normal(t, t),
    "normal negative": lambda lib, t: lib.normal(t, -1.0),
    "uniform_": lambda lib, t: t.uniform_(),
    "uniform_ back": lambda lib, t: t.uniform_(2, 1),
    "uniform_ far": lambda lib, t: t.uniform_(0, 1e39),
    "normal_ negative": lambda lib, t: t.normal_(0, -1),
    "exponential_": lambda lib, t: t.exponential_(),
    "exponential_ zero": lambda lib, t: t.exponential_(0),
    "cauchy_ zero": lambda lib, t: t.cauchy_(0, 0),
    "log_normal_ zero": lambda lib, t: t.log_normal_(0, 0),
    "geometric_": lambda lib, t: t.geometric_(0.5),
    "geometric_ one": lambda lib, t: t.geometric_(1),
    "random_": lambda lib, t: t.random_(),
    "random_ to": lambda lib, t: t.random_(5),
    "random_ from": lambda lib, t: t.random_(2, 5),
    "random_ empty": lambda lib, t: t.random_(5, 5),
    "expanded": lambda lib, t: t[:1].expand(3, *t.shape[1:]).uniform_(),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", ON_TENSORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_metadata_of_torch(name, dtype):
    import torch

    if dtype == "bfloat16" and name in ("_standard_gamma", "_sample_dirichlet"):
        pytest.skip("PyTorch has bfloat16 gamma variables on CUDA only")
    (plain,) = tensors_of(0, (3, 4))
    for t in (plain.sigmoid().to(getattr(torch, dtype)), plain.sigmoid().to(getattr(torch, dtype)).t()):
        there = [attempt(ON_TENSORS[name], torch, [u]) for u in (t.clone(), shadow(t))]
        for got in (attempt(ON_TENSORS[name], mt, [twin(t, "meta")]), attempt(ON_TENSORS[name], mt, [twin(t.clone())])):
            if isinstance(there[0], Exception):
                assert isinstance(got, Exception), there
                assert raises_alike(got, *there), (got, there)
            else:
                assert metadata(got) in [metadata(u) for u in there if not isinstance(u, Exception)], (got, there)


@pytest.mark.parametrize("dtype, high", [("float16", 32752), ("float16", 65504), ("bfloat16", 70000), ("float32", 2**24 + 2)])
def test_bounds_beyond_exact_integers_are_rounded_with_a_warning(device, dtype, high):
    with pytest.warns(UserWarning, match="rounded"):
        x = mt.zeros(50, dtype=getattr(mt, dtype), device=device).random_(high)
    assert x.isfinite().all() and x.max().item() > high / 2


def test_bounds_beyond_the_range_are_errors():
    with pytest.raises(RuntimeError, match="out of the range"):
        mt.zeros(2, dtype=mt.float16).random_(65506)
    with pytest.raises(RuntimeError):
        mt.randperm(4000, dtype=mt.float16)
