"""The page in a real browser: no errors, no requests, and everything works by pointer, by touch and by keyboard."""

import re

import pytest

import metatensor as mt
from browsing import PHONE, opened, until
from metatensor.analysis import estimate

pytestmark = pytest.mark.slow   # about a second each, spent in the browser


@pytest.fixture(scope="module")
def files(browser, training, inference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    training.to_html(folder / "training.html")
    inference.to_html(folder / "inference.html")
    training.profile.to_html(folder / "profile.html")
    return folder


@pytest.fixture(scope="module")
def loss_peaks(browser, tmp_path_factory):
    """Return a page about a step that reaches its peak in the default loss, and nearly that in the loss's gradient."""
    with mt.device("meta"):
        model, x = mt.nn.Sequential(*[mt.nn.Linear(64, 64) for _ in range(60)], mt.nn.Linear(64, 20_000)), mt.empty(2048, 64)
    found = estimate(model, x, training=True, timeline=True, precision="bf16-mixed", optimizer="sgd")
    file = tmp_path_factory.mktemp("peaks") / "peaks.html"
    found.to_html(file)
    return file


@pytest.fixture(scope="module")
def opened_page(browser, files):
    with opened(browser, files / "training.html", viewport={"width": 1200, "height": 900}) as found:
        yield found


@pytest.fixture
def page(opened_page):
    opened_page.fill("#module-search", "")
    opened_page.click("#fold-all")
    opened_page.mouse.move(0, 0)
    opened_page.evaluate("scrollTo(0, 0)")
    return opened_page


def count(page):
    return page.locator("#module-count").inner_text()


def current(page):
    return page.locator("#module-table .row.current [role=rowheader]").get_attribute("title")


def test_the_peak_is_the_first_thing(page):
    hero = page.locator("#peak")
    box = hero.bounding_box()
    assert box["y"] < 200 and box["y"] + box["height"] < 900  # without scrolling
    assert "at the peak of memory" in hero.inner_text() and "conftest.py:" in hero.inner_text()
    assert re.search(r"scores", hero.inner_text())


@pytest.mark.parametrize("name", ["inference", "profile"])
def test_other_kinds_of_reports(browser, files, name):
    with opened(browser, files / f"{name}.html") as page:
        assert page.locator("#timeline-chart .trace").count() > 3 and page.locator("#treemap-chart .slice").count() > 3
        assert page.locator("#flame").is_hidden()  # no device was given
        assert "modules" in count(page)
        assert "time" not in page.locator("#module-table .head").inner_text().split()


def test_charts_are_drawn(page):
    assert page.locator("#timeline-chart .scatterlayer .trace").count() >= 6
    assert "peak" in page.locator("#timeline-chart .annotation").all_text_contents()[-1]
    for phase in ("forward", "backward"):
        assert phase in " ".join(page.locator("#timeline-chart .annotation").all_text_contents())
    assert page.locator("#treemap-chart .slice").count() > 10
    assert page.locator("#flame-chart .point").count() > 50
    titles = page.locator(".modebar-btn").evaluate_all("(all) => all.map((one) => one.dataset.title)")
    assert titles and not [title for title in titles if re.search("share|cloud|edit|upload", title, re.IGNORECASE)]


def test_hovering_tells_what_lives(page):
    chart = page.locator("#timeline-chart")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.6)
    page.wait_for_selector("#timeline-chart .hoverlayer .hovertext")
    shown = page.locator("#timeline-chart .hoverlayer").text_content()
    assert "after event" in shown and "saved for backward" in shown and "conftest.py:" in shown
    detail = page.locator("#timeline-detail").inner_text()
    assert "operator" in detail and "in module layers." in detail and "What takes most" in detail
    flame = page.locator("#flame-chart")
    flame.scroll_into_view_if_needed()
    before = page.locator("#flame-detail").inner_text()
    box = flame.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 10)
    page.wait_for_selector("#flame-chart .hoverlayer .hovertext")
    assert page.locator("#flame-detail").inner_text() != before


def dot(page, at):
    """Return the screen position of the dot that marks the chart's point `at`."""
    return page.evaluate("""(at) => {
        const chart = byId("timeline-chart"), { xaxis, yaxis } = chart._fullLayout, box = chart.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.d2p(profile.chart.event[at] + 1),
                box.top + yaxis._offset + yaxis.d2p(profile.chart.total[at])];
    }""", at)  # fmt: skip


