"""Layouts that are applied to a small decoder train as a single process does."""

import copy

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.tensor import init_device_mesh
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from metatensor.plan.schedules import SCHEDULES
from plan.operators import unusual
from plan.transformers_like import Decoder

BATCH, LENGTH, VOCABULARY = 4, 8, 32
STEPS = 2


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def optimizer(parameters):
    return mt.optim.AdamW(parameters, lr=0.01)


def decoder(**options):
    return Decoder(**{"width": 32, "depth": 2, "vocabulary": VOCABULARY, **options})


def searched(model=None, **options):
    with mt.device("meta"):
        model = model or decoder()
    given = {"devices": "4xH100", "global_batch": BATCH, "precision": ["fp32", "bf16-master"], "micro_batches": [1, 2],
             "virtual_stages": [1, 2], "keep": None, **options}  # fmt: skip
    return mt.plan.search(model, mt.empty(1, LENGTH, dtype=mt.int64, device="meta"), **given)


@pytest.fixture(scope="module")
def plan():
    return searched()


@pytest.fixture(scope="module")
def base():
    mt.manual_seed(0)
    return decoder().to("cpu")


@pytest.fixture(scope="module")
def batch():
    mt.manual_seed(1)
    return [mt.randint(0, VOCABULARY, (BATCH, LENGTH), device="cpu") for _ in range(2)]


@pytest.fixture(scope="module")
def alone(base, batch):
    """The losses of one process."""
    return trained_alone(base, batch)


def trained_alone(base, batch, less=0.5):
    """Return the losses of one process, which fall by at least ``less``."""
    model = copy.deepcopy(base)
    own, losses = optimizer(list(model.parameters())), []
    for _ in range(STEPS):
        value = loss(model(batch[0]), batch[1])
        value.backward()
        own.step()
        own.zero_grad()
        losses.append(value.item())
    assert losses[-1] < losses[0] - less
    return losses


def trained(plan, degrees, model, batch, world=4):
    def train():
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(model), loss=loss, optimizer=optimizer, which=degrees)
        return [step.mean_loss(step.step(*map(step.own, batch))).item() for _ in range(STEPS)]

    found = dist.sim.run(train, world_size=world)
    assert found == [found[0]] * world
    return found[0]


def fp32(*args, **kwargs):
    return Degrees(*args, precision="fp32", **kwargs)


LAYOUTS = [
    *(fp32(4, 1, 1, shard) for shard in range(4)),
    fp32(2, 2, 1, 2, micro_batch=2),
    *(fp32(2, 2, 1, shard) for shard in range(4)),
    fp32(2, 2, 1, 1, True),
    fp32(2, 2, 1, 3, True),
    fp32(2, 2, 1, 3, True, recompute="full"),
    fp32(1, 4),
    fp32(1, 4, sequence=True),
    *(fp32(2, 1, 2, shard) for shard in range(4)),
    fp32(2, 1, 2, schedule="GPipe"),
    fp32(1, 2, 2),
    fp32(1, 2, 2, sequence=True),
    *(fp32(2, 2, 1, recompute=way) for way in ("selective", "full")),
    fp32(4, 1, 1, 3, recompute="full"),
    fp32(1, 2, 2, sequence=True, recompute="full"),
]
INTERLEAVED = [
    fp32(2, 1, 2, schedule="Interleaved1F1B", virtual_stages=2),
    fp32(2, 1, 2, 3, schedule="Interleaved1F1B", virtual_stages=2),
    fp32(1, 2, 2, schedule="Interleaved1F1B", virtual_stages=2, recompute="full"),
    fp32(2, 1, 2, 1, schedule="LoopedBFS", virtual_stages=2),
    fp32(1, 1, 4, schedule="InterleavedZeroBubble"),
    fp32(1, 2, 2, schedule="InterleavedZeroBubble"),
    fp32(2, 1, 2, 2, schedule="InterleavedZeroBubble", virtual_stages=2),
    fp32(1, 2, 2, sequence=True, schedule="ZBVZeroBubble", virtual_stages=2),
    fp32(2, 1, 2, schedule="ZBVZeroBubble", virtual_stages=2, recompute="full"),
]


