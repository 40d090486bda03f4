"""Tensors on cpu together with tensors on meta: only indices and 0-d tensors may be on cpu."""

import pytest

import metatensor as mt
from metatensor.rules.cpu_indices import CPU_INDICES

F = mt.nn.functional


@pytest.fixture
def x():
    return mt.ones(4, 3, device="meta")


LOOK_UPS = {
    "embedding": lambda x, i: F.embedding(i, x), "embedding_bag": lambda x, i: F.embedding_bag(i, x),
    "gather": lambda x, i: x.gather(0, i), "index_select": lambda x, i: x.index_select(0, i[0]), "take": lambda x, i: x.take(i),
    "getitem": lambda x, i: x[i], "scatter": lambda x, i: x.scatter(0, i, mt.ones(2, 3, device=x.device)),
    "scatter_": lambda x, i: x.scatter_(0, i, 1.0), "scatter_add": lambda x, i: x.scatter_add(0, i, mt.ones(2, 3, device=x.device)),
    "put_": lambda x, i: x.put_(i, mt.ones(2, 3, device=x.device)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_UPS)
def test_an_index_on_cpu_goes_with_a_table_on_meta(name, x):
    i = mt.zeros(2, 3, dtype=mt.int64)
    found = LOOK_UPS[name](x, i)
    assert found.device.type == "meta" and found.shape == LOOK_UPS[name](mt.ones(4, 3), i).shape


def test_shapes_of_cpu_tensors_may_be_asked_for(x):
    assert mt.ones(1, device="meta").expand_as(mt.ones(3)).device.type == "meta"
    assert mt.ones(6, device="meta").view_as(mt.ones(2, 3)).shape == (2, 3)


MISTAKES = {
    "add": lambda x, y: x + y, "add_": lambda x, y: x.add_(y), "mul_": lambda x, y: x.mul_(y), "cat": lambda x, y: mt.cat([x, y]),
    "where": lambda x, y: mt.where(x > 0, x, y), "layer_norm": lambda x, y: F.layer_norm(x, (3,), y[0]),
    "linear": lambda x, y: F.linear(x, y), "bias": lambda x, y: F.linear(x, x, y[0]), "addmm": lambda x, y: mt.addmm(x, y, x),
    "mm": lambda x, y: mt.mm(x, y), "matmul": lambda x, y: x @ y, "einsum": lambda x, y: mt.einsum("ij,jk", x, y),
    "conv1d": lambda x, y: F.conv1d(x[None], y[None]), "cdist": lambda x, y: mt.cdist(x, y), "mse_loss": lambda x, y: F.mse_loss(x, y),
    "bucketize": lambda x, y: mt.bucketize(x, y[0]), "searchsorted": lambda x, y: mt.searchsorted(y[0], x),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 0), "source of scatter": lambda x, y: x.scatter(0, (x > 0).long(), y),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_no_device_would_run_does_not_run_on_meta(name):
    with pytest.raises(RuntimeError, match="same device"):
        MISTAKES[name](mt.ones(3, 3, device="meta"), mt.ones(3, 3))


def test_a_table_on_cpu_does_not_go_with_an_index_on_meta():
    with pytest.raises(RuntimeError):
        F.embedding(mt.zeros(2, dtype=mt.int64, device="meta"), mt.ones(4, 3))


def test_the_names_are_those_of_operators():
    from metatensor._core.op import registry

    assert not [name for name in CPU_INDICES if name not in registry and name.rstrip("_") not in registry]
