"""Values on cpu, compared with PyTorch live: the number of right samples of each op reaches its floor."""

import pytest

pytestmark = pytest.mark.torch
PARTS = 16


@pytest.fixture(scope="module")
def value_floor():
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")  # PyTorch's operator database imports it
    from oracle import value_floor

    if not torch.__version__.startswith(value_floor.VERSION):
        pytest.skip(f"the floor is that of PyTorch {value_floor.VERSION}, this is {torch.__version__}")
    return value_floor


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_no_op_has_fewer_values_right_than_its_floor(value_floor, part):
    floor = value_floor.load()
    found = value_floor.tallies((part, PARTS))
    below = {
        name: f"{tally.right} of at least {floor[name]}: {tally.missing or tally.first}"
        for name, tally in found.items()
        if tally.right < floor.get(name, 0)
    }
    assert not below, f"fewer samples are right (see tests/oracle/README.md): {below}"


def test_the_floor_names_only_ops_of_the_database(value_floor):
    from oracle import database

    assert set(value_floor.load()) <= {database.name_of(op) for op in database.entries()}