@pytest.mark.slow
@pytest.mark.parametrize("degrees", LAYOUTS, ids=str)
def test_layouts_train_as_one_process(degrees, plan, base, batch, alone):
    assert trained(plan, degrees, base, batch) == pytest.approx(alone, rel=2e-6)


@pytest.fixture(scope="module")
def deep(batch):
    """A model of four blocks, its plan, and the losses of one process."""
    with mt.device("meta"):
        plan = searched(decoder(depth=4), precision="fp32", micro_batches=[1], pipeline=[2, 4], recompute=["none", "full"],
                        schedules=SCHEDULES)  # fmt: skip
    mt.manual_seed(0)
    model = decoder(depth=4).to("cpu")
    return model, plan, trained_alone(model, batch)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", INTERLEAVED, ids=str)
def test_layouts_with_several_stages_on_a_rank_or_gradients_of_weights_later(degrees, deep, batch):
    model, plan, expected = deep
    assert trained(plan, degrees, model, batch) == pytest.approx(expected, rel=2e-6)


@pytest.mark.slow
def test_half_precision_with_float32_copies(plan, base, batch, alone):
    found = [trained(plan, Degrees(4, 1, 1, shard), base, batch) for shard in (0, 1, 3)]
    for losses in found:
        assert losses == pytest.approx(alone, rel=2e-2)
        assert losses == pytest.approx(found[0], rel=2e-3)
        assert losses[1] < losses[0] - 0.5
    assert found[0] != pytest.approx(alone, rel=1e-6)


@pytest.mark.slow
def test_what_a_rank_holds(plan, base):
    def hold(degrees):
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(base), loss=loss, optimizer=optimizer, which=degrees)
        names = [name for name, _ in step.model.named_parameters()]
        return names, sum(p.numel() for group in step.optimizer.param_groups for p in group["params"])

    whole = sum(p.numel() for p in base.parameters())
    stages = dist.sim.run(hold, fp32(2, 1, 2, 1), world_size=4)  # the pipeline is the outermost dimension
    assert any("embed" in name for name in stages[0][0]) and not any("embed" in name for name in stages[2][0])
    assert any("head" in name for name in stages[2][0]) and not any("layers.1" in name for name in stages[0][0])
    assert sum(count for _, count in stages) == whole
    assert [count for _, count in dist.sim.run(hold, fp32(4), world_size=4)] == [whole] * 4


@pytest.mark.slow
def test_deferred_models_compute_only_their_stage(plan, batch, alone):
    def train():
        dist.init_process_group()
        mt.manual_seed(0)
        with mt.deferred_init():
            model = decoder()
        step = plan.apply(model, loss=loss, optimizer=optimizer, which=fp32(2, 1, 2), device="cpu")
        return step.mean_loss(step.step(*map(step.own, batch))).item()

    mt.manual_seed(0)
    expected = loss(decoder().to("cpu")(batch[0]), batch[1]).item()
    assert dist.sim.run(train, world_size=4) == [pytest.approx(expected, rel=2e-6)] * 4


class Frozen(Decoder):
    def __init__(self, **options):
        super().__init__(**options)
        self.embed.weight.requires_grad_(False)
        self.register_buffer("scale", mt.ones(()))

    def forward(self, tokens):
        return super().forward(tokens) * self.scale


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [Degrees(2), fp32(1, 1, 2), fp32(1, 2), Degrees(2, 1, 1, 3)], ids=str)
def test_frozen_parameters_and_buffers(degrees, batch):
    mt.manual_seed(0)
    base = Frozen(width=32, depth=2, vocabulary=VOCABULARY).to("cpu")
    plan = searched(copy.deepcopy(base).to("meta"), devices="2xH100", micro_batches=[1])
    model = copy.deepcopy(base)
    own, losses = optimizer([p for p in model.parameters() if p.requires_grad]), []
    for _ in range(STEPS):
        value = loss(model(batch[0]), batch[1])
        value.backward()
        own.step()
        own.zero_grad()
        losses.append(value.item())
    assert trained(plan, degrees, base, batch, 2) == pytest.approx(losses, rel=2e-6 if degrees.precision == "fp32" else 2e-2)


