"""Recipes as objects: recipes, steps, and steps that a replay omits."""

import gc
import pickle
import weakref

import pytest

import metatensor as mt
from metatensor._core.recorder import Recorder, current_recorder, suspended
from metatensor._core.recording import Constant, Recipe, Ref, Step
from metatensor._core.replaying import replay
from metatensor._core.storage import recipe_of
from metatensor.deferred import groups_of, overwrites, read, steps_for
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


def recipe(t):
    return recipe_of(t.untyped_storage())


def names(t):
    return [step.name for step in steps_for([recipe(t)])]


def test_steps_are_those_that_matter():
    with mt.deferred_init():
        t = mt.empty(4).zero_().normal_().mul_(2)
        whole = mt.rand(3).fill_(1)
        part = mt.rand(4)
        part[1:] = 0
        part.uniform_()
        kept = mt.rand(4)
        kept[1:] = 0
    assert names(t) == ["normal_", "mul"]
    assert names(whole) == ["fill"]
    assert names(part) == ["uniform_"]
    assert names(kept) == ["rand", "fill"]


def test_a_copy_over_itself_is_not_left_out():
    with mt.deferred_init():
        t = mt.arange(4.0)
        t.copy_(t.flip(0))
        u = mt.arange(4.0)
        u.copy_(u.clone())
    assert names(t) == ["arange", "flip", "copy_"]
    assert mt.materialize(t).tolist() == [3, 2, 1, 0]
    assert mt.materialize(u).tolist() == [0, 1, 2, 3]


def test_an_earlier_state_is_what_others_see():
    with mt.deferred_init():
        a = mt.zeros(2)
        b = a + 1
        a.fill_(5)
        c = a + b
    assert names(b) == ["zeros", "add"]
    assert mt.materialize(c).tolist() == [6, 6]
    assert mt.materialize(b).tolist() == [1, 1] and mt.materialize(a).tolist() == [5, 5]


def test_groups_share_no_step():
    with mt.deferred_init():
        a, b = mt.rand(2), mt.rand(2)
        c, d = a + 1, a * 2
        e = c + b
    groups = groups_of([recipe(t) for t in (d, b, c)])
    assert sorted(len(members) for members, _ in groups) == [1, 2]
    assert len(groups_of([recipe(t) for t in (d, b, c, e)])) == 1
    for _, steps in groups:
        assert [s.number for s in steps] == sorted(s.number for s in steps)


def test_refs_are_views():
    with mt.deferred_init():
        t = mt.zeros(4, 6)
        t[1:, ::2].fill_(1)
        deep = mt.zeros(1, 2, 1, 2, 1, 2)
    ref = recipe(t).writers[-1].result
    assert (ref.size, ref.stride, ref.offset, ref.dtype) == ((3, 3), (6, 2), 6, mt.float32)
    assert ref.recipe is recipe(t) and not ref.covers() and recipe(t).writers[0].result.covers()
    assert recipe(deep).writers[0].result.size == (1, 2, 1, 2, 1, 2) and recipe(deep).writers[0].result.covers()
    assert overwrites(recipe(t).writers[0], recipe(t)) and not overwrites(recipe(t).writers[1], recipe(t))
    assert read(recipe(t).writers[1]) == {recipe(t)}


def test_objects_by_hand():
    made = Recipe(mt.device("cpu"), 8)
    ref = Ref(made, mt.float32, (2,), (1,), 0, 0)
    step = Step(1, None, [ref], ref, mt.device("cpu"))
    assert (made.nbytes, made.made_at, made.writers) == (8, None, []) and ref.covers() and step.name == "copy" and step.op is None
    made.grow(16)
    assert made.nbytes == 16 and not ref.covers()
    with pytest.raises(TypeError):
        Ref(None, mt.float32, (), (), 0, 0)


def test_where_it_was_made():
    with mt.deferred_init():
        t = mt.rand(2)  # this line
        layer = mt.nn.Linear(2, 2)
    file, line = recipe(t).made_at
    assert file == __file__ and open(__file__).read().splitlines()[line - 1].endswith("# this line")
    assert recipe(layer.weight).made_at == (__file__, line + 1)


def test_recorders_nest():
    assert current_recorder() is None
    one, other = Recorder(), Recorder(False)
    with one:
        assert current_recorder() is one
        with other, one, suspended():
            assert current_recorder() is None
            assert mt.ones(2).untyped_storage().data is not None
        assert current_recorder() is one
    assert current_recorder() is None