def test_the_dot_of_the_peak_is_the_peak(browser, loss_peaks):
    with opened(browser, loss_peaks, viewport={"width": 1280, "height": 800}) as page:
        page.locator("#timeline-chart").scroll_into_view_if_needed()
        peaks = page.evaluate("[profile.chart.peak, ...profile.chart.near_peaks]")
        assert len(peaks) >= 2 and "second peak" in " ".join(page.locator("#timeline-chart .annotation").all_text_contents())
        for at in peaks:
            for dx, dy in ((0, 0), (3, 2), (-4, 0), (2, -4)):
                page.mouse.move(300, 20)
                x, y = dot(page, at)
                page.mouse.move(x + dx, y + dy)
                event = page.evaluate("(at) => wholeText(profile.chart.event[at] + 1)", at)
                detail = page.locator("#timeline-detail").inner_text()
                assert f"memory event {event} of" in detail and ("— the peak" in detail) == (at == peaks[0])
                until(page, f"(document.querySelector('#timeline-chart .hoverlayer').textContent || '').includes('after event {event},')")
    with opened(browser, loss_peaks, **PHONE) as page:
        page.locator("#timeline-chart").scroll_into_view_if_needed()
        page.evaluate("showMoment(0, false)")
        x, y = dot(page, peaks[0])
        page.touchscreen.tap(x + 5, y + 3)
        until(page, "document.getElementById('timeline-detail').innerText.includes('— the peak')")


def test_the_wheel_scrolls_the_page_where_the_table_ends(page):
    page.click("#unfold-all")
    table = page.locator("#module-table")
    table.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    box = table.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + box["height"] / 2)
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 60)
    until(page, "document.getElementById('module-table').scrollTop > 0")
    assert page.evaluate("scrollY") == before
    table.evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    page.mouse.wheel(0, 80)
    until(page, f"scrollY > {before}")
    table.evaluate("(one) => { one.scrollTop = 0; }")
    middle = page.evaluate("scrollY")
    page.mouse.wheel(0, -80)
    until(page, f"scrollY < {middle}")


def test_the_table_says_what_its_figures_are(page):
    head = page.locator("#module-table .head").inner_text()
    assert "forward FLOPs" in head and "forward time" in head
    assert "All figures include submodules" in page.locator("#modules").inner_text()


def test_no_pop_ups(page):
    page.dblclick("#timeline-chart .nsewdrag >> nth=0")
    assert page.locator(".plotly-notifier:visible").count() == 0 and not page.evaluate("config.showTips")


def test_the_timeline_by_keyboard(page):
    detail = page.locator("#timeline-detail")
    page.focus("#timeline-chart")
    page.keyboard.press("p")
    at_peak = detail.inner_text()
    assert "the peak" in at_peak
    page.keyboard.press("Home")
    assert "event 1 of" in detail.inner_text()
    page.keyboard.press("ArrowRight")
    assert "event 2 of" in detail.inner_text()
    page.keyboard.press("End")
    last = re.search(r"event (\S+) of ([\d,]*\d)", detail.inner_text())
    assert last[1] == last[2]
    page.keyboard.press("PageUp")
    assert last[0] not in detail.inner_text()
    page.keyboard.press("p")
    assert detail.inner_text() == at_peak


def test_the_timeline_has_every_figure(page, training):
    traces = "document.getElementById('timeline-chart').data"
    found = page.evaluate(f"[Math.max(...{traces}.find((one) => one.name === 'total').y),"
                          f" {traces}.filter((one) => one.stackgroup).map((one) => one.name)]")  # fmt: skip
    assert found[0] == training.profile.peak
    assert set(training.profile.at_peak()) <= set(found[1])


def test_folding(page):
    page.click("#fold-all")
    assert count(page) == "3 of 33 modules"
    page.click("#module-table .row .fold >> nth=1")
    page.click("#unfold-all")
    every = page.evaluate("report.modules.length")
    assert every == 33 and count(page) == "33 of 33 modules"
    page.click("#module-table .row.current .fold")
    assert count(page) == "3 of 33 modules"


