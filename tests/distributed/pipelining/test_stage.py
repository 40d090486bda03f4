"""Stages made by hand: what they send, what they expect, and what they say when it does not fit."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining, sim
from metatensor.distributed.pipelining.microbatch import TensorChunkSpec, _Replicate, merge_chunks, split_args_kwargs_into_chunks

pytest.importorskip("metatensor_cpu")


def on_ranks(function, size=2, **options):
    def connected():
        dist.init_process_group()
        return function(dist.get_rank())

    return sim.run(connected, world_size=size, **options)


class Sending(nn.Module):
    """Returns a float tensor, positions, and a float tensor without gradient."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mt.full((3,), 2.0))

    def forward(self, x):
        return x * self.weight, mt.arange(3, device=x.device).expand(x.shape[0], 3), x.detach() + 1


class Receiving(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mt.full((3,), 3.0))
        self.seen = None

    def forward(self, y, positions, other, *, factor=1.0):
        self.seen = [(one.requires_grad, one.dtype) for one in (y, positions, other)]
        return (y * self.weight + positions + other) * factor


@pytest.mark.parametrize("static", [False, True])
def test_several_tensors_of_which_some_have_gradients(static):
    examples = (mt.empty(2, 3), mt.empty(2, 3, dtype=mt.int64), mt.empty(2, 3)) if static else None

    def run(rank):
        module = Sending() if rank == 0 else Receiving()
        given = {"output_args" if rank == 0 else "input_args": examples} if static else {}
        stage = pipelining.PipelineStage(module, rank, 2, "cpu", **given)
        schedule = pipelining.ScheduleGPipe(stage, 2, lambda output, target: (output * target).sum(), scale_grads=False)
        x, target = mt.ones(4, 3), mt.ones(4, 3)
        for _ in range(2):
            module.zero_grad()
            schedule.step(*((x,) if rank == 0 else ()), target=target if rank else None, **({"factor": 2.0} if rank else {}))
        return module.weight.grad.tolist(), getattr(module, "seen", None)

    (first, _), (second, seen) = on_ranks(run)
    assert first == [24.0] * 3 and second == [16.0] * 3  # 4 rows, factor 2: times 3 and times 2
    assert seen == [(True, mt.float32), (False, mt.int64), (False, mt.float32)]


def test_shapes_are_told_once_and_gradients_only_where_there_are_some():
    def run(rank):
        stage = pipelining.PipelineStage(Sending() if rank == 0 else Receiving(), rank, 2, "cpu")
        schedule = pipelining.ScheduleGPipe(stage, 2, lambda output: output.sum())
        for _ in range(2):
            schedule.step(*((mt.ones(4, 3),) if rank == 0 else ()))

    log = on_ranks(run, record=True).logs[0]
    sizes = [one.bytes for one in log if one.kind == "send"]
    assert len(sizes) == 2 + 2 * 2 * 3 and sizes[0] == 8  # the size of the text, the text, and 3 tensors each
    assert [(one.kind, one.bytes) for one in log].count(("recv", 24)) == 4 == sum(one.kind == "recv" for one in log)


def test_a_frozen_first_stage():
    def run(rank):
        module = nn.Linear(3, 3)
        if rank == 0:
            module.requires_grad_(False)
        stage = pipelining.PipelineStage(module, rank, 2, "cpu")
        for name in ("GPipe", "1F1B"):
            schedule = pipelining.get_schedule_class(name)(stage, 2, lambda output: output.sum())
            schedule.step(*((mt.ones(4, 3),) if rank == 0 else ()))
        return [one.grad is not None for one in module.parameters()]

    results = on_ranks(run, record=True)
    assert results == [[False, False], [True, True]]
    assert not [one for one in results.logs[0] if one.kind == "recv"]


