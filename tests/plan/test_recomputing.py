"""Models that checkpoint their own blocks."""

import copy

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.plan import Degrees
from metatensor.utils.checkpoint import checkpoint
from plan.operators.unusual import Block, Blocks

BATCH = 8


class Called(Blocks):
    def middle(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


class Reentrant(Blocks):
    def middle(self, x):
        for block in self.blocks:
            x = checkpoint(block.__call__, x, use_reentrant=True)
        return x


class InFunction(Blocks):
    def middle(self, x):
        for block in self.blocks:
            x = checkpoint(lambda x, block=block: block(x), x, use_reentrant=False)
        return x


class Own(Block):
    """A block that checkpoints itself, as those of transformers do."""

    def __call__(self, *args):
        return checkpoint(super().__call__, *args, use_reentrant=False)


KINDS = {"called": Called, "reentrant": Reentrant, "in a function": InFunction, "own": lambda: Blocks([Own() for _ in range(3)])}


def search(model, **options):
    settings = {"devices": "2xH100", "global_batch": BATCH, "keep": None, "precision": "fp32", "tensor": [1], "shard": [0],
                "schedules": ["1F1B"], "micro_batches": [2], **options}  # fmt: skip
    with mt.device("meta"):
        return mt.plan.search(model(), mt.empty(1, 16), **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_those_of_recomputation(kind):
    wanted, found = search(Blocks, recompute=["full"]), search(KINDS[kind])
    assert found.layouts == wanted.layouts and {one.degrees.pipeline for one in found.layouts} == {1, 2}
    assert found.remarks[0].startswith("the model itself computes its blocks again")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pipeline", [1, 2])
def test_layouts_train_as_one_process(kind, pipeline):
    plan = search(KINDS[kind], pipeline=[pipeline])
    mt.manual_seed(0)
    base, x, loss = KINDS[kind]().to("cpu"), mt.randn(BATCH, 16, device="cpu"), lambda y: y.square().mean()
    sgd = lambda ps: mt.optim.SGD(ps, lr=0.1)

    def train():
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(base), loss=loss, optimizer=sgd)
        return [step.mean_loss(step.step(step.own(x))).item() for _ in range(3)]

    alone, losses = copy.deepcopy(base), []
    optimizer = sgd(list(alone.parameters()))
    for _ in range(3):
        value = loss(alone(x))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    assert dist.sim.run(train, world_size=2)[0] == pytest.approx(losses, rel=1e-5)


def test_blocks_are_computed_again_once():
    runs = []

    class Counted(Block):
        def forward(self, x):
            runs.append(x.requires_grad)
            return super().forward(x)

    with mt.device("meta"):
        plan = mt.plan.search(Called([Counted() for _ in range(2)]), mt.empty(1, 16), devices="1xH100", global_batch=1, shard=[0])
        runs.clear()

    def train():
        dist.init_process_group()
        step = plan.apply(Called([Counted() for _ in range(2)]), loss=lambda y: y.mean(), optimizer=lambda ps: mt.optim.SGD(ps, lr=0.1))
        runs.clear()
        step.step(mt.ones(1, 16, device="cpu"))

    dist.sim.run(train, world_size=1)
    assert len(runs) == 4


def test_other_kinds_of_recomputation_are_impossible():
    with pytest.raises(ValueError, match=r"^search: the model itself computes its blocks again .* add 'full', or switch"):
        search(Called, recompute=["none", "selective"])


def test_checkpoints_around_the_blocks_are_kept():
    class Head(nn.Linear):
        def __init__(self):
            super().__init__(16, 10)
            self.more = nn.Sequential(nn.Linear(16, 512), nn.GELU(), nn.Linear(512, 16))

        def forward(self, x):
            return super().forward(self.more(x))

    class Plain(Blocks):
        def __init__(self):
            super().__init__()
            self.behind = Head()

        def forward(self, x):
            return self.behind(self.middle(self.before(x)))

    class Ends(Plain, Called):
        def forward(self, x):
            return checkpoint(self.behind, self.middle(self.before(x)), use_reentrant=False)

    options = {"recompute": ["full"], "pipeline": [1]}
    assert search(Ends, **options).best.peak < search(Plain, **options).best.peak


def test_checkpoints_are_only_watched_in_a_plan():
    x = mt.ones(3, device="cpu", requires_grad=True)
    search(Called)
    calls = []

    def function(x):
        calls.append(1)
        return x.exp()

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(calls) == 2 and Degrees().recompute == "none"
