"""Tensors without data, and how they are reported."""

import warnings

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.plugins import device_types

needs_cpu = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.register_buffer("table", mt.rand(4), persistent=False)
        self.plain = mt.ones(2)
        self.nothing = mt.empty(0)


def on_meta():
    with mt.device("meta"):
        return Model()


def names(module):
    return [(item.name, item.kind) for item in module.unresolved()]


def test_every_tensor_without_data_is_listed():
    found = names(on_meta())
    assert ("encoder.0.weight", "parameter") in found and ("encoder.1.running_mean", "buffer") in found
    assert ("table", "buffer (not in the state dict)") in found and ("plain", "attribute") in found
    assert len(found) == 9 and not any(name == "nothing" for name, _ in found)


def test_deferred_ones_say_where_they_were_made():
    with mt.deferred_init():
        model = Model()
    item = model.unresolved()[0]
    assert item.deferred and __file__ in item.made_at
    lines = open(__file__).read().splitlines()
    made = {i.name: lines[int(i.made_at.rpartition(":")[2]) - 1].strip() for i in model.unresolved()}
    assert made["table"].startswith('self.register_buffer("table"')
    assert made["plain"] == "self.plain = mt.ones(2)" and made["encoder.0.weight"].startswith("self.encoder = ")


def test_the_error_names_them_and_the_ways():
    with pytest.raises(RuntimeError) as meta:
        mt.assert_materialized(on_meta())
    assert "Model: 9 tensors hold no data" in str(meta.value) and "encoder.1.num_batches_tracked: buffer" in str(meta.value)
    assert "load_state_dict" in str(meta.value) and "mt.materialize" not in str(meta.value)
    with mt.deferred_init():
        model = Model()
    with pytest.raises(RuntimeError) as deferred:
        mt.assert_materialized(model)
    assert "mt.materialize(model)" in str(deferred.value) and "load_state_dict" not in str(deferred.value)


@needs_cpu
def test_nothing_is_left_afterwards():
    with mt.deferred_init():
        model = Model()
    mt.assert_materialized(mt.materialize(model))
    assert model.unresolved() == []
    mt.assert_materialized(Model())


def test_long_lists_are_cut():
    with mt.device("meta"):
        model = nn.ModuleList(nn.Linear(1, 1) for _ in range(30))
    with pytest.raises(RuntimeError, match="and 40 more"):
        mt.assert_materialized(model)


@needs_cpu
class TestNoMaterialization:
    def test_results_with_data(self):
        with mt.assert_no_materialization():
            t = mt.rand(3, device="meta") + 1
            assert t.is_meta
            for make in (lambda: mt.ones(3), lambda: mt.tensor([1, 2]), lambda: mt.rand(2, 2)):
                with pytest.raises(RuntimeError, match="forbids it"):
                    make()
        assert mt.ones(3).tolist() == [1, 1, 1]

    def test_names_the_operator(self):
        with mt.assert_no_materialization(), pytest.raises(RuntimeError, match=r"^full\(\).*\[2, 5\] on cpu"):
            mt.full((2, 5), 1.0)

    def test_fake_and_deferred_ones_pass(self):
        with mt.assert_no_materialization(), mt.deferred_init():
            nn.Linear(3, 3)
        with mt.assert_no_materialization(), mt.FakeTensorMode():
            nn.Linear(3, 3)(mt.rand(2, 3))


@needs_cpu
class TestToEmpty:
    def test_computed_buffers_are_named(self):
        with pytest.warns(UserWarning, match=r"lost: table\. .*materialize") as found:
            on_meta().to_empty(device="cpu")
        assert found[0].filename == __file__

    def test_only_those_that_move(self):
        model = on_meta()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.encoder.to_empty(device="cpu")
            nn.Linear(2, 2, device="meta").to_empty(device="cpu")
        with pytest.warns(UserWarning, match="table"):
            model.to_empty(device="cpu", recurse=False)
        inner = nn.Sequential(on_meta())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            inner.to_empty(device="cpu", recurse=False)
        assert inner[0].table.is_meta