def test_constants_are_copies():
    t = mt.ones(3)
    kept = Constant(t)
    t.zero_()
    assert kept.value().tolist() == [1, 1, 1]


def test_a_recipe_is_not_used_up():
    with mt.deferred_init():
        t = mt.rand(5)
    twin = mt.materialize_slice(t, ...)
    assert mt.equal(mt.materialize(t), twin)
    t.add_(1)
    assert mt.equal(mt.materialize(mt.dematerialize(t)), twin)


@pytest.fixture(scope="module")
def pair():
    @mt.op("testing_recording::pair")
    def pair(x: mt.Tensor) -> tuple[mt.Tensor, mt.Tensor]:
        """Return twice and three times the input."""
        return mt.Spec(x.shape, x.dtype), mt.Spec(x.shape, x.dtype)

    @pair.kernel("cpu")
    def _(out, x):
        out[0].copy_(x * 2)
        out[1].copy_(x * 3)

    return pair


def test_an_op_of_ones_own(pair):
    with mt.deferred_init():
        a, b = pair(mt.arange(3.0))
        assert b.sum().item() == 9
    assert mt.materialize(a).tolist() == [0, 2, 4] and mt.is_deferred(b)


@pytest.fixture(scope="module", params=["a result", "no result"])
def written(request):
    some = request.param == "a result"

    def meta(x: mt.Tensor, y: mt.Tensor, z: mt.Tensor) -> mt.Tensor:
        return mt.Spec(z.shape, z.dtype)

    def nothing(x: mt.Tensor, y: mt.Tensor, z: mt.Tensor) -> None:
        return None

    op = mt.op(f"testing_recording::write_{'one' if some else 'none'}", mutates_args=("x", "y"))(meta if some else nothing)

    @op.kernel("cpu")
    def _(out, x, y, z):
        x.add_(z)
        y.mul_(2)
        if some:
            out.copy_(z * 3)

    return op


def test_an_op_that_writes_to_several_arguments(written):
    def build():
        x, y = mt.rand(3), mt.rand(4)
        made = written(x, y[1:], mt.arange(3.0))
        return [t for t in (x, y, made, x + y[1:]) if t is not None]

    check_deferred_matches(build)
    with mt.deferred_init():
        x, y, *_ = build()
    real = mt.zeros(3)
    written(real, x, y[1:])  # missing inputs must be given
    expected = mt.materialize_slice(mt.dematerialize(y), slice(1, None))
    assert mt.equal(real, expected) and not mt.is_deferred(x)


def test_recipes_of_such_ops_are_collected(written):
    with mt.deferred_init():
        tensors = mt.rand(3), mt.rand(3), mt.rand(3)
        written(*tensors)
        recipes = [weakref.ref(recipe(t)) for t in tensors]
    del tensors
    gc.collect()
    assert [g() for g in recipes] == [None] * 3


def test_they_can_be_pickled(written):
    with mt.deferred_init():
        x, y = mt.rand(3), mt.rand(3)
        written(x, y, mt.ones(3))
    twin = pickle.loads(pickle.dumps(x))
    assert mt.equal(mt.materialize(twin), mt.materialize(x))


def test_resized_afterwards():
    with mt.deferred_init():
        small, large = mt.rand(6), mt.zeros(2)
        small.untyped_storage().resize_(8)
        large.resize_(4)[2:].fill_(1)
    whole = mt.materialize_slice(large, ...)
    mt.materialize([small, large])
    assert small.untyped_storage().nbytes() == 8 and mt.equal(whole, large) and large.tolist() == [0, 0, 1, 1]


def test_objects_that_were_never_initialised():
    from metatensor._core.op import registry

    empty = Ref.__new__(Ref)
    assert empty.recipe is None and not empty.covers() and empty.size == ()
    with pytest.raises(RuntimeError, match="without a tensor"):
        Constant.__new__(Constant).value()
    device = mt.rand(1, device="cpu").untyped_storage().device
    made = Recipe(device, 12)
    for size, stride in (((1, 2), (1,)), ((1,) * 200, (1,) * 200)):
        with pytest.raises(ValueError, match="do not match"):
            Ref(made, mt.float32, size, stride, 0, 0)
    add = registry["add"].overloads[0]
    for args, result in (([], Ref(made, mt.float32, (3,), (1,), 0, 0)), ([1, 2, 1], empty)):
        with pytest.raises(ValueError, match="replay"):
            replay(Step(1, add, args, result, device), {}, lambda value: value)
