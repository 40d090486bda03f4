"""Requests for values of deferred tensors, tensors with data in calls, and the memory of recipes."""

import gc
import sys
import weakref

import pytest

import metatensor as mt
from deferring import deferred, eager
from metatensor import nn
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


# Requests for values ------------------------------------------------------------------------------

ASKED = {
    "item": lambda: mt.rand(3).sum().item(),
    "tolist": lambda: mt.rand(3).tolist(),
    "rates": lambda: [x.item() for x in mt.linspace(0, 0.3, 5)],
    "if": lambda: "yes" if mt.rand(3).sum() > 1 else "no",
    "if of several": lambda: [bool(v) for v in mt.rand(9) > 0.5],
    "int": lambda: int(mt.tensor([7])),
    "float": lambda: float(mt.rand(1)),
    "complex": lambda: complex(mt.rand(1)),
    "index of a list": lambda: "abc"[mt.tensor(1)],
    "range": lambda: list(range(mt.tensor(3))),
    "len": lambda: len(mt.rand(4, 2)),
    "iteration": lambda: [row.sum().item() for row in mt.rand(3, 2)],
    "in": lambda: 2 in mt.arange(3),
    "equal": lambda: mt.equal(mt.arange(3), mt.arange(3)),
    "allclose": lambda: mt.allclose(mt.rand(3), mt.rand(3)),
    "format": lambda: f"{mt.tensor(2.5):.3f}",
    "numpy": lambda: mt.rand(3).numpy().tolist(),
    "asarray": lambda: np.asarray(mt.rand(3)).tolist(),
    "function of NumPy": lambda: np.sqrt(mt.rand(3)).tolist(),
    "storage": lambda: mt.tensor([1, 2]).untyped_storage().tolist(),
    "dlpack": lambda: np.from_dlpack(mt.rand(3)).tolist(),
    "is_nonzero": lambda: mt.is_nonzero(mt.tensor(3)),
    "argmax": lambda: mt.rand(9).argmax().item(),
    "any": lambda: bool((mt.rand(4) > 2).any()),
    "sorted": lambda: sorted(mt.rand(5)) and None,
    "max of several": lambda: max(mt.tensor([1, 5, 3])).item(),
    "sum": lambda: sum(mt.tensor([1, 5, 3])).item(),
    "a slice": lambda: list(range(9))[: mt.tensor(4)],
    "a size": lambda: mt.zeros(mt.tensor(3), 2).shape,
    "torch.Size of items": lambda: mt.zeros([int(n) for n in mt.tensor([2, 3])]).shape,
    "cov": lambda: mt.cov(mt.rand(2, 5), fweights=mt.tensor([1, 2, 1, 1, 1])).tolist(),
}


@pytest.mark.parametrize("case", ASKED)
def test_values_are_given_when_they_are_asked_for(case):
    expected = eager(ASKED[case])
    assert deferred(ASKED[case]) == expected


def test_asking_leaves_the_tensor_deferred():
    with mt.deferred_init():
        t = mt.rand(100)
        t.sum().item()
    assert mt.is_deferred(t)


def test_only_what_a_value_needs_is_computed(monkeypatch):
    from metatensor.deferred import materializing as module

    names = []
    real = module.replay
    monkeypatch.setattr(module, "replay", lambda step, *rest: (names.append(step.name), real(step, *rest)))
    with mt.deferred_init():
        big = mt.rand(1000, 1000)
        small = mt.arange(3) + 1
        assert small.tolist() == [1, 2, 3]
    assert sorted(names) == ["add", "arange"]
    assert mt.is_deferred(big)


def test_a_loop_over_elements_computes_the_tensor_once(monkeypatch):
    from metatensor.deferred import materializing as module

    names = []
    real = module.replay
    monkeypatch.setattr(module, "replay", lambda step, *rest: (names.append(step.name), real(step, *rest)))
    with mt.deferred_init():
        t = mt.rand(50)
        assert len([v.item() for v in t]) == 50
    assert names == ["rand"]


def test_a_value_that_changed_is_the_new_one():
    with mt.deferred_init():
        t = mt.zeros(2)
        assert t[0].item() == 0
        t.add_(1)
        assert t[0].item() == 1


