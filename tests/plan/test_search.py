"""Layouts of a training step."""

import gc
import json

import pytest

import metatensor as mt
from metatensor import distributed, nn
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from metatensor.plan.stages import split
from plan.operators import unusual
from plan.transformers_like import Decoder, Layer, decoder, tokens


def loss(output, batch):
    assert output.shape[0] == batch
    return F.cross_entropy(output.flatten(0, 1), mt.empty(batch * output.shape[1], dtype=mt.int64, device="meta"))


def search(model=None, **options):
    settings = {"devices": "8xH100", "global_batch": 64, "loss": loss, "keep": None, "schedules": ["1F1B"], **options}
    return mt.plan.search(model or decoder(), tokens(), **settings)


@pytest.fixture(scope="module")
def plan():
    return search()


@pytest.mark.slow
def test_layouts_use_all_devices_and_the_whole_batch(plan):
    assert plan.fits and len(plan.layouts) > 100
    for layout in plan.layouts:
        d = layout.degrees
        assert d.devices == 8 and d.data * d.micro_batch * layout.micro_batches == layout.samples == 64
        assert sum(len(stage) for stage in layout.stages) == 4 and len(layout.memory) == d.pipeline
    assert [layout.seconds for layout in plan.layouts] == sorted(layout.seconds for layout in plan.layouts)


@pytest.mark.slow
def test_the_parts_add_up(plan):
    for layout in plan.layouts[::20]:
        assert sum(layout.parts().values()) == pytest.approx(layout.seconds)
        assert layout.peak == max(sum(rank.values()) for rank in layout.memory)
        assert 0 < layout.mfu < 1


def of(plan, **degrees):
    return next(one for one in plan.layouts if one.degrees == Degrees(**degrees))


@pytest.mark.slow
def test_states_by_sharding(plan):
    numel = sum(p.numel() for p in decoder().parameters())
    plain, one, two, three = (of(plan, data=8, shard=n).memory[0] for n in range(4))
    assert plain["parameter"] == 6 * numel and plain["gradient"] == 4 * numel
    steps = 4 * 6  # a number for each of four blocks, and for what is before and after them
    assert plain["optimizer"] == 8 * numel + steps and one["optimizer"] == numel + steps
    assert one["parameter"] == 2 * numel + 4 * numel // 8 and one["gradient"] == 4 * numel
    assert two["gradient"] == 4 * numel // 8 and two["parameter"] == one["parameter"]
    assert three["parameter"] == 4 * numel // 8 and three["communication"] > 0


@pytest.mark.slow
def test_recomputation_trades_time_for_memory(plan):
    none, full = of(plan, data=8), of(plan, data=8, recompute="full")
    assert full.memory[0]["saved"] < none.memory[0]["saved"] / 3 and full.compute > none.compute


@pytest.mark.slow
def test_a_pipeline_holds_micro_batches_and_waits(plan):
    layout = of(plan, data=4, pipeline=2)
    first, last = layout.memory
    assert layout.bubble > 0 and layout.micro_batches == 16
    single = of(plan, data=8).memory[0]["saved"]
    assert first["saved"] > last["saved"] - single / 2 and layout.pipeline_communication > 0


@pytest.mark.slow
def test_the_pareto_front(plan):
    front = plan.pareto()
    assert front[0] is plan.best
    for layout in plan.layouts:
        assert any(one.seconds <= layout.seconds and one.peak <= layout.peak for one in front)


@pytest.mark.slow
def test_limits(plan):
    limit = sorted(layout.peak for layout in plan.layouts)[10]
    small = search(max_memory=limit)
    assert all(layout.peak <= limit for layout in small.layouts)
    for one in small.rejected:
        if one.by is not None:
            assert one.limit == "memory" and one.layout.peak == limit + one.by
    none = search(max_memory=1000, tensor=[1])
    assert not none.fits and "more memory on each device" in none.advice() and "no layout fits" in str(none)
    with pytest.raises(ValueError, match="no layout fits"):
        none.best


