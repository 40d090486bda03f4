"""A deferred tensor that is materialised equals the eager one, bit for bit."""

import copy
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from deferring import deferred, eager, same
from metatensor import nn
from metatensor.nn import functional as F
from metatensor.nn.utils import parametrizations
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


# Operators ---------------------------------------------------------------------------------------

FACTORIES = {
    "zeros": lambda: mt.zeros(3, 4),
    "ones": lambda: mt.ones(2, 3, dtype=mt.int32),
    "full": lambda: mt.full((2, 2), 7.5),
    "eye": lambda: mt.eye(3, 5),
    "arange": lambda: mt.arange(2, 9, 3),
    "linspace": lambda: mt.linspace(0, 1, 7),
    "logspace": lambda: mt.logspace(0, 2, 5),
    "tensor": lambda: mt.tensor([[1, 2], [3, 4]]),
    "tensor of a float": lambda: mt.tensor(2.5),
    "tensor of an array": lambda: mt.tensor(np.arange(6.0).reshape(2, 3).T),
    "complex": lambda: mt.complex(mt.rand(3), mt.rand(3)),
    "tril_indices": lambda: mt.tril_indices(4, 4),
    "hann_window": lambda: mt.hann_window(8),
    "zeros_like": lambda: mt.zeros_like(mt.rand(3, 3)),
    "new_full": lambda: mt.rand(2).new_full((3,), 4.0),
    "full_like": lambda: mt.full_like(mt.rand(3, 3), 2),
    "Tensor": lambda: mt.Tensor(2, 3).fill_(1),
    "no elements": lambda: mt.zeros(0, 3),
    "meshgrid": lambda: mt.meshgrid(mt.arange(3), mt.arange(4), indexing="ij"),
    "scalar_tensor": lambda: mt.scalar_tensor(3.5),
    "vander": lambda: mt.vander(mt.arange(4.0)),
    "from lists of tensors": lambda: mt.tensor([mt.tensor(1.0), mt.tensor(2.0)]),
}
RANDOM = {
    "rand": lambda: mt.rand(5, 3),
    "randn": lambda: mt.randn(5, 3, dtype=mt.float64),
    "randint": lambda: mt.randint(3, 90, (7,)),
    "randperm": lambda: mt.randperm(11),
    "rand_like": lambda: mt.rand_like(mt.zeros(4)),
    "randn_like": lambda: mt.randn_like(mt.zeros(4, dtype=mt.float16)),
    "randint_like": lambda: mt.randint_like(mt.zeros(4), 100),
    "normal": lambda: mt.normal(0.0, 1.0, (4,)),
    "normal of tensors": lambda: mt.normal(mt.rand(4), mt.rand(4)),
    "bernoulli": lambda: mt.bernoulli(mt.full((20,), 0.3)),
    "multinomial": lambda: mt.multinomial(mt.rand(6), 3),
    "poisson": lambda: mt.poisson(mt.full((9,), 4.0)),
    "uniform_": lambda: mt.empty(9).uniform_(-2, 3),
    "normal_": lambda: mt.empty(9).normal_(1, 2),
    "exponential_": lambda: mt.empty(9).exponential_(2),
    "cauchy_": lambda: mt.empty(9).cauchy_(),
    "log_normal_": lambda: mt.empty(9).log_normal_(),
    "geometric_": lambda: mt.empty(9).geometric_(0.3),
    "random_": lambda: mt.empty(9).random_(),
    "random_ to": lambda: mt.empty(9, dtype=mt.int16).random_(50),
    "random_ from": lambda: mt.empty(9).random_(-5, 50),
    "bernoulli_": lambda: mt.empty(9).bernoulli_(0.4),
    "bernoulli_ of a tensor": lambda: mt.empty(9).bernoulli_(mt.rand(9)),
    "dropout": lambda: F.dropout(mt.ones(30), 0.5),
    "rrelu": lambda: F.rrelu(mt.randn(30), training=True),
    "half": lambda: mt.empty(9, dtype=mt.bfloat16).normal_(),
    "part of one": lambda: mt.empty(4, 4).fill_(0)[1].normal_(),
    "strided": lambda: mt.zeros(4, 6)[:, ::2].uniform_(),
}


