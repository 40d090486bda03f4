"""What every test may use: devices to run on, and a process state that no test leaves changed."""

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run, so that a change is judged by what it changed; METATENSOR_EXPLORE=1 draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", settings.get_profile("explore"), derandomize=True)
settings.load_profile("explore" if os.environ.get("METATENSOR_EXPLORE") else "default")

# With one thread PyTorch's results do not depend on how a sum is split.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items):
    """Skip what compares with PyTorch where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        skip = pytest.mark.skip(reason="PyTorch is not installed")
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(skip)


def installed_devices():
    """Names of the devices with data that are installed and have hardware here."""
    from metatensor import plugins

    usable = []
    for name in ("cpu", "disk", "cuda"):
        try:
            backend = plugins.backend(name)
        except RuntimeError:
            continue
        if backend.is_available():
            usable.append(name)
    return usable


def pytest_generate_tests(metafunc):
    """A test that takes ``device`` runs on every installed device with data."""
    if "device" in metafunc.fixturenames and "device" not in _parametrized(metafunc):
        metafunc.parametrize("device", installed_devices())


def _parametrized(metafunc):
    names = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        given = mark.args[0]
        names.update(given.replace(" ", "").split(",") if isinstance(given, str) else given)
    return names


@pytest.fixture(autouse=True)
def unchanged_state():
    """Put the process's and the thread's settings back after each test."""
    import metatensor as mt

    dtype = mt.get_default_dtype()
    grad = mt.is_grad_enabled()
    yield
    mt.set_default_dtype(dtype)
    mt.set_default_device(None)
    mt.set_grad_enabled(grad)
