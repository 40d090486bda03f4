"""Error bands and the page that they come from; counts against the formulas of papers."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

import metatensor as mt
from metatensor.analysis.accuracy import band, bands

ROOT = Path(__file__).parents[2]
compare = pytest.importorskip("benchmarks.published.compare", reason="needs the folder benchmarks")
KINDS = {"states", "peak", "reserved", "inference memory", "FLOPs", "time", "time, accelerator", "time, cpu", "time, ranks"}
KINDS |= {f"training memory, {policy}" for policy in compare.POLICIES}


@pytest.fixture(scope="module")
def counts():
    found = defaultdict(list)
    for each in compare.formulas():
        found[each.what, each.source].append(each)
    return found


@pytest.mark.slow
def test_saved_activations_are_those_of_the_formulas(counts):
    """Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, table 2."""
    cases = counts["bytes saved by a layer", "arXiv:2205.05198, table 2"]
    assert len(cases) == 4 * 6
    for each in cases:
        assert each.counted == each.expected, each.case
    s, b, h, a = 2048, 4, 6144, 64  # the formula itself, for the model of 22 billion parameters
    assert cases[0].counted == s * b * h * (34 + 5 * a * s // h) + s * b * (5 * a * s % h)


@pytest.mark.slow
def test_parameters_and_operations_are_those_of_the_formulas(counts):
    """Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, arXiv:2104.04473."""
    for what in ("parameters", "operations of a step"):
        cases = counts[what, "arXiv:2104.04473"]
        assert len(cases) == 10
        for each in cases:
            assert each.counted == pytest.approx(each.expected, rel=1e-12), each.case


def test_model_states_of_published_models(counts):
    """Rajbhandari et al., ZeRO, arXiv:1910.02054, 3.1: 16 bytes for each parameter."""
    cases = counts["bytes of model states", "arXiv:1910.02054, 3.1"]
    assert len(cases) == 8
    for each in cases:
        assert each.counted == each.expected, each.case


def test_parameters_of_published_models(counts):
    printed_wrong = {"GPT-3 XL", "GPT-3 13B"}  # whose sizes do not give their number
    for (what, source), cases in counts.items():
        if "rounded" in source:
            assert what == "parameters"
            for each in cases:
                if each.case not in printed_wrong:
                    assert each.counted == pytest.approx(each.expected, rel=3e-3), each.case


@pytest.mark.parametrize("precision", ["fp16-master", "bf16-master"])
def test_model_states_are_16_bytes_for_each_parameter(precision):
    """Rajbhandari et al., ZeRO, arXiv:1910.02054, figure 1: 2 + 2 + 12 bytes for mixed precision with Adam."""
    with mt.device("meta"):
        model = mt.nn.Sequential(mt.nn.Linear(512, 2048), mt.nn.Linear(2048, 512))
        report = mt.analysis.estimate_training(model, mt.empty(2, 512), precision=precision, optimizer="adam")
    p = report.trainable_parameters
    counters = 4 * 4  # a step counter of 4 bytes for each of four tensors
    assert (report.parameter_bytes, report.gradient_bytes, report.optimizer_bytes - counters) == (2 * p, 2 * p, 12 * p)


def test_sharded_states_are_those_of_the_first_stage():
    """ZeRO's first stage with float32 gradients, as Megatron-LM keeps them: 6 P + 12 P / N bytes."""
    from benchmarks.published.rank import Layout
    from benchmarks.published.step import memory_of

    layout = Layout(layers=2, hidden=256, heads=4, ffn=1024, vocabulary=512, sequence=64, micro_batch=1, distributed_optimizer=True)
    found = memory_of(layout)
    p = found.parameters
    assert p % 8 == 0
    placeholders = 2 * 12 * 256 * 256  # of the gradients of products, by shape
    assert found.resident == 6 * p + 12 * p // 8 + 4 + placeholders  # and a step counter
    assert memory_of(Layout(**{**vars(layout), "accumulated": False})).resident == found.resident - placeholders
    assert memory_of(Layout(**{**vars(layout), "tensor": 2})).parameters < p


def test_bands_are_those_of_the_page():
    assert set(bands()) == KINDS
    page = (ROOT / "docs" / "accuracy.md").read_text()
    for each in bands().values():
        line = f"| {each.figure} | {each.comparisons} | {each.median:.2%} | {each.lowest:+.1%} | {each.highest:+.1%} |"
        assert line in page
        assert each.lowest <= each.highest and each.median <= max(-each.lowest, each.highest)
        assert each.worst in page


@pytest.mark.slow
def test_the_page_is_up_to_date():
    from benchmarks.published.__main__ import contents

    for path, text in contents():
        assert path.read_text() == text


