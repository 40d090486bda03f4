"""Distributed tensors keep their parts where operators allow it: views with -1, fused attention and fused norms."""

import pytest

import metatensor as mt
from metatensor import distributed
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.nn import functional as F


@pytest.fixture
def mesh():
    found = init_device_mesh("meta", (4,))
    yield found
    distributed.destroy_process_group()


def spread(mesh, placement, *shape):
    return distribute_tensor(mt.empty(*shape, dtype=mt.bfloat16, device="meta"), mesh, [placement]).requires_grad_()


@pytest.mark.parametrize("size", [(2, 16, 8, 32), (2, 16, -1, 32), (2, 16, 8, -1), (-1, 16, 8, 32)])
def test_a_view_splits_a_cut_dimension(mesh, size):
    x = spread(mesh, Shard(2), 2, 16, 256)
    with CommunicationLog() as log:
        y = x.view(size)
    assert y.shape == (2, 16, 8, 32) and y.placements == (Shard(2),) and not log.entries


def test_fused_attention_with_fewer_heads_of_keys(mesh):
    q, k, v = (spread(mesh, Shard(1), 2, heads, 16, 32) for heads in (8, 4, 4))
    with CommunicationLog() as log, mt.analysis.policy("cuda"):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        y.backward(mt.empty_like(y))
    assert not log.entries and y.placements == q.grad.placements == k.grad.placements == (Shard(1),)
    assert y._local_tensor.shape == (2, 2, 16, 32) and k.grad._local_tensor.shape == (2, 1, 16, 32)


@pytest.mark.parametrize("mask", [None, (1, 1), (2, 1)])
def test_fused_attention_with_a_cache(mesh, mask):
    q = distribute_tensor(mt.empty(2, 8, 3, 16, device="meta"), mesh, [Shard(1)])
    k = distribute_tensor(mt.empty(2, 4, 17, 16, device="meta"), mesh, [Shard(1)])
    given = None if mask is None else distribute_tensor(mt.empty(*mask, 3, 17, dtype=mt.bool, device="meta"), mesh, [Replicate()])
    with CommunicationLog() as log:
        y = F.scaled_dot_product_attention(q, k, k, given, enable_gqa=True)
    assert not len(log) and y.placements == (Shard(1),) and y.shape == (2, 8, 3, 16)
    heads = distribute_tensor(mt.empty(2, 8, 3, 17, device="meta"), mesh, [Replicate()])  # a mask that differs by head is not whole
    assert F.scaled_dot_product_attention(q, k, k, heads, enable_gqa=True).shape == (2, 8, 3, 16)


def test_the_layout_of_attention_is_that_of_its_parts(mesh):
    q = spread(mesh, Shard(2), 2, 16, 256).view(2, 16, 8, 32).transpose(1, 2)
    with mt.analysis.policy("cuda"):
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    whole = sorted(range(4), key=lambda dim: -y.stride(dim))
    assert whole == sorted(range(4), key=lambda dim: -y._local_tensor.stride(dim))
    assert y.transpose(1, 2).reshape(2, 16, 256)._local_tensor.shape == (2, 16, 64)


def test_uneven_heads_are_gathered(mesh):
    q, k = spread(mesh, Shard(1), 2, 6, 16, 32), spread(mesh, Shard(1), 2, 2, 16, 32)
    with CommunicationLog() as log, mt.analysis.policy("cuda"):
        y = F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
    assert log.entries and y.shape == (2, 6, 16, 32)


def test_rows_of_a_fused_norm(mesh):
    x, weight = spread(mesh, Shard(1), 2, 16, 64), spread(mesh, Replicate(), 64)
    with CommunicationLog() as log, mt.analysis.policy("cuda"):
        y = F.rms_norm(x, (64,), weight)
        y.backward(mt.empty_like(y))
    assert not log.entries and isinstance(x.grad, DTensor) and x.grad.placements == (Shard(1),)
    assert weight.grad.placements == (Partial("sum"),)


def test_a_view_has_the_values_of_the_whole():
    def run():
        distributed.init_process_group()
        own = init_device_mesh("cpu", (4,))
        x = mt.arange(2 * 3 * 8, dtype=mt.float32, device="cpu").reshape(2, 3, 8)
        y = distribute_tensor(x, own, [Shard(2)]).view(2, 3, -1, 2)
        return y.placements, mt.equal(y.full_tensor(), x.view(2, 3, 4, 2))

    assert set(distributed.sim.run(run, world_size=4)) == {((Shard(2),), True)}


def test_parts_that_were_moved_are_laid_out_like_the_whole(mesh):
    x = spread(mesh, Shard(2), 2, 16, 8, 32).transpose(1, 2)  # heads are cut, and are not the slowest but one in memory
    y = x.sort(dim=1).values  # needs all heads
    order = sorted(range(4), key=lambda dim: -y.stride(dim))
    assert order == sorted(range(4), key=lambda dim: -y._local_tensor.stride(dim)) == [0, 2, 1, 3]
    assert y.transpose(1, 2).reshape(2, 16, 256).shape == (2, 16, 256)