def _seeded_inside():
    mt.manual_seed(5)
    return mt.rand(3), mt.rand(3)


def _state_kept():
    state = mt.get_rng_state()
    first = mt.rand(3)
    mt.set_rng_state(state)
    return first, mt.rand(3)


def _generators():
    one, other = mt.Generator().manual_seed(1), mt.Generator().manual_seed(1)
    return mt.rand(4, generator=one), mt.rand(4), mt.rand(4, generator=other), mt.rand(4, generator=one)


UPDATES = {
    "seed inside": _seeded_inside,
    "state set back": _state_kept,
    "generators": _generators,
    "in place": lambda: mt.rand(4).mul_(2).add_(1).clamp_(0, 2.5).neg_(),
    "of another": lambda: mt.rand(4).add_(mt.rand(4), alpha=2),
    "by itself": lambda: (lambda t: t.mul_(t))(mt.rand(4)),
    "each by the other": lambda: (lambda a, b: (a.add_(b), b.mul_(a), a.sub_(b)))(mt.rand(4), mt.rand(4)),
    "a view": lambda: (lambda t: (t, t[1:3].zero_()))(mt.rand(4, 4)),
    "transposed": lambda: (lambda t: (t, t.t()[0].fill_(9)))(mt.rand(4, 4)),
    "diagonal": lambda: (lambda t: (t, t.diagonal().copy_(mt.arange(4.0))))(mt.rand(4, 4)),
    "fill_diagonal_": lambda: mt.rand(4, 4).fill_diagonal_(0),
    "of another dtype": lambda: mt.zeros(4).copy_(mt.arange(4)),
    "broadcast": lambda: mt.zeros(3, 4).copy_(mt.rand(4)),
    "number to a place": lambda: _assign(lambda t: t.__setitem__(2, 5.0)),
    "tensor to a place": lambda: _assign(lambda t: t.__setitem__(1, mt.rand(4))),
    "slice": lambda: _assign(lambda t: t.__setitem__((slice(None), slice(1, None, 2)), 0.0)),
    "mask": lambda: _assign(lambda t: t.__setitem__(t > 0.5, -1.0)),
    "mask and tensor": lambda: _assign(lambda t: t.__setitem__(t > 0.5, t[t > 0.5] * 2)),
    "indices": lambda: _assign(lambda t: t.__setitem__((mt.tensor([0, 2]), mt.tensor([1, 3])), mt.tensor([7.0, 8.0]))),
    "a 0-d index": lambda: _assign(lambda t: t.__setitem__(mt.tensor(2), 3.0)),
    "index_fill_": lambda: _assign(lambda t: t.index_fill_(0, mt.tensor([1]), 4.0)),
    "scatter_": lambda: _assign(lambda t: t.scatter_(1, mt.tensor([[0], [1], [2], [3]]), 1.0)),
    "masked_fill_": lambda: _assign(lambda t: t.masked_fill_(mt.eye(4).bool(), float("-inf"))),
    "out": lambda: (lambda o: (o, mt.add(mt.rand(4), 1, out=o)))(mt.empty(4)),
    "out resized": lambda: mt.arange(5, out=mt.empty(0, dtype=mt.int64)),
    "out of two": lambda: mt.max(mt.rand(3, 4), 1, out=(mt.empty(3), mt.empty(3, dtype=mt.int64))),
    "out through a view": lambda: (lambda o: (o, mt.mul(o[2:], 3, out=o[:2])))(mt.rand(4)),
    "resize_": lambda: mt.rand(4).resize_(2, 2).mul_(2),
    "grown": lambda: (lambda t: (t.resize_(6), t[4:].zero_())[0])(mt.rand(4)),
    "shrunk": lambda: mt.rand(6).resize_(2),
    "set_": lambda: mt.empty(0).set_(mt.rand(4)[1:3]),
    "set_ nothing": lambda: mt.rand(3).set_(),
    "data": lambda: _data(),
    "renorm by row": lambda: mt.rand(4, 4).renorm_(2, 0, 0.5),
    "embedding_renorm_": lambda: (lambda t: (F.embedding(mt.tensor([0, 2]), t, max_norm=0.1), t))(mt.rand(4, 4)),
    "squeeze_": lambda: mt.rand(1, 4).squeeze_(0).unsqueeze_(-1).transpose_(0, 1),
    "swapped": lambda: _swapped(),
}


