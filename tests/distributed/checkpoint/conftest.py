"""A record of what is read from files."""

import pytest


@pytest.fixture
def reads():
    """Record what checkpoints read, until the end of the test."""
    pytest.importorskip("metatensor_cpu")
    from .counting import counted

    with counted() as found:
        yield found
