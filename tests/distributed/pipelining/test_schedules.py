"""Schedules run on simulated ranks: losses and gradients are those of one process, memory and messages are as predicted."""

import pytest

import metatensor as mt
from distributed.pipelining.models import batches, connected, loss_of, make, plain, stage_numbers, trained
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining, sim
from metatensor.distributed.pipelining import schedules
from metatensor.distributed.tensor import parallel

pytest.importorskip("metatensor_cpu")

KINDS = [("GPipe", 1), ("1F1B", 1), ("LoopedBFS", 2), ("Interleaved1F1B", 2), ("Interleaved1F1B", 1), ("InterleavedZeroBubble", 2),
         ("InterleavedZeroBubble", 1), ("ZBVZeroBubble", 2), ("DualPipeV", 2)]  # fmt: skip


def same(results, losses, grads):
    """Check losses and gradients of all ranks against those of one process."""
    found = [one for one, _ in results if one]
    assert found and all(one == pytest.approx(losses, rel=1e-5) for one in found)
    seen = set()
    for _, named in results:
        for name, grad in named.items():
            seen.add(name)
            assert mt.allclose(grad, grads[name], rtol=1e-5, atol=1e-5 * grads[name].abs().max().item()), name
    assert seen | {"head.weight"} == set(grads) | {"head.weight"}


@pytest.fixture(scope="module")
def reference():
    return plain()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name, each", KINDS)
def test_gradients_are_those_of_one_process(name, each, ranks, reference):
    same(sim.run(connected(trained), name, each, world_size=ranks), *reference)


@pytest.fixture(scope="module")
def twenty_steps():
    return plain(20)


@pytest.mark.slow
@pytest.mark.parametrize("name, each", [("1F1B", 1), ("ZBVZeroBubble", 2)])
def test_twenty_steps(twenty_steps, name, each):
    losses, grads = twenty_steps
    assert losses[-1] < losses[0] / 1.5
    same(sim.run(connected(trained), name, each, 20, world_size=4), losses, grads)


@pytest.mark.slow
@pytest.mark.parametrize("name, each", KINDS)
def test_messages_on_meta_are_those_with_data(name, each):
    real = sim.run(connected(trained), name, each, world_size=2, record=True)
    planned = sim.run(connected(trained), name, each, device="meta", world_size=2, record=True)
    groups = sim.run(connected(trained), name, each, device="meta", world_size=2, record=True, ranks="groups")
    for rank in range(2):
        assert real.logs[rank].what() == planned.logs[rank].what() == groups.logs[rank].what()
        assert len(real.logs[rank]) > 16


@pytest.mark.slow
@pytest.mark.parametrize("name, each", [("1F1B", 1), ("InterleavedZeroBubble", 2), ("ZBVZeroBubble", 2)])
def test_with_data_parallel_replicas(name, each, reference):
    """A mesh of two stages, or four, and two replicas, each with half of the batch."""

    def train():
        dist.init_process_group()
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        replica = mesh.get_local_rank("dp")

        def wrap(module):
            return nn.parallel.DistributedDataParallel(module, process_group=mesh["dp"].get_group())

        losses, grads = trained(name, each, 1, 4, group=mesh["pp"].get_group(), wrap=wrap, rows=slice(8 * replica, 8 * replica + 8))
        if losses:
            mean = mt.tensor(losses)
            dist.all_reduce(mean, dist.ReduceOp.AVG, mesh["dp"].get_group())
            losses = mean.tolist()
        return losses, grads

    results = sim.run(train, world_size=4, record=True)
    same(results, *reference)
    reduced = [one for one in results.logs[0] if one.kind == "all_reduce" and one.group == (0, 1) and one.bytes > 4]
    assert len(reduced) == each  # one bucket for each stage: gradients are averaged once in a step


