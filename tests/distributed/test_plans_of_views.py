"""Distributed tensors keep their parts where operators allow it: views, fused attention and fused norms."""

import itertools

import pytest

import metatensor as mt
from metatensor import distributed
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.distributed.tensor.placement_types import _StridedShard
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


ROWS = _StridedShard(0, split_factor=4)
MERGING = {
    "rows of a batch": (lambda x: x.flatten(0, 1), 1, ROWS, 0),
    "all dimensions": (lambda x: x.flatten(), 2, _StridedShard(0, split_factor=24), 0),
    "the last two dimensions": (lambda x: x.flatten(1), 2, _StridedShard(1, split_factor=6), 0),
    "a product of the rows": (lambda x: x.flatten(0, 1) @ mt.ones(8, 3, dtype=x.dtype, device="cpu"), 1, ROWS, 0),
    "split off again": (lambda x: x.flatten(0, 1).relu().view(4, 6, 8), 1, Shard(1), 0),
    "split in another way": (lambda x: x.flatten(0, 1).view(6, 4, 8), 1, Shard(0), 1),
    "a plain tensor is added": (lambda x: x.flatten(0, 1) + mt.ones(24, 8, dtype=x.dtype, device="cpu"), 1, ROWS, 0),
    "an operator that needs whole columns": (lambda x: x.flatten(0, 1).sort(0).values, 1, Shard(1), 1),
    "a sum of all rows": (lambda x: x.flatten(0, 1).sum(0), 1, Partial(), 0),
}


@pytest.mark.parametrize("name", MERGING)
def test_a_view_keeps_the_parts_of_a_dimension_that_it_merges(name):
    function, dim, wanted, collectives = MERGING[name]
    x = mt.arange(4 * 6 * 8, dtype=mt.float64, device="cpu").reshape(4, 6, 8).sin().requires_grad_()
    expected = function(x)
    weight = mt.arange(expected.numel(), dtype=mt.float64, device="cpu").cos().reshape(expected.shape)
    (expected * weight).sum().backward()

    def run():
        distributed.init_process_group()
        given = distribute_tensor(x.detach(), init_device_mesh("cpu", (2,)), [Shard(dim)]).requires_grad_()
        with implicit_replication():
            with CommunicationLog() as log:
                y = function(given)
            (y * weight).sum().backward()
        assert y.placements == (wanted,) and [one.kind for one in log] == ["all_to_all"] * collectives
        assert mt.allclose(y.detach().full_tensor(), expected.detach()) and mt.allclose(given.grad.full_tensor(), x.grad)

    distributed.sim.run(run, world_size=2)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 6, 8), (4, 3, 5)])
def test_views_of_tensors_that_are_divided_twice(shape):
    """How many runs a part has depends on both mesh dimensions, and dimensions may be divided unevenly."""
    x = mt.arange(mt.Size(shape).numel(), device="cpu").reshape(shape)
    choices = [Replicate(), Shard(0), Shard(1), Shard(2)]

    def run():
        distributed.init_process_group()
        mesh = init_device_mesh("cpu", (2, 2))
        for placements in itertools.product(choices, choices):
            given = distribute_tensor(x, mesh, placements, src_data_rank=None)
            for first, last in ((0, 1), (0, 2), (1, 2)):
                flat = given.flatten(first, last)
                assert mt.equal(flat.full_tensor(), x.flatten(first, last)), placements
                assert mt.equal(flat.view(shape).full_tensor(), x), placements

    distributed.sim.run(run, world_size=4)


def test_a_mean_over_uneven_strided_shards():
    """An average of the parts' means would give parts with fewer elements more weight."""

    def run():
        distributed.init_process_group()
        x = distribute_tensor(mt.arange(8.0, device="cpu"), init_device_mesh("cpu", (4,)), [_StridedShard(0, split_factor=3)])
        assert mt.equal((x + 1).full_tensor(), mt.arange(1.0, 9.0, device="cpu"))
        return x.mean().full_tensor().item(), x.amax().full_tensor().item(), x.to_local().numel()

    assert distributed.sim.run(run, world_size=4) == [(3.5, 7.0, count) for count in (3, 3, 2, 0)]
