"""The pytest plugin of metatensor: markers that limit the memory, FLOPs and parameters of a test, and a fixture.

pytest imports this module in every project of an environment in which metatensor is installed. It is outside of the
package, because importing the package loads its compiled modules. They are loaded by the first test that uses a marker or
the fixture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

__all__ = ["meta_device"]

MARKERS = {
    "max_memory": 'the greatest peak of memory of tensors in the test, such as "2GB" (metatensor)',
    "max_flops": 'the greatest number of FLOPs in the test, such as "4.1G" (metatensor)',
    "max_parameters": 'the greatest number of parameters of the modules that the test uses, such as "30M" (metatensor)',
}


class _Budgets:
    """The hook that applies the markers. It is registered only for markers that the project does not define itself."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, Any]:
        """Run a test within the budgets of its markers."""
        marks: dict[str, Any] = {}
        for mark in item.iter_markers():  # the closest first
            if mark.name in self.names:
                marks.setdefault(mark.name, mark)
        if not marks:
            return (yield)
        from metatensor.analysis.budgets import BudgetExceededError, within_budget

        limits = {name.removeprefix("max_"): _limit(mark) for name, mark in marks.items()}
        message = ""
        try:
            budget = within_budget(**limits, objects=getattr(item, "funcargs", {}))
        except (TypeError, ValueError) as error:
            message = f"marker max_{error}"
        if message:
            pytest.fail(message, pytrace=False)
        result = None
        try:
            with budget:
                result = yield
        except BudgetExceededError as error:
            if error.budget is not budget:  # raised by the test itself
                raise
            message = str(error)
        if message:
            pytest.fail(f"{item.name}: {message}", pytrace=False)
        return result


def _limit(mark: Any) -> Any:
    """Return the argument of a marker."""
    if len(mark.args) != 1 or mark.kwargs:
        pytest.fail(f"marker {mark.name} takes one argument, such as @pytest.mark.{mark.name}('2G')", pytrace=False)
    return mark.args[0]


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers. A project that has a marker of the same name keeps its own."""
    taken = {line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")}
    names = frozenset(MARKERS.keys() - taken)
    for name in sorted(names):
        config.addinivalue_line("markers", f"{name}(limit): {MARKERS[name]}")
    config.pluginmanager.register(_Budgets(names), "metatensor_pytest_budgets")


@pytest.fixture
def meta_device() -> Iterator[Any]:
    """The meta device of metatensor, which is the default device during the test."""
    import metatensor as mt

    device = mt.device("meta")
    with device:
        yield device
