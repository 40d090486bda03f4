"""`fit`: the largest batch that fits, and changes that make a batch fit."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis.fit_changes import combined
from metatensor.analysis.fit_report import FitSetting
from metatensor.analysis.fit_search import MOST, Search, divisors
from metatensor.analysis.step_memory import step_memory


class Layers(nn.Module):
    """A few equal layers, whose hidden activations are wide."""

    def __init__(self, width=64, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)]
        )

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = x + layer(x)
        return x if mask is None else x * mask


def layers():
    with mt.device("meta"):
        return Layers()


def x(*shape):
    return mt.empty(*shape, device="meta")


@pytest.fixture
def linear():
    """A layer with 40,000 bytes of weights."""
    with mt.device("meta"):
        return nn.Linear(100, 100, bias=False)


def names(report):
    return [change.changes for change in report.changes]


# An answer found by hand ------------------------------------------------------------------------


def by_hand(batch, micro_batches=1):
    """Bytes of a step with SGD: weights, their gradient, rows of input and of the output's gradient, the loss and its gradient.

    From the second micro-batch on there is also the sum of gradients so far.
    """
    weights, row, loss = 100 * 100 * 4, 100 * 4, 4
    return weights * (2 if micro_batches == 1 else 3) + 2 * row * batch + 2 * loss


def test_the_largest_batch_is_that_found_by_hand(linear):
    limit = 4_000_000
    batch = (limit - 2 * 40_000 - 8) // 800
    assert batch == 4899
    report = mt.analysis.fit(linear, x(10_000, 100), training=True, optimizer="sgd", max_memory=limit)
    assert not report and report.requested.bytes == by_hand(10_000)
    assert (report.largest.setting.batch, report.largest.bytes, report.largest.fits) == (4899, by_hand(4899), True)
    assert (report.above.setting.batch, report.above.bytes, report.above.fits) == (4900, by_hand(4900), False)
    assert by_hand(4899) <= limit < by_hand(4900)

    # 10,000 samples in 2 parts of 5,000 need 4.12 MB, 4 parts of 2,500 need 2.12 MB.
    assert by_hand(5000, 2) > limit >= by_hand(2500, 4)
    first = report.changes[0]
    assert first.changes == ("4 micro-batches of 2,500",) and first.lost == () and first.trial.bytes == by_hand(2500, 4)


def test_requested_micro_batches(linear):
    report = mt.analysis.fit(linear, x(5000, 100), training=True, optimizer="sgd", grad_accumulation=2, max_memory=4_000_000)
    assert not report and report.requested.bytes == by_hand(5000, 2) and report.requested.setting.samples == 10_000
    assert report.largest.setting.batch == (4_000_000 - 120_008) // 800 and report.largest.setting.grad_accumulation == 2
    assert names(report)[0] == ("4 micro-batches of 2,500",) and "largest micro-batch that fits: 4,849" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"precision": "bf16-mixed"}, {"recompute": "full", "grad_accumulation": 2}])
def test_the_largest_batch_is_that_of_trying_each(options):
    model = layers()
    each = [mt.analysis.estimate_training(model, x(batch, 64), **options).total_bytes for batch in range(1, 42)]
    assert each == sorted(each)
    for limit in (each[0], each[3], each[20] - 1, each[39], each[0] - 1):
        report = mt.analysis.fit(model, x(15, 64), training=True, max_memory=limit, keep=["recompute", "precision", "optimizer"], **options)
        expected = sum(size <= limit for size in each)
        assert (report.largest.setting.batch if report.largest else 0) == expected
        assert report.above.setting.batch == expected + 1 and report.above.bytes == each[expected]


@pytest.mark.parametrize("limit, batch", [(80_808, 1), (80_807, None), (81_608, 2), (10**9, 1_249_899)])
def test_exact_limits(linear, limit, batch):
    report = mt.analysis.fit(linear, x(3, 100), training=True, optimizer="sgd", max_memory=limit)
    if batch is None:
        assert report.largest is None and report.above.setting.batch == 1 and "no batch fits" in str(report)
    elif batch > MOST:
        assert report.largest.setting.batch == MOST and report.above is None and "no greater batch was tried" in str(report)
    else:
        assert report.largest.setting.batch == batch and report.above.setting.batch == batch + 1
    assert bool(report) == (batch is not None and batch >= 3)
    assert report.estimates < 40


def test_few_estimates_are_enough(linear):
    report = mt.analysis.fit(linear, x(10, 100), training=True, max_memory="50MB")
    assert report and report.largest.setting.batch > 10_000
    assert report.estimates <= 12


# The search ------------------------------------------------------------------------------------


def searched(memory, limit=1000):
    calls = []

    def measure(setting):
        calls.append(setting.batch)
        return memory(setting.batch)

    search = Search(measure, limit)
    return search, calls


@pytest.mark.parametrize("memory", [
    lambda b: 10 * b, lambda b: 999 + b // 30, lambda b: b * b, lambda b: int(100 * b**0.5), lambda b: max(b, 40 * b - 3000),
    lambda b: 2**b, lambda b: 0, lambda b: 2000, lambda b: 0 if b < 777 else 5000,
])  # fmt: skip
@pytest.mark.parametrize("start", [1, 3, 64, 5000])
def test_the_greatest_size(memory, start):
    search, calls = searched(memory)
    found, above = search.greatest(lambda b: FitSetting(b), start)
    expected = max((b for b in range(1, 8000) if memory(b) <= 1000), default=0)
    if memory(MOST) <= 1000:
        assert found.setting.batch == MOST and above is None
    else:
        assert (found.setting.batch if found else 0) == expected and above.setting.batch == expected + 1
        assert found is None or found.fits
        assert not above.fits
    assert len(set(calls)) == len(calls) <= 40


def test_sizes_that_do_not_run():
    def memory(b):
        if b == 1 or b > 50:
            raise ValueError("not this one")
        return b

    search, _ = searched(memory)
    found, above = search.greatest(lambda b: FitSetting(b), 8)
    assert found.setting.batch == 50 and above.bytes is None and above.error == "ValueError: not this one"
    assert "does not run: ValueError: not this one" in search.remarks()[0]
    search, _ = searched(memory, limit=5)
    assert search.greatest(lambda b: FitSetting(b), 8)[0].setting.batch == 5


def test_what_follows_from_other_batches_does_not_run():
    search, calls = searched(lambda b: 10 * b)
    assert search.trial(FitSetting(50)).fits and not search.trial(FitSetting(150)).fits
    assert search.fits(FitSetting(20)) and not search.fits(FitSetting(200)) and calls == [50, 150]
    assert search.fits(FitSetting(20, recompute="full")) and calls == [50, 150, 20]
    assert search.fits(FitSetting(20, grad_accumulation=4)) and search.fits(FitSetting(20, grad_accumulation=8))
    assert calls == [50, 150, 20, 20]


def test_memory_that_does_not_grow_is_noticed():
    search, _ = searched(lambda b: 1200 - b)
    search.greatest(lambda b: FitSetting(b), 100)
    assert "does not grow steadily" in search.remarks()[0]


def test_divisors_and_combinations():
    assert divisors(12) == [1, 2, 3, 4, 6, 12] and divisors(1) == [1] and divisors(7) == [1, 7]
    sets = list(combined({"a": [1, 2], "b": [], "c": [3]}))
    assert sets == [(), (("a", 1),), (("a", 2),), (("c", 3),), (("a", 1), ("c", 3)), (("a", 2), ("c", 3))]


# Estimates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {}, {"optimizer": "sgd"}, {"precision": "bf16-mixed"}, {"precision": "bf16-master", "foreach": True}, {"recompute": "full"},
    {"recompute": "selective", "grad_accumulation": 3}, {"optimizer": "adafactor", "precision": "bf16"},
])  # fmt: skip
def test_the_memory_alone_is_that_of_the_estimate(options):
    model = layers()
    report = mt.analysis.estimate_training(model, x(8, 64), **options)
    assert step_memory(model, (x(8, 64),), {}, **options).total_bytes == report.total_bytes
    if "foreach" not in options:
        other = step_memory(model, (x(3, 64),), {}, **{**options, "recompute": "none"})
        plain = step_memory(model, (x(8, 64),), {}, **{**options, "optimizer": "rmsprop"})
        assert plain.with_optimizer(other).total_bytes == report.total_bytes


def test_each_figure_is_that_of_an_estimate():
    model = layers()
    model.layers[0][0].weight.grad = kept = x(256, 64)
    report = mt.analysis.fit(model, x(64, 64), training=True, device="t4", max_memory="1.8MB", optimizer="adam", foreach=True)
    assert not report and len(report.changes) >= 3
    for trial in (report.requested, *(change.trial for change in report.changes)):
        chosen = {key: value for key, value in vars(trial.setting).items() if key not in ("batch", "sequence")}
        alone = mt.analysis.estimate_training(model, x(trial.setting.batch, 64), device="t4", **chosen)
        assert (trial.bytes, trial.seconds) == (alone.total_bytes, alone.time.seconds)
        assert trial.seconds_per_sample == trial.seconds / (trial.setting.batch * trial.setting.grad_accumulation)
    assert all(change.trial.fits and change.trial.bytes <= 1_800_000 and change.trial.setting.samples == 64 for change in report.changes)
    assert model.layers[0][0].weight.grad is kept and model.layers[0][0].weight.dtype == mt.float32 and model.training


def test_changes_are_in_the_order_of_what_they_lose():
    report = mt.analysis.fit(layers(), x(256, 64), training=True, device="h100-80gb", max_memory="3MB")
    order = [(change.rank, change.trial.seconds_per_sample) for change in report.changes]
    assert order == sorted(order) and order[0][0] == 0
    assert ("recompute full",) in names(report)
    text = str(report)
    assert "does not fit in 3.00 MB (max_memory)" in text and "lost besides time" in text and "memory leaves out" in text


def test_a_change_that_is_enough_is_not_combined():
    report = mt.analysis.fit(layers(), x(256, 64), training=True, max_memory="2.2MB", keep=["accumulation"])
    singles = {change.changes[0] for change in report.changes if len(change.changes) == 1}
    assert singles
    for change in report.changes:
        assert len(change.changes) == 1 or not singles & set(change.changes)
    assert not any("micro" in text for change in report.changes for text in change.changes)
    assert report.changes[0].trial.seconds is None and "no device is given" in str(report)


def test_keeping_everything():
    keep = ["precision", "recompute", "accumulation", "optimizer", "foreach"]
    report = mt.analysis.fit(layers(), x(256, 64), training=True, max_memory="2.2MB", keep=keep)
    assert not report.changes and "no change that was tried makes it fit" in str(report) and report.largest.setting.batch > 1


def test_chosen_alternatives():
    report = mt.analysis.fit(layers(), x(256, 64), training=True, max_memory="2.2MB", precisions=["bf16"], recomputes=["layers.[01]"],
                             optimizers=["rmsprop"])  # fmt: skip
    used = {text for change in report.changes for text in change.changes if "micro" not in text}
    assert used <= {"precision bf16", "recompute layers.[01]", "optimizer rmsprop"} and used
    for wrong in ({"precisions": ["fp12"]}, {"recomputes": ["nothing.*"]}, {"optimizers": ["none"]}, {"keep": ["calm"]},
                  {"precision": "fp12"}):
        with pytest.raises(ValueError):
            mt.analysis.fit(layers(), x(256, 64), training=True, max_memory="1GB", **wrong)


def test_a_function_as_optimizer():
    report = mt.analysis.fit(layers(), x(256, 64), training=True, max_memory="2.2MB", optimizer=mt.optim.SGD)
    assert report.to_dict()["requested"]["setting"]["optimizer"] == "SGD"
    assert not any("optimizer" in text for change in report.changes for text in change.changes)


@pytest.mark.slow
def test_half_precision_of_the_device():
    def precisions(device):
        report = mt.analysis.fit(layers(), x(256, 64), training=True, device=device, max_memory="2.2MB", keep=["recompute", "optimizer"])
        return {change.trial.setting.precision for change in report.changes} - {None}

    assert precisions("h100-80gb") and all(name.startswith("bf16") for name in precisions("h100-80gb"))
    assert precisions("v100-sxm-16gb") and all(name.startswith("fp16-") for name in precisions("v100-sxm-16gb"))
    half = layers().to(mt.bfloat16)
    report = mt.analysis.fit(half, x(256, 64).to(mt.bfloat16), training=True, max_memory="1.2MB")
    assert not report and not any("precision" in text for change in report.changes for text in change.changes)


@pytest.mark.slow
def test_batch_normalization_needs_two_samples():
    with mt.device("meta"):
        model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64))
    report = mt.analysis.fit(model, x(512, 64), training=True, max_memory="400kB", optimizer="sgd")
    assert not report and report.largest.setting.batch >= 2 and report.above.setting.batch == report.largest.setting.batch + 1
    (split,) = [change for change in report.changes if len(change.changes) == 1 and "micro" in change.changes[0]]
    assert split.lost == (f"batch normalization sees {split.trial.setting.batch:,} samples",) and split.rank == 1
    assert "recomputation was not tried" in str(report)
    report = mt.analysis.fit(model, x(512, 64), training=True, max_memory="400kB", optimizer="sgd", recomputes=["0", "1"])
    twice = "batch normalization updates its running statistics twice"
    for change in report.changes:
        assert (twice in change.lost) == ("recompute 1" in change.changes)


def test_a_lazy_model():
    with mt.device("meta"):
        model = nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(8))
    report = mt.analysis.fit(model, x(512, 64), training=True, device="t4", max_memory="300kB", keep=["accumulation"])
    assert not report and names(report) == [("precision fp16-master", "optimizer sgd")]
    with mt.device("meta"):
        model = nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.LazyLinear(8))
    assert mt.analysis.fit(model, x(512, 64), device="t4")


def test_a_batch_that_the_model_fixes():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            return self.layer(x).view(4, 16, 64)

    with mt.device("meta"):
        report = mt.analysis.fit(Fixed(), x(64, 64), training=True, device="t4")
    assert report and report.largest.setting.batch == 64 and report.above.bytes is None and "batch 65 " in str(report)
    assert "does not run" in str(report) and report.to_dict()["above"]["error"].startswith("RuntimeError")


# Inputs ----------------------------------------------------------------------------------------


def test_inputs_that_share_the_batch_change_together():
    model = layers()
    report = mt.analysis.fit(model, x(8, 64), mask=x(8, 1), training=True, max_memory="8MB")
    assert report and report.largest.setting.batch > 8 and report.above.error is None
    with pytest.raises(RuntimeError):
        mt.analysis.fit(model, x(8, 64), mask=x(7, 1), training=True, max_memory="8MB")


@pytest.mark.slow
@pytest.mark.parametrize("result", [
    lambda batch, sequence: x(batch, sequence, 64), lambda batch, sequence: (x(batch, sequence, 64), x(batch, 1, 1)),
    lambda batch, sequence: {"x": x(batch, sequence, 64)},
])  # fmt: skip
def test_a_function_of_batch_and_sequence(result):
    report = mt.analysis.fit(layers(), result, batch=2, sequence=100, training=True, max_memory="2.2MB")
    change = next(change for change in report.changes if change.rank == 4)
    length = change.trial.setting.sequence
    assert change.changes == (f"sequence {length}",) and 1 < length < 100 and change.trial.setting.batch == 2
    longer = mt.analysis.fit(layers(), result, batch=2, sequence=length + 1, training=True, max_memory="2.2MB", keep=["sequence"])
    assert not longer and not any(change.rank == 4 for change in longer.changes)
    assert mt.analysis.fit(layers(), result, batch=2, sequence=length, training=True, max_memory="2.2MB")


def test_invalid_arguments():
    model = layers()
    for inputs, options in (
        ((x(2, 64),), {}), ((x(2, 64),), {"max_memory": 0}), ((x(2, 64),), {"max_memory": "much"}), ((x(0, 64),), {"max_memory": 1}),
        ((), {"max_memory": 1}), ((x(2, 64),), {"max_memory": 1, "sequence": 4}), ((x(2, 64),), {"max_memory": 1, "batch": 0}),
        ((x(2, 64),), {"max_memory": 1, "grad_accumulation": 0}), ((lambda batch: x(batch, 64),), {"max_memory": 1, "sequence": 4}),
        ((lambda batch, sequence: x(batch, 64),), {"max_memory": 1}), ((x(2, 64),), {"device": "epyc-9654"}),
        ((mt.empty(2, 64, device="cpu"),), {"max_memory": 1}),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            mt.analysis.fit(model, *inputs, training=True, **options)
    with pytest.raises(ValueError, match="layers.0.0.weight is on cpu"):
        mt.analysis.fit(Layers().to_empty(device="cpu"), x(2, 64), max_memory=1)
    with pytest.raises(ValueError, match="no parameter requires grad"):
        mt.analysis.fit(lambda x: x, x(2, 64), training=True, max_memory=1)
    with pytest.raises(ValueError, match="precision needs a module"):
        mt.analysis.fit(lambda x: x, x(2, 64), precision="bf16", max_memory=1)


# Forward passes --------------------------------------------------------------------------------


def test_a_forward_pass(linear):
    # weights, input and output: 40,000 + 800 b
    report = mt.analysis.fit(linear, x(1000, 100), max_memory=400_000, device="t4")
    assert not report and report.requested.bytes == 840_000
    assert (report.largest.setting.batch, report.largest.bytes, report.above.bytes) == (450, 400_000, 400_800)
    assert names(report)[0] == ("4 passes of 250",) and report.changes[0].trial.bytes == 240_000
    assert report.changes[0].trial.seconds == pytest.approx(4 * mt.analysis.time_of(linear, x(250, 100), device="t4").seconds)
    half = next(change for change in report.changes if change.trial.setting.precision == "fp16")
    assert half.trial.setting.batch == 500 and half.trial.bytes == 20_000 + 400 * 500 and half.rank == 1
    assert linear.weight.dtype == mt.float32


def test_a_function_as_model():
    report = mt.analysis.fit(lambda a: a @ a.mT, x(64, 8, 8), max_memory=20_000)
    assert not report and report.largest.setting.batch == 20_000 // 512 and names(report) == [("2 passes of 32",)]


@pytest.mark.slow
def test_json():
    report = mt.analysis.fit(layers(), x(256, 64), training=True, device="t4", max_memory="2.2MB")
    found = report.to_dict()
    assert found["fits"] is False and found["limit"] == 2_200_000 and found["device"] == "t4" and report.to_json()
    assert found["changes"][0]["setting"]["samples"] == 256 and found["changes"][0]["seconds"] > 0


@pytest.mark.parametrize("training", [True, False])
def test_the_search_counts_the_kernels_of_the_device(training):
    with mt.device("meta"):
        model = mt.nn.TransformerEncoderLayer(64, 4, batch_first=True, dropout=0.0)
        x = mt.empty(1, 512, 64)
    report = mt.analysis.fit(model, x, training=training, device="a10", max_memory="100MB")
    assert report.largest.fits and not report.above.fits
    assert report.above.setting.batch == report.largest.setting.batch + 1
    without = mt.analysis.fit(model, x, training=training, max_memory="100MB")
    assert without.largest.fits and not without.above.fits
    if training:  # on meta, attention has a matrix of weights
        assert without.largest.setting.batch < report.largest.setting.batch
