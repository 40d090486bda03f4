"""Pipelines of traced models: where stages begin, what they hold, and what cannot be divided."""

import pytest

import metatensor as mt
from distributed.pipelining.models import GPT, LENGTH, connected, make
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining, sim
from metatensor.distributed.pipelining import SplitPoint, balanced_stages, pipeline

pytest.importorskip("metatensor_cpu")

BEGINNING, END = SplitPoint.BEGINNING, SplitPoint.END


def chain_of(n=6, width=8, device="cpu"):
    mt.manual_seed(0)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(n))).to(device)


def names(pipe):
    return [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]


def test_stages_begin_where_submodules_do():
    model, x = make(layers=4, tied=False), mt.zeros(2, LENGTH, dtype=mt.int64)
    pipe = pipeline(model, (x,), split_spec={"blocks.1": BEGINNING, "blocks.2": END})
    found = names(pipe)
    assert pipe.num_stages == 3 and {name.split(".")[1] for name in found[1]} == {"1", "2"}
    assert found[0][0] == "tokens.weight" and found[2][-1] == "head.weight"
    assert sorted(sum(found, [])) == sorted(model.state_dict())
    stage = pipe.get_stage_module(1)
    assert stage.get_parameter("blocks.1.norm.weight") is model.blocks[1].norm.weight
    assert mt.equal(pipe(x), model(x)) and pipe.shared == {}
    assert repr(pipe).startswith("<Pipe of GPT, 3 stages of [")
    hidden = pipe.get_stage_module(0)(x)
    assert len(hidden) == 1 and hidden[0].shape == (2, LENGTH, 8)


