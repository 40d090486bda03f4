"""`fully_shard` of models without data: deferred ones, whose shards are created alone, and ones on meta."""

import pytest

import metatensor as mt
from distributed.fsdp.test_fully_shard import on_ranks
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.fsdp import fully_shard
from metatensor.distributed.tensor import Shard, distribute_tensor

pytest.importorskip("metatensor_cpu")


def build():
    mt.manual_seed(7)
    model = nn.Sequential(nn.Linear(64, 1000), nn.Tanh(), nn.Linear(1000, 30), nn.Embedding(50, 8))
    nn.init.orthogonal_(model[2].weight)
    model[0].weight.data.mul_(2)
    model.register_buffer("scale", mt.linspace(0, 1, 5))
    return model


def sharded(model, mesh):
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def shards(model, mesh):
    return [distribute_tensor(one.detach(), mesh, [Shard(0)]).to_local() for one in model.parameters()]


def test_shards_are_those_of_the_eager_model():
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (4,))
        expected = shards(build(), mesh)
        with mt.deferred_init():
            model = sharded(build(), mesh)
        assert all(mt.is_deferred(one) and one.to_local().untyped_storage().data is None for one in model.parameters())
        assert {one.name for one in model.unresolved()} == {"scale", *(name for name, _ in model.named_parameters())}
        mt.materialize(model)
        mt.assert_materialized(model)
        assert all(mt.equal(one.to_local(), other) for one, other in zip(model.parameters(), expected))
        assert mt.equal(model.scale, mt.linspace(0, 1, 5))
        with mt.deferred_init():
            half = sharded(build(), mesh)
        mt.materialize(half, dtype=mt.bfloat16)
        assert all(one.dtype is mt.bfloat16 for one in half.parameters())
        return all(mt.equal(one.to_local(), other.bfloat16()) for one, other in zip(half.parameters(), expected))

    assert on_ranks(run) == [True] * 4


def test_the_first_forward_pass_materializes_what_is_deferred():
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        whole = build()[:3]
        with mt.deferred_init():
            model = build()[:3]
        fully_shard(model, mesh=mesh)
        close = mt.allclose(model(mt.ones(2, 64)), whole(mt.ones(2, 64)), atol=1e-5)
        return close and not any(map(mt.is_deferred, model.parameters()))

    assert on_ranks(run, size=2) == [True, True]


def test_only_the_shard_is_computed(monkeypatch):
    """The whole tensor is never in memory, unless its elements depend on each other."""
    from metatensor.devices.array_kit.backend import ArrayBackend

    sizes, allocate = [], ArrayBackend.allocate
    monkeypatch.setattr(ArrayBackend, "allocate", lambda self, nbytes, index=0: sizes.append(nbytes) or allocate(self, nbytes, index))
    dist.init_process_group("fake", rank=3, world_size=64)
    try:
        mesh = dist.init_device_mesh("cpu", (64,))
        with mt.deferred_init():
            layer = nn.Linear(256, 1024)
        fully_shard(layer, mesh=mesh)
        layer.to(mt.bfloat16)
        sizes.clear()
        mt.materialize(layer)
        assert max(sizes) == 4 * 256 * 1024 // 64
        with mt.deferred_init():
            layer = nn.init.orthogonal_(nn.Linear(16, 64).weight)
            holder = nn.Module()
            holder.weight = nn.Parameter(layer.detach())
        fully_shard(holder, mesh=mesh)
        sizes.clear()
        mt.materialize(holder)
        assert max(sizes) >= 4 * 16 * 64
    finally:
        dist.destroy_process_group()


def test_models_on_meta():
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (4,))
        with mt.device("meta"):
            model = sharded(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), mesh)
        with pytest.raises(RuntimeError, match=r"these parameters are on meta: 2.weight, 2.bias. Give them memory"):
            model(mt.ones(2, 6))
        model.reset_iter_state()
        model.to_empty(device="cpu")
        results = []
        whole = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
        for one in (model, whole):
            mt.manual_seed(3)
            for layer in (one[0], one[2]):
                layer.reset_parameters()
            results.append(one(mt.ones(2, 6)))
        model.reshard()
        assert all(mt.equal(one.full_tensor(), other) for one, other in zip(model.parameters(), whole.parameters()))
        return mt.allclose(*results)

    assert on_ranks(run) == [True] * 4