def test_gradients_are_not_lost_when_parameters_are_unfrozen():
    def by_hand(rank):
        module = nn.Linear(3, 3).requires_grad_(rank == 1)
        schedule = pipelining.ScheduleGPipe(pipelining.PipelineStage(module, rank, 2, "cpu"), 2, lambda output: output.sum())
        for _ in range(2):
            schedule.step(*((mt.ones(4, 3),) if rank == 0 else ()))
            module.requires_grad_()

    with pytest.raises(RuntimeError, match="output 0 requires grad now, but did not in the first step, so the next stage"):
        on_ranks(by_hand)

    def traced(rank):
        model = nn.Sequential(nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 3))
        pipe = pipelining.pipeline(model, (mt.ones(2, 3),), split_spec={"1": pipelining.SplitPoint.BEGINNING})
        stage = pipe.build_stage(rank, "cpu")
        schedule = pipelining.ScheduleGPipe(stage, 2, lambda output: output.sum())
        with dist.CommunicationLog() as log:
            schedule.step(*((mt.ones(4, 3),) if rank == 0 else ()))
        assert {one.kind for one in log} == {"send" if rank == 0 else "recv"}
        stage.submod.requires_grad_()
        schedule.step(*((mt.ones(4, 3),) if rank == 0 else ()))

    with pytest.raises(RuntimeError, match="output 0 requires grad now, but did not when the model was traced"):
        on_ranks(traced)


def test_schedules_have_shapes_of_their_own():
    """Two schedules with the same stage, for batches of different sizes, in turn."""

    def run(rank):
        stage = pipelining.PipelineStage(nn.Linear(3, 3), rank, 2, "cpu")
        many, few = (pipelining.ScheduleGPipe(stage, 2, lambda output: output.sum()) for _ in range(2))
        shapes = []
        for _ in range(2):
            for schedule, rows in ((many, 8), (few, 2)):
                first = (mt.ones(rows, 3),) if rank == 0 else ()
                shapes.append(schedule.step(*first))
                shapes.append(schedule.eval(*first))
        return [None if one is None else one.shape[0] for one in shapes]

    assert on_ranks(run)[1] == [8, 8, 2, 2] * 2


def test_shapes_that_do_not_fit_are_explained():
    def train(rank, module, batch=4, **given):
        stage = pipelining.PipelineStage(module, rank, 2, "cpu", **given)
        schedule = pipelining.ScheduleGPipe(stage, 2, lambda output: output.sum())
        schedule.step(*((mt.ones(batch, 3),) if rank == 0 else ()))
        return schedule

    with pytest.raises(RuntimeError) as failed:
        on_ranks(lambda rank: train(rank, nn.Linear(3, 5) if rank == 0 else nn.Linear(4, 3)))
    notes = "\n".join(getattr(failed.value, "__notes__", [])) + str(failed.value)
    assert "in the forward pass of stage 1, microbatch 0, its inputs float32[2, 5] from stage 0" in notes
    with pytest.raises(RuntimeError, match=r"its input_args are float32\[2, 4\], but stage 0 sends float32\[2, 5\]"):
        on_ranks(lambda rank: train(rank, nn.Linear(3, 5) if rank == 0 else nn.Linear(4, 3),
                                    **({"input_args": mt.empty(2, 4)} if rank else {})))  # fmt: skip
    with pytest.raises(RuntimeError, match=r"0 of 2>: the module returned float32\[2, 5\], but its output_args are float32\[4\]"):
        on_ranks(lambda rank: train(rank, nn.Linear(3, 5), **({} if rank else {"output_args": (mt.empty(4),)})))
    with pytest.raises(RuntimeError, match=r"the outputs of microbatch 1 are float32\[2, 3\], but those of the first microbatch were "
                                           r"float32\[3, 3\]; all microbatches need the same shapes"):  # fmt: skip
        on_ranks(lambda rank: train(rank, nn.Linear(3, 3), 5))
    with pytest.raises(TypeError, match="must return tensors for the next stage, got str"):
        class Text(nn.Module):
            def forward(self, x):
                return x, "text"

        on_ranks(lambda rank: train(rank, Text()))