@pytest.mark.slow
def test_the_fastest_of_all_that_fit(plan):
    """Each layout alone is as fast as in the search, so the best is that of trying all."""
    for layout in plan.layouts[:: len(plan.layouts) // 5]:
        d = layout.degrees
        alone = search(tensor=[d.tensor], pipeline=[d.pipeline], shard=[d.shard], micro_batches=[d.micro_batch], recompute=[d.recompute],
                       sequence=[d.sequence])  # fmt: skip
        assert alone.best.seconds == pytest.approx(layout.seconds) and alone.best.peak == layout.peak >= 0
        assert plan.best.seconds <= alone.best.seconds


@pytest.mark.slow
def test_explanations(plan):
    a, b = of(plan, data=8), of(plan, data=8, recompute="full")
    text = plan.explain(a.degrees, b.degrees)
    assert f"[{min(a, b, key=lambda one: one.seconds).degrees}] takes" in text and "less compute" in text and "are left" in text
    assert plan.explain(plan.layouts.index(b), plan.layouts.index(a)) == text
    with pytest.raises(ValueError, match="there are layouts 0 to"):
        plan.explain(0, 10**6)
    with pytest.raises(ValueError, match="was not costed"):
        plan.explain(0, Degrees(data=3))


@pytest.mark.slow
def test_json_and_text(plan):
    found = json.loads(json.dumps(plan.to_dict(top=3)))
    assert len(found["layouts"]) == 3 and found["layouts"][0]["step_time_s"] == plan.best.seconds
    assert set(found["layouts"][0]["memory_bytes"][0]) == {"parameter", "gradient", "optimizer", "saved", "temporary", "communication"}
    assert str(plan.best.degrees) in str(plan)


def test_single_device_times_are_those_of_an_estimate():
    model = decoder(width=2048, vocabulary=16384)
    best = mt.plan.search(model, tokens(1, 2048), devices="1xH100", global_batch=2, micro_batches=[2], recompute=["none"],
                          precision="fp32", loss=loss).best  # fmt: skip
    report = mt.analysis.estimate_training(model, tokens(2, 2048), loss=lambda out: loss(out, 2), device="h100", precision="fp32")
    assert best.compute == pytest.approx(report.time.forward + report.time.backward, rel=0.05)
    assert best.model_flops == report.forward_flops + report.backward_flops
    # A plan keeps gradients throughout the step, an estimate only from when they are computed.
    assert report.total_bytes < best.peak < report.total_bytes + report.gradient_bytes + report.saved_bytes


def test_a_search_leaves_no_process_group_and_the_model_alone():
    model = decoder()
    model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    search(model, tensor=[2], pipeline=[1], micro_batches=[1])
    assert [module.training for module in model.modules()] == modes
    assert not distributed.is_initialized()
    assert all(p.dtype == mt.float32 and p.grad is None for p in model.parameters())


def test_a_search_leaves_no_memory():
    def meshes():
        gc.collect()
        return [one for one in gc.get_objects() if type(one) is distributed.device_mesh.DeviceMesh]

    before = len(meshes())
    with mt.device("meta"):
        layers = [nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(2)]
        mt.plan.search(nn.Sequential(*layers), mt.empty(1, 16, 32), devices="2xH100", global_batch=4)
    assert len(meshes()) == before


def test_kinds_of_blocks():
    class Wide(Layer):
        def __init__(self, width):
            super().__init__(width, hidden=8 * width)

    model = decoder()
    with mt.device("meta"):
        for i, name in enumerate(("up", "down")):
            size = (256, 2048)
            setattr(model.layers[3], name, nn.Linear(size[i], size[1 - i], bias=False))
    plan = search(model, pipeline=[2], tensor=[1], micro_batches=[1], recompute=["none"], shard=[0])
    assert sorted(kind for stage in plan.best.stages for kind in stage) == [0, 0, 0, 1]
    equal = search(model, pipeline=[2], tensor=[1], micro_batches=[1], recompute=["none"], shard=[0], stages="equal")
    assert [len(stage) for stage in equal.best.stages] == [2, 2] and equal.best.seconds >= plan.best.seconds
    third = search(pipeline=[3], tensor=[1], devices="3xH100", global_batch=6, stages="equal")
    assert not third.fits and "cannot be divided into 3 equal stages" in third.rejected[0].limit


class Tupled(Layer):
    def forward(self, x):
        return super().forward(x), None


@pytest.mark.slow
def test_blocks_that_return_tuples():
    class Model(Decoder):
        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x, _ = layer(x)
            return self.head(self.norm(x))

    with mt.device("meta"):
        model = Model(layer=Tupled)
    options = {"tensor": [1, 2], "micro_batches": [1]}
    assert search(model, **options).best.seconds == pytest.approx(search(**options).best.seconds)


class Growing(Layer):
    def forward(self, x):
        return mt.cat([super().forward(x), x], 1)


@pytest.mark.parametrize(("options", "message"), [
    ({"precision": "bf17"}, "precision 'bf17' is unknown; choose from fp32"),
    ({"global_batch": 0}, "global_batch must be at least 1"),
    ({"recompute": ["some"]}, "recompute 'some' is unknown"),
    ({"shard": [4]}, "shard 4 is unknown; choose from 0, 1, 2, 3"),
    ({"stages": "three"}, "stages must be"),
    ({"headroom": 1.0}, "headroom must be"),
    ({"devices": "8xH10"}, "H10"),
])  # fmt: skip
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        search(**options)


@pytest.mark.slow
def test_a_model_without_blocks_is_one_part():
    with mt.device("meta"):
        growing, single, x = Decoder(layer=Growing), nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)), mt.empty(1, 64)
    plan = mt.plan.search(growing, tokens(), devices="8xH100", global_batch=8)
    assert plan.fits and "turns [1, 128, 256] into [1, 256, 256]" in plan.remarks[0]
    plan = mt.plan.search(single, x, devices="8xH100", global_batch=64)
    assert plan.fits and all(one.degrees.pipeline == 1 and one.degrees.recompute == "none" for one in plan.layouts)
    numel = sum(p.numel() for p in single.parameters())
    assert of(plan, data=8).memory[0]["optimizer"] == 8 * numel + 4 and of(plan, data=8, shard=1).memory[0]["optimizer"] == numel + 4


