"""The text of the page: the peak in words, figures with units, and what is unknown."""

import re
from html import unescape

import pytest

import metatensor as mt
from metatensor.analysis import estimate, profile
from metatensor.analysis.page import words
from metatensor.analysis.timeline import near_peaks


def text_of(html):
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]*>", " ", html)))


def test_the_peak_of_a_training_step(training):
    text = text_of(words.headline(training.to_dict()))
    assert re.match(r" ?[\d.]+ MB at the peak of memory, in the backward pass, while \S+ of module layers\.5", text), text
    assert "It was computing the gradient of this line of code:" in text or "comes from this line" in text
    assert re.search(r"tests/analysis/page/conftest\.py:\d+", text.replace("\\", "/"))
    assert "scores" in text


def test_the_peak_of_a_forward_pass(inference):
    text = text_of(words.headline(inference.to_dict()))
    assert "in the forward pass, while" in text and "This line of code was running:" in text and "scores" in text


class Last(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = mt.nn.Linear(256, 256), mt.nn.Linear(256, 50_000)

    def forward(self, x):
        return self.head(self.inner(x))


@pytest.fixture(scope="module")
def loss_peak():
    with mt.device("meta"):
        model, x = Last(), mt.empty(1024, 256)
    return estimate(model, x, training=True, timeline=True, precision="bf16-mixed", device="h100-80gb")


def test_a_peak_in_the_default_loss(loss_peak):
    found = loss_peak.to_dict()
    profile = found["profile"]
    assert profile["peak_line"] == "the default loss" and profile["peak_by_line"]["the default loss"] > 4 * 1024 * 50_000
    since = profile["peak_since"]
    assert since["operator"] == "_to_copy" and since["bytes"] == 4 * 1024 * 50_000 and since["line"] == "the default loss"
    assert "self.head" in profile["source"][since["after"]]
    text = text_of(words.headline(found))
    assert "while mean of the default loss ran" in text
    assert "What made the spike: _to_copy of the default loss, 205 MB. The last line of your code before it:" in text
    assert "Most of the memory" not in text
    assert re.search(r"The line of your code that holds most, [\d.]+ MB, \d+% of what was in use", text)
    assert re.search(r"A second peak is within 1%: [\d.]+ MB, in the backward pass, while _to_copy of the default loss ran", text)
    assert "the default loss" in text_of(words.peak_tables(found)) and "line unknown" not in words.peak_tables(found)


def test_a_peak_in_the_optimizer():
    with mt.device("meta"):
        model, x = mt.nn.Linear(512, 512), mt.empty(1, 512)
    text = text_of(words.headline(estimate(model, x, training=True, timeline=True).to_dict()))
    assert "in the optimizer's step, while" in text and "It belongs to the optimizer" in text and "line of your code" not in text


def test_other_peaks():
    assert near_peaks([1, 990, 5, 1000, 995, 7, 999, 3], 3) == [6, 1]
    assert near_peaks([1, 989, 5, 1000], 3) == [] and near_peaks([], None) == []
    assert near_peaks([100, 1] * 20, 0) == [2, 4, 6, 8, 10]


def test_gradients_of_the_default_loss_belong_to_it(loss_peak):
    lines = {record.line for record in loss_peak.profile.storages if record.operator == "_to_copy" and not record.module}
    assert lines == {"the default loss"}


def test_a_given_loss_has_its_line():
    with mt.device("meta"):
        model, x = Last(), mt.empty(64, 256)
    found = estimate(model, x, training=True, timeline=True, loss=lambda out: out.float().square().mean())
    assert "the default loss" not in found.to_json() and found.to_dict()["profile"]["peak_since"] is None


def test_whether_it_fits_is_a_subtraction(loss_peak):
    found = {**loss_peak.to_dict(), "device": {"name": "card", "memory": 10**9, "fits": True}}
    total = found["total_bytes"]
    assert f"1.00 GB − {words.bytes_text(total)}: {words.bytes_text(10**9 - total)} left" in words.facts(found)
    found["device"]["memory"] = 10**6
    assert f"1.00 MB − {words.bytes_text(total)}: {words.bytes_text(total - 10**6)} missing" in words.facts(found)


def test_words_are_explained(loss_peak):
    found = loss_peak.to_dict()
    text = text_of(words.notes(found))
    for start in ("At peak:", "Made:", "convention torch: the model's FLOPs over", "figures include submodules"):
        assert start in text
    assert 'title="model FLOPs utilization' in words.facts(found)
    assert "By module, each without its submodules" in words.peak_tables(found)


def test_no_tile_is_alone(loss_peak):
    found = loss_peak.to_dict()
    assert words.facts(found).count("<dt>") == 7 and words.facts_per_row(found) == "4"
    found["device"] = {"name": "card", "memory": None, "fits": None}
    assert words.facts(found).count("<dt>") == 8 and words.facts_per_row(found) == "4"


def test_no_timeline():
    model, x = mt.nn.Linear(8, 8, device="meta"), mt.empty(4, 8, device="meta")
    found = estimate(model, x).to_dict()
    assert "timeline was not recorded" in text_of(words.headline(found)) and words.peak_tables(found) == ""
    found = estimate(model, x, training=True).to_dict()
    assert "timeline was not recorded" in text_of(words.headline(found))


def test_nothing_made():
    found = profile(lambda: None).to_dict()
    assert "the run made no tensors" in text_of(words.headline(found))
    assert words.facts(found) and words.peak_tables(found)


def test_tables_add_up(training):
    found = training.to_dict()
    html = words.peak_tables(found)
    for by in ("category", "line", "module", "operator"):
        table = re.split(rf"By {by}\b[^<]*</caption>", html)[1].split("</table>")[0]
        shares = [float(share) for share in re.findall(r"--share:([\d.]+)", table)]
        assert abs(sum(shares) - 1) < 0.01 and all(0 <= share <= 1 for share in shares)
    assert "saved for backward" in html and "existed before the run" in html


def test_unknown_is_not_zero():
    class Unknown(mt.nn.Module):
        def forward(self, x):
            return x + 1

    found = estimate(Unknown(), mt.empty(4, device="meta")).to_dict()
    found["time"] = {"device": "card", "seconds": None, "mfu": None, "convention": "torch", "forward": None, "training": False, "by_op": {},
                     "remarks": [], "excluded": [], "spans": {}}  # fmt: skip
    found["device"] = {"name": "card", "memory": None, "fits": None}
    text = text_of(words.facts(found))
    assert text.count("unknown") == 4 and "predicted time unknown" in text and "fits card unknown" in text
    assert "unknown" in text_of(words.time_table(found))
    assert words.seconds_text(None) == "unknown" and words.seconds_text(0.0012) == "1.2 ms" and words.seconds_text(2e-6) == "2 µs"


def test_names_are_escaped():
    class Odd(mt.nn.Module):
        def forward(self, x):
            return x.relu().sum()

    odd = mt.nn.Module()
    odd.add_module("<b>", Odd())
    odd.forward = lambda x: getattr(odd, "<b>")(x)
    found = estimate(odd, mt.empty(1000, device="meta"), timeline=True).to_dict()
    everything = words.headline(found) + words.peak_tables(found) + words.facts(found)
    assert "<b>" not in everything and "&lt;b&gt;" in everything


def test_notes_say_what_is_left_out(training):
    text = text_of(words.notes(training.to_dict()))
    assert "Memory leaves out:" in text and "Time leaves out:" in text and "FLOPs: a multiply-add is 2" in text


@pytest.mark.parametrize("options", [
    {}, {"precision": "bf16-mixed"}, {"precision": "bf16-master"}, {"grad_accumulation": 3}, {"foreach": True}, {"recompute": "1"},
    {"optimizer": "sgd"},
])  # fmt: skip
def test_the_peak_of_the_timeline_is_the_total(options):
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(64, 256), mt.nn.Tanh(), mt.nn.Linear(256, 64)), mt.empty(32, 64)
    report = estimate(model, x, training=True, timeline=True, **options)
    assert report.profile.peak == report.total_bytes
