"""Models whose embedding is also their output matrix: planned once where one rank has both, twice in a pipeline, and trained alike."""

import copy

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.distributed.tensor import Replicate, Shard, init_device_mesh
from metatensor.plan import Degrees
from metatensor.plan.arranging import Arranged
from metatensor.plan.tied import TiedParameters
from plan import test_applied_collectives as collectives
from plan import test_memory as memory
from plan.test_applying import BATCH, LENGTH, VOCABULARY, searched, trained, trained_alone
from plan.transformers_like import Decoder, Layer


class Tied(Decoder):
    def __init__(self, **options):
        super().__init__(**options)
        self.head.weight = self.embed.weight


def small():
    return Tied(width=32, depth=4, vocabulary=VOCABULARY)


def larger():
    with mt.device("meta"):
        return Tied()


def fp32(*args, **kwargs):
    return Degrees(*args, precision="fp32", **kwargs)


LAYOUTS = [
    fp32(4), fp32(4, 1, 1, 2), fp32(4, 1, 1, 3), fp32(2, 2), fp32(2, 2, 1, 3), fp32(1, 4, sequence=True),
    *(fp32(2, 1, 2, shard) for shard in range(4)), fp32(1, 1, 4), fp32(1, 2, 2), fp32(1, 2, 2, sequence=True),
    fp32(2, 1, 2, 1, schedule="InterleavedZeroBubble", virtual_stages=2),
]  # fmt: skip
ON_ONE_RANK = [fp32(2, 1, 2, shard, schedule="ZBVZeroBubble", virtual_stages=2) for shard in (0, 2)]


@pytest.fixture(scope="module")
def plans():
    """The plan for values, those for memory and for collectives, which have another loss."""
    with mt.device("meta"):
        values = searched(small(), precision="fp32", micro_batches=[1], recompute=["none"])
    return values, memory.searched(larger(), recompute=["none"]), collectives.searched(larger(), precision="fp32", micro_batches=[1])


@pytest.fixture(scope="module")
def base():
    mt.manual_seed(0)
    made = small().to("cpu")
    with mt.no_grad():
        made.embed.weight.mul_(0.1)
    return made


@pytest.fixture(scope="module")
def batch():
    mt.manual_seed(1)
    return [mt.randint(0, VOCABULARY, (BATCH, LENGTH), device="cpu") for _ in range(2)]


@pytest.fixture(scope="module")
def alone(base, batch):
    return trained_alone(base, batch, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [*LAYOUTS, *ON_ONE_RANK], ids=str)
def test_layouts_train_as_one_process(degrees, plans, base, batch, alone):
    assert trained(plans[0], degrees, base, batch) == pytest.approx(alone, rel=4e-6)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [*LAYOUTS, *ON_ONE_RANK], ids=str)
def test_memory(degrees, plans):
    memory.compare(plans[1], degrees, larger)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [*LAYOUTS, *ON_ONE_RANK], ids=str)
def test_collectives(degrees, plans):
    expected = plans[2].collectives(degrees)
    for place, calls in collectives.counted(plans[2], degrees, larger):
        assert calls == expected[place]


@pytest.mark.slow
def test_parameters_count_once_on_a_rank_and_twice_in_a_pipeline(plans):
    model, held = larger(), {one.degrees: [rank["parameter"] for rank in one.memory] for one in plans[1].layouts}
    whole, tied = sum(p.numel() for p in model.parameters()) * 4, model.embed.weight.numel() * 4
    assert held[fp32(4)] == [whole]
    assert sum(held[fp32(2, 1, 2)]) == whole + tied
    exchanged = plans[2].collectives(fp32(1, 1, 4))
    assert [calls["all_reduce", tied, 2] for calls in exchanged] == [1, 0, 0, 1]


@pytest.mark.parametrize(("vocabulary", "place"), [(4096, Shard(0)), (32, Shard(1)), (33, Shard(1))])
def test_a_tied_matrix_is_cut_as_suits_all_modules_that_have_it(vocabulary, place):
    """With many rows, partial sums of the embedding are smaller than those of the output. 33 rows cannot be cut."""
    mesh = init_device_mesh("meta", (4,))
    with mt.device("meta"):
        model = Tied(width=64, depth=1, vocabulary=vocabulary, layer=lambda width: Layer(width, 4, 4))
        found = Arranged(model, mesh, (mt.empty(2, 16, dtype=mt.int64),), {})
    mt.distributed.destroy_process_group()
    assert found.module.embed.weight is found.module.head.weight
    placed = found.module.head.weight.data.placements[0]
    assert placed in (place, Replicate()) and (placed == place or vocabulary < 64)
    assert (found.cut.get("embed.weight"), found.cut.get("head.weight")) == ((placed.dim,) * 2 if placed.is_shard() else (None, None))


class Crossed(Tied):
    """Two tied matrices, which are registered in another order after the blocks than before them."""

    def __init__(self, **options):
        super().__init__(**options)
        self.types = nn.Embedding(VOCABULARY, 32)
        self.other = nn.Linear(32, VOCABULARY, bias=False)
        self.head.weight, self.other.weight = self.types.weight, self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + 0.5 * self.types(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) + 2 * self.other(self.norm(x))


@pytest.mark.slow
@pytest.mark.parametrize("shard", [0, 3])
def test_gradients_of_several_tied_parameters_are_not_interchanged(shard, batch):
    def crossed():
        return Crossed(width=32, depth=2, vocabulary=VOCABULARY)

    with mt.device("meta"):
        plan = searched(crossed(), precision="fp32", micro_batches=[1], recompute=["none"])
    mt.manual_seed(0)
    base = crossed().to("cpu")
    with mt.no_grad():
        base.embed.weight.mul_(0.1)
        base.types.weight.mul_(0.1)
    assert trained(plan, fp32(2, 1, 2, shard), base, batch) == pytest.approx(trained_alone(base, batch, 0.2), rel=4e-6)


class Alike(Tied):
    """Two blocks have one matrix."""

    def __init__(self, **options):
        super().__init__(**options)
        self.layers[1].up.weight = self.layers[0].up.weight


@pytest.mark.slow
def test_blocks_with_one_parameter_are_not_divided_among_stages():
    with mt.device("meta"):
        model = Alike(width=32, depth=2, vocabulary=VOCABULARY)
    plan = searched(model, devices="2xH100", precision="fp32", micro_batches=[1])

    def run():
        mt.distributed.init_process_group()
        plan.apply(copy.deepcopy(model), loss=lambda y: y.mean(), optimizer=mt.optim.SGD, which=fp32(1, 1, 2), device="meta")

    with pytest.raises(NotImplementedError, match=r"layers.0.up.weight and layers.1.up.weight are one .* several blocks.*pipeline=\[1\]"):
        mt.distributed.sim.run(run, world_size=2)


def test_copies_on_a_rank_get_the_sum_of_their_gradients():
    with mt.device("cpu"):
        one, other = (nn.Parameter(mt.zeros(2)) for _ in range(2))
        one.grad = mt.tensor([1.0, 2.0])
    TiedParameters([[one], [other]], None).sum_gradients()  # the other has no gradient
    assert one.grad.tolist() == other.grad.tolist() == [1.0, 2.0]
    other.grad = other.grad + 1
    TiedParameters([[one], [other]], None).sum_gradients()
    assert one.grad.tolist() == other.grad.tolist() == [3.0, 5.0]