def _assign(write):
    t = mt.rand(4, 4)
    write(t)
    return t


def _data():
    p = nn.Parameter(mt.rand(3, 3))
    q = p.detach()
    p.data = mt.rand(2, 2)
    p.data.mul_(3)
    p.data[0] = 1
    return p, q


def _swapped():
    from metatensor.utils import swap_tensors

    a, b = mt.rand(2), mt.rand(3)
    swap_tensors(a, b)
    return a, b


RESULTS = {
    "arithmetic": lambda: 1.0 / (10000 ** (mt.arange(0, 8, 2).float() / 8)),
    "outer": lambda: mt.outer(mt.arange(4.0), mt.rand(3)).sin(),
    "views": lambda: (lambda t: (t, t[1], t.t(), t.view(2, 8), t.unfold(0, 2, 1), t.expand(3, 4, 4)))(mt.rand(4, 4)),
    "split": lambda: mt.rand(6).split(2),
    "var_mean": lambda: mt.var_mean(mt.rand(5)),
    "max": lambda: mt.max(mt.rand(3, 4), 1),
    "sort": lambda: mt.sort(mt.rand(9), descending=True),
    "topk": lambda: mt.topk(mt.rand(9), 3),
    "svd": lambda: mt.linalg.svd(mt.rand(3, 3)),
    "qr": lambda: mt.linalg.qr(mt.rand(4, 3)),
    "cat": lambda: mt.cat([mt.rand(2), mt.zeros(3), mt.rand(1)]),
    "stack": lambda: mt.stack(list(mt.rand(3, 2))),
    "conj": lambda: mt.rand(3, dtype=mt.complex64).conj(),
    "neg": lambda: mt.rand(3, dtype=mt.complex64).conj().imag,
    "real": lambda: (lambda z: (z, z.real.mul_(2)))(mt.rand(3, dtype=mt.complex64)),
    "view of bits": lambda: mt.rand(4).view(mt.int32),
    "view_as_complex": lambda: mt.view_as_complex(mt.rand(3, 2)),
    "to": lambda: mt.rand(4).to(mt.float16).to(mt.float64),
    "channels last": lambda: mt.rand(2, 3, 4, 4).to(memory_format=mt.channels_last),
    "contiguous": lambda: mt.rand(3, 4).t().contiguous(),
    "einsum": lambda: mt.einsum("ij,kj->ik", mt.rand(2, 3), mt.rand(4, 3)),
    "index": lambda: mt.rand(5, 3)[mt.tensor([0, 4, 0])],
    "a 0-d index is a view": lambda: (lambda t: (t, t[mt.tensor(1)].zero_()))(mt.rand(3, 3)),
    "None and Ellipsis": lambda: mt.rand(2, 3)[None, ..., 1],
    "gather": lambda: mt.rand(3, 3).gather(1, mt.tensor([[2], [1], [0]])),
    "where": lambda: mt.where(mt.rand(9) > 0.5, 1.0, 0.0),
    "cumsum": lambda: mt.ones(5).cumsum(0),
    "conv": lambda: F.conv2d(mt.rand(1, 2, 5, 5), mt.rand(3, 2, 3, 3)),
    "softmax": lambda: mt.rand(3, 4).softmax(-1),
    "batch_norm": lambda: (lambda m, v: (F.batch_norm(mt.rand(4, 3), m, v, training=True), m, v))(mt.zeros(3), mt.ones(3)),
    "interpolate": lambda: F.interpolate(mt.rand(1, 1, 4, 4), scale_factor=2),
    "erfinv": lambda: mt.rand(5).erfinv(),
    "cpu": lambda: mt.rand(3).cpu().to("cpu", copy=True),
    "roll and flip": lambda: mt.rand(4).roll(1).flip(0),
    "six dimensions": lambda: mt.rand(1, 2, 1, 2, 1, 2).permute(5, 4, 3, 2, 1, 0),
    "six dimensions, in part": lambda: (lambda t: (t, t[..., 1].zero_()))(mt.rand(1, 2, 1, 2, 1, 2)),
    # ops whose result shapes depend on values
    "nonzero": lambda: mt.tensor([0, 3, 0, 5]).nonzero(),
    "nonzero, several": lambda: mt.eye(3).nonzero(as_tuple=True),
    "where, alone": lambda: mt.where(mt.tensor([True, False, True])),
    "argwhere": lambda: mt.argwhere(mt.eye(2)),
    "masked_select": lambda: mt.rand(9).masked_select(mt.arange(9) % 2 == 0),
    "by mask": lambda: (lambda t: t[t > 0.5])(mt.rand(9)),
    "unique": lambda: mt.unique(mt.tensor([3, 1, 3]), return_inverse=True, return_counts=True),
    "unique_consecutive": lambda: mt.unique_consecutive(mt.tensor([3, 3, 1])),
    "bincount": lambda: mt.bincount(mt.tensor([1, 1, 4]), mt.tensor([1, 2, 3])),
    "repeat_interleave": lambda: mt.arange(3).repeat_interleave(mt.tensor([2, 0, 1])),
    "repeat_interleave, of counts": lambda: mt.repeat_interleave(mt.tensor([2, 0, 1])),
    "one_hot": lambda: F.one_hot(mt.tensor([0, 2, 1])),
    "lstsq": lambda: mt.linalg.lstsq(mt.rand(5, 2), mt.rand(5, 1), driver="gelsd").residuals,
    "histc": lambda: mt.histc(mt.rand(20), 4, 0, 1),
    "after nonzero": lambda: mt.tensor([0, 3, 0, 5]).nonzero().float().mul_(2).sum(),
    "combinations": lambda: mt.combinations(mt.arange(4)),
}