def test_what_stages_refuse():
    def make(rank, *args, **options):
        return pipelining.PipelineStage(nn.Linear(2, 2), *args, "cpu", **options)

    for args, match in [((2, 2), "stage_index must be from 0 to 1, got 2"), ((0, 1), "a group of 2 ranks cannot run 1 stages")]:
        with pytest.raises(ValueError, match=match):
            on_ranks(lambda rank, args=args: make(rank, *args))
    with pytest.raises(NotImplementedError, match="dw_builder is not supported"):
        on_ranks(lambda rank: make(rank, 0, 2, dw_builder=len))
    with pytest.raises(TypeError, match="input_args must be a tensor or a tuple of tensors"):
        on_ranks(lambda rank: make(rank, 0, 2, input_args=3))


def test_one_rank_of_a_world_that_is_not_run():
    """The backend "fake": shapes come from examples."""
    dist.init_process_group("fake", rank=1, world_size=4)
    try:
        module, x = nn.Linear(8, 8, device="meta"), mt.empty(4, 8, device="meta")
        stage = pipelining.PipelineStage(module, 1, 4, "meta", input_args=x, output_args=x)
        schedule = pipelining.Schedule1F1B(stage, 4, nn.functional.mse_loss)
        with dist.CommunicationLog() as log:
            schedule.step()
        assert log.bytes_by_kind() == {"recv": 2 * 4 * 128, "send": 2 * 4 * 128}
        assert module.weight.grad.shape == (8, 8)
        stage = pipelining.PipelineStage(module, 1, 4, "meta")
        with pytest.raises(RuntimeError, match="the stage before is not run here, .* pass input_args and output_args to all stages"):
            pipelining.Schedule1F1B(stage, 4, nn.functional.mse_loss).step()
    finally:
        dist.destroy_process_group()


def test_one_rank_of_each_class():
    """Two replicas of four stages: ``ranks="groups"`` runs one rank of each stage."""

    def train():
        dist.init_process_group()
        mesh = dist.init_device_mesh("meta", (4, 2), mesh_dim_names=("pp", "dp"))
        module, x = nn.Linear(8, 8, device="meta"), mt.empty(4, 8, device="meta")
        stage = pipelining.PipelineStage(module, mesh.get_local_rank("pp"), 4, "meta", x, x, group=mesh["pp"].get_group())
        pipelining.Schedule1F1B(stage, 4, nn.functional.mse_loss).step(*((mt.empty(16, 8, device="meta"),) if stage.is_first else ()),
                                                                       target=mt.empty(16, 8, device="meta"))  # fmt: skip

    results = sim.run(train, world_size=8, ranks="groups", record=True)
    assert results.classes == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [log.bytes_by_kind() for log in results.logs[::2]] == [
        {"send": 512, "recv": 512}, {"recv": 1024, "send": 1024}, {"recv": 1024, "send": 1024}, {"recv": 512, "send": 512},
    ]  # fmt: skip