def test_numpy_shares_memory_with_the_tensor():
    def build():
        t = mt.zeros(4)
        t.numpy()[2] = 5
        t.mul_(2)
        return t, mt.rand(2) + t.sum()

    check_deferred_matches(build)


# Tensors with data --------------------------------------------------------------------------------


def test_tensors_with_data_are_used_as_they_were():
    array = np.arange(4.0, dtype=np.float32)
    real = mt.ones(4)
    with mt.deferred_init():
        a = mt.zeros(4) + mt.from_numpy(array)
        b = mt.rand(4).mul_(0).add_(real)
        c = mt.cat([mt.zeros(1), real])
        real.add_(5)
    array[:] = 9
    mt.materialize([a, b, c])
    assert a.tolist() == [0, 1, 2, 3]
    assert b.tolist() == [1] * 4
    assert c.tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("change", [lambda t, array: t.add_(1), lambda t, array: array.__setitem__(0, 3)], ids=["tensor", "array"])
def test_a_large_one_that_is_changed_afterwards_is_an_error(change):
    array = np.zeros(1 << 19, np.float32)
    large = mt.from_numpy(array)
    with mt.deferred_init():
        t = mt.zeros(1 << 19) + large
    change(large, array)
    with pytest.raises(RuntimeError, match="changed in place after it was used"):
        mt.materialize(t)


def test_a_large_one_is_not_copied():
    large = mt.ones(1 << 19)
    with mt.deferred_init():
        t = mt.zeros(1 << 19) + large
    assert mt.materialize(t).sum().item() == 1 << 19


def test_arrays_beside_deferred_tensors():
    array = np.arange(3.0)
    with mt.deferred_init():
        a, b = mt.ones(3, dtype=mt.float64) + array, array * mt.ones(3, dtype=mt.float64)
        c = mt.ones(3) * np.float32(2.5)
        assert mt.is_deferred(a) and mt.is_deferred(b) and mt.is_deferred(c)
    mt.materialize([a, b, c])
    assert a.tolist() == [1, 2, 3] and b.tolist() == [0, 1, 2] and c.tolist() == [2.5] * 3


def test_what_is_made_of_data_alone_is_computed():
    real = mt.ones(3)
    with mt.deferred_init():
        made = real * 2
        real.add_(1)
        assert not mt.is_deferred(made) and made.tolist() == [2, 2, 2]
    assert real.tolist() == [2, 2, 2]


def test_deferred_values_can_be_written_to_tensors_with_data():
    real = mt.zeros(4)
    with mt.deferred_init():
        d = mt.arange(4.0)
        real.copy_(d)
        assert real.tolist() == [0, 1, 2, 3]
        real.add_(d)
        real[0] = d[3]
        mt.mul(d, 2, out=(out := mt.from_numpy(np.zeros(4, np.float32))))
    assert real.tolist() == [3, 2, 4, 6]
    assert out.tolist() == [0, 2, 4, 6]


def test_meta_tensors_stay_meta():
    with mt.deferred_init():
        a = mt.rand(3, device="meta")
        b = mt.rand(3).to("meta")
        assert a.is_meta and b.is_meta and (a + b).is_meta
        assert not mt.is_deferred(a) and not mt.is_deferred(b)


def test_after_the_context_deferred_tensors_still_remember():
    with mt.deferred_init():
        a = mt.arange(4.0)
    b = a * 2 + 1
    a.add_(mt.ones(4))
    assert mt.is_deferred(b) and not mt.is_deferred(mt.ones(3))
    assert mt.materialize(b).tolist() == [1, 3, 5, 7]
    assert mt.materialize(a).tolist() == [1, 2, 3, 4]


def test_materialised_ones_go_on_as_usual():
    with mt.deferred_init():
        a = mt.zeros(3)
        b = a + 1
    mt.materialize(a).add_(10)
    assert mt.materialize(b).tolist() == [1, 1, 1]  # the value of a at the time of the call
    assert (a + b).tolist() == [11, 11, 11]


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
                recipes = [weakref.ref(recipe_of(t.untyped_storage())) for t in made]
                assert all(recipe() is not None for recipe in recipes)
                del made
                assert [recipe() for recipe in recipes] == [None] * len(recipes)
    finally:
        gc.enable()


