"""Gradients of distances, bags of embeddings, projected LSTMs, inverse transforms and random numbers."""

import pytest

import metatensor as mt
from metatensor.autograd import gradcheck, gradgradcheck

functional = mt.nn.functional


def numbers(*shape, dtype=mt.float64, seed=0):
    generator = mt.Generator(device="cpu").manual_seed(seed)
    return mt.randn(*shape, dtype=dtype, device="cpu", generator=generator).requires_grad_()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    x, y = numbers(5, 3, seed=1), numbers(2, 4, 3, seed=2)
    assert gradcheck(lambda a: mt.pdist(a, p), (x,))
    assert gradcheck(lambda a, b: mt.cdist(a, b, p), (x, y))
    assert gradgradcheck(lambda a: mt.pdist(a, p), (x,))
    assert gradgradcheck(lambda a, b: mt.cdist(a, b, p), (x, y))


def test_distances_of_equal_rows_have_the_gradient_zero():
    x = mt.ones(3, 2, device="cpu", requires_grad=True)
    (mt.pdist(x).sum() + mt.cdist(x, x.detach()).sum()).backward()
    assert x.grad.tolist() == [[0, 0]] * 3


def test_many_rows_are_compared_by_a_product():
    x, y = (mt.empty(n, 3, device="meta", requires_grad=True) for n in (26, 4))
    assert mt.cdist(x, y).grad_fn.name() == "ViewBackward0"
    assert mt.cdist(x, y, 1.0).grad_fn.name() == mt.cdist(y, y).grad_fn.name() == "CdistBackward0"
    x, y = numbers(3, 2), numbers(4, 2, seed=1)
    mode = "use_mm_for_euclid_dist"
    assert gradcheck(lambda a, b: mt.cdist(a, b, compute_mode=mode), (x, y))
    assert gradgradcheck(lambda a, b: mt.cdist(a, b, compute_mode=mode), (x, y))
    (grad,) = mt.autograd.grad(mt.cdist(x, x.detach(), compute_mode=mode).diagonal().sum(), x)
    assert not grad.any()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_combinations(r, again):
    x = numbers(4)
    assert gradcheck(lambda a: mt.combinations(a, r, again), (x,))
    shape = mt.combinations(mt.empty(4, device="meta", requires_grad=True), r, again).shape
    assert shape == mt.combinations(x, r, again).shape == mt.combinations(x.detach(), r, again).shape


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags(mode, padding):
    table = numbers(5, 3)
    index, offsets = mt.tensor([0, 1, 1, 4, 2, 0], device="cpu"), mt.tensor([0, 2, 2, 5], device="cpu")

    def bags(weight):
        return functional.embedding_bag(index, weight, offsets, mode=mode, padding_idx=padding)

    assert gradcheck(bags, (table,))
    rows = functional.embedding_bag(index.view(2, 3), table, mode=mode)
    flat = functional.embedding_bag(index, table, mt.tensor([0, 3], device="cpu"), mode=mode)
    assert mt.equal(*(mt.autograd.grad(x.sum(), table)[0] for x in (rows, flat)))


def test_weighted_bags():
    table, weights = numbers(5, 3), numbers(2, 3, seed=1)
    index = mt.tensor([[0, 1, 1], [4, 2, 0]], dtype=mt.int32, device="cpu")
    assert gradcheck(lambda t, w: functional.embedding_bag(index, t, mode="sum", per_sample_weights=w), (table, weights))


def test_sparse_gradients_are_refused():
    table, index = mt.ones(4, 3, device="cpu", requires_grad=True), mt.tensor([[0, 1]], device="cpu")
    for out in (functional.embedding(index, table, sparse=True), functional.embedding_bag(index, table, sparse=True)):
        with pytest.raises(NotImplementedError, match="sparse=True"):
            out.sum().backward()


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_with_projections(bias):
    layer = mt.nn.LSTM(3, 4, 2, bias=bias, bidirectional=True, proj_size=2, device="cpu", dtype=mt.float64)
    x = numbers(3, 2, 3)
    expected = layer(x.detach())[0].detach()
    out, (h, c) = layer(x)
    assert mt.allclose(out, expected) and (h.shape, c.shape) == ((4, 2, 2), (4, 2, 4))
    assert gradcheck(lambda a: layer(a)[0], (x,))
    out.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())


