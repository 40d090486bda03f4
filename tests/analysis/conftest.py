"""A headless Chromium, one for all pages: Playwright does not run twice in a process."""

import pytest

from browsing import chromium


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found
