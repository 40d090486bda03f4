"""`within_budget`."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis import BudgetExceededError, within_budget
from metatensor.analysis.sizes import SizeError


def test_figures_of_a_block():
    with mt.device("meta"):
        model, x = nn.Linear(128, 64), mt.empty(100, 128)
        with within_budget() as budget:
            y = model(x)
    assert budget.total_flops == 2 * 100 * 128 * 64 and budget.total_parameters == 128 * 64 + 64
    assert budget.peak_bytes == 4 * (128 * 64 + 64) + 4 * 100 * 64 and y.shape == (100, 64)


def test_a_block_over_its_budget():
    with pytest.raises(BudgetExceededError) as caught, mt.device("meta"), within_budget(memory="1KB", flops=10, parameters=1) as budget:
        nn.Linear(128, 64)(mt.empty(100, 128)).sum().backward()
    assert caught.value.budget is budget and isinstance(caught.value, AssertionError)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("the peak of memory, ") and "test_budgets.py:22" in lines[1]
    assert sum(line.startswith("  ") for line in lines) == 6


def test_equal_figures_are_within_the_budget():
    with mt.device("meta"), within_budget(memory=4000):
        mt.empty(1000)
    with pytest.raises(BudgetExceededError), mt.device("meta"), within_budget(memory=3999):
        mt.empty(1000)


def test_exceptions_of_the_block_are_not_replaced():
    with pytest.raises(KeyError), within_budget(memory=0):
        mt.empty(1000, device="meta")
        raise KeyError
    with within_budget(memory=0):  # nothing of the former block remains
        pass


@pytest.mark.parametrize("limits, error", [({"memory": "x"}, SizeError), ({"flops": 1.5}, TypeError), ({"parameters": True}, TypeError)])
def test_invalid_budgets(limits, error):
    with pytest.raises(error, match=next(iter(limits))):
        within_budget(**limits)