@pytest.mark.parametrize("name, each", [("1F1B", 1), ("InterleavedZeroBubble", 2), ("ZBVZeroBubble", 2)])
def test_with_tensor_parallel_stages(name, each):
    """A mesh of two stages, or four, whose layers are divided over two ranks."""

    def module(index):
        mt.manual_seed(index)
        return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    mt.manual_seed(9)
    x, y = mt.randn(8, 8), mt.randn(8, 8)

    def train():
        dist.init_process_group()
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
        cls, plan = pipelining.get_schedule_class(name), {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
        numbers, count = stage_numbers(cls, mesh["pp"].get_group(), 4, each), 2 * each
        stages = [pipelining.PipelineStage(parallel.parallelize_module(module(number), mesh["tp"], plan), number, count, "cpu",
                                           group=mesh["pp"].get_group()) for number in numbers]  # fmt: skip
        schedule = cls(stages if issubclass(cls, schedules.PipelineScheduleMulti) else stages[0], 4, nn.functional.mse_loss)
        schedule.step(*((x,) if 0 in numbers else ()), target=y if count - 1 in numbers else None)
        return {stage.stage_index: [one.grad.full_tensor() for one in stage.submod.parameters()] for stage in stages}

    whole = nn.Sequential(*map(module, range(2 * each)))
    nn.functional.mse_loss(whole(x), y).backward()
    results = sim.run(train, world_size=4)
    assert {number for found in results for number in found} == set(range(2 * each))
    for found in results:
        for number, grads in found.items():
            assert all(mt.allclose(grad, one.grad, atol=1e-6) for grad, one in zip(grads, whole[number].parameters(), strict=True))


def stage_of(rank, size, device="cpu", **options):
    """Return a stage made by hand."""
    mt.manual_seed(rank)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    return pipelining.PipelineStage(module.to(device), rank, size, device, **options)


def mean_square(output, target):
    return (output - target).square().mean()


def test_gradients_are_added_to_those_before():
    """A second step without zero_grad adds its own gradients, also of shared parameters, and scale_grads=False sums."""

    def train(scale):
        dist.init_process_group()
        rank = dist.get_rank()
        model = make(layers=2)
        pipe = pipelining.pipeline(model, (batches(1)[0, :4, :-1],), split_policy=pipelining.balanced_stages(2))
        assert pipe.shared == {"tokens.weight": (0, 1)}
        stage = pipe.build_stage(rank, "cpu")
        schedule = pipelining.Schedule1F1B(stage, 4, loss_of, scale_grads=scale)
        found = []
        for _ in range(2):
            batch = batches(1)[0]
            schedule.step(*((batch[:, :-1],) if rank == 0 else ()), target=batch[:, 1:] if rank else None)
            found.append({name: one.grad.clone() for name, one in stage.submod.named_parameters()})
        return found

    for scale in (True, False):
        _, grads = plain(layers=2)
        for once, twice in sim.run(train, scale, world_size=2):
            for name, grad in once.items():
                expected = grads[name] * (1 if scale else 4)
                assert mt.allclose(grad, expected, rtol=1e-4, atol=1e-6)
                assert mt.allclose(twice[name], 2 * grad, rtol=1e-4, atol=1e-6)


def test_outputs_losses_and_evaluation():
    def run():
        dist.init_process_group()
        rank = dist.get_rank()
        stage = stage_of(rank, 2)
        schedule = pipelining.ScheduleGPipe(stage, 4, mean_square)
        x, target, losses = mt.arange(32.0).reshape(8, 4) / 32, mt.zeros(8, 4), []
        first, last = (x,) if rank == 0 else (), target if rank == 1 else None
        output = schedule.step(*first, target=last, losses=losses)
        assert schedule.step(*first, target=last, return_outputs=False) is None
        stage.submod.zero_grad()
        evaluated = schedule.eval(*first, target=last, losses=losses)
        assert all(one.grad is None for one in stage.submod.parameters()) and not stage._in_flight
        only_outputs = schedule.eval(*first)
        if rank == 0:
            assert output is evaluated is only_outputs is None and losses == []
        else:
            assert output.shape == (8, 4) and not output.requires_grad and mt.equal(output, evaluated) and mt.equal(output, only_outputs)
            assert [one.item() for one in losses] == pytest.approx([part.square().mean().item() for part in output.chunk(4)])
        return stage.submod, output, x

    (first, _, x), (second, output, _) = sim.run(run, world_size=2)
    assert mt.allclose(second(first(x)), output)


def test_without_a_loss_function_there_are_forward_passes_only():
    def run():
        dist.init_process_group()
        stage = stage_of(dist.get_rank(), 2)
        output = pipelining.Schedule1F1B(stage, 2).step(*((mt.ones(4, 4),) if stage.is_first else ()))
        assert all(one.grad is None for one in stage.submod.parameters())
        return output

    assert sim.run(run, world_size=2)[1].shape == (4, 4)


def test_memory_of_activations():
    """1F1B keeps fewer microbatches than GPipe: the peak of rank r grows with min(m, p - r) microbatches instead of m."""

    def train(name, count):
        dist.init_process_group()
        rank = dist.get_rank()
        modules = [nn.Linear(64, 64, device="meta") for _ in range(8)]
        stage = pipelining.PipelineStage(nn.Sequential(*modules), rank, 4, "meta")
        schedule = pipelining.get_schedule_class(name)(stage, count, mean_square)
        x = mt.empty(16 * count, 64, device="meta")
        for one in modules:
            for parameter in one.parameters():
                parameter.grad = mt.zeros_like(parameter)
        with mt.analysis.MemoryTracker() as tracker:
            schedule.step(*((x,) if rank == 0 else ()), target=x if rank == 3 else None, return_outputs=False)
        return tracker.peak

    one = 16 * 64 * 4
    # A microbatch: the inputs of 8 layers. That of the first stage is part of the batch; the loss keeps a difference.
    kept = [7 * one, 8 * one, 8 * one, 9 * one]
    for count in (8, 16):
        peaks = {name: sim.run(train, name, count, world_size=4) for name in ("GPipe", "1F1B")}
        for rank in range(4):
            saved = (count - min(count, 4 - rank)) * kept[rank]
            assert abs(peaks["GPipe"][rank] - peaks["1F1B"][rank] - saved) <= one, (rank, peaks)  # a message more or less


def test_what_schedules_refuse():
    def run(make_schedule):
        dist.init_process_group()
        make_schedule(dist.get_rank())

    def refused(make_schedule, match, error=ValueError):
        with pytest.raises(error, match=match):
            sim.run(run, make_schedule, world_size=2)

    P = pipelining
    refused(lambda rank: P.Schedule1F1B(stage_of(rank, 2), 1), "2 stages on 2 ranks need at least 2 microbatches, got 1")
    refused(lambda rank: P.Schedule1F1B(stage_of(rank, 2), 0), "n_microbatches must be positive, got 0")
    refused(lambda rank: P.Schedule1F1B(stage_of(rank, 4), 8), "exactly 1 stage, but 4 stages on 2 ranks are 2")
    refused(lambda rank: P.ScheduleLoopedBFS([stage_of(rank, 4)], 8), r"rank 0 of 2 must have the stages \[0, 2\] of 4, got \[0\]")
    refused(lambda rank: P.ScheduleZBVZeroBubble([stage_of(rank, 4), stage_of(rank + 2, 4)], 8),
            r"must have the stages \[0, 3\] of 4, got \[0, 2\]")  # fmt: skip
    refused(lambda rank: P.ScheduleLoopedBFS([stage_of(rank, 3)], 8), "3 stages cannot be divided evenly over 2 ranks")
    refused(lambda rank: P.ScheduleLoopedBFS([], 8), "there are no stages")
    refused(lambda rank: P.ScheduleGPipe(stage_of(rank, 2), 4, mean_square).step(mt.ones(3, 4)), "3 rows in dimension 0 are too few for 4")
    refused(lambda rank: P.ScheduleGPipe(stage_of(rank, 2), 4, mean_square).step(), "rank 0 has the first stage, so it must be given")
    refused(lambda rank: schedules.PipelineScheduleMulti([stage_of(rank, 2)], 4, mean_square).step(mt.ones(4, 4)),
            "there is no table of actions; load one", RuntimeError)  # fmt: skip

    def without_gradients(rank):
        with mt.no_grad():
            P.ScheduleGPipe(stage_of(rank, 2), 4, mean_square).step(mt.ones(4, 4))

    refused(without_gradients, r"gradients are disabled here; call eval\(\)", RuntimeError)

    def vector(rank):
        schedule = P.ScheduleGPipe(stage_of(rank, 2), 2, lambda output, target: output)
        schedule.step(*((mt.ones(4, 4),) if rank == 0 else ()), target=mt.ones(4, 4) if rank else None)

    refused(vector, r"the loss function must return a tensor with one element, got a tensor of shape \[2, 4\]", RuntimeError)


def test_a_table_from_a_file(tmp_path):
    """A table of another order, without and with messages, gives the same gradients."""
    path, full = tmp_path / "table.csv", tmp_path / "full.csv"
    path.write_text("0F0,0F1,,0B1,0B0\n1F1,,1F0,1I1,1B0,1W1\n".replace("1F1,,1F0", ",1F0,1F1"))

    def run(load):
        dist.init_process_group()
        rank = dist.get_rank()
        stage = stage_of(rank, 2)
        if load is None:
            schedule = pipelining.ScheduleGPipe(stage, 2, mean_square)
        else:
            schedule = schedules.PipelineScheduleMulti([stage], 2, mean_square)
            schedule._load_csv(load, "compute_comms" if load == full else "compute_only")
            if load == path and rank == 0:
                schedule._dump_csv(full)
                assert str(schedule).startswith("<PipelineScheduleMulti of 2 stages on 2 ranks, 2 microbatches>\n        Rank 0  Rank 1\n")
        schedule.step(*((mt.ones(4, 4),) if rank == 0 else ()), target=mt.zeros(4, 4) if rank else None)
        return [one.grad for one in stage.submod.parameters()]

    expected = sim.run(run, None, world_size=2)
    for load in (path, full):
        for mine, theirs in zip(sim.run(run, load, world_size=2), expected):
            assert all(mt.allclose(a, b) for a, b in zip(mine, theirs))
    path.write_text("0F0,0F1,0B0,0B1\n1F1,1F0,1B0\n")
    with pytest.raises(ValueError, match="microbatch 1 of stage 1 needs either"):
        sim.run(run, path, world_size=2)
    with pytest.raises(ValueError, match="format must be"):
        sim.run(connected(lambda: schedules.PipelineScheduleMulti([stage_of(dist.get_rank(), 2)], 2)._load_csv(full, "x")), world_size=2)


def test_several_stages_are_a_list():
    with pytest.raises(TypeError, match="ScheduleInterleaved1F1B: expected a list of the stages of this rank, got Linear"):
        pipelining.ScheduleInterleaved1F1B(nn.Linear(2, 2, device="meta"), 4)
