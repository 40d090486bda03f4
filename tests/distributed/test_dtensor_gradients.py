"""Strides and placements of the gradients of distributed tensors, and of what is redistributed."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import sim
from metatensor.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, init_device_mesh

pytest.importorskip("metatensor_cpu")


def test_strided_parts_can_be_reshaped():
    """A view that the strides of a tensor allow is a view of its part, whatever strides a gradient or a redistributed part has."""

    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        whole = mt.arange(120.0).reshape(4, 5, 6)
        moved = distribute_tensor(whole.permute(2, 0, 1), mesh, [Shard(0)], src_data_rank=None).redistribute(placements=[Replicate()])
        for one in (moved, moved.permute(1, 2, 0), distribute_tensor(whole.permute(2, 1, 0), mesh, [Shard(1)]).permute(2, 1, 0)):
            assert mt.equal(one.flatten(0, 1).full_tensor(), one.full_tensor().flatten(0, 1))
            assert mt.equal(one.reshape(-1).full_tensor(), one.full_tensor().reshape(-1))
        grads = [mt.arange(60.0).reshape(6, 5, 2).permute(2, 1, 0), mt.arange(12.0).reshape(2, 1, 6).expand(2, 5, 6),
                 mt.arange(120.0).reshape(2, 5, 12)[..., :6]]  # fmt: skip
        for grad in grads:
            x = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None).requires_grad_()
            seen, y = [], x * 1
            y.register_hook(seen.append)
            y.to_local().backward(grad)
            assert x.grad.placements == (Shard(0),) and mt.equal(x.grad.to_local(), grad)
            for one in (seen[0], x.grad):
                assert mt.equal(one.flatten(1).to_local(), grad.flatten(1)) and mt.equal(one.flatten(0, 1).to_local(), grad.flatten(0, 1))

    sim.run(run, world_size=2)


def test_gradients_with_other_placements_are_added():
    """Adding them communicates, while other ranks, which are threads, add theirs."""

    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        weight = mt.nn.Parameter(distribute_tensor(mt.ones(4, 6), mesh, [Replicate()]))
        for placement in (Replicate(), Partial(), Shard(0)):
            weight.redistribute(placements=[placement if placement == Shard(0) else Replicate()]).to_local(
                grad_placements=[placement]
            ).sum().backward()
        return weight.grad.placements, weight.grad.full_tensor().tolist()

    assert sim.run(run, world_size=2, timeout=60) == [((Replicate(),), [[4.0] * 6] * 4)] * 2
