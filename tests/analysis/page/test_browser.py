"""The page in a real browser: no errors, no requests, and everything works by pointer, by touch and by keyboard."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

PHONE = {"viewport": {"width": 375, "height": 800}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def files(browser, training, inference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    training.to_html(folder / "training.html")
    inference.to_html(folder / "inference.html")
    training.profile.to_html(folder / "profile.html")
    return folder


@contextmanager
def opened(browser, file: Path, **options):
    """Open a page. At the end, nothing may have been printed or asked of the network."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    trouble, requests = [], []
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    yield page
    assert trouble == [] and requests == [file.as_uri()]
    assert page.locator("#trouble").is_hidden()
    context.close()


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


def until(page, condition):
    """Wait for a condition. `Page.wait_for_function` would need ``unsafe-eval``, which the page's policy forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


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


def test_the_treemap(page):
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
    assert detail.inner_text().startswith("Model") and "100.0% of all" in detail.inner_text()
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
