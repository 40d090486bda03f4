"""Fixtures for all tests: devices to run on, and restoring of process-wide settings."""

import gc
import importlib.util
import inspect
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Hypothesis uses the same examples on every run, so that a test fails only if the code has changed.
# METATENSOR_EXPLORE=1 draws new examples.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", settings.get_profile("explore"), derandomize=True)
settings.load_profile("explore" if os.environ.get("METATENSOR_EXPLORE") else "default")

# With several threads, PyTorch splits sums differently, so results could vary.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The kernel takes a millisecond to free a file on a disk, and tests make thousands.
if "METATENSOR_DISK_DIR" not in os.environ and os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
    os.environ["METATENSOR_DISK_DIR"] = "/dev/shm"

# Commands print other paths, and more, in a workflow of GitHub. Tests that want this set the variables themselves.
for variable in [name for name in os.environ if name.startswith("GITHUB_")]:
    del os.environ[variable]

ROOT = str(Path(__file__).parent)


def names_torch(value, seen):
    """Return True if a function of the tests, or one that it calls, refers to PyTorch."""
    value = inspect.unwrap(getattr(value, "__wrapped__", value)) if callable(value) else value
    code = getattr(value, "__code__", None)
    if code is None or code in seen or not code.co_filename.startswith(ROOT):
        if inspect.isclass(value) and value.__module__ in sys.modules and value not in seen:
            seen.add(value)
            return any(names_torch(member, seen) for member in vars(value).values())
        return False
    seen.add(code)
    pending, found = [code], set()
    while pending:
        inner = pending.pop()
        found.update(inner.co_names, inner.co_varnames, inner.co_freevars, filter(lambda c: isinstance(c, str), inner.co_consts))
        pending += [c for c in inner.co_consts if inspect.iscode(c)]
    return "torch" in found or any(names_torch(value.__globals__[name], seen) for name in found if name in value.__globals__)


def compares(item):
    """Return True if a test may use PyTorch: in its body, a fixture or its parameters."""
    fixtures = [f.func for defs in item._fixtureinfo.name2fixturedefs.values() for f in defs]
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(names_torch(value, set()) for value in (item.function, *fixtures, *given))


def pytest_collection_modifyitems(config, items):
    """Skip tests that need PyTorch if it is not installed, and mark them so that ``-m torch`` selects them."""
    installed = importlib.util.find_spec("torch") is not None
    skip = pytest.mark.skip(reason="PyTorch is not installed")
    for item in items:
        if "torch" in item.fixturenames:  # the fixtures of this name import it
            item.add_marker("torch")
        if item.get_closest_marker("torch") and not installed:
            item.add_marker(skip)
        elif installed and compares(item):
            item.add_marker("torch")


def pytest_collection_finish(session):
    """Exempt the tests themselves from garbage collection. Many tests run it, and each run would visit a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def short_collections():
    """Exempt what a module leaves behind as well: caches, imported modules and the results of its tests."""
    yield
    gc.collect()
    gc.freeze()


def installed_devices():
    """Return the names of the installed devices with data whose hardware is present."""
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
    """Run a test that takes ``device`` on every installed device with data."""
    if "device" in metafunc.fixturenames and "device" not in _parametrized(metafunc):
        metafunc.parametrize("device", installed_devices())


def _parametrized(metafunc):
    names = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        given = mark.args[0]
        names.update(given.replace(" ", "").split(",") if isinstance(given, str) else given)
    return names


@pytest.fixture(autouse=True, scope="module")
def unchanged_devices():
    """Remove the devices that a module's tests registered."""
    from devices.registered import unregister
    from metatensor import plugins

    before = set(plugins.device_types())
    yield
    for name in set(plugins.device_types()) - before:
        unregister(name)


@pytest.fixture(autouse=True)
def unchanged_state():
    """Restore the settings of the process and the thread after each test."""
    import metatensor as mt

    dtype = mt.get_default_dtype()
    grad = mt.is_grad_enabled()
    yield
    mt.set_default_dtype(dtype)
    mt.set_default_device(None)
    mt.set_grad_enabled(grad)
    context_parallelism = sys.modules.get("metatensor.distributed.tensor.experimental._context_parallel._options")
    if context_parallelism is not None:
        options = context_parallelism._cp_options
        vars(options).update(vars(type(options)()))


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, one for all pages: Playwright does not run twice in a process."""
    from browsing import chromium

    with chromium() as found:
        yield found