CYCLES = {
    "each other": lambda: (lambda a, b: (a.add_(b), b.add_(a)))(mt.rand(3), mt.rand(3)),
    "results of one step": lambda: (lambda v, m: (v, m.add_(v)))(*mt.var_mean(mt.rand(3))),
    "by way of a third": lambda: (lambda a: (lambda c: (a.add_(c), c))(a * 2))(mt.rand(3)),
    "a chain": lambda: (lambda a, b, c: (a.add_(b), b.add_(c), c.add_(a)))(mt.rand(3), mt.rand(3), mt.rand(3)),
    "lists": lambda: (lambda a: a.copy_(mt.stack([a, a]).sum(0)))(mt.rand(3)),
    "out of two": lambda: (lambda a, b, i: (mt.max(a, 0, out=(b[0], i)), a.add_(b), b.add_(a), b.add_(i))[1:])(
        mt.rand(3, 3), mt.rand(3, 3), mt.zeros(3, dtype=mt.int64)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CYCLES)
def test_cycles_of_recipes_are_collected(case):
    from metatensor._core.storage import recipe_of

    with mt.deferred_init():
        made = CYCLES[case]()
        recipes = [weakref.ref(recipe_of(t.untyped_storage())) for t in (made if isinstance(made, tuple) else (made,))]
        del made
    gc.collect()
    assert [recipe() for recipe in recipes] == [None] * len(recipes)


def test_making_many_keeps_nothing():
    def count():
        gc.collect()
        return sum(type(o).__name__ in ("Recipe", "Step", "Constant") for o in gc.get_objects())

    def work():
        model = deferred(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LSTM(4, 4)))
        mt.materialize(model)

    work()
    before = count()
    for _ in range(5):
        work()
    assert count() <= before


@pytest.mark.slow
def test_long_chains():
    with mt.deferred_init():
        a, b = mt.zeros(4), mt.zeros(4)
        for _ in range(20_000):
            a.add_(1)
        for i in range(3000):
            b.add_(a).mul_(0.5)
            if i % 3 == 0:
                a.sub_(b)
        apart = [a + i for i in range(1000)]
    eager = [np.float32(20_000), np.float32(0)]
    for i in range(3000):
        eager[1] = (eager[1] + eager[0]) * np.float32(0.5)
        if i % 3 == 0:
            eager[0] = eager[0] - eager[1]
    mt.materialize([b, *apart])
    assert b[0].item() == eager[1] and apart[7][0].item() == eager[0] + np.float32(7)
    assert mt.is_deferred(a) and mt.materialize(a)[0].item() == eager[0]


def test_snapshots_of_a_changing_tensor():
    with mt.deferred_init():
        a, taken = mt.zeros(2), []
        for _ in range(2000):
            taken.append(a.add_(1).clone())
    mt.materialize(taken)
    assert [t[1].item() for t in taken] == list(range(1, 2001))


def test_questions_of_the_library_about_values_are_answered():
    from metatensor.func import vmap
    from metatensor.nn.modules.transformer import _detect_is_causal_mask
    from metatensor.torch_api.torch import _assert

    with mt.deferred_init():
        x = mt.rand(3, 4, 4) + 3 * mt.eye(4)
        inverse = vmap(mt.linalg.inv)(x)
        sorted_ = vmap(lambda t: t.sort(0)[0])(x)
        counts = vmap(lambda t: mt.histc(t, 4))(x)
        causal = nn.Transformer.generate_square_subsequent_mask(3)
        assert _detect_is_causal_mask(causal) and not _detect_is_causal_mask(causal + mt.ones(3, 3))
        _assert(x.sum() > 0, "positive")
        with pytest.raises(AssertionError, match="negative"):
            _assert(x.sum() < 0, "negative")
    mt.materialize([x, inverse, sorted_, counts])
    assert mt.equal(inverse, vmap(mt.linalg.inv)(x)) and mt.equal(sorted_, x.sort(1)[0])
    assert mt.equal(counts, vmap(lambda t: mt.histc(t, 4))(x))


def test_errors_say_which_tensor_is_meant():
    with mt.deferred_init():
        inverse = mt.linalg.inv(mt.zeros(3, 3))
    with pytest.raises(RuntimeError, match="singular") as error:
        mt.materialize(inverse)
    if sys.version_info >= (3, 11):
        assert any("for the deferred tensor that was made at" in note and __file__ in note for note in error.value.__notes__)
    assert mt.is_deferred(inverse)