KINDS = {"factory": FACTORIES, "random": RANDOM, "update": UPDATES, "result": RESULTS}
CASES = {f"{kind}: {name}": build for kind, cases in KINDS.items() for name, build in cases.items()}


@pytest.mark.parametrize("case", CASES)
def test_tensors_are_what_they_would_have_been(case):
    check_deferred_matches(CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_nothing_holds_data_before(case):
    made = deferred(CASES[case])
    for tensor in made if isinstance(made, (tuple, list)) else [made]:
        assert tensor.numel() == 0 or (mt.is_deferred(tensor) and tensor.untyped_storage().data is None)


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith(("random", "update"))])
def test_the_generator_is_where_it_would_have_been(case):
    eager(CASES[case])
    expected = mt.rand(3)
    deferred(CASES[case])
    assert mt.equal(mt.rand(3), expected)


# Contexts -----------------------------------------------------------------------------------------


def test_contexts_nest_and_close_after_errors():
    with mt.deferred_init():
        with mt.deferred_init():
            a = mt.rand(2)
        b = mt.rand(2)
    assert mt.is_deferred(a) and mt.is_deferred(b) and not mt.is_deferred(mt.rand(2))
    with pytest.raises(ZeroDivisionError), mt.deferred_init():
        _ = 1 / 0
    assert not mt.is_deferred(mt.rand(2))


def test_an_operator_that_raises_leaves_no_trace():
    with mt.deferred_init():
        a = mt.rand(3)
        with pytest.raises(RuntimeError):
            a.add_(mt.rand(4))
        with pytest.raises(RuntimeError):
            a @ mt.rand(4)
    expected = deferred(lambda: mt.rand(3))
    mt.materialize([a, expected])
    assert a.shape == (3,)


def test_a_decorator():
    @mt.deferred_init()
    def build():
        return mt.rand(3)

    assert mt.is_deferred(build()) and mt.is_deferred(build())


def test_a_context_is_its_threads_own():
    found = {}

    def other():
        found["outside"] = mt.is_deferred(mt.rand(2))
        with mt.deferred_init():
            found["inside"] = mt.is_deferred(mt.rand(2))

    with mt.deferred_init():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert mt.is_deferred(mt.rand(2))
    assert found == {"outside": False, "inside": True}


