"""Recorded PyTorch calls, replayed: the number of passing records of each op reaches its floor."""

import pytest

from metatensor import FakeTensorMode
from oracle import floor, records


@pytest.mark.parametrize("path", records.files(), ids=lambda p: p.name.partition(".")[0])
def test_no_op_falls_below_its_floor(path):
    wanted = floor.load()
    found = floor.passing(path)
    below = {op: f"{n} of at least {wanted[op]}" for op, n in found.items() if n < wanted.get(op, 0)}
    assert not below, f"passing records fell (see tests/oracle/README.md): {below}"


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("path", records.files(), ids=lambda p: p.name.partition(".")[0])
def test_fake_tensors_score_as_meta_does(path, device):
    expected = floor.passing(path)
    with FakeTensorMode():
        assert floor.passing(path, device=device) == expected


@pytest.mark.slow
def test_floor_names_only_recorded_ops():
    recorded = {record["op"] for record in records.read(records.files())}
    assert set(floor.load()) <= recorded
