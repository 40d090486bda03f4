"""A model of 10,000 modules and more than 200,000 events: the page stays usable."""

import time

import pytest

import metatensor as mt
from metatensor.analysis import estimate

pytestmark = pytest.mark.slow


class Block(mt.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first, self.second, self.norm = mt.nn.Linear(n, n), mt.nn.Linear(n, n), mt.nn.LayerNorm(n)

    def forward(self, x):
        return x + self.second(self.first(self.norm(x)).relu())


class Large(mt.nn.Module):
    def __init__(self, groups=50, blocks=50, n=64):
        super().__init__()
        self.groups = mt.nn.ModuleList([mt.nn.Sequential(*[Block(n) for _ in range(blocks)]) for _ in range(groups)])

    def forward(self, x):
        for _ in range(2):
            for group in self.groups:
                x = group(x)
        return x


def test_large(browser, tmp_path):
    with mt.device("meta"):
        model, x = Large(), mt.empty(32, 64)
    report = estimate(model, x, training=True, timeline=True, device="h100-80gb")
    assert len(report.modules) > 10_000 and len(report.profile.events) > 200_000
    report.to_html(tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 10e6
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((tmp_path / "large.html").as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    assert page.evaluate("Math.max(...profile.chart.total)") == report.profile.peak
    assert page.evaluate("profile.chart.total[profile.chart.peak]") == report.profile.peak
    count = page.locator("#module-count")
    start = time.monotonic()
    page.click("#unfold-all")
    assert count.inner_text() == f"{len(report.modules):,} of {len(report.modules):,} modules"
    page.focus("#module-table")
    page.keyboard.press("End")
    assert page.locator("#module-table .row.current [role=rowheader]").get_attribute("title") == "groups.49.49.norm"
    page.locator("#module-table .head button", has_text="parameters").click()
    page.fill("#module-search", "groups.7.23.")
    assert count.inner_text() == "3 found"
    page.focus("#timeline-chart")
    page.keyboard.press("ArrowLeft")
    assert time.monotonic() - start < 15  # 1 s on an idle machine
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000
    assert trouble == []