def test_estimates_print_their_bands():
    with mt.device("meta"):
        model, x = mt.nn.Linear(64, 64), mt.empty(8, 64)
        inference = mt.analysis.estimate(model, x)
        training = mt.analysis.estimate(model, x, training=True, device="h100-80gb")
    memory = f"training memory, {compare.POLICIES[-1]}"
    for report, kind in ((inference, "inference memory"), (training, memory)):
        assert str(band(kind)) in str(report)
        found = json.loads(report.to_json())
        assert found["error_bands"][0] == band(kind).to_dict() and found["excluded"]
    assert str(band("time, accelerator")) in str(training)
    assert json.loads(training.to_json())["time"]["band"]["kind"] == "time, accelerator"


def test_times_without_a_comparison_say_so():
    with mt.device("meta"):
        model, x = mt.nn.Linear(64, 64), mt.empty(8, 64)
    forward = mt.analysis.time_of(model, x, device="h100-80gb")
    assert forward.band is None and "not compared" in str(forward)
    assert mt.analysis.time_of(model, x, device="xeon-8480").band is None  # not calibrated


def test_predictions_of_small_runs_by_hand():
    """A run of one layer: the embedding and its gradients, by hand."""
    from benchmarks.published.rank import Layout
    from benchmarks.published.step import held_activations, memory_of

    layout = Layout(layers=1, hidden=64, heads=4, ffn=256, vocabulary=128, sequence=16, micro_batch=1)
    p = 128 * 64 + 16 * 64 + 12 * 64 * 64 + 13 * 64 + 2 * 64
    found = memory_of(layout)
    tensors = 2 + 12 + 2
    assert found.parameters == p and found.resident == 18 * p + 4 * tensors + 2 * 12 * 64 * 64  # with placeholders of gradients
    assert held_activations(Layout(**{**vars(layout), "layers": 8, "pipeline": 4}), 0) == [4]
    assert held_activations(Layout(**{**vars(layout), "layers": 8, "pipeline": 4, "virtual": 2}), 3) == [4, 1]


def test_time_on_all_ranks_has_the_communication_of_the_layout():
    """Worked out by hand for a layer over two ranks, sequence parallelism and a distributed optimizer."""
    ranks = pytest.importorskip("benchmarks.published.ranks")
    from benchmarks.published.rank import Layout

    layout = Layout(layers=1, hidden=1024, heads=8, ffn=4096, vocabulary=4096, sequence=512, micro_batch=1, tensor=2, gpus=8,
                    sequence_parallel=True, activation="swiglu", norm="rms", bias=False, positions="rope", tied=False, dropout=0.0,
                    distributed_optimizer=True)  # fmt: skip
    (found,) = ranks.timelines(layout, "b200-180gb", 3).values()
    counts = defaultdict(int)
    sizes = defaultdict(int)
    for each in found.operations:
        key = each.entry.kind, len(each.entry.group)
        counts[key] += 1
        sizes[key] += each.entry.bytes
    stream = 2 * 512 * 1024  # the gathered sequence
    # Forward: two columns and the head are gathered, two rows and the embedding scattered. Backward: the columns and the head gather
    # again and scatter the gradients of their inputs; the rows and the embedding gather.
    assert counts == {
        ("all_gather", 2): 3 * (3 + 3 + 3), ("reduce_scatter", 2): 3 * (3 + 3), ("reduce_scatter", 4): 1, ("all_gather", 4): 1,
    }  # fmt: skip
    assert sizes["all_gather", 2] == 27 * stream and sizes["reduce_scatter", 2] == 18 * stream
    # Of each rank: q, k, v and their result, gate, up and down over two ranks; embedding and head; norms.
    elements = 2 * 4096 * 1024 // 2 + 4 * 1024 * 1024 // 2 + 3 * 1024 * 4096 // 2 + 3 * 1024
    assert sizes["reduce_scatter", 4] == 4 * elements and sizes["all_gather", 4] == 2 * elements


def test_pipelines_on_all_ranks_have_the_bubble_of_1f1b():
    ranks = pytest.importorskip("benchmarks.published.ranks")
    from benchmarks.published.rank import Layout

    layout = Layout(layers=4, hidden=4096, heads=32, ffn=16384, vocabulary=1024, sequence=4096, micro_batch=1, pipeline=4, gpus=4,
                    activation="swiglu", norm="rms", bias=False, positions="rope", tied=False, dropout=0.0)  # fmt: skip
    found = ranks.timelines(layout, "b200-180gb", 8)
    assert len(found) == 4
    parts = [(one.compute - one.seconds[-1]) / 8 for one in found.values()]  # the last call is the update
    first = found[0]
    assert first.end - first.seconds[-1] == pytest.approx((8 + 4 - 1) * max(parts), rel=0.1)  # m + p - 1 micro-batches, and messages