def test_unused_parameters_with_data_parallel_replicas():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)
            self.register_buffer("calls", mt.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.used(x)

    def train():
        dist.init_process_group()
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        mt.manual_seed(0)
        module = nn.parallel.DistributedDataParallel(Unused(), process_group=mesh["dp"].get_group(), find_unused_parameters=True)
        stage = pipelining.PipelineStage(module, mesh.get_local_rank("pp"), 2, "cpu", group=mesh["pp"].get_group())
        schedule = pipelining.Schedule1F1B(stage, 2, lambda output: output.sum())
        x = mt.full((4, 3), 1.0 + mesh.get_local_rank("dp"))
        for _ in range(2):
            module.zero_grad()
            schedule.step(*((x,) if stage.is_first else ()))
        return module.module.used.weight.grad, module.module.unused.weight.grad, module.module.calls.item()

    results = sim.run(train, world_size=4)
    assert all(unused is None and calls == 4 for _, unused, calls in results)
    for a, b in ((0, 1), (2, 3)):
        assert mt.equal(results[a][0], results[b][0])


def test_an_error_in_a_step_leaves_no_microbatches():
    def run(rank):
        stage = pipelining.PipelineStage(nn.Linear(3, 3), rank, 1, "cpu")
        schedule = pipelining.ScheduleGPipe(stage, 2, lambda output, target: (output - target).sum())
        with pytest.raises(RuntimeError):
            schedule.step(mt.ones(4, 3), target=mt.ones(4, 7))
        assert not stage._in_flight
        schedule.step(mt.ones(4, 3), target=mt.ones(4, 3))
        return stage.submod.weight.grad.tolist()

    assert on_ranks(run, 1) == [[[2.0] * 3] * 3]  # the mean of two sums over 2 rows


# Microbatches -----------------------------------------------------------------------------------------------------------


def test_splitting_arguments():
    x, y = mt.arange(12).reshape(6, 2), mt.arange(6).reshape(1, 6)
    args, kwargs = split_args_kwargs_into_chunks((x, 5, {"y": y}), {"mask": x, "whole": y}, 3,
                                                 (TensorChunkSpec(0), None, {"y": TensorChunkSpec(1)}),
                                                 {"mask": TensorChunkSpec(0), "whole": _Replicate})  # fmt: skip
    assert [one[0].tolist() for one in args] == [part.tolist() for part in x.chunk(3)]
    assert [one[1] for one in args] == [5] * 3 and [one[2]["y"].tolist() for one in args] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert all(one["whole"] is y for one in kwargs) and kwargs[2]["mask"].tolist() == x[4:].tolist()
    assert mt.equal(merge_chunks([one[0] for one in args], None), x)
    assert mt.equal(merge_chunks([one[2] for one in args], {"y": TensorChunkSpec(1)})["y"], y)
    assert merge_chunks([(x, 1), (x, 1)], None)[1] == 1 and merge_chunks([mt.tensor(1.0)] * 2, None).shape == (2,)
    assert [one.shape[0] for one, in split_args_kwargs_into_chunks((mt.ones(5, 2),), None, 2)[0]] == [3, 2]
    assert str(TensorChunkSpec.from_dict({"a": 1})) == "{'a': TensorChunkSpec(1)}"


@pytest.mark.parametrize("call, match", [
    (lambda: split_args_kwargs_into_chunks((mt.ones(2, 2),), None, 3), r"argument 0 has shape \[2, 2\]: 2 rows in dimension 0 are too few"),
    (lambda: split_args_kwargs_into_chunks(({"a": mt.tensor(1)},), None, 3), r"argument 0\['a'\] is a tensor without dimensions"),
    (lambda: split_args_kwargs_into_chunks((1,), None, 3, (None, None)), "2 chunk specs for 1 positional"),
    (lambda: split_args_kwargs_into_chunks((), {"a": 1}, 3, None, {}), r"for the keyword arguments \[\], and the arguments are \['a'\]"),
    (lambda: split_args_kwargs_into_chunks(([1, 2],), None, 3, ([None],)), "no entry 1"),
    (lambda: merge_chunks([], None), "no outputs to join"),
    (lambda: merge_chunks([1, 2], None), "output of the microbatches differs: 1"),
])  # fmt: skip
def test_arguments_that_cannot_be_split(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_specs_of_a_schedule():
    """The batch is the second dimension."""

    def run(rank):
        stage = pipelining.PipelineStage(nn.Identity(), rank, 2, "cpu")
        schedule = pipelining.ScheduleGPipe(stage, 2, args_chunk_spec=(TensorChunkSpec(1),), output_merge_spec=(TensorChunkSpec(1),))
        return schedule.step(*((mt.arange(8.0).reshape(2, 4),) if rank == 0 else ()))

    assert on_ranks(run)[1].tolist() == mt.arange(8.0).reshape(2, 4).tolist()
    with pytest.raises(TypeError, match="the spec of argument 0 must be a TensorChunkSpec, got int"):
        split_args_kwargs_into_chunks((mt.ones(2),), None, 2, (0,))