@needs_cpu
class TestMessages:
    model = property(lambda self: self.__dict__.setdefault("made", on_meta()))

    @pytest.mark.parametrize("call", [
        lambda m: m.encoder(mt.rand(2, 3)), lambda m: m.encoder[0].weight.tolist(), lambda m: m.encoder[0].weight[0, 0].item(),
        lambda m: m.encoder[0].weight.cpu(), lambda m: mt.rand(4, 3).copy_(m.encoder[0].weight), lambda m: m.to("cpu"),
        lambda m: bool(m.encoder[0].weight[0, 0]),
    ])  # fmt: skip
    def test_the_place_in_the_module_is_named(self, call):
        with pytest.raises((RuntimeError, NotImplementedError)) as found:
            call(self.model)
        assert "encoder.0.weight" in str(found.value)

    def test_buffers_too(self):
        with pytest.raises(mt.DataDependentError, match="table of Model"):
            self.model.table.tolist()

    def test_other_tensors_have_no_place(self):
        with pytest.raises(mt.DataDependentError) as found:
            mt.rand(3, device="meta").tolist()
        assert "the tensor is" not in str(found.value)

    def test_errors_can_be_pickled(self):
        import pickle

        model = self.model
        with pytest.raises(mt.DataDependentError) as found:
            model.table.tolist()
        again = pickle.loads(pickle.dumps(found.value))
        assert type(again) is mt.DataDependentError and "table of Model" in str(again)


class TestWhatIsHidden:
    """Tensors in containers, in modules that are not registered, and without a shape."""

    def build(self):
        model = nn.Module()
        model.tables = {"a": [mt.ones(2)], 3: mt.ones(1)}
        model.tables["itself"] = model.tables
        model.weight = nn.Parameter(mt.ones(3))
        model.weight.scale = mt.ones(1)
        model.teacher = [nn.Linear(2, 2)]
        model.child = nn.Linear(2, 2, bias=False)
        model.child.parent = [model]
        return model

    def test_it_is_listed(self):
        with mt.device("meta"):
            model = self.build()
        assert names(model) == [
            ("weight", "parameter"), ("weight.scale", "attribute"), ("tables['a'][0]", "attribute"), ("tables[3]", "attribute"),
            ("teacher[0].weight", "parameter"), ("teacher[0].bias", "parameter"), ("child.weight", "parameter"),
        ]  # fmt: skip
        assert names(model.child) == [("weight", "parameter")]

    @needs_cpu
    def test_it_is_materialised(self):
        with mt.deferred_init():
            model = self.build()
        mt.materialize(model.child)
        assert not mt.is_deferred(model.child.weight) and mt.is_deferred(model.weight)
        mt.assert_materialized(mt.materialize(model))
        assert not mt.is_deferred(model.teacher[0].weight) and not mt.is_deferred(model.weight.scale)

    def test_of_no_shape(self):
        with mt.device("meta"):
            model = nn.Sequential(nn.LazyLinear(4))
        assert [str(item) for item in model.unresolved()] == [
            "0.weight: parameter, no shape yet", "0.bias: parameter, no shape yet",
        ]  # fmt: skip
        with pytest.raises(RuntimeError, match="calling the module sets the missing shapes"):
            mt.assert_materialized(model)

    def test_constants_of_fake_tensors_are_not_deferred(self):
        model = nn.Module()
        with mt.FakeTensorMode():
            model.table = mt.arange(3)
        assert not model.unresolved()[0].deferred
        with pytest.raises(RuntimeError) as error:
            mt.assert_materialized(model)
        assert "mt.materialize" not in str(error.value)


@needs_cpu
class TestMemoryForWhatHasNone:
    """`to_empty` of deferred and fake modules."""

    @pytest.mark.parametrize("mode", [mt.deferred_init, mt.FakeTensorMode])
    def test_there_is_memory(self, mode):
        with mode():
            model = Model()
        with pytest.warns(UserWarning, match="table"):
            model.encoder.append(nn.Identity())
            model.to_empty(device="cpu")
        assert names(model) == [("plain", "attribute")]
        assert not mt.is_deferred(model.encoder[0].weight)

    def test_a_deferred_one_is_told_of_materialize(self):
        with mt.deferred_init():
            model = Model()
        with pytest.warns(UserWarning, match=r"lost: table. Call metatensor.materialize\(model\) instead"):
            model.to_empty(device="cpu")

    def test_names_are_in_order(self):
        with mt.device("meta"):
            model = nn.Module()
            for name in "cabed":
                model.register_buffer(name, mt.ones(1), persistent=False)
        with pytest.warns(UserWarning, match="lost: c, a, b, e, d"):
            model.to_empty(device="cpu")


@needs_cpu
def test_values_of_deferred_tensors_are_forbidden_too():
    with mt.deferred_init():
        large, rates = mt.rand(1000), mt.linspace(0, 1, 3)
    with mt.assert_no_materialization():
        assert rates.tolist() == [0, 0.5, 1] and mt.is_deferred(large + 1)
        for ask in (lambda: large[0].item(), large.tolist, lambda: bool(large.sum() > 0), lambda: mt.equal(large, large), large.nonzero,
                    lambda: mt.materialize_slice(large, 0), large.numpy):  # fmt: skip
            with pytest.raises(RuntimeError, match="assert_no_materialization forbids it"):
                ask()
    assert mt.is_deferred(large) and large[0].item() < 1
