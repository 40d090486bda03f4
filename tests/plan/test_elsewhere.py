"""Models whose blocks get more than one tensor, and models with several arguments, in layouts on simulated ranks."""

import copy

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from metatensor.plan.elsewhere import Elsewhere, check_passed
from plan.test_applying import BATCH, LENGTH, VOCABULARY, loss, optimizer
from plan.transformers_like import Layer

STEPS = 2


class Rotated(Layer):
    """A block that gets tables of positions and a mask."""

    def __init__(self, width):
        super().__init__(width, 4, 2)

    def forward(self, x, positions, mask=None, scale=1.0):
        cos, sin = positions
        y = self.norm1(x)
        x = x + self.attention(y * cos + y.flip(-1) * sin) * scale
        if mask is not None:
            x = x * mask
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Angles(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("frequencies", mt.arange(width, dtype=mt.float32) / width)

    def forward(self, x, index):
        angles = index[..., None] * self.frequencies
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Model(nn.Module):
    """A decoder that makes tables of positions from its arguments."""

    def __init__(self, width=32, depth=4, vocabulary=VOCABULARY):
        super().__init__()
        self.embed, self.start = nn.Embedding(vocabulary, width), nn.Parameter(mt.zeros(width))
        self.angles = Angles(width)
        self.layers = nn.ModuleList([Rotated(width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, attended=None, *, scale=1.0, use_cache=True):
        if use_cache:
            raise RuntimeError("a cache is not for training")
        x = self.embed(tokens) + self.start
        positions = self.angles(x, mt.arange(tokens.shape[1], device=x.device))
        mask = None if attended is None else attended[..., None].to(x.dtype)
        for layer in self.layers:
            x = layer(x, positions, mask=mask, scale=scale)
        return self.head(self.norm(x))


def fp32(*args, **kwargs):
    return Degrees(*args, precision="fp32", **kwargs)


LAYOUTS = [
    fp32(4), fp32(2, 2), fp32(2, 1, 2, 1), fp32(2, 1, 2, 3), fp32(1, 1, 4), fp32(1, 2, 2), fp32(1, 2, 2, sequence=True),
    fp32(1, 1, 4, recompute="full"), fp32(2, 1, 2, schedule="ZBVZeroBubble", virtual_stages=2),
]  # fmt: skip


def searched(*inputs, model=Model, **options):
    with mt.device("meta"):
        return mt.plan.search(model(), *inputs, devices="4xH100", global_batch=BATCH, precision="fp32", micro_batches=[1],
                              virtual_stages=[1, 2], keep=None, **options)  # fmt: skip


def tokens(n=1):
    return mt.empty(n, LENGTH, dtype=mt.int64, device="meta")


@pytest.fixture(scope="module")
def plan():
    return searched(tokens(), mt.empty(1, LENGTH, dtype=mt.int64, device="meta"), scale=0.5)


@pytest.fixture(scope="module")
def case():
    """The model, a batch, and the losses of one process."""
    mt.manual_seed(0)
    base = Model().to("cpu")
    mt.manual_seed(1)
    with mt.device("cpu"):
        inputs, targets = (mt.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
        attended = mt.randint(0, 2, (BATCH, LENGTH))
    model = copy.deepcopy(base)
    own, losses = optimizer(list(model.parameters())), []
    for _ in range(STEPS):
        value = loss(model(inputs, attended, scale=0.5, use_cache=False), targets)
        value.backward()
        own.step()
        own.zero_grad()
        losses.append(value.item())
    assert losses[1] < losses[0] - 0.2
    return base, {"tokens": inputs, "attended": attended}, targets, losses


def trained(plan, degrees, base, inputs, targets):
    def train():
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(base), loss=loss, optimizer=optimizer, which=degrees)
        return [step.mean_loss(step.step(step.own(inputs), step.own(targets))).item() for _ in range(STEPS)]

    found = dist.sim.run(train, world_size=4)
    assert found == [found[0]] * 4
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("degrees", LAYOUTS, ids=str)
def test_layouts_train_as_one_process(degrees, plan, case):
    base, inputs, targets, losses = case
    assert plan.remarks[0] == "the model is called with use_cache=False"
    assert trained(plan, degrees, base, inputs, targets) == pytest.approx(losses, rel=4e-6)


@pytest.mark.slow
def test_positional_and_keyword_arguments(plan, case):
    base, inputs, targets, losses = case
    assert trained(plan, fp32(1, 1, 4), base, tuple(inputs.values()), targets) == pytest.approx(losses, rel=4e-6)
    named = searched(tokens=tokens(), attended=mt.empty(1, LENGTH, dtype=mt.int64, device="meta"), scale=0.5, pipeline=[4])
    assert trained(named, fp32(1, 1, 4), base, inputs, targets) == pytest.approx(losses, rel=4e-6)


@pytest.mark.slow
def test_arguments_of_another_number_or_size(plan, case):
    base, inputs, targets, _ = case
    with pytest.raises(ValueError, match="step: the model was planned with 2 tensors, got 1"):
        trained(plan, fp32(4), base, inputs["tokens"], targets)
    with pytest.raises(ValueError, match=r"own: a step has 4 samples, got a tensor of \[3, 8\]"):
        trained(plan, fp32(4), base, {"tokens": inputs["tokens"][:3]}, targets)


@pytest.mark.slow
def test_an_argument_without_a_batch(case):
    class Shared(Model):
        def forward(self, tokens, attended):
            return super().forward(tokens, attended, use_cache=False)

    base, inputs, targets, _ = case
    plan = searched(tokens(2), mt.empty(1, LENGTH, dtype=mt.int64, device="meta"), model=Shared, pipeline=[2], tensor=[1])
    mt.manual_seed(0)
    base = Shared().to("cpu")
    found = trained(plan, fp32(2, 1, 2), base, (inputs["tokens"], inputs["attended"][:1]), targets)
    assert found[0] == pytest.approx(loss(base(inputs["tokens"], inputs["attended"][:1]), targets).item(), rel=4e-6)


@pytest.mark.slow
def test_the_first_argument_has_no_batch(case):
    class Leading(Model):
        def forward(self, attended, tokens):
            return super().forward(tokens, attended, use_cache=False)

    _, inputs, targets, _ = case
    plan = searched(mt.empty(1, LENGTH, dtype=mt.int64, device="meta"), tokens(2), model=Leading, pipeline=[2], tensor=[1])
    mt.manual_seed(0)
    base = Leading().to("cpu")
    found = trained(plan, fp32(2, 1, 2), base, (inputs["attended"][:1], inputs["tokens"]), targets)
    assert found[0] == pytest.approx(loss(base(inputs["attended"][:1], inputs["tokens"]), targets).item(), rel=4e-6)


@pytest.mark.slow
def test_flags_by_position(case):
    class Flagged(Model):
        def forward(self, tokens, cached):
            return super().forward(tokens, use_cache=cached)

    _, inputs, targets, _ = case
    plan = searched(tokens(), False, model=Flagged, pipeline=[1], tensor=[1])
    base = Flagged().to("cpu")
    assert len(trained(plan, fp32(4), base, inputs["tokens"], targets)) == STEPS
    with pytest.raises(ValueError, match="step: the search had positional arguments that are no tensors"):
        trained(plan, fp32(4), base, {"tokens": inputs["tokens"]}, targets)


class Biased(Model):
    """A table depends on a parameter."""

    def forward(self, tokens, attended=None):
        x = self.embed(tokens)
        cos, sin = self.angles(x, mt.arange(tokens.shape[1], device=x.device))
        for layer in self.layers:
            x = layer(x, (cos + self.start, sin))
        return self.head(self.norm(x))


class Looking(Model):
    """A mask depends on what the blocks return, without a gradient."""

    def forward(self, tokens, attended=None):
        x = self.embed(tokens)
        positions = self.angles(x, mt.arange(tokens.shape[1], device=x.device))
        for layer in self.layers:
            x = layer(x, positions, mask=(x.detach().amax(-1, keepdim=True) > 0).to(x.dtype))
        return self.head(self.norm(x))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Biased, Looking])
def test_tensors_that_depend_on_other_stages(kind):
    plan = searched(tokens(), model=kind, pipeline=[1, 2], tensor=[1])

    def apply(which):
        dist.init_process_group()
        return plan.apply(kind(), loss=loss, optimizer=optimizer, which=which, device="meta").degrees

    with mt.device("meta"):
        with pytest.raises(NotImplementedError, match=r"layers.0 gets a further tensor .*search with pipeline=\[1\]; the fastest layout"):
            dist.sim.run(apply, fp32(2, 1, 2), world_size=4)
        assert dist.sim.run(apply, fp32(4), world_size=4) == [fp32(4)] * 4


def test_sizes_of_what_others_compute_are_no_values():
    class Sized(Model):
        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x, (mt.ones_like(x), x.new_zeros(x.shape)))
            return x

    with mt.device("meta"):
        model = Sized()
    check_passed(model, [f"layers.{i}" for i in range(4)], (tokens(),), {})


def test_a_module_elsewhere_takes_no_memory():
    with mt.device("meta"):
        module = nn.Linear(4, 1000)
    there = copy.deepcopy(Elsewhere(module))
    found = there(mt.ones(3, 4, device="cpu"))
    assert found.shape == (3, 1000) and found.device.type == "cpu" and not found.any() and not found.requires_grad
    assert found.untyped_storage().nbytes() == 4
    assert there.in_features == 4 and not list(there.parameters())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        there.nothing
