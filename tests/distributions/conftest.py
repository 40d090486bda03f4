import pytest


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")