def test_inverse_short_time_transform():
    window = mt.hann_window(8, dtype=mt.float64, device="cpu") + 0.1
    x = numbers(5, 6, dtype=mt.complex128)
    inner = mt.tensor([0.0, 1, 1, 1, 0], device="cpu").view(5, 1)  # the first and last frequency have no imaginary part
    assert gradcheck(lambda a: mt.istft(mt.complex(a.real, a.imag * inner), 8, window=window), (x,))


def test_group_norm_has_gradients_of_its_statistics():
    x, w, b = numbers(2, 4, 3), numbers(4, seed=1), numbers(4, seed=2)
    assert gradcheck(lambda *args: mt.native_group_norm(*args, 2, 4, 3, 2, 1e-5), (x, w, b))


def test_cosine_embedding_loss():
    x, y, target = numbers(4, 3), numbers(4, 3, seed=1), mt.tensor([1, -1, 1, -1], device="cpu")
    assert gradcheck(lambda a, b: functional.cosine_embedding_loss(a, b, target, 0.1), (x, y))
    assert gradgradcheck(lambda a, b: functional.cosine_embedding_loss(a, b, target, 0.1), (x, y))


def test_random_numbers_do_not_depend_on_their_parameters():
    mean, std = mt.zeros(2, device="cpu", requires_grad=True), mt.ones(3, 2, device="cpu", requires_grad=True)
    made = {
        "NormalBackward1": mt.normal(mean, 1.0), "NormalBackward2": mt.normal(0.0, std), "NormalBackward3": mt.normal(mean, std),
        "BernoulliBackward0": mt.bernoulli(std), "BernoulliBackward2": std.clone().bernoulli_(0.5),
    }  # fmt: skip
    for name, x in made.items():
        assert x.grad_fn.name() == name
        found = mt.autograd.grad(x.sum(), (mean, std), allow_unused=True)
        assert all(g is None or (g.shape == t.shape and not g.any()) for g, t in zip(found, (mean, std), strict=True))


def test_next_number():
    x, y = (mt.tensor(v, device="cpu", requires_grad=True) for v in ([1.0, 2.0], [1.0, 3.0]))
    mt.nextafter(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0, 1], [0, 0])


def test_special_functions_again():
    x = numbers(5) * 0.3
    for function in (mt.special.ndtr, mt.erfinv, lambda a: mt.ldexp(a, a + 1), lambda a: mt.view_as_real(mt.polar(a.exp(), a))):
        assert gradcheck(function, (x.detach().requires_grad_(),))


@pytest.mark.parametrize("packed", [True, False])
def test_projected_lstm_of_sequences_of_several_lengths(packed):
    layer = mt.nn.LSTM(3, 4, proj_size=2, batch_first=True, device="cpu", dtype=mt.float64)
    x = numbers(2, 4, 3)
    if packed:
        given = mt.nn.utils.rnn.pack_padded_sequence(x, [4, 2], batch_first=True)
        out = mt.nn.utils.rnn.pad_packed_sequence(layer(given)[0], batch_first=True)[0]
    else:
        out = layer(x)[0]
    out.sum().backward()
    assert out.shape == (2, 4, 2) and (out[1, 2:] == 0).all() == packed and (x.grad[1, 2:] == 0).all() == packed


def test_in_place_operators_that_are_recorded_as_several_others():
    x = numbers(4).detach().abs().requires_grad_()
    x.clone().float_power_(3.0).sum().backward()
    assert mt.allclose(x.grad, 3 * x.detach() ** 2)
    y = mt.tensor([-1.0, 2.0], device="cpu", requires_grad=True)
    functional.rrelu_(y.clone(), 0.25, 0.25, True).sum().backward()
    assert y.grad.tolist() == [0.25, 1]
