"""Tensor parallelism of a block, found by trying."""

import pytest

import metatensor as mt
from metatensor import distributed, nn
from metatensor.distributed.tensor import init_device_mesh
from metatensor.plan.arranging import Arranged
from metatensor.plan.measuring import measure_block
from plan.transformers_like import Layer

WIDTH, LENGTH = 256, 128
ACTIVATION = 2 * LENGTH * WIDTH * 2
MEGATRON = {**{f"attention.{name}.weight": 0 for name in "qkv"}, "attention.o.weight": 1, "up.weight": 0, "down.weight": 1}


@pytest.fixture
def mesh():
    found = init_device_mesh("meta", (4,))
    yield found
    distributed.destroy_process_group()


def block(make=lambda: Layer(WIDTH)):
    with mt.device("meta"):
        return make().to(mt.bfloat16), (mt.empty(2, LENGTH, WIDTH, dtype=mt.bfloat16),)


def cost(mesh, sequence=False, recompute="none"):
    module, args = block()
    with mt.analysis.policy("cuda"):
        return measure_block(module, args, {}, mesh, sequence, recompute)


def test_columns_then_rows(mesh):
    module, args = block()
    with mt.analysis.policy("cuda"):
        assert Arranged(module, mesh, args, {}).cut == MEGATRON
    assert all(type(p) is nn.Parameter for p in module.parameters())  # the module itself is as before


def test_collectives_are_those_of_megatron(mesh):
    found, _ = cost(mesh)
    assert found.forward.communication == found.backward.communication == [("all_reduce", ACTIVATION)] * 2


def test_collectives_with_a_cut_sequence(mesh):
    found, _ = cost(mesh, sequence=True)
    assert found.forward.communication == [("all_gather", ACTIVATION), ("reduce_scatter", ACTIVATION)] * 2
    assert found.backward.communication == [("all_gather", ACTIVATION), ("reduce_scatter", ACTIVATION)] * 2
    assert found.reduced == (2 * WIDTH, 2 * WIDTH)  # the gradients of the two norms
    assert found.input_bytes == ACTIVATION // 4


def test_a_rank_has_its_part(mesh):
    whole, (part, _) = cost(None)[0], cost(mesh)
    norms = 2 * WIDTH
    assert part.parameters - norms == (whole.parameters - norms) // 4
    for name in ("forward", "backward"):
        assert 4 * sum(call.flops for call in getattr(part, name).calls) == sum(call.flops for call in getattr(whole, name).calls)
    assert part.saved < whole.saved


def test_recomputation_saves_the_input_alone(mesh):
    plain, again = cost(None)[0], cost(None, recompute="full")[0]
    assert again.saved < plain.saved / 4 and again.saved >= ACTIVATION
    forward = sum(call.flops for call in plain.forward.calls)
    assert sum(call.flops for call in again.backward.calls) > sum(call.flops for call in plain.backward.calls) + 0.5 * forward
    assert len(cost(mesh, recompute="full")[0].backward.communication) > 2


def test_a_norm_over_cut_features_costs_communication(mesh):
    def between(norm):
        module, args = block(lambda: nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), norm, nn.Linear(2 * WIDTH, WIDTH)))
        return sum(nbytes for _, nbytes in measure_block(module, args, {}, mesh, False, "none")[0].forward.communication)

    with mt.device("meta"):
        assert between(nn.LayerNorm(2 * WIDTH)) > between(nn.GELU()) == ACTIVATION


def test_what_cannot_be_cut(mesh):
    module, args = block(lambda: nn.Sequential(nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)))
    assert set(Arranged(module, mesh, args, {}).cut.values()) <= {0, 1}
    with mt.device("meta"):
        odd, x = nn.Linear(5, 7), mt.empty(2, 3, 5)
    assert not Arranged(odd, mesh, (x,), {}).divides
    with pytest.raises(ValueError, match="cannot be cut into 4 equal parts"):
        Arranged(odd, mesh, (x,), {}, sequence=True)
