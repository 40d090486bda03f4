"""Models that are harder to measure: those that refuse a single sample, or whose blocks change their argument in place."""

import copy

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from plan.operators.unusual import Blocks


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 16), nn.BatchNorm1d(16)

    def forward(self, x):
        return x + self.norm(self.linear(x))


class InPlace(nn.Module):
    """Changes its argument, which is saved for the backward pass."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        x += 1
        return x + self.linear(F.relu_(x))


class OnlyInPlace(InPlace):
    """Returns its argument itself."""

    def forward(self, x):
        return x.mul_(2).add_(self.linear.bias)


class Wrong(InPlace):
    """Changes what the backward pass needs."""

    def forward(self, x):
        x += self.linear(x)
        return x


BATCH = 8
MODELS = {
    "plain": Blocks,
    "norm": lambda: Blocks([Normalized() for _ in range(4)]),
    "in place": lambda: Blocks([InPlace() for _ in range(4)]),
    "only in place": lambda: Blocks([OnlyInPlace() for _ in range(4)]),
}


def search(model, **options):
    settings = {"devices": "4xH100", "global_batch": BATCH, "keep": None, "precision": "fp32", "optimizer": "sgd", "schedules": ["1F1B"]}
    with mt.device("meta"):
        return mt.plan.search(model(), mt.empty(1, 16), **{**settings, **options})


def peaks(plan, model, degrees):
    """Return the memory of each rank of a pipeline in an applied layout, counted on simulated ranks on meta."""

    def setup():
        dist.init_process_group()
        with mt.device("meta"):
            made, batch = model(), mt.empty(BATCH, 16)
        step = plan.apply(made, which=degrees, loss=lambda y: y.mean(), optimizer=lambda ps: mt.optim.SGD(ps, lr=0.1), device="meta")
        batch = step.own(batch)
        step.step(batch)
        return step, batch

    def run(step, batch):
        step.step(batch)
        return step.mesh.get_local_rank("pipeline")

    with mt.device("meta"):
        found = mt.analysis.profile_ranks(run, setup=setup, topology="4xH100", ranks="all")
    ranks = {one.result: sum(n for name, n in one.memory.at_peak().items() if name != "input") for one in found.classes}
    return [ranks[rank] for rank in sorted(ranks)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("degrees", [Degrees(4, shard=1, micro_batch=2, precision="fp32"),
                                     Degrees(2, pipeline=2, micro_batch=2, precision="fp32")], ids=str)  # fmt: skip
def test_memory_is_that_of_applied_layouts(kind, degrees):
    plan = search(MODELS[kind], micro_batches=[2], tensor=[degrees.tensor], pipeline=[degrees.pipeline], sequence=[False])
    layout = next(one for one in plan.layouts if one.degrees == degrees)
    counts = 4 * 4 if kind == "norm" else 0  # the numbers of batches are int64, and planned like parameters
    assert peaks(plan, MODELS[kind], degrees) == [pytest.approx(sum(rank.values()), abs=4 + counts) for rank in layout.memory]


def test_a_model_that_refuses_a_single_sample():
    plan = search(MODELS["norm"])
    assert {one.degrees.micro_batch for one in plan.layouts} == {2, 4, 8}
    assert any("micro-batches have at least 2: batch_norm" in remark for remark in plan.remarks)
    plain = search(lambda: Blocks([nn.Linear(16, 16) for _ in range(4)]))
    products = 3 * 2 * 16 * (16 + 4 * 16 + 10) - 2 * 16 * 16  # the input of the model has no gradient
    assert plain.best.model_flops >= BATCH * products
    both = search(MODELS["norm"], global_batch=2 * BATCH, micro_batches=[4])
    assert both.best.model_flops == 2 * plan.best.model_flops == 2 * plain.best.model_flops
    only = search(MODELS["norm"], micro_batches=[1])
    assert not only.fits and only.advice() == "the model does not run with fewer than 2 samples"


def test_a_model_of_one_part_that_refuses_a_single_sample():
    plan = search(lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)))
    assert plan.fits and min(one.degrees.micro_batch for one in plan.layouts) == 2
    assert not search(lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)), micro_batches=[1]).fits


def test_blocks_that_change_their_argument_in_place():
    plan = search(MODELS["in place"])
    assert {one.degrees.recompute for one in plan.layouts} == {"none"} and {one.degrees.tensor for one in plan.layouts} == {1, 2, 4}
    assert "blocks.0 changes its argument in place, so it cannot be computed again from it" in {one.limit for one in plan.rejected}
    with pytest.raises(RuntimeError, match="in place"):
        search(lambda: Blocks([Wrong() for _ in range(4)]))


@pytest.mark.parametrize("kind", MODELS)
def test_stages_of_such_models_train_as_one_process(kind):
    plan = search(MODELS[kind], micro_batches=[2], tensor=[1], shard=[0], pipeline=[1, 2])
    mt.manual_seed(0)
    base, x, loss = MODELS[kind]().to("cpu"), mt.randn(BATCH, 16, device="cpu"), lambda y: y.square().mean()
    sgd = lambda ps: mt.optim.SGD(ps, lr=0.01)

    def train():
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(base), which=Degrees(2, pipeline=2, micro_batch=2, precision="fp32"), loss=loss, optimizer=sgd)
        return [step.mean_loss(step.step(step.own(x.clone()))).item() for _ in range(3)]

    alone, losses = copy.deepcopy(base), []
    optimizer = sgd(list(alone.parameters()))
    for _ in range(3):
        each = [loss(alone(part.clone())) for part in x.split(2)]  # a batch norm takes the statistics of a micro-batch
        value = sum(each) / len(each)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    assert dist.sim.run(train, world_size=4)[0] == pytest.approx(losses, rel=1e-5) and losses[-1] < losses[0]