def test_the_table_by_keyboard(page):
    page.click("#fold-all")
    page.focus("#module-table")
    page.keyboard.press("Home")
    assert current(page) == "Model"
    page.keyboard.press("ArrowDown")
    assert current(page) == "layers"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert current(page) == "layers.0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert current(page) == "layers.0.0"
    page.keyboard.press("ArrowLeft")
    assert current(page) == "layers.0"
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert current(page) == "layers.1"
    page.keyboard.press("End")
    assert current(page) == "head"
    active = page.get_attribute("#module-table", "aria-activedescendant")
    assert page.get_attribute(f"#{active}", "aria-selected") == "true"


def test_searching(page):
    page.fill("#module-search", "layers.3")
    until(page, "document.getElementById('module-count').textContent.endsWith('found')")
    assert count(page) == "5 found"
    titles = page.locator("#module-table .body [role=rowheader]").evaluate_all("(all) => all.map((one) => one.title)")
    assert titles == ["Model", "layers", "layers.3", "layers.3.0", "layers.3.1", "layers.3.1.qkv", "layers.3.1.out"]
    page.fill("#module-search", "attention")
    assert count(page) == "6 found" and page.locator("#module-table mark").count() == 6
    page.fill("#module-search", "no such module")
    assert count(page) == "0 found"
    page.fill("#module-search", "")
    assert "of" in count(page)


def test_sorting(page):
    page.click("#fold-all")
    button = page.locator("#module-table .head button", has_text="parameters")

    def order():
        titles = page.locator("#module-table .body [role=rowheader]").evaluate_all("(all) => all.map((one) => one.title)")
        return [title for title in titles if title in ("layers", "head")]

    assert order() == ["layers", "head"]
    button.click()
    assert page.locator("[aria-sort=descending]").count() == 1 and order() == ["layers", "head"]
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("[aria-sort=ascending]").count() == 1 and order() == ["head", "layers"]
    button.click()
    assert page.locator("[aria-sort=none]").count() == page.locator("[role=columnheader]").count()


TILES = "document.getElementById('treemap-chart').data[0]"


def tiles(page):
    """Return the sizes of tiles by id, and the sum of each tile's parts."""
    found = page.evaluate(f"[{TILES}.ids, {TILES}.parents, {TILES}.values]")
    size, parts = {}, {}
    for name, parent, value in zip(*found, strict=True):
        size[name] = value
        parts[parent] = parts.get(parent, 0) + value
    return size, parts


