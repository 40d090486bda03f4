"""The page of a step on many devices, in a real browser and as text."""

import pytest

import metatensor as mt
from browsing import PHONE, opened, until
from metatensor import distributed as dist
from metatensor import nn
from metatensor.analysis import profile_ranks
from metatensor.analysis.page import document
from metatensor.analysis.ranks.page import contents, drawn

STAGES = 4


def stage():
    dist.init_process_group()
    layers = [nn.Linear(1024, 1024, bias=False, device="meta", dtype=mt.bfloat16) for _ in range(3)]
    return nn.Sequential(*layers), dist.get_rank()


def pipeline(model, rank):
    made = []
    for _ in range(3):
        x = mt.empty(4096, 1024, device="meta", dtype=mt.bfloat16, requires_grad=True)
        if rank:
            dist.recv(x.data, rank - 1)
        made.append(model(x))
        if rank < STAGES - 1:
            dist.send(made[-1].detach(), rank + 1)
    for y in made:
        y.backward(mt.empty_like(y))
    work = dist.all_reduce(next(model.parameters()).grad, async_op=True)
    mt.optim.SGD(model.parameters(), lr=0.1).step()
    work.wait()


@pytest.fixture(scope="module")
def found():
    return profile_ranks(pipeline, setup=stage, topology="4xH100")


@pytest.fixture(scope="module")
def file(found, tmp_path_factory):
    pytest.importorskip("plotly")
    path = tmp_path_factory.mktemp("ranks") / "page.html"
    found.to_html(path)
    return path


def test_what_is_drawn_adds_up(found):
    data = drawn(found)
    assert [one["name"] for one in data["classes"]] == ["0", "1", "2", "3"] and data["more"] == 0
    for shown, one in zip(data["classes"], found.classes, strict=True):
        assert sum(end - start for start, end, _, _ in shown["operators"]) == pytest.approx(one.compute, rel=0.05)
        assert len(shown["operations"]) == len(one.operations)
        assert {data["phases"][phase] for _, _, phase, _ in shown["operators"]} == {"forward", "backward", "optimizer"}
    assert contents(found)["profile"]["peak"] == found.worst.memory.peak


def test_text_of_the_page(found):
    pytest.importorskip("plotly")
    text = document(contents(found))
    assert "One step on 4 devices" in text and "4 ranks on 4xh100-sxm-80gb" in text
    for words in ("all_reduce", "send to 1", "recv from 2", "Memory at the peak of each class of ranks", "waiting for others",
                  "needs most memory"):  # fmt: skip
        assert words in text


@pytest.mark.slow  # about a second each, spent in the browser
def test_the_timeline_of_ranks(browser, file):
    with opened(browser, file) as page:
        canvas = page.locator("#ranks-chart")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box["width"] > 500 and box["height"] > 150
        assert "hidden communication" in page.locator("#ranks-legend").inner_text()
        colors = "(c) => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
        assert canvas.evaluate(colors) >= 6
        detail = page.locator("#ranks-detail")
        assert "Ranks 0: operators" in detail.inner_text()
        # The first operators of rank 0 are at the left, in the upper lane.
        page.mouse.move(box["x"] + 114, box["y"] + 36)
        assert "forward" in detail.inner_text()
        canvas.focus()
        page.keyboard.press("ArrowDown")
        assert "Ranks 1" in detail.inner_text()
        page.keyboard.press("+")
        assert page.evaluate("lanes.to - lanes.from < 0.6 * ranks.end")
        page.mouse.wheel(0, 300)
        page.keyboard.press("Home")
        until(page, "lanes.from === 0 && lanes.to === ranks.end")
        assert page.locator("#timeline-chart .trace").count() > 2  # the memory of the worst rank
        assert page.locator("#ranks table").count() == 3


@pytest.mark.slow  # about a second each, spent in the browser
def test_bars_of_communication_have_details(browser, file):
    with opened(browser, file) as page:
        canvas = page.locator("#ranks-chart")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x, y = page.evaluate("[toX((ranks.classes[1].operations[0][0] + ranks.classes[1].operations[0][1]) / 2, "
                             "byId('ranks-chart').clientWidth), lanes.top + rowHeight() + lanes.height + 8]")  # fmt: skip
        page.mouse.move(box["x"] + x, box["y"] + y)
        text = page.locator("#ranks-detail").inner_text()
        assert "recv from 0, 8.39 MB" in text and "over 2 ranks over NVLink 4" in text and "exposed" in text


@pytest.mark.slow  # about a second each, spent in the browser
def test_on_a_phone(browser, file):
    with opened(browser, file, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#ranks-chart").scroll_into_view_if_needed()
        box = page.locator("#ranks-chart").bounding_box()
        page.touchscreen.tap(box["x"] + 68, box["y"] + 36)
        assert "Ranks 0" in page.locator("#ranks-detail").inner_text()


@pytest.mark.slow  # about a second each, spent in the browser
def test_without_memory(browser, tmp_path):
    pytest.importorskip("plotly")
    path = tmp_path / "page.html"
    profile_ranks(pipeline, setup=stage, topology="4xH100", memory=False).to_html(path)
    with opened(browser, path) as page:
        assert page.locator("#ranks table").count() == 2
        assert page.locator("#timeline").is_hidden() and page.locator("#modules").is_hidden()


def test_many_ranks_are_cut(monkeypatch, found):
    from metatensor.analysis.ranks import page

    monkeypatch.setattr(page, "SHOWN", 2)
    data = drawn(found)
    assert len(data["classes"]) == 2 and data["more"] == 2
