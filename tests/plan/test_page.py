"""The page of plans in a real browser: no errors, no requests, and everything works by pointer, by touch and by keyboard."""

import pytest

import metatensor as mt
from browsing import PHONE, opened, until
from metatensor.plan.page import contents, document, write

pytestmark = pytest.mark.slow  # about a second each, spent in the browser


@pytest.fixture(scope="module")
def plans():
    with mt.device("meta"):
        layers = [mt.nn.TransformerEncoderLayer(256, 4, dropout=0.0, batch_first=True) for _ in range(4)]
        model, x = mt.nn.Sequential(*layers), mt.empty(1, 128, 256)
    settings = {"global_batch": 64, "keep": None, "schedules": ["1F1B"], "virtual_stages": [1], "context": [1]}
    return [({"devices": devices}, mt.plan.search(model, x, devices=devices, **settings)) for devices in ("4xH100", "8xH100", "2xt4")]


@pytest.fixture(scope="module")
def file(browser, plans, tmp_path_factory):
    pytest.importorskip("plotly", reason="Plotly is not installed")
    path = tmp_path_factory.mktemp("plans") / "plans.html"
    write(path, plans)
    return path


def shown(page):
    return page.evaluate("choice.shown.length")


def test_everything_is_drawn(browser, file, plans):
    with opened(browser, file, viewport={"width": 1300, "height": 900}) as page:
        everything = sum(len(plan.layouts) for _, plan in plans)
        assert shown(page) == everything
        assert page.locator("#table tbody tr").count() == min(50, everything)
        assert page.evaluate("document.querySelectorAll('#front-chart .scatterlayer .trace').length") == 4  # of the plans with layouts
        assert "nothing fits" in page.locator("#nothing li").inner_text()
        pixels = "[...byId('axes-chart').getContext('2d').getImageData(0, 0, 600, 300).data].some((value) => value)"
        assert page.evaluate(pixels)
        best = min(layout.seconds for _, plan in plans for layout in plan.layouts)
        assert page.evaluate("columns.seconds[sortedRows()[0]]") == best


def test_limits_by_pointer_and_keyboard(browser, file, plans):
    with opened(browser, file, viewport={"width": 1300, "height": 900}) as page:
        page.select_option("#case", "1")
        assert shown(page) == len(plans[1][1].layouts)
        key = page.get_by_role("button", name="limit tensor")
        key.focus()
        page.keyboard.press("ArrowUp")
        assert shown(page) == sum(layout.degrees.tensor == 1 for layout in plans[1][1].layouts)
        page.keyboard.press("ArrowUp")
        assert shown(page) == sum(layout.degrees.tensor == 2 for layout in plans[1][1].layouts)
        page.keyboard.press("Escape")
        box = page.locator("#axes-chart").bounding_box()
        x = page.evaluate("axisX(axesShown.findIndex((axis) => axis.name === 'peak'))") + box["x"]
        page.locator("#axes-chart").scroll_into_view_if_needed()
        box = page.locator("#axes-chart").bounding_box()
        page.mouse.move(x, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(x, box["y"] + 330)
        page.mouse.up()
        assert 0 < shown(page) < len(plans[1][1].layouts)
        page.mouse.click(x, box["y"] + 100)
        assert shown(page) == len(plans[1][1].layouts)
        page.click("#clear")
        assert shown(page) == sum(len(plan.layouts) for _, plan in plans)


def test_sorting_and_marking(browser, file):
    with opened(browser, file, viewport={"width": 1300, "height": 900}) as page:
        page.get_by_role("button", name="memory", exact=True).last.click()
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("memory")
        peaks = page.evaluate("sortedRows().map((i) => columns.peak[i])")
        assert peaks == sorted(peaks)
        page.locator("#table tbody tr").nth(3).click()
        assert page.locator("tr.marked").count() == 1
        point = page.evaluate("(() => { const i = frontOf(choice.shown)[0]; mark(i); return i; })()")
        until(page, f"choice.marked === {point} && !!document.querySelector('#row-{point}.marked')")


def test_on_a_phone(browser, file):
    with opened(browser, file, **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.select_option("#case", "0")
        assert shown(page) > 0


def test_contents(plans):
    found = contents(plans)
    assert len(found["columns"]["seconds"]) == sum(len(plan.layouts) for _, plan in plans) == len(found["degrees"]["data"])
    assert found["cases"][0]["title"].startswith("Sequential on 4xH100, 64 samples") and sum(found["columns"]["best"]) > 2


def test_names_are_escaped(plans):
    pytest.importorskip("plotly", reason="Plotly is not installed")
    plan = mt.plan.TrainingPlan("<script>alert(1)</script>", "8xH100", 1, 1, "bf16", [], [])
    text = document([({}, plan)])
    assert "<script>alert" not in text