class Marked(nn.Module):
    """Says itself where stages begin, in a submodule too, and passes its second argument on to the last one."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, scale, *, shift):
        x = self.a(x)
        pipelining.pipe_split()
        y = self.b(x)
        pipelining.pipe_split()
        return {"out": self.c(y) * scale + x + shift, "given": scale}


def test_marks_in_the_model():
    model, x = Marked(), mt.randn(2, 4)
    pipe = pipeline(model, (x, mt.tensor([2.0])), {"shift": mt.tensor([1.0])})
    assert names(pipe) == [["a.weight", "a.bias"], ["b.weight", "b.bias"], ["c.weight", "c.bias"]]
    expected, found = model(x, mt.tensor([3.0]), shift=mt.tensor([5.0])), pipe(x, mt.tensor([3.0]), shift=mt.tensor([5.0]))
    assert mt.equal(found["out"], expected["out"]) and found["given"].item() == 3
    assert [len(pipe.get_stage_module(i).program.inputs) for i in range(3)] == [3, 3, 4]  # x, scale and shift pass through
    pipelining.pipe_split()  # outside of a trace it does nothing


@pytest.mark.parametrize("by, device", [("flops", None), ("parameters", None), ("time", "h100-sxm-80gb"), (lambda call: 1.0, None)])
def test_stages_of_equal_cost(by, device):
    model, x = chain_of(12), mt.ones(2, 8)
    for count in (1, 2, 3, 4, 6, 12):
        pipe = pipeline(model, (x,), split_policy=balanced_stages(count, by, device))
        assert [len(one) for one in names(pipe)] == [24 // count] * count
        assert mt.equal(pipe(x), model(x))


def test_the_greatest_cost_is_the_least():
    """Against all divisions of small lists of costs."""
    from itertools import combinations

    from metatensor.distributed.pipelining._balancing import SLACK, _divided

    generator = mt.Generator().manual_seed(0)
    for _ in range(60):
        n = int(mt.randint(2, 9, (), generator=generator).item())
        costs = [float(one) for one in mt.randint(0, 20, (n,), generator=generator).tolist()]
        costs[0] += 1
        crossing = mt.randint(1, 50, (n + 1,), generator=generator).tolist()
        bad = {int(mt.randint(1, n, (), generator=generator).item()): 0} if n > 4 else {}
        for count in range(1, n - len(bad) + 1):
            def worst(starts, costs=costs, n=n):
                bounds = [0, *starts, n]
                return max(sum(costs[a:b]) for a, b in zip(bounds, bounds[1:]))

            ways = list(combinations([i for i in range(1, n) if i not in bad], count - 1))
            least = min(map(worst, ways))
            found = _divided(costs, crossing, bad, count, "model")
            assert len(found) == count - 1 and found == sorted(set(found)) and not set(found) & set(bad)
            assert worst(found) <= least * (1 + SLACK) + 1e-6
            fewest = min(sum(crossing[i] for i in way) for way in ways if worst(way) <= least * (1 + SLACK))
            assert sum(crossing[i] for i in found) == fewest


def test_few_bytes_cross_between_balanced_stages():
    """Stages begin between blocks, where a single tensor crosses the boundary, and not inside a block, where several cross it."""
    model, x = make("meta"), mt.zeros(2, LENGTH, dtype=mt.int64, device="meta")
    pipe = pipeline(model, (x,), split_policy=balanced_stages(4))
    assert [len(pipe.get_stage_module(i).program.outputs) for i in range(3)] == [1, 1, 1]


def test_what_balancing_refuses():
    x = mt.ones(2, 8)
    for options, match in [({"num_stages": 0}, "must be positive, got 0"), ({"num_stages": 2, "by": "size"}, "by must be .*, got 'size'"),
                           ({"num_stages": 2, "by": "time"}, "by='time' needs a device")]:  # fmt: skip
        with pytest.raises(ValueError, match=match):
            balanced_stages(**options)
    with pytest.raises(ValueError, match=r"Sequential has 2 calls and can be divided at 1 places, too few for 3 stages"):
        pipeline(chain_of(2), (x,), split_policy=balanced_stages(3))
    with pytest.raises(ValueError, match="no call of Tanh has a cost by 'flops'"):
        pipeline(nn.Tanh(), (x,), split_policy=balanced_stages(1))


def test_shared_parameters():
    model, x = make(layers=2), mt.zeros(2, LENGTH, dtype=mt.int64)
    pipe = pipeline(model, (x,), split_spec={"blocks.1": BEGINNING, "norm": BEGINNING})
    assert pipe.shared == {"tokens.weight": (0, 2)}
    # Each stage has all names of the parameter, as the model does.
    assert [("tokens.weight" in one, "head.weight" in one) for one in names(pipe)] == [(True, True), (False, False), (True, True)]
    assert len(list(pipe.parameters())) == len(list(model.parameters()))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.scale = mt.tensor([1.0, 2.0, 3.0, 4.0])  # neither parameter nor buffer
        self.register_buffer("seen", mt.zeros(()), persistent=False)

    def forward(self, x):
        x = self.norm(self.a(x))
        self.seen = self.seen + x.shape[0]
        return self.b(x * self.scale)


def test_buffers_and_constants():
    model, x = Normalised(), mt.randn(6, 4)
    before = {name: one.clone() for name, one in model.named_buffers()}
    pipe = pipeline(model, (x,), split_spec={"b": BEGINNING})
    assert all(mt.equal(one, before[name]) for name, one in model.named_buffers())  # tracing changed nothing
    assert names(pipe)[0] == ["a.weight", "a.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
                              "norm.num_batches_tracked"]  # fmt: skip
    other = Normalised()
    other.load_state_dict(model.state_dict())
    for _ in range(2):
        assert mt.allclose(pipe(x), other(x))
    stage = pipe.get_stage_module(0)
    assert mt.allclose(stage.get_buffer("norm.running_mean"), other.norm.running_mean) and stage.get_buffer("seen").item() == 12
    assert mt.equal(pipe.get_stage_module(0).to(mt.float64).to(mt.float32)(x)[0].detach(), pipe.get_stage_module(0)(x)[0].detach())


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("count", mt.zeros(()))

    def forward(self, x):
        x = self.a(x)
        self.count += 1
        y = self.b(x)
        x += y
        return x * self.count


def test_writes_across_a_boundary_are_refused():
    with pytest.raises(ValueError, match=r"chain: add_ at .*test_pipe.py:\d+ writes in place to a tensor that was made before"):
        pipeline(Writing(), (mt.ones(2, 4),), split_spec={"b": BEGINNING})
    # A policy avoids such boundaries.
    pipe = pipeline(nn.Sequential(Writing(), nn.Linear(4, 4)), (mt.ones(2, 4),), split_policy=balanced_stages(2, "parameters"))
    assert names(pipe)[1] == ["1.weight", "1.bias"]

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.register_buffer("count", mt.zeros(()))

        def forward(self, x):
            x = self.a(x) + self.count
            self.count += 1
            return self.b(x) * self.count

    with pytest.raises(ValueError, match="the program changes buffer 'count', which several parts use"):
        pipeline(Counting(), (mt.ones(2, 4),), split_spec={"b": BEGINNING})


def test_what_pipelines_refuse():
    model, x = chain_of(2), mt.ones(2, 8)
    with pytest.raises(AttributeError, match="nothing"):
        pipeline(model, (x,), split_spec={"nothing": BEGINNING})
    with pytest.raises(TypeError, match=r"split_spec\['1'\] must be a SplitPoint, got int"):
        pipeline(model, (x,), split_spec={"1": 1})
    with pytest.raises(ValueError, match="one of split_spec and split_policy"):
        pipeline(model, (x,), split_spec={"1": END}, split_policy=balanced_stages(2))
    with pytest.raises(TypeError, match="expected a Module, got function"):
        pipeline(lambda x: x, (x,))
    with pytest.raises(TypeError, match="mb_args must be a tuple .* got Tensor"):
        pipeline(model, x)
    pipe = pipeline(model, (x,), split_spec={"1": BEGINNING})
    with pytest.raises(ValueError, match="there are stages 0 to 1, got 2"):
        pipe.get_stage_module(2)
    model.unused = nn.Linear(2, 2)
    model.forward = model[0].forward
    with pytest.raises(ValueError, match="no call of a module 'unused'"):
        pipeline(model, (x,), split_spec={"unused": BEGINNING})

    def run():
        dist.init_process_group()
        stage = pipeline(chain_of(2), (mt.ones(2, 8),), split_spec={"1": BEGINNING}).build_stage(dist.get_rank(), "cpu")
        pipelining.ScheduleGPipe(stage, 2).step(*((mt.ones(6, 8),) if stage.is_first else ()))

    with pytest.raises(ValueError, match=r"expected metatensor.float32\[2, 8\], got metatensor.float32\[3, 8\]"):
        sim.run(run, world_size=2)


def test_a_deferred_model_computes_only_its_stage():
    with mt.deferred_init():
        mt.manual_seed(0)
        model = GPT(layers=2)
    pipe = pipeline(model, (mt.zeros(2, LENGTH, dtype=mt.int64),), split_spec={"blocks.1": BEGINNING})
    dist.init_process_group("fake", rank=1, world_size=2)
    try:
        stage = pipe.build_stage(1, "cpu")
        mt.materialize(stage.submod)
    finally:
        dist.destroy_process_group()
    eager = make(layers=2)
    for name, one in stage.submod.named_parameters():
        assert mt.equal(one, eager.get_parameter(name))
    assert mt.is_deferred(model.blocks[0].norm.weight)


def test_stages_on_meta_can_be_loaded_later():
    with mt.device("meta"):
        model = chain_of(2, device="meta")

    def run():
        rank = dist.get_rank()
        pipe = pipeline(model, (mt.empty(2, 8, device="meta"),), split_spec={"1": BEGINNING})
        stage = pipe.build_stage(rank, "cpu")
        stage.submod.to_empty(device="cpu")
        weights = chain_of(2).state_dict()
        stage.submod.load_state_dict({name: weights[name] for name in stage.submod.state_dict()})
        return pipelining.ScheduleGPipe(stage, 2).step(*((mt.ones(4, 8),) if rank == 0 else ()))

    assert mt.allclose(sim.run(connected(run), world_size=2)[1], chain_of(2)(mt.ones(4, 8)))
