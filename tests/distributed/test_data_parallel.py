"""`DistributedDataParallel` on simulated ranks: gradients, buckets, and what it refuses."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import sim
from metatensor.distributed.reducer import buckets_of_size

pytest.importorskip("metatensor_cpu")

DDP = nn.parallel.DistributedDataParallel


def on_ranks(function, size=2, **options):
    def connected():
        dist.init_process_group()
        return function(dist.get_rank())

    return sim.run(connected, world_size=size, **options)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, branch):
        return self.a(x) + (self.b(x) if branch else 0)


def test_gradients_are_those_of_the_whole_batch():
    mt.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), mt.randn(8, 4)
    model(batch).square().mean().backward()
    expected = [one.grad for one in model.parameters()]
    state = model.state_dict()

    def train(rank):
        mine = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        if rank == 0:
            mine.load_state_dict(state)
        parallel = DDP(mine, bucket_cap_mb=140 / 2**20)
        for _ in range(2):
            parallel.zero_grad()
            parallel(batch.chunk(4)[rank]).square().mean().backward()
        assert all(mt.equal(a, b) for a, b in zip(mine.state_dict().values(), state.values()))
        return [one.grad for one in mine.parameters()]

    results = on_ranks(train, 4, record=True)
    for grads in results:
        assert all(mt.allclose(a, b, atol=1e-6) for a, b in zip(grads, expected))
    log = [(one.kind, one.bytes) for one in results.logs[0] if one.kind == "all_reduce"]
    # One bucket first; then buckets in the order in which the gradients were ready: the last layer before the first
    # one, in buckets of 140 bytes.
    assert log == [("all_reduce", 4 * 76), ("all_reduce", 4 * 36), ("all_reduce", 4 * 40)]


def test_buckets():
    floats = [mt.empty(n, device="meta") for n in (10, 20, 30)]
    assert buckets_of_size(floats, [100]) == [[0, 1], [2]]
    assert buckets_of_size(floats, [40, 10_000]) == [[0], [1, 2]]
    mixed = [floats[0], mt.empty(5, dtype=mt.float64, device="meta"), floats[1]]
    assert buckets_of_size(mixed, [10_000]) == [[0, 2], [1]]
    assert buckets_of_size(mixed, [40]) == [[0], [1], [2]]


def test_no_sync_accumulates():
    def train(rank):
        parallel = DDP(nn.Linear(2, 1, bias=False))
        x = mt.full((1, 2), float(rank))
        with parallel.no_sync():
            parallel(x).sum().backward()
        alone = parallel.module.weight.grad.tolist()
        parallel(x).sum().backward()
        return alone, parallel.module.weight.grad.tolist()

    results = on_ranks(train, record=True)
    assert results == [([[0.0, 0.0]], [[1.0, 1.0]]), ([[1.0, 1.0]], [[1.0, 1.0]])]
    assert [one.kind for one in results.logs[0]] == ["all_gather_object", "broadcast", "all_reduce"]


def test_unused_parameters():
    def train(rank):
        parallel = DDP(Branches(), find_unused_parameters=True)
        parallel(mt.ones(1, 2), rank == 0).sum().backward()
        used = [(name, one.grad is not None) for name, one in parallel.module.named_parameters()]
        return used, parallel.module.b.bias.grad.tolist()

    used = [("a.weight", True), ("a.bias", True), ("b.weight", True), ("b.bias", True), ("c.weight", False), ("c.bias", False)]
    assert on_ranks(train) == [(used, [0.5, 0.5])] * 2

    def careless(rank):
        parallel = DDP(Branches())
        for _ in range(2):
            parallel(mt.ones(1, 2), True).sum().backward()

    with pytest.raises(RuntimeError, match=r"c.weight, c.bias had none.*find_unused_parameters"):
        on_ranks(careless)

    def twice(rank):
        parallel = DDP(nn.Linear(2, 1))
        loss = parallel(mt.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    with pytest.raises(RuntimeError, match="weight was computed a second time|bias was computed a second time"):
        on_ranks(twice)


def test_buffers_are_those_of_rank_0():
    def train(rank):
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        parallel = DDP(model)
        for _ in range(2):
            parallel(mt.full((4, 2), float(rank)) + mt.arange(4.0).reshape(4, 1)).sum().backward()
        before = model[1].running_mean.tolist()
        parallel(mt.ones(4, 2))
        return before, model[1].num_batches_tracked.item()

    results = on_ranks(train)
    assert results[0][0] != results[1][0] and results[0][1] == 3


def test_modules_must_agree():
    def differ(rank):
        DDP(nn.Linear(2, 2 + rank))

    with pytest.raises(RuntimeError, match=r"ranks 0 and 1 differ: parameter 0 is \(\(2, 2\).*\(\(3, 2\)"):
        on_ranks(differ)

    def joined(rank):
        with DDP(nn.Linear(2, 2)).join():
            pass

    with pytest.raises(NotImplementedError, match="join"):
        on_ranks(joined)


def test_communication_hooks():
    def train(rank):
        parallel = DDP(nn.Linear(2, 1, bias=False))

        def halved(state, bucket):
            assert state == "state" and bucket.index() == 0 and bucket.is_last() and bucket.parameters()[0] is parallel.module.weight
            flat = bucket.buffer().to(mt.bfloat16)
            return dist.all_reduce(flat, async_op=True).get_future().then(lambda future: future.value()[0].to(mt.float32) / 2)

        parallel.register_comm_hook("state", halved)
        with pytest.raises(RuntimeError, match="already"):
            parallel.register_comm_hook(None, halved)
        parallel(mt.full((1, 2), float(rank))).sum().backward()
        return parallel.module.weight.grad.tolist()

    results = on_ranks(train, record=True)
    assert results == [[[0.5, 0.5]]] * 2 and results.logs[0][2].dtype == "bfloat16"


def test_on_meta_with_many_ranks():
    def train(rank):
        with mt.device("meta"):
            model = DDP(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)), bucket_cap_mb=1.0001)
            x = mt.empty(8, 512)
        for _ in range(2):
            model(x).sum().backward()
        return model.module[0].weight.grad.shape

    results = on_ranks(train, 64, record=True)
    size = 4 * (512 * 512 + 512)
    assert results[63] == (512, 512)
    assert [one.bytes for one in results.logs[5] if one.kind == "all_reduce"] == [2 * size, size, size]


def test_default_hooks():
    from metatensor.distributed.algorithms.ddp_comm_hooks import default_hooks

    def train(rank):
        found = []
        for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
            parallel = DDP(nn.Linear(2, 1, bias=False))
            parallel.register_comm_hook(None, hook)
            parallel(mt.full((1, 2), float(rank))).sum().backward()
            found.append(parallel.module.weight.grad.tolist())
        return found

    results = on_ranks(train, record=True)
    assert results == [[[[0.5, 0.5]]] * 3] * 2
    assert [one.dtype for one in results.logs[0] if one.kind == "all_reduce"] == ["float32", "float16", "bfloat16"]


# Optimizer ------------------------------------------------------------------------------------------------------------


def test_an_optimizer_with_divided_state():
    from metatensor.distributed.optim import ZeroRedundancyOptimizer

    def model():
        mt.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.LayerNorm(3))

    batch = mt.arange(24.0).reshape(6, 4) / 10
    alone = model()
    optimizer = mt.optim.AdamW(alone.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (alone(batch) * batch[:, :3]).sum().backward()
        optimizer.step()
    expected, state = [one.detach() for one in alone.parameters()], optimizer.state_dict()

    def train(rank):
        parallel = DDP(model())
        optimizer = ZeroRedundancyOptimizer(parallel.parameters(), mt.optim.AdamW, lr=0.5)
        mt.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.2)
        with pytest.raises(RuntimeError, match="consolidate_state_dict"):
            optimizer.state_dict()
        for _ in range(2):
            optimizer.zero_grad()
            (parallel(batch) * batch[:, :3]).sum().backward()
            optimizer.step()
        optimizer.consolidate_state_dict(to=1)
        saved = [optimizer.state_dict() if rank == 1 else None]
        dist.broadcast_object_list(saved, 1)
        again = ZeroRedundancyOptimizer(parallel.parameters(), mt.optim.AdamW, lr=9.0)
        again.load_state_dict(saved[0])
        again.zero_grad()
        (parallel(batch) * batch[:, :3]).sum().backward()
        again.step()
        again.consolidate_state_dict()
        sizes = sum(one.numel() for one in again.optim.state)
        with pytest.raises(RuntimeError, match="made a step"):
            again.add_param_group({"params": [nn.Parameter(mt.ones(2))]})
        return [one.detach() for one in parallel.parameters()], again.state_dict() if rank == 0 else None, sizes

    results = on_ranks(train, 3)
    for parameters, _, _ in results:
        assert all(mt.allclose(a, b, atol=1e-5) for a, b in zip(parameters, expected))
    collected = results[0][1]
    assert sorted(collected["state"]) == sorted(state["state"]) and sum(size for _, _, size in results) == sum(p.numel() for p in expected)
    for index, values in state["state"].items():
        assert mt.allclose(collected["state"][index]["exp_avg"], values["exp_avg"], atol=1e-5)


def test_a_sampler_divides_a_dataset():
    def indices(rank):
        return list(mt.data.DistributedSampler(range(5), shuffle=False))

    assert on_ranks(indices) == [[0, 2, 4], [1, 3, 0]]


@pytest.mark.parametrize("sizes", [(3, 3), (1, 4, 0, 2)])
def test_batch_norm_over_all_batches(sizes):
    mt.manual_seed(0)
    batch, weights = mt.randn(sum(sizes), 2, 3) * 3 + 5, mt.randn(sum(sizes), 2, 3)
    whole = nn.BatchNorm1d(2)
    with mt.no_grad():
        whole.weight.copy_(mt.tensor([2.0, 3.0]))
    x = batch.clone().requires_grad_()
    expected = whole(x)
    (expected * weights).sum().backward()

    def normalize(rank):
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2))
        with mt.no_grad():
            layer.weight.copy_(mt.tensor([2.0, 3.0]))
        x = batch.split(sizes)[rank].clone().requires_grad_()
        y = layer(x)
        (y * weights.split(sizes)[rank]).sum().backward()
        own = layer.eval()(x)
        assert not len(x) or not own.equal(y)
        return y.detach(), x.grad, layer.weight.grad, layer.running_mean, layer.running_var

    results = on_ranks(normalize, len(sizes))
    y, grad, scale, *_ = zip(*results)
    assert mt.allclose(mt.cat(y), expected, atol=1e-5) and mt.allclose(mt.cat(grad), x.grad, atol=1e-4)
    assert mt.allclose(sum(scale), whole.weight.grad, atol=1e-4)
    for _, _, _, mean, var in results:
        assert mt.allclose(mean, whole.running_mean, atol=1e-5) and mt.allclose(var, whole.running_var, atol=1e-4)

    def one_value(rank):
        nn.SyncBatchNorm(2)(mt.ones(int(rank == 0), 2))

    with pytest.raises(ValueError, match="more than one value for each channel, got 1"):
        on_ranks(one_value)


@pytest.mark.torch
def test_buckets_are_those_of_pytorch():
    import random

    import torch

    draw = random.Random(0)
    for _ in range(100):
        sizes = [(draw.randint(1, 400), draw.choice(["float32", "float64", "bfloat16"])) for _ in range(draw.randint(1, 12))]
        limits = [draw.randint(1, 1000) for _ in range(draw.randint(1, 3))]
        order = draw.sample(range(len(sizes)), len(sizes))
        ours = [mt.empty(n, dtype=getattr(mt, kind), device="meta") for n, kind in sizes]
        theirs = [torch.empty(n, dtype=getattr(torch, kind)) for n, kind in sizes]
        assign = torch.distributed._compute_bucket_assignment_by_size
        assert buckets_of_size(ours, limits) == assign(theirs, limits, [False] * len(sizes))[0]
        found = buckets_of_size([ours[index] for index in order], limits, in_order=True)
        expected = assign([theirs[index] for index in order], limits, [False] * len(sizes), order)[0]
        assert sorted([order[index] for index in bucket] for bucket in found) == sorted(expected), (sizes, limits, order)
        if len({kind for _, kind in sizes}) == 1:
            assert [[order[index] for index in bucket] for bucket in found] == expected


def test_ignored_parameters_keep_their_gradients():
    def train(rank):
        model = Branches()
        DDP._set_params_and_buffers_to_ignore_for_model(model, ["b.weight", "b.bias"])
        parallel = DDP(model, find_unused_parameters=True)
        parallel(mt.full((1, 2), rank + 1.0), True).sum().backward()
        return model.a.weight.grad[0, 0].item(), model.b.weight.grad[0, 0].item()

    assert on_ranks(train) == [(1.5, 1.0), (1.5, 2.0)]
