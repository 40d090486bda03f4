"""`fully_shard`: dtypes, accumulation, division, clipping and scaling of gradients, and what reduces them."""

import math

import pytest

import metatensor as mt
from distributed.fsdp.test_fully_shard import batch, expected, network, on_ranks, same, sharded
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from metatensor.distributed.fsdp._reduction import _division
from metatensor.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.torch_api.torch.amp.grad_scaler import GradScaler

pytest.importorskip("metatensor_cpu")
BF16, F16, F32 = mt.bfloat16, mt.float16, mt.float32


@pytest.mark.parametrize("policy, gathered, reduced, op, result", [
    ({"param_dtype": BF16}, "bfloat16", "bfloat16", "avg", BF16),
    ({"param_dtype": BF16, "reduce_dtype": F32, "output_dtype": F32}, "bfloat16", "float32", "avg", F32),
    ({"reduce_dtype": BF16}, "float32", "bfloat16", "avg", F32),
    ({"param_dtype": F16}, "float16", "float16", "sum", F16),
])  # fmt: skip
def test_mixed_precision(policy, gathered, reduced, op, result):
    grads = expected()

    def train(rank):
        model = sharded(network(), dist.init_device_mesh("cpu", (4,)), mp_policy=MixedPrecisionPolicy(**policy))
        with dist.CommunicationLog() as log:
            out = model(batch().chunk(4)[rank])
            out.square().mean().backward()
        assert {(one.kind, one.dtype, one.detail) for one in log} == {("all_gather", gathered, ""), ("reduce_scatter", reduced, op)}
        assert out.dtype is result and all(one.dtype is one.grad.dtype is F32 for one in model.parameters())
        # The same without reducing at once: gradients are kept in the dtype of reductions.
        first = [one.grad.full_tensor() for one in model.parameters()]
        model.zero_grad()
        for last in (False, True):
            model.set_requires_gradient_sync(last)
            model(batch().chunk(4)[rank]).square().mean().backward()
        assert all(mt.allclose(one.grad.full_tensor(), 2 * grad, rtol=0.05, atol=1e-2) for one, grad in zip(model.parameters(), first))
        return same(model.parameters(), [2 * one for one in grads], rtol=0.1, atol=2e-2)

    assert on_ranks(train) == [True] * 4


def test_inputs_keep_their_dtype_if_asked():
    def run(rank):
        policy = MixedPrecisionPolicy(param_dtype=BF16, cast_forward_inputs=False)
        layer = fully_shard(nn.Linear(4, 4), mesh=dist.init_device_mesh("cpu", (2,)), mp_policy=policy)
        with pytest.raises(RuntimeError, match="dtype"):
            layer(mt.ones(2, 4))
        layer.reset_iter_state()
        return layer(mt.ones(2, 4, dtype=BF16)).dtype

    assert on_ranks(run, size=2) == [BF16, BF16]


def test_a_group_of_several_dtypes_is_gathered_as_bytes():
    def run(rank):
        mt.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False).bfloat16().requires_grad_(False))
        weights = [one.detach().clone() for one in model.parameters()]
        fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
        with dist.CommunicationLog() as log:
            model.unshard()
        assert [mt.equal(one, other) for one, other in zip(model.parameters(), weights)] == [True, True]
        return [(one.dtype, one.bytes) for one in log]

    assert on_ranks(run, size=2) == [[("uint8", 2 * 6 * (4 + 2))]] * 2


def test_accumulation_without_communication():
    grads = expected()

    def train(rank):
        model = sharded(network(), dist.init_device_mesh("cpu", (2,)))
        rows = batch().chunk(2)[rank]
        with dist.CommunicationLog() as log:
            model.set_requires_gradient_sync(False)
            model.set_reshard_after_backward(False)
            model(rows[:2]).square().mean().div(2).backward()
            assert all(one.grad is None for one in model.parameters() if isinstance(one, DTensor))
            model.set_requires_gradient_sync(True)
            model.set_reshard_after_backward(True)
            model(rows[2:]).square().mean().div(2).backward()
        # The second forward pass does not gather the parameters, but frees them.
        assert [one.kind for one in log] == ["all_gather"] * 6 + ["reduce_scatter"] * 2
        assert same(model.parameters(), grads)
        # Two backward passes that reduce add to the gradients. `set_is_last_backward` keeps the order of the forward passes.
        model.zero_grad()
        losses = [model(part).square().mean().div(2) for part in rows.chunk(2)]
        for last, loss in zip((False, True), losses):
            model.set_is_last_backward(last)
            loss.backward()
        return same(model.parameters(), grads)

    assert on_ranks(train, size=2) == [True, True]


@pytest.mark.slow
def test_division():
    average, total = dist.ReduceOp.AVG, dist.ReduceOp.SUM
    assert _division(8, None, F32, None, False) == (None, None, average, average)
    assert _division(1, 1, F32, None, False) == (None, None, total, total)
    assert _division(8, None, BF16, 8.0, False) == (None, None, average, total)
    assert _division(8, None, BF16, 2.0, False) == (2.0, None, total, total)
    assert _division(8, 2, F32, None, True) == (None, 16.0, total, total)
    assert _division(8, 2, F16, None, False) == (4, 4.0, total, total)
    assert _division(6, None, F16, None, False) == (4, 1.5, total, total)

    grads = expected()

    def train(rank, change, scale):
        model = sharded(network(), dist.init_device_mesh("cpu", (4,)))
        for layer in (model, model[0], model[2]):
            change(layer)
        model(batch().chunk(4)[rank]).square().mean().backward()
        return same(model.parameters(), [one * scale for one in grads])

    for change, scale in (
        (lambda layer: layer.set_gradient_divide_factor(2.0), 2), (lambda layer: layer.set_reduce_scatter_divide_factor(4.0), 1),
        (lambda layer: layer.set_force_sum_reduction_for_comms(True), 1),
        (lambda layer: layer.set_all_reduce_hook(lambda flat: flat.mul_(3)), 3),
        (lambda layer: layer.set_separate_reduce_scatter_group(), 1), (lambda layer: layer.set_reduce_scatter_max_input_buffers(3), 1),
    ):  # fmt: skip
        assert on_ranks(train, change, scale) == [True] * 4