def applied(plan, which=0, world=4, model=decoder, **options):
    def run():
        dist.init_process_group()
        own = copy.deepcopy(model) if isinstance(model, mt.nn.Module) else model
        return plan.apply(own, **{"loss": loss, "optimizer": optimizer, "which": which, "device": "meta", **options})

    with mt.device("meta"):
        return dist.sim.run(run, world_size=world)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("degrees", "options", "text"), [
    (fp32(2, 1, 2, 3, schedule="InterleavedZeroBubble"), {}, r"shard 3 with the schedule Inter.*search with shard=\[0, 1, 2\]"),
    (fp32(4, offload="optimizer"), {"offload": ["optimizer"]}, r"offload optimizer is not supported.*no layout of this plan can"),
])  # fmt: skip
def test_what_is_not_supported(degrees, options, text):
    with mt.device("meta"):
        model = decoder(depth=8)
    plan = searched(model, schedules=["1F1B", "Interleaved1F1B", "InterleavedZeroBubble"], precision="fp32", micro_batches=[1], **options)
    with pytest.raises(NotImplementedError, match=text):
        applied(plan, degrees, model=model)


class Positions(Decoder):
    """Positions count from 0 on each rank."""

    def forward(self, tokens):
        return super().forward((tokens + mt.arange(tokens.shape[1], device=tokens.device)) % VOCABULARY)


class Average(Decoder):
    """The output is a mean over positions."""

    def forward(self, tokens):
        return super().forward(tokens).mean(1)


class Length(Decoder):
    """A factor depends on the length."""

    def forward(self, tokens):
        return super().forward(tokens) * tokens.shape[1] ** -0.5


@pytest.mark.parametrize(("kind", "text"), [
    (Positions, r"arange makes positions of \[8\].*search with context=\[1\]; the fastest layout .* which=0: data 4"),
    (Average, "its output does not have the positions"),
    (Length, "with other numbers"),
])  # fmt: skip
def test_models_that_do_not_take_parts_of_sequences(kind, text):
    with mt.device("meta"):
        model = kind(width=32, depth=2, vocabulary=VOCABULARY)
    plan = searched(model, precision="fp32", micro_batches=[1], context=[1, 2], tensor=[1], pipeline=[1], shard=[0], recompute=["none"])
    with pytest.raises(NotImplementedError, match=text):
        applied(plan, fp32(2, context=2), model=model)


@pytest.mark.parametrize(("kind", "text"), [
    (unusual.Between, "something is computed between the blocks"),
    (unusual.Side, "the blocks return several tensors"),
    (unusual.Sum, "a stage uses something of earlier stages besides the result"),
    (unusual.Residual, "a stage uses something of earlier stages besides the result"),
    (unusual.Pair, "blocks.0 gets a further tensor that depends on what other stages compute"),
])  # fmt: skip
def test_pipelines_pass_on_what_the_blocks_return_alone(kind, text):
    with mt.device("meta"):
        plan = mt.plan.search(kind(), mt.empty(1, 16), devices="2xH100", global_batch=2, pipeline=[2], schedules=["1F1B"], precision="fp32")

    def run():
        dist.init_process_group()
        step = plan.apply(kind(), loss=lambda y: y.mean(), optimizer=optimizer)
        step.step(mt.ones(2, 16))

    with pytest.raises(NotImplementedError, match=rf"apply: {text}.*search with pipeline=\[1\]"):
        dist.sim.run(run, world_size=2)


class Constant(unusual.Sum):
    """A tensor that is neither a parameter nor a buffer, too."""

    def __init__(self):
        super().__init__()
        self.factor = mt.full((16,), 0.5)

    def forward(self, x):
        return super().forward(x * self.factor)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [unusual.Reversed, unusual.Twice, Constant, unusual.Tied])
