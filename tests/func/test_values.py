"""Operators under `vmap` whose results depend on values: each runs once for the batch, with the results of a loop."""

import warnings

import numpy as np
import pytest

import metatensor as mt
from metatensor.func import grad, jacrev, vmap

F = mt.nn.functional


def numbers(*shape, seed=0):
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float64"))


def integers(*shape, high=4, seed=0):
    return mt.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


X = numbers(3, 4, 5)
I = integers(3, 6)
LOG = numbers(3, 7, 2, 5).log_softmax(-1)
LABELS = integers(3, 2, 3) + 1
LENGTHS = mt.tensor([[3, 2], [1, 3], [2, 2]])
BAGS = mt.tensor([[0, 2], [0, 4], [0, 1]])
REPEATS = mt.tensor([[1, 0, 2, 1], [2, 2, 0, 0], [1, 1, 1, 1]])

# Function of a member, and tensors with all members.
CASES = {
    "bincount": (lambda i: mt.bincount(i, minlength=5), [I]),
    "bincount with weights": (lambda i, w: mt.bincount(i, w, 5), [I, numbers(3, 6)]),
    "histc": (lambda x: mt.histc(x, 4, -1, 1), [X]),
    "histc of the range of the data": (lambda x: mt.histc(x, 4), [X]),
    "histogram": (lambda x, w: mt.histogram(x, 4, range=(-1.0, 2.0), weight=w, density=True), [X, X.abs()]),
    "histogram of the range of the data": (lambda x: mt.histogram(x, 3), [X]),
    "histogram between edges": (lambda x, e: mt.histogram(x, e), [X, numbers(3, 5).sort().values]),
    "histogramdd": (lambda x: mt.histogramdd(x[:, :2], [2, 3]), [X]),
    "linspace": (lambda a, b: mt.linspace(a, b, 5, dtype=mt.float64), [numbers(3), numbers(3, seed=1)]),
    "linspace of integers": (lambda a: mt.linspace(a, 7, 4, dtype=mt.int64), [integers(3)]),
    "logspace": (lambda a: mt.logspace(a, 2.0, 5, dtype=mt.float64), [numbers(3)]),
    "one_hot": (lambda i: F.one_hot(i, 4), [I]),
    "nonzero_static": (lambda x: mt.nonzero_static(x > 0, size=7), [X]),
    "nonzero_static of too few": (lambda x: mt.nonzero_static(x > 1, size=20, fill_value=-7), [X]),
    "argwhere": (lambda i: mt.argwhere(i > 0), [mt.tensor([[0, 1, 2], [3, 0, 4], [1, 1, 0]])]),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n, 0), [X, REPEATS]),
    "repeat_interleave of known size": (lambda n: mt.repeat_interleave(n, output_size=4), [REPEATS]),
    "unravel_index": (lambda i: mt.unravel_index(i, (2, 2)), [I]),
    "as_strided_scatter": (lambda x, y: mt.as_strided_scatter(x, y, (2, 2), (1, 5)), [X, X[:, :2, :2]]),
    "index_put": (lambda x, i, v: x.index_put((i,), v, True), [X, I[:, :2], numbers(3, 2, 5)]),
    "index_put in the middle": (lambda x, i, v: mt.stack([x, x], 1).index_put((None, None, i), v), [X, I[:, :2], numbers(3, 4, 2, 2)]),
    "index_put of apart dimensions": (lambda x, i: mt.stack([x, x], 1).index_put((i, None, i), x[0, 0]), [X, I]),
    "index_put by a mask": (lambda x: x.index_put((x > 0,), x.sum()), [X]),
    "index_fill of a scalar": (lambda x: x.sum().index_fill(0, mt.tensor([0]), 2.0), [X]),
    "index_copy of a scalar": (lambda x, i: x.sum().index_copy(0, i, x[0, 0]), [X, integers(3, 1, high=1)]),
    "index_select of a scalar": (lambda x, i: x.sum().index_select(0, i), [X, integers(3, 1, high=1)]),
    "mode of a scalar": (lambda x: x.sum().mode(0), [X]),
    "cov": (lambda x, f, a: mt.cov(x, fweights=f, aweights=a), [X, integers(3, 5) + 1, numbers(3, 5).abs()]),
    "searchsorted of a number": (lambda x, s: mt.searchsorted(x, 0.1, sorter=s), [X[:, 0], X[:, 0].argsort(-1)]),
    "searchsorted with a sorter": (lambda x, s: mt.searchsorted(x, x, sorter=s), [X, X.argsort(-1)]),
    "hash_tensor": (lambda x: mt.hash_tensor(x, 1).view(mt.int64), [X]),
    "block_diag": (lambda x: mt.block_diag(x[0], x, x[0, 0]), [X]),
    "cat with an empty vector": (lambda x: mt.cat([x.new_empty(0), x], 1), [X]),
    "channels_last": (lambda x: x.unsqueeze(0).unsqueeze(0).to(memory_format=mt.channels_last), [X]),
    "lstsq": (lambda a, b: mt.linalg.lstsq(a, b)[0], [numbers(3, 5, 2), numbers(3, 5, 3)]),
    "lstsq of vectors": (lambda a, b: mt.linalg.lstsq(a, b, driver="gelsd"), [numbers(3, 2, 5, 2), numbers(3, 2, 5)]),
    "addmm of integers": (lambda i: mt.addmm(i.reshape(2, 3), i.reshape(3, 2)[:2], i.reshape(2, 3), beta=3, alpha=2), [I]),
    "addbmm": (lambda x, a, b: mt.addbmm(x, a, b, alpha=0.5), [X, numbers(3, 2, 4, 3), numbers(3, 2, 3, 5)]),
    "mm of itself": (lambda x: x[:, :4] @ x[:, :4], [X]),
    "embedding with max_norm": (lambda i, w: F.embedding(i, w.clone(), max_norm=0.5), [I, X]),
    "embedding of frequencies": (lambda i, w: F.embedding(i, w, padding_idx=1, scale_grad_by_freq=True), [I, X]),
    "embedding_bag": (lambda i, w, o: F.embedding_bag(i, w, o, padding_idx=2), [I, X, BAGS]),
    "embedding_bag of sums": (lambda i, w, s: F.embedding_bag(i.reshape(2, 3), w, per_sample_weights=s.reshape(2, 3), mode="sum"),
                              [I, X, numbers(3, 6)]),
    "embedding_bag of maxima": (lambda i, w, o: F.embedding_bag(i, w, o, mode="max", max_norm=1.0), [I, X, BAGS]),
    "embedding_bag to the last offset": (lambda i, w: F.embedding_bag(i, w, mt.tensor([0, 2, 6]), include_last_offset=True), [I, X]),
    "ctc_loss": (lambda x, y: F.ctc_loss(x, y, mt.tensor([7, 6]), mt.tensor([3, 2])), [LOG, LABELS]),
    "ctc_loss of lengths": (lambda x, y, n: F.ctc_loss(x, y, n + 4, n, reduction="none"), [LOG, LABELS, LENGTHS]),
    "ctc_loss of one sequence": (lambda x, y: F.ctc_loss(x[:, 0], y[0], (7,), (3,), reduction="sum"), [LOG, LABELS]),
    "multi_margin_loss": (lambda x, i, w: F.multi_margin_loss(x, i, p=2, weight=w), [X, I[:, :4], numbers(3, 5).abs()]),
    "multilabel_margin_loss": (lambda x, i: F.multilabel_margin_loss(x, i), [X[:, 0], integers(3, 5, high=6) - 1]),
    "gaussian_nll_loss": (lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), [X, X.flip(1), X[:, :, :1].exp()]),
    "conv_tbc": (lambda x, w, b: mt.conv_tbc(x, w, b, pad=1), [numbers(3, 6, 2, 3), numbers(3, 3, 3, 4), numbers(3, 4)]),
    "resize_": (lambda x: x.clone().resize_(2, 10), [X]),
    "istft": (lambda x, w: mt.istft(mt.stft(x, 8, window=w, return_complex=True), 8, window=w), [numbers(3, 40), numbers(3, 8).abs() + 1]),
}  # fmt: skip


