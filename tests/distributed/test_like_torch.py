"""Placements and rules, compared with PyTorch."""

import pytest


@pytest.fixture(autouse=True)
def their_world():
    """Destroy the process group that PyTorch has after a test."""
    distributed = pytest.importorskip("torch.distributed")
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.torch
def test_placements_are_pytorchs_or_cheaper():
    pytest.importorskip("torch.distributed.tensor")
    from distributed.placements_like_torch import ours, theirs

    mine, other = ours(), theirs()
    different = {key for key in mine if mine[key][0] != other[key][0]}
    assert len(mine) == 360
    assert len(different) <= 103
    # PyTorch gathers or reduces to all ranks; here the result is sharded by an exchange or a reduce-scatter, or stays partial.
    assert all(mine[key][0] != "R" == other[key][0] for key in different)
    assert {key for key in different if mine[key][1] >= other[key][1]} <= {("zeros_like", "P(max)")}  # neither communicates
    assert mine["zeros_like", "P(max)"][1] == other["zeros_like", "P(max)"][1] == 0


@pytest.mark.torch
@pytest.mark.parametrize("name", ["mm", "addmm", "add", "sum", "softmax", "amax", "cumsum", "transpose", "unsqueeze"])
def test_the_rules_cut_what_pytorch_cuts(name):
    pytest.importorskip("torch.distributed.tensor")
    from distributed.torch_strategies import compare, start
    from metatensor.distributed.tensor.sharding.making import sharded_overloads

    ((op, overload),) = [pair for pair in sharded_overloads() if pair[1].qualname == name]
    cut = list(compare(start(), op, overload))
    assert cut
    lacking = [one for one in cut if not one[-1]]
    assert all(sample.arguments.get("dim", 0) < 0 for sample, *_ in lacking)  # PyTorch also cuts a dimension that is scanned