def test_parameters_that_only_some_ranks_use():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

        def forward(self, x, branch):
            return self.a(x) + (self.b(x) if branch else 0)

    def train(rank, whole):
        model = fully_shard(Branches(), mesh=dist.init_device_mesh("cpu", (2,)))
        model.set_reduce_scatter_unused_params(whole)
        model(mt.ones(1, 2), rank == 0).sum().backward()
        return None if model.b.weight.grad is None else model.b.weight.grad.full_tensor().tolist()

    assert on_ranks(train, True, size=2) == [[[0.5, 0.5], [0.5, 0.5]]] * 2
    with pytest.raises(RuntimeError, match="disagree about collective"):
        on_ranks(train, False, size=2)


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.0, math.inf])
def test_norms(order):
    parts = [mt.arange(7.0) - 2, mt.randn(3, 4, generator=mt.Generator("cpu").manual_seed(1)), mt.zeros(2), mt.ones(5)]
    whole = nn.utils.get_total_norm(parts, order)

    def norm(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        places = [[Shard(0), Shard(0)], [Replicate(), Shard(1)], [Replicate(), Replicate()]]
        given = [distribute_tensor(part, mesh, place) for part, place in zip(parts, places)]
        with dist.CommunicationLog() as log:
            found = nn.utils.get_total_norm([*given, parts[3]], order)
        assert isinstance(found, DTensor) and found.placements == (Replicate(), Replicate())
        nn.utils.clip_grads_with_norm_(holders := [nn.Parameter(one) for one in given], 1.0, found)
        assert all(one.grad is None for one in holders)
        return found.full_tensor().item(), len(log)

    assert on_ranks(norm) == [(pytest.approx(whole.item(), rel=1e-6), 3)] * 4


def test_norms_that_are_not_finite():
    def norm(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        part = nn.Parameter(distribute_tensor(mt.ones(4), mesh, [Shard(0)]))
        part.grad = distribute_tensor(mt.tensor([1.0, 1.0, 1.0, math.inf]), mesh, [Shard(0)])
        with pytest.raises(RuntimeError, match="the total norm of order 2.0 is inf"):
            nn.utils.clip_grad_norm_([part], 1.0, error_if_nonfinite=True)
        part.grad = distribute_tensor(mt.full((4,), 3.0), mesh, [Shard(0)])
        nn.utils.clip_grad_norm_([part], 3.0)
        return part.grad.full_tensor().tolist()

    assert on_ranks(norm, size=2) == [[pytest.approx(1.5, rel=1e-5)] * 4] * 2


@pytest.mark.parametrize("kind", [GradScaler, ShardedGradScaler])
def test_all_ranks_skip_a_step_that_overflows_on_one(kind):
    def train(rank):
        model = fully_shard(nn.Linear(4, 4), mesh=dist.init_device_mesh("cpu", (4,)))
        optimizer, scaler, seen = mt.optim.SGD(model.parameters(), lr=0.1), kind("cpu", init_scale=4.0), []
        for overflows in (True, False):
            before = model.weight.full_tensor()
            optimizer.zero_grad()
            scaler.scale(model(mt.full((2, 4), 1.0 if not overflows or rank else math.inf)).sum()).backward()
            if overflows:  # only one shard has it
                for one in model.parameters():
                    one.grad._local_tensor.fill_(math.inf if rank == 2 else 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen.append((mt.equal(before, model.weight.full_tensor()), scaler.get_scale()))
        return seen

    assert on_ranks(train) == [[(True, 2.0), (False, 2.0)]] * 4


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("optimizer", [mt.optim.AdamW, mt.optim.SGD, mt.optim.Adagrad, mt.optim.RMSprop])
def test_optimizers(optimizer, foreach):
    whole = network()
    step = optimizer(whole.parameters(), lr=0.1, foreach=foreach)
    for _ in range(3):
        step.zero_grad()
        whole(batch()).square().mean().backward()
        step.step()

    def train(rank):
        model = sharded(network(), dist.init_device_mesh("cpu", (2,)))
        mine = optimizer(model.parameters(), lr=0.1, foreach=foreach)
        with dist.CommunicationLog() as log:
            for _ in range(3):
                mine.zero_grad()
                model(batch().chunk(2)[rank]).square().mean().backward()
                mine.step()
        assert {one.kind for one in log} == {"all_gather", "reduce_scatter"}
        return [mt.allclose(one.full_tensor(), other, atol=1e-5) for one, other in zip(model.parameters(), whole.parameters())]

    assert on_ranks(train, size=2) == [[True] * 4] * 2


def test_hooks_of_parameters_and_offloading():
    """Hooks run when the gradient of the shard is there: an optimizer can update it in the backward pass."""

    def train(rank):
        model = sharded(network(), dist.init_device_mesh("cpu", (2,)), offload_policy=CPUOffloadPolicy())
        seen = []
        for name, one in model.named_parameters():
            one.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, p.grad.placements)) or setattr(p, "grad", None))
        model(batch().chunk(2)[rank]).square().mean().backward()
        assert all(one.grad is None for one in model.parameters())
        return seen

    assert on_ranks(train, size=2)[0] == [(name, (Shard(0),)) for name in ("2.weight", "2.bias", "0.weight", "0.bias")]