@pytest.mark.parametrize("degrees", [fp32(1, 2), fp32(2), fp32(2, 1, 1, 2), fp32(2, 1, 1, 3)], ids=str)
def test_unusual_models(kind, degrees):
    def made():
        mt.manual_seed(0)
        return kind()

    def alone():
        model, losses = made(), []
        own = optimizer(model.parameters())
        for _ in range(STEPS):
            own.zero_grad()
            value = model(x).square().mean()
            value.backward()
            own.step()
            losses.append(value.item())
        return losses

    def run():
        dist.init_process_group()
        step = plan.apply(made(), which=degrees, loss=lambda y: y.square().mean(), optimizer=optimizer)
        return [step.mean_loss(step.step(step.own(x))).item() for _ in range(STEPS)]

    mt.manual_seed(1)
    x = mt.randn(2, 16)
    with mt.device("meta"):
        plan = mt.plan.search(kind(), mt.empty(1, 16), devices="2xH100", global_batch=2, pipeline=[1], precision="fp32", keep=None)
    if kind is unusual.Tied and degrees.tensor > 1:
        with pytest.raises(NotImplementedError, match=r"blocks.0.linear.weight and blocks.2.linear.weight are one .*tensor=\[1\]"):
            dist.sim.run(run, world_size=2)
    else:
        assert dist.sim.run(run, world_size=2)[0] == pytest.approx(alone(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "error", "text"), [
    ({"world": 2}, ValueError, r"apply: the layout .* is for 4 ranks, but the program has 2"),
    ({"which": fp32(8)}, ValueError, "apply: the layout data 8.*was not costed"),
    ({"which": 10_000}, ValueError, "apply: there are layouts 0 to"),
    ({"model": lambda: decoder(depth=3)}, ValueError, "apply: the planned model has no parameter 'layers.2"),
    ({"model": lambda: decoder(depth=1)}, ValueError, "apply: the model has no parameter 'layers.1.*another model"),
    ({"model": lambda: decoder(width=64)}, ValueError, r"apply: the plan was made for embed.weight of \[32, 32\], got \[32, 64\]"),
    ({"model": lambda: 3}, ValueError, "apply: the model must be a module, or a function that returns one, got int"),
])  # fmt: skip
def test_other_ranks_and_models(options, error, text, plan):
    with pytest.raises(error, match=text):
        applied(plan, **options)


@pytest.mark.slow
def test_meshes_of_another_shape(plan):
    def run(shape, names):
        dist.init_process_group()
        plan.apply(decoder, loss=loss, optimizer=optimizer, which=fp32(2, 2), mesh=init_device_mesh("meta", shape, mesh_dim_names=names))

    names = ("pipeline", "data", "tensor")
    with mt.device("meta"):
        for shape, given in (((1, 4, 1), names), ((1, 2, 2), None), ((1, 2, 2), ("pipeline", "tensor", "data"))):
            with pytest.raises(ValueError, match="needs a mesh with the dimensions pipeline 1, data 2, tensor 2, got"):
                dist.sim.run(run, shape, given, world_size=4)
        dist.sim.run(run, (1, 2, 2), names, world_size=4)


@pytest.mark.slow
def test_a_model_is_applied_once_and_steps_have_their_samples(plan):
    def run():
        dist.init_process_group()
        model = decoder()
        step = plan.apply(model, loss=loss, optimizer=optimizer, which=fp32(1, 4))
        with pytest.raises(ValueError, match=r"own: a step has 4 samples, got a tensor of \[3, 8\]"):
            step.own(mt.empty(3, LENGTH, dtype=mt.int64))
        with pytest.raises(ValueError, match=r"step: a rank of this layout processes 4 samples, got \[2, 8\]"):
            step.step(mt.empty(2, LENGTH, dtype=mt.int64), mt.empty(2, LENGTH, dtype=mt.int64))
        with pytest.raises(ValueError, match="is distributed already"):
            plan.apply(model, loss=loss, optimizer=optimizer, which=fp32(1, 4))

    with mt.device("meta"):
        dist.sim.run(run, world_size=4)


@pytest.mark.slow
def test_plans_without_layouts_or_arguments():
    small = searched(max_memory=1000, pipeline=[1], tensor=[1])
    with pytest.raises(ValueError, match="apply: no layout fits; the nearest is"):
        applied(small)
    part = searched(micro_batches=[1], pipeline=[1], tensor=[1])
    part._arguments = None  # as where the search ran in another process
    with pytest.raises(ValueError, match="apply: the search ran elsewhere; pass the argument of the model on meta"):
        applied(part)