def leaves(result):
    return [result] if isinstance(result, mt.Tensor) else [y for part in result for y in leaves(part)]


def compare(function, tensors, batch):
    """Compare `vmap` over some of the arguments with a loop. No operator may run for one member after another."""

    def of_leaves(*given):
        return tuple(leaves(function(*given)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_dims = tuple(0 if b else None for b in batch)
        got = vmap(of_leaves, in_dims=in_dims)(*[x if b else x[0] for x, b in zip(tensors, batch, strict=True)])
    loop = [of_leaves(*[x[k if b else 0] for x, b in zip(tensors, batch, strict=True)]) for k in range(len(tensors[0]))]
    for y, members in zip(got, zip(*loop, strict=True), strict=True):
        want = mt.stack(members)
        assert y.dtype is want.dtype
        np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_members(name):
    function, tensors = CASES[name]
    n = len(tensors)
    compare(function, tensors, (True,) * n)
    for i in range(n if n > 1 else 0):
        if "max_norm" in name and i == 0 or name == "embedding_bag of maxima":
            continue  # a table that the members share cannot be scaled
        compare(function, tensors, tuple(i == k for k in range(n)))


DIFFERENTIABLE = [
    "index_put", "index_put in the middle", "index_put by a mask", "as_strided_scatter", "repeat_interleave", "ctc_loss",
    "gaussian_nll_loss", "multi_margin_loss", "multilabel_margin_loss", "embedding of frequencies", "embedding_bag",
    "embedding_bag of sums", "conv_tbc", "istft", "cat with an empty vector", "channels_last", "block_diag", "lstsq", "addbmm",
]  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    function, tensors = CASES[name]
    tensors = [t.exp() if name == "istft" else t for t in tensors]
    for i, x in enumerate(tensors):
        if not x.is_floating_point() or i and name == "multi_margin_loss":
            continue

        def loss(*xs):
            return leaves(function(*xs))[0].square().sum()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = vmap(grad(loss, i))(*tensors)
        want = mt.stack([grad(loss, i)(*[t[k] for t in tensors]) for k in range(3)])
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["take", "as_strided_scatter", "ctc_loss", "embedding of frequencies"])
def test_rows_of_jacobians(name):
    function, tensors = {**CASES, "take": (lambda x, i: x.mT.take(i), [X, I])}[name]
    i = next(k for k, t in enumerate(tensors) if t.is_floating_point())
    first = [t[0] for t in tensors]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = jacrev(function, i)(*first)
    y = function(*first)
    for k in range(y.numel()):
        want = grad(lambda *xs: function(*xs).reshape(-1)[k], i)(*first)
        np.testing.assert_allclose(rows.reshape(y.numel(), *want.shape)[k].numpy(), want.numpy(), rtol=1e-9, atol=1e-12)


REFUSED = {
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "an index by a mask": lambda x: x[x > 0],
    "values for a mask": lambda x: x.index_put((x > 0,), mt.arange(20.0, dtype=mt.float64)[: int((X > 0).sum())]),
    "one_hot": lambda x: F.one_hot(x.abs().long()),
    "narrow": lambda x: X[0].narrow(0, x[0, 0].abs().clamp_max(1).long(), 2),
    "tensor_split": lambda x: X[0].tensor_split(x[0, :2].abs().long()),
    "bincount": lambda x: mt.bincount((x * 10).abs().long().reshape(-1)),
    "repeat_interleave": lambda x: X[0].repeat_interleave((x[:, 0] * 10).abs().long(), 0),
    "shared statistics": lambda x: F.batch_norm(x, mt.zeros(5).double(), mt.ones(5).double(), training=True),
    "a shared table": lambda x: F.embedding(x.abs().long().clamp_max(3), X[0].clone(), max_norm=0.1),
    "random numbers of a composite operator": lambda x: F.multi_head_attention_forward(
        *[x[:, None, :4]] * 3, 4, 2, numbers(12, 4), None, None, None, False, 0.5, numbers(4, 4), None, training=True)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_values_raises(name):
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(REFUSED[name])(X)


def test_a_mask_that_the_members_share():
    mask = mt.tensor([True, False, True, True, False])
    compare(lambda x: x[:, mask], [X], (True,))
    compare(lambda x: x.masked_select(mask), [X], (True,))
    compare(lambda x, v: x.index_put((None, mask), v), [X, numbers(3, 4, 3)], (True, True))


def test_running_statistics():
    x, mean, var = numbers(3, 6, 4), mt.zeros(4, 3).double(), mt.ones(4, 3).double()
    y = vmap(lambda x, m, v: F.batch_norm(x, m, v, training=True), in_dims=(0, 1, 1))(x, mean, var)
    for k in range(3):
        m, v = mt.zeros(4).double(), mt.ones(4).double()
        np.testing.assert_allclose(y[k].numpy(), F.batch_norm(x[k], m, v, training=True).numpy())
        np.testing.assert_allclose(mean[:, k].numpy(), m.numpy())
        np.testing.assert_allclose(var[:, k].numpy(), v.numpy())


def test_a_shared_input_updates_shared_statistics_once():
    x, mean, var = numbers(6, 4), mt.zeros(4).double(), mt.ones(4).double()
    vmap(lambda w: F.batch_norm(x, mean, var, w, training=True))(numbers(3, 4))
    np.testing.assert_allclose(mean.numpy(), (x.mean(0) * 0.1).numpy())


def test_tables_with_max_norm_are_scaled():
    tables = X.clone()
    vmap(lambda i, w: F.embedding(i, w, max_norm=0.5))(I, tables)
    for k in range(3):
        table = X[k].clone()
        F.embedding(I[k], table, max_norm=0.5)
        np.testing.assert_allclose(tables[k].numpy(), table.numpy())


def test_written_tensors_require_gradients():
    def f(x):
        y = mt.empty_like(x).copy_(x)
        assert y.requires_grad
        return (y * x).sum()

    np.testing.assert_allclose(vmap(grad(f))(X).numpy(), (2 * X).numpy())


def test_views_in_place_while_gradients_are_recorded():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = vmap(grad(lambda x: (x.unsqueeze(0) * 2).squeeze_(0).transpose_(0, 1).sum()))(X)
    assert (got == 2).all()


ON_META = ["histogram", "linspace", "one_hot", "nonzero_static", "embedding_bag", "multi_margin_loss", "cov", "index_put"]


@pytest.mark.parametrize("name", ON_META)
def test_on_meta(name):
    function, tensors = CASES[name]
    want = leaves(vmap(function)(*tensors))
    with mt.device("meta"):
        got = leaves(vmap(function)(*[t.to("meta") for t in tensors]))
    assert [y.shape for y in got] == [y.shape for y in want]
    assert [y.dtype for y in got] == [y.dtype for y in want]