def test_tied_parameters_count_once_in_the_treemap(browser, tmp_path):
    class Tied(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = mt.nn.Linear(64, 64), mt.nn.Sequential(mt.nn.Linear(64, 64)), mt.nn.Linear(64, 64)
            self.last.weight = self.first.weight

        def forward(self, x):
            return self.last(self.inner(self.first(x)))

    with mt.device("meta"):
        model, x = Tied(), mt.empty(4, 64)
    found = estimate(model, x, timeline=True)
    found.to_html(tmp_path / "tied.html")
    with opened(browser, tmp_path / "tied.html") as page:
        page.check("input[name=measure][value=parameter_bytes]")
        until(page, f"{TILES}.values[0] === report.parameter_bytes")
        size, parts = tiles(page)
        assert size["/first"] == 4 * 64 * 65 and size["/last"] == 4 * 64 and size["/inner"] == size["/inner.0"] == 4 * 64 * 65
        assert all(total == size[parent] for parent, total in parts.items() if parent)


@pytest.mark.parametrize("measure", ["peak_bytes", "parameter_bytes", "made_bytes"])
def test_the_parts_of_a_tile_add_up(page, training, measure):
    page.check(f"input[name=measure][value={measure}]")
    until(page, f"{TILES}.values[0] === report.modules[0].{measure}")
    size, parts = tiles(page)
    assert all(total == size[parent] for parent, total in parts.items() if parent)
    if measure != "parameter_bytes":
        outside = training.to_dict()["profile"]["outside_modules"][measure]
        assert size.get("//outside", 0) == outside and (measure == "peak_bytes" or outside)
        shown = page.evaluate(f"{TILES}.labels")
        assert "itself" in shown and ("outside of all modules" in shown) == bool(outside)


def test_the_treemap(page):
    page.check("input[name=measure][value=peak_bytes]")
    before = page.evaluate("document.getElementById('treemap-chart').data[0].values[0]")
    page.check("input[name=measure][value=parameter_bytes]")
    assert page.evaluate("document.getElementById('treemap-chart').data[0].values[0]") == page.evaluate("report.parameter_bytes") != before
    page.locator("#treemap-chart .slice", has_text="head").last.click()
    until(page, "document.getElementById('treemap-chart').data[0].level === '/head'")
    page.locator("#treemap-chart .pathbar").first.click()
    until(page, "document.getElementById('treemap-chart').data[0].level === '/'")


def test_the_treemap_by_keyboard(page):
    detail = page.locator("#treemap-detail")
    page.focus("#treemap-chart")
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    assert detail.inner_text().startswith("Model") and "100.0% of the " in detail.inner_text()
    page.keyboard.press("ArrowRight")
    assert detail.inner_text().startswith("layers")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('treemap-chart').data[0].level === '/layers'")
    page.keyboard.press("ArrowRight")
    first = detail.inner_text()
    page.keyboard.press("ArrowRight")
    assert first.startswith("layers.") and detail.inner_text().startswith("layers.") and detail.inner_text() != first
    page.keyboard.press("Escape")
    until(page, "document.getElementById('treemap-chart').data[0].level === '/'")


def test_the_flame_chart_by_keyboard(page):
    detail = page.locator("#flame-detail")
    page.focus("#flame-chart")
    page.keyboard.press("Home")
    assert detail.inner_text().startswith("forward")
    page.keyboard.press("ArrowDown")
    assert not detail.inner_text().startswith("forward")
    page.keyboard.press("Enter")
    narrow = page.evaluate("document.getElementById('flame-chart').layout.xaxis.range")
    page.keyboard.press("Escape")
    wide = page.evaluate("document.getElementById('flame-chart').layout.xaxis.range")
    assert wide[0] == 0 and narrow[1] - narrow[0] < wide[1]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert detail.inner_text().startswith("forward")


def test_everything_is_reached_by_tab(page):
    seen = set()
    page.evaluate("document.body.focus()")
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.textContent || document.activeElement.name"))
    assert {"timeline-chart", "module-search", "unfold-all", "fold-all", "module-table", "treemap-chart", "flame-chart"} <= seen


def test_dark_and_light(page):
    def colors():
        return page.evaluate("[getComputedStyle(document.body).backgroundColor,"
                             " document.getElementById('timeline-chart').layout.paper_bgcolor]")  # fmt: skip

    light = colors()
    page.emulate_media(color_scheme="dark")
    until(page, f"document.getElementById('timeline-chart').layout.paper_bgcolor !== '{light[1]}'")
    assert colors()[0] != light[0]
    page.emulate_media(color_scheme="light")
    until(page, f"document.getElementById('timeline-chart').layout.paper_bgcolor === '{light[1]}'")


def test_a_phone(browser, files):
    with opened(browser, files / "training.html", **PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        widest = page.locator(".chart .main-svg").evaluate_all("(all) => Math.max(...all.map((one) => one.getBoundingClientRect().right))")
        assert widest <= 375
        page.locator("#timeline-chart").scroll_into_view_if_needed()
        page.evaluate("window.before = document.getElementById('timeline-detail').innerText")
        box = page.locator("#timeline-chart .nsewdrag").first.bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] * 0.2, box["y"] + box["height"] / 2)
        until(page, "document.getElementById('timeline-detail').innerText !== window.before")
        page.tap("#unfold-all")
        assert count(page).startswith(str(page.evaluate("report.modules.length")))


def test_printing(browser, files):
    with opened(browser, files / "training.html", color_scheme="dark") as page:
        page.click("#unfold-all")
        paper = page.pdf(format="A4")
        assert paper.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#module-table .body .row").count() == page.evaluate("report.modules.length")
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")


def test_without_scripts(browser, files):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((files / "training.html").as_uri())
    text = page.locator("body").inner_text()
    assert "at the peak of memory" in text and "In use at the peak" in text and "need JavaScript" in text
    context.close()