def test_tensors_of_one_thread_are_materialised_in_another():
    models = [deferred(lambda: nn.Linear(30, 30), seed) for seed in range(8)]
    threads = [threading.Thread(target=mt.materialize, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, model in enumerate(models):
        same(eager(lambda: nn.Linear(30, 30), seed), model)


def test_modes_around_change_nothing():
    model = deferred(lambda: nn.LayerNorm(4).requires_grad_(False))
    build = lambda: parametrizations.spectral_norm(nn.Linear(4, 4))
    with mt.amp.autocast("cpu"), mt.device("meta"), mt.inference_mode(), mt.deferred_init():
        mt.materialize(model)
    other = deferred(build)
    with mt.amp.autocast("cpu", dtype=mt.bfloat16), mt.device("meta"):
        mt.materialize(other)
    same(eager(build), other)


# Arbitrary programs -------------------------------------------------------------------------------

STEPS = [
    lambda t, o: t.mul_(1.5),
    lambda t, o: t.add_(o),
    lambda t, o: t.normal_(),
    lambda t, o: t[1:].uniform_(),
    lambda t, o: t.t()[0].fill_(2),
    lambda t, o: t.copy_(o.flip(0)),
    lambda t, o: t.zero_(),
    lambda t, o: t.__setitem__(t > 0.3, 0.1),
    lambda t, o: o.add_(t.sum()),
    lambda t, o: t.view(-1)[::3].neg_(),
    lambda t, o: t.set_(o.clone()),
    lambda t, o: setattr(t, "data", o.exp()),
    lambda t, o: mt.sub(o, 1, out=t),
    lambda t, o: t.add_(1) if t.sum() > 3 else t.sub_(1),
    lambda t, o: t.diagonal().cumsum_(0),
    lambda t, o: t[0].copy_(o[1]),
    lambda t, o: t.mul_(t.t().clone()),
    lambda t, o: mt.randn(3),
    lambda t, o: t.addmm_(o, o),
]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_any_sequence_of_updates(steps):
    def build():
        tensors = [mt.rand(4, 4), mt.zeros(4, 4), mt.eye(4)]
        tensors.append(tensors[0][1:3])
        for step, one, other in steps:
            STEPS[step](tensors[one], tensors[other])
        return tensors

    check_deferred_matches(build)


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(4)), st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 2), st.integers(0, 2)), max_size=8))
def test_any_order_of_materialising(order, steps):
    def build():
        tensors = [mt.rand(4, 4), mt.zeros(4, 4), mt.eye(4)]
        for step, one, other in steps:
            STEPS[step](tensors[one], tensors[other])
        return [*tensors, tensors[0] + tensors[1]]

    expected, made = eager(build), deferred(build)
    for i in order:
        mt.materialize(made[i])
    same(expected, made)


# Copies -------------------------------------------------------------------------------------------


def _tied():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    model.register_buffer("table", mt.arange(3.0) / 3, persistent=False)
    model.part = model[0].weight.detach()[1:]
    return model


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_deferred_too(duplicate):
    model = deferred(_tied)
    twin = duplicate(model)
    assert all(mt.is_deferred(p) for p in twin.parameters())
    assert twin[0].weight is twin[1].weight
    with mt.no_grad():
        model[0].weight.mul_(0)  # the copy is independent
    mt.materialize(twin)
    same(duplicate(eager(_tied)), twin)


def test_a_copy_while_building():
    def build():
        layer = nn.Linear(3, 3)
        return nn.ModuleList(copy.deepcopy(layer) for _ in range(3))

    check_deferred_matches(build)


def test_clones_and_detached_ones():
    def build():
        a = mt.rand(4)
        b, c = a.clone(), a.detach()
        a.mul_(2)
        return a, b, c

    check_deferred_matches(build)


def test_a_deferred_tensor_says_so():
    with mt.deferred_init():
        t = mt.rand(2, 3)
    assert "deferred" in repr(t) and "size=(2, 3)" in repr(t)
    assert "deferred" not in repr(mt.materialize(t))
