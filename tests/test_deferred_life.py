"""Deferred tensors: contexts, memory, anything at all, and copies."""

import copy
import gc
import pickle
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor import nn
from metatensor.nn.utils import parametrizations
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches
from test_deferred import deferred, eager, same

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")

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


# Memory -------------------------------------------------------------------------------------------


def test_recipes_die_with_their_tensors():
    from metatensor._core.storage import recipe_of

    def updated():
        a = mt.rand(3)
        a.mul_(2).add_(a)
        return a, a + 1

    gc.collect()
    gc.disable()
    try:
        with mt.deferred_init():
            for build in (updated, lambda: (mt.rand(3)[1:].zero_(),)):
                made = build()
                ghosts = [weakref.ref(recipe_of(t.untyped_storage())) for t in made]
                assert all(ghost() is not None for ghost in ghosts)
                del made
                assert [ghost() for ghost in ghosts] == [None] * len(ghosts)
    finally:
        gc.enable()


CYCLES = {
    "each other": lambda: (lambda a, b: (a.add_(b), b.add_(a)))(mt.rand(3), mt.rand(3)),
    "results of one step": lambda: (lambda v, m: (v, m.add_(v)))(*mt.var_mean(mt.rand(3))),
    "by way of a third": lambda: (lambda a: (lambda c: (a.add_(c), c))(a * 2))(mt.rand(3)),
    "a chain": lambda: (lambda a, b, c: (a.add_(b), b.add_(c), c.add_(a)))(mt.rand(3), mt.rand(3), mt.rand(3)),
    "lists": lambda: (lambda a: a.copy_(mt.stack([a, a]).sum(0)))(mt.rand(3)),
    "out of two": lambda: (lambda a, i: (mt.max(a, 0, out=(a[0], i)), a.add_(i))[1])(mt.rand(3, 3), mt.zeros(3, dtype=mt.int64)),
}


@pytest.mark.parametrize("case", CYCLES)
def test_cycles_of_recipes_are_collected(case):
    from metatensor._core.storage import recipe_of

    with mt.deferred_init():
        made = CYCLES[case]()
        ghosts = [weakref.ref(recipe_of(t.untyped_storage())) for t in (made if isinstance(made, tuple) else (made,))]
        del made
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * len(ghosts)


def test_making_many_keeps_nothing():
    def count():
        gc.collect()
        return sum(type(o).__name__ in ("Ghost", "Step", "Constant") for o in gc.get_objects())

    def work():
        model = deferred(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LSTM(4, 4)))
        mt.materialize(model)

    work()
    before = count()
    for _ in range(5):
        work()
    assert count() <= before


# Anything -----------------------------------------------------------------------------------------

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
        model[0].weight.mul_(0)  # the copy has a life of its own
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
