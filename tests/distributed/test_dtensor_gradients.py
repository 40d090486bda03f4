"""Gradients of distributed tensors: their strides and placements, saved tensors, and custom functions."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import sim
from metatensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, init_device_mesh

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


LAYERS = {
    "BatchNorm1d": ((7, 6), mt.nn.BatchNorm1d),
    "BatchNorm2d": ((4, 6, 3, 5), mt.nn.BatchNorm2d),
    "InstanceNorm1d": ((4, 6, 5), lambda channels: mt.nn.InstanceNorm1d(channels, affine=True, track_running_stats=True)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_norms_with_running_statistics_train(name):
    """The running statistics, which a step changes in place, do not count as changed for its gradients."""
    shape, make = LAYERS[name]
    x = mt.arange(2.0 * mt.Size(shape).numel(), dtype=mt.float64, device="cpu").mul(1.7).sin().reshape(2, *shape)

    def train(layer, place):
        found = []
        for step in x:
            given = place(step).requires_grad_()
            result = layer(given)
            (result * place(step.cos())).sum().backward()
            found += [result.detach(), given.grad]
        return found + [one.grad for one in layer.parameters()] + list(layer.buffers())

    def layer():
        made = make(6).to(device="cpu", dtype=mt.float64)
        made.weight.data.copy_(mt.linspace(0.5, 2, 6, dtype=mt.float64, device="cpu"))
        return made

    expected = train(layer(), lambda one: one.clone())

    def run(placement):
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (4,))
        model = distribute_module(layer(), mesh)
        found = train(model, lambda one: distribute_tensor(one, mesh, [placement], src_data_rank=None))
        assert len(found) == len(expected) == 9
        assert all(mt.allclose(one.full_tensor().double(), other.double()) for one, other in zip(found, expected))

    for placement in (Shard(0), Shard(1), Replicate()):
        sim.run(run, placement, world_size=4)


def test_saved_tensors_that_are_changed_are_noticed():
    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        for change in (lambda one: one.mul_(2), lambda one: mt.neg(one, out=one), lambda one: one.data.mul_(2)):
            x = distribute_tensor(mt.ones(4), mesh, [Shard(0)], src_data_rank=None)
            y = (x * mt.ones_like(x).requires_grad_()).sum()
            version = x._version
            change(x)
            counted = x._version > version
            try:
                y.backward()
            except RuntimeError as error:
                assert counted and "changed in place" in str(error)
            else:
                assert not counted
        return counted

    assert sim.run(run, world_size=2) == [False, False]


@pytest.mark.parametrize("placements", [[Shard(0), Shard(1)], [Replicate(), Shard(0)], [Partial(), Replicate()], [Partial("max")] * 2])
def test_results_of_custom_functions_keep_their_placements(placements):
    """The operator that stands for a custom function in a program reads none of the function's arguments."""

    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2, 2))
        x = distribute_tensor(mt.arange(24.0).reshape(4, 6), mesh, placements, src_data_rank=None).requires_grad_()
        w = distribute_tensor(mt.ones(5, 3), mesh, [Shard(0), Replicate()], src_data_rank=None).requires_grad_()
        with dist.CommunicationLog() as log:
            y = mt._without_backward(x, [x, w], "Function")
        assert not list(log)
        assert y.placements == x.placements and y.to_local().data_ptr() == x.to_local().data_ptr()
        with pytest.raises(RuntimeError, match="no gradient leads through Function"):
            y.sum().backward()

    sim.run(run, world_size=4)


def test_a_program_with_a_custom_function_runs_on_distributed_tensors():
    class Doubled(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    x, w = mt.arange(8.0, device="cpu").reshape(4, 2), mt.ones(3, device="cpu")
    program = mt.program.trace(lambda x, w: Doubled.apply(x, w).relu(), x.clone().requires_grad_(), w)
    assert "_without_backward" in program.operators()

    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        given = [distribute_tensor(one, mesh, [Shard(0)], src_data_rank=None) for one in (x, w)]
        with dist.CommunicationLog() as log:
            result = program(*given)
        assert not list(log) and result.placements == (Shard(0),)
        assert mt.equal(result.full_tensor(), x * 2)

    sim.run(run, world_size=2)


def test_sums_of_gradients_leave_tensors_alone_that_share_a_part():
    """The gradient of a partial tensor is the same part as that of the whole one, to which another one is added."""

    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        x, z = (mt.ones(3, requires_grad=True) for _ in range(2))
        a, b = (DTensor.from_local(t, mesh, [place]) for t, place in ((x, Replicate()), (z, Partial())))
        a, b = a * 1, b * 3
        c = a * 2  # adds to the gradient of a after b.redistribute has passed it on
        total = a + b.redistribute(placements=[Replicate()])
        ((total * total).sum() + c.sum()).to_local().backward()
        return x.grad.tolist(), z.grad.tolist()

    assert sim.run(run, world_size=2) == [([16.0] * 3, [42.0] * 3)] * 2


class Same(mt.autograd.Function):
    """Returns its argument, and another tensor with the same part as the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return DTensor.from_local(grad.to_local(), grad.device_mesh, grad.placements, run_check=False)


@pytest.mark.parametrize("passed", [lambda x: x.redistribute(placements=[Replicate()]), Same.apply], ids=["redistribute", "function"])
def test_gradients_that_share_memory_are_not_changed(passed):
    def run():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        made = lambda: distribute_tensor(mt.ones(3), mesh, [Replicate()])
        leaf, w = made().requires_grad_(), made().requires_grad_()
        y = leaf * 1
        (passed(y + passed(w)) + y).backward(made())
        a, b = made().requires_grad_(), made().requires_grad_()
        (passed(a) + passed(b)).backward(made())
        (a * 10).sum().backward()
        return [t.grad.full_tensor().tolist() for t in (leaf, w, a, b)]

    assert sim.run(run, world_size=2) == [[[2.0] * 3, [1.0] * 3, [11.0] * 3, [1.0] * 3]] * 2