@pytest.mark.parametrize(
    "kind, why", [(unusual.Reversed, "in another order than that of their list"), (unusual.Twice, "blocks.0 is called 2 times")]
)
def test_blocks_that_are_not_called_once_in_order(kind, why):
    with mt.device("meta"):
        plan = mt.plan.search(kind(), mt.empty(1, 16), devices="2xH100", global_batch=4, micro_batches=[1])
    assert any(why in one for one in plan.remarks) and {one.degrees.pipeline for one in plan.layouts} == {1}


def test_micro_batches_by_default():
    with mt.device("meta"):
        plan = mt.plan.search(nn.Linear(8, 8), mt.empty(1, 8), devices="1xH100", global_batch=48)
    assert {one.degrees.micro_batch for one in plan.layouts} == {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}


def test_errors_without_a_message():
    class Plain(nn.Linear):
        def forward(self, x):
            if isinstance(x, distributed.tensor.DTensor):
                raise NotImplementedError
            return super().forward(x)

    with mt.device("meta"):
        model = nn.Sequential(*(Plain(8, 8) for _ in range(2)))
        plan = mt.plan.search(model, mt.empty(1, 8), devices="2xH100", global_batch=4, micro_batches=[1], tensor=[2])
    assert plan.advice() == "0 cannot be divided: NotImplementedError"


def test_unexpected_errors_are_remarked_upon():
    class Plain(nn.Linear):
        def forward(self, x):
            if isinstance(x, distributed.tensor.DTensor):
                return {}["weights"]
            return super().forward(x)

    with mt.device("meta"):
        model = nn.Sequential(*(Plain(8, 8) for _ in range(2)))
        plan = mt.plan.search(model, mt.empty(1, 8), devices="2xH100", global_batch=4, micro_batches=[1], recompute=["none"])
    assert plan.fits
    text = "some layouts are left out because of an unexpected error: KeyError: 'weights' at "
    (found,) = (one for one in plan.remarks if one.startswith(text))
    assert "test_search.py" in found
    assert any(one.limit.startswith("0 cannot be divided: KeyError: 'weights' at ") for one in plan.rejected)


def test_errors_on_one_device_are_those_of_the_model():
    class Wrong(nn.Linear):
        def forward(self, x):
            if mt.is_grad_enabled():
                raise KeyError("weights")
            return super().forward(x)

    with mt.device("meta"):
        model = nn.Sequential(*(Wrong(8, 8) for _ in range(2)))
        with pytest.raises(KeyError, match="weights"):
            mt.plan.search(model, mt.empty(1, 8), devices="2xH100", global_batch=4)


def test_errors_of_models():
    with pytest.raises(ValueError, match="is on cpu; use a copy"):
        search(Decoder().to("cpu"))
    with pytest.raises(ValueError, match="must be a module"):
        search(lambda x: x)


@pytest.mark.slow
def test_a_batch_that_does_not_divide():
    plan = search(global_batch=7)
    assert plan.fits and all(layout.degrees.data == 1 for layout in plan.layouts)  # 8 devices: tensor and pipeline parallelism alone
    assert not search(global_batch=7, tensor=[1], pipeline=[1]).fits


def test_stages_are_as_short_as_possible():
    assert split([1.0] * 6, 0.0, 2.0, 2) == [(0, 4), (4, 6)]
    assert split([1.0] * 6, 2.0, 0.0, 3) == [(0, 1), (1, 4), (4, 6)] or max(e - s for s, e in split([1.0] * 6, 2.0, 0.0, 3)) <= 3
    assert split([5.0, 1.0, 1.0, 1.0], 0.0, 0.0, 2) == [(0, 1), (1, 4)]
    assert split([1.0, 2.0], 0.5, 0.5, 1) == [(0, 2)]


@pytest.mark.slow
def test_a_model_of_one_part_is_divided_across_nodes():
    with mt.device("meta"):
        table = nn.Sequential(nn.Embedding(1_000_000, 64), nn.Linear(64, 1))
    plan = mt.plan.search(table, mt.empty(1, 4, dtype=mt.int64, device="meta"), devices="16xH100", global_batch=16, pipeline=[1])
    assert plan.best.degrees.tensor == 16
    assert plan.best.memory[0]["parameter"] < 1_000_000 * 64 * 6 / 15
