"""Pages in a headless Chromium: they may not ask the network for anything, and their console must stay empty."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE = {"viewport": {"width": 375, "height": 800}, "is_mobile": True, "has_touch": True}


@contextmanager
def chromium():
    """Start an installed Chromium, whose path may be in CHROMIUM, or skip."""
    sync = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    with sync.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@contextmanager
def opened(browser, file: Path, **options):
    """Open a page. At the end, assert that the console is empty and that nothing was requested from the network."""
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


def until(page, condition):
    """Wait for a condition. `Page.wait_for_function` would need ``unsafe-eval``, which the page's policy forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"the condition did not become true within 5 seconds: {condition}")
