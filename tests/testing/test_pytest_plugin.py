"""The pytest plugin: markers that limit what a test costs, and a fixture."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import metatensor.analysis
import metatensor.nn  # noqa: F401 (pytester unloads the modules that its runs load, which must not be these)

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]

MODEL = """
import pytest
import metatensor as mt
from metatensor import nn

@pytest.fixture
def model():
    with mt.device("meta"):  # on cpu it would load NumPy, which cannot be loaded twice in this process
        return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
"""


@pytest.fixture
def result(pytester):
    """A function that runs the tests in a text with the plugin."""

    def run(code, *options):
        pytester.makepyfile(textwrap.dedent(code))
        return pytester.runpytest_inprocess("-p", "metatensor_pytest", "-p", "no:cacheprovider", "--strict-markers", "--strict-config",
                                            "-W", "error", *options)  # fmt: skip

    return run


def test_tests_within_their_budgets_pass(result):
    found = result(MODEL + """
@pytest.mark.max_memory("10MB")
@pytest.mark.max_flops("10G")
@pytest.mark.max_parameters(300_000)
def test_step(model, meta_device):
    model(mt.empty(32, 256)).sum().backward()

@pytest.mark.max_memory("1KB")
class TestAll:
    @pytest.mark.max_memory(10_000_000)   # the closest marker counts
    def test_one(self, model):
        model(mt.empty(32, 256, device="meta"))

    def test_nothing(self):
        pass
""")
    found.assert_outcomes(passed=3)


def test_a_failure_names_the_operator_and_the_line_of_the_peak(result):
    found = result(MODEL + """
@pytest.mark.max_memory("1MB")
def test_step(model, meta_device):
    x = mt.empty(32, 256)
    y = model(x)
    z = y.repeat(1, 100_000) + 1
""")
    found.assert_outcomes(failed=1)
    text = found.stdout.str()
    assert "test_step: the peak of memory, 257 MB, is over the budget of 1.00 MB" in text
    assert "reached in add at " in text and "test_a_failure_names_the_operator_and_the_line_of_the_peak.py:14" in text
    assert "alive then, by category: temporary 256 MB, parameter 1.09 MB" in text
    assert "Traceback" not in text and "During handling" not in text


def test_flops_and_parameters(result):
    found = result(MODEL + """
@pytest.mark.max_flops("1M")
@pytest.mark.max_parameters("1K")
def test_step(model):
    model(mt.empty(32, 256, device="meta"))
""")
    text = found.stdout.str()
    assert "17.4 M FLOPs are over the budget of 1.00 M" in text and "by operator: nn.functional.linear 17.4 M" in text
    assert "273 K parameters are over the budget of 1.00 K" in text and "by module: 0 (Linear) 263 K, 2 (Linear) 10.2 K" in text


def test_parameters_of_fixtures_count(result):
    found = result(MODEL + """
@pytest.mark.max_parameters("1K")
def test_size(model):
    pass
""")
    found.assert_outcomes(failed=1)


@pytest.mark.slow
def test_a_test_that_fails_shows_its_own_error(result):
    found = result(MODEL + """
@pytest.mark.max_memory("1")
def test_step(model):
    model(mt.empty(32, 256, device="meta"))
    raise KeyError("its own")

@pytest.mark.max_memory("1")
def test_skipped(model):
    model(mt.empty(32, 256, device="meta"))
    pytest.skip("not here")

@pytest.mark.max_memory("1GB")
def test_within():
    from metatensor.analysis import within_budget
    with within_budget(memory=1):
        mt.empty(3, device="meta")
""")
    found.assert_outcomes(failed=2, skipped=1)
    text = found.stdout.str()
    assert "KeyError: 'its own'" in text and "BudgetExceededError: the peak of memory, 12 B," in text
    assert text.count("is over the budget") >= 1 and "test_step: the peak" not in text


@pytest.mark.parametrize(
    "marker, reason",
    [("max_memory('many')", "max_memory: 'many' is not a size"), ("max_memory()", "takes one argument"), ("max_flops(1.5)", "got float"),
     ("max_flops('1', '2')", "takes one argument"), ("max_memory(size='1')", "takes one argument"), ("max_parameters(True)", "got bool")],
)  # fmt: skip
def test_invalid_markers(result, marker, reason):
    found = result(f"import pytest\n\n@pytest.mark.{marker}\ndef test(): pass")
    found.assert_outcomes(failed=1)
    assert reason in found.stdout.str()


def test_the_fixture_sets_the_default_device(result):
    found = result("""
    import metatensor as mt

    def test_meta(meta_device):
        assert meta_device == mt.device("meta") and mt.empty(2).is_meta and mt.nn.Linear(2, 2).weight.is_meta
    """)
    found.assert_outcomes(passed=1)


def test_markers_are_listed(result):
    text = result("", "--markers").stdout.str()
    assert "@pytest.mark.max_memory(limit): the greatest peak" in text and "@pytest.mark.max_parameters(limit)" in text


def test_a_marker_of_the_project_is_left_alone(result, pytester):
    pytester.makeini("[pytest]\nmarkers =\n    max_memory(size, unit): our own\n    slow: slow")
    found = result("""
    import pytest

    @pytest.mark.max_memory(5, unit="apples")
    def test_own(): pass

    @pytest.mark.max_flops("0")
    def test_ours():
        import metatensor as mt
        mt.ones(2, 2, device="meta") @ mt.ones(2, 2, device="meta")
    """)
    found.assert_outcomes(passed=1, failed=1)


def test_the_page(result):
    page = (ROOT / "docs" / "pytest.md").read_text()
    found = result(page.partition("```py\n")[2].partition("```")[0])
    found.assert_outcomes(passed=1)


@pytest.mark.slow
def test_other_kinds_of_tests(result):
    found = result("""
    import unittest
    import pytest
    import metatensor as mt

    @pytest.mark.max_memory("1KB")
    class Case(unittest.TestCase):
        def test_small(self):
            mt.empty(10, device="meta")

        def test_large(self):
            mt.empty(1000, device="meta")
    """)
    found.assert_outcomes(passed=1, failed=1)


@pytest.mark.slow
def test_a_project_that_does_not_use_it_loads_nothing(pytester):
    """Through the entry point, as in an environment in which metatensor is installed."""
    site = pytester.mkdir("site")
    info = site / "metatensor_device-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: metatensor-device\nVersion: 1\n")
    declared = (ROOT / "pyproject.toml").read_text().partition("[project.entry-points.pytest11]\n")[2].partition("\n\n")[0]
    (info / "entry_points.txt").write_text("[pytest11]\n" + declared.replace('"', "") + "\n")
    pytester.makepyfile("""
    import sys

    def test_plain(request):
        assert request.config.pluginmanager.has_plugin("metatensor_pytest")
        assert not [name for name in sys.modules if name == "metatensor" or name.startswith("metatensor.")]
        assert "numpy" not in sys.modules
    """)
    code = f"import sys; sys.path[:0] = [{str(site)!r}, {str(ROOT)!r}]; import pytest; sys.exit(pytest.main(['-q', '--strict-markers']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=pytester.path, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
