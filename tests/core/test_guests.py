"""cpu tensors among meta ones: where PyTorch lets them be, and where it does not."""

import pytest

import metatensor as mt
from metatensor.rules.guests import GUESTS

F = mt.nn.functional

CASES = {
    "linear": ((2, 3), (4, 3), F.linear), "matmul": ((2, 3), (3, 4), mt.matmul),
    "einsum": ((2, 3), (3, 4), lambda x, y: mt.einsum("ij,jk", x, y)),
    "conv": ((1, 3, 8), (4, 3, 3), F.conv1d), "add_": ((2, 3), (2, 3), lambda x, y: x.add_(y)), "cdist": ((2, 3), (4, 3), mt.cdist),
    "expand_as": ((1,), (3,), lambda x, y: x.expand_as(y)), "view_as": ((6,), (2, 3), lambda x, y: x.view_as(y)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cpu_tensor_goes_with_a_meta_one(name):
    first, second, function = CASES[name]
    found = function(mt.ones(first, device="meta"), mt.ones(second))
    assert found.device.type == "meta" and found.shape == function(mt.ones(first), mt.ones(second)).shape


def test_indices_and_masks_on_cpu():
    x = mt.ones(4, 3, device="meta")
    i = mt.zeros(2, 3, dtype=mt.int64)
    assert x.scatter_(0, i, mt.ones(2, 3)) is x and x.take(i).shape == (2, 3)
    assert x.masked_fill_(mt.ones(4, 3, dtype=mt.bool), 0) is x
    assert mt.bucketize(x, mt.arange(3.0)).device == mt.searchsorted(mt.arange(3.0), x).device == x.device


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: y.add_(x), lambda x, y: mt.cat([x, y]), lambda x, y: mt.where(x > 0, x, y),
    lambda x, y: F.layer_norm(x, (3,), y[0]), lambda x, y: F.linear(x, x, y[:, 0].expand(3)), lambda x, y: mt.addmm(x, y, x),
    lambda x, y: mt.mm(y, x), lambda x, y: F.mse_loss(x, y),
])  # fmt: skip
def test_elsewhere_all_tensors_are_on_one_device(function):
    with pytest.raises(RuntimeError, match="same device"):
        function(mt.ones(3, 3, device="meta"), mt.ones(3, 3))



def test_the_names_are_those_of_operators():
    from metatensor._core.op import registry

    assert not [name for name in GUESTS if name not in registry and name.rstrip("_") not in registry]
