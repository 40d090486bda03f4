"""Models whose operators are placed compute what they compute on one device, with the collectives of the plan."""

import re

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from plan.operators import models, unusual

TOKENS = lambda most: [mt.randint(0, most, (8, 16))]
ROWS = lambda: [mt.randn(32, 64)], lambda: [mt.randint(0, 16, (32,))]
IMAGES = lambda: [mt.randn(8, 3, 16, 16)], lambda: [mt.randint(0, 16, (8,))]
CASES = {
    # memory that is too little for whole parameters, or for the whole batch
    "mlp": (models.mlp, *ROWS, (4,), 200_000),
    "mlp, two dimensions": (models.mlp, *ROWS, (2, 2), 200_000),
    "dropout": (models.dropout, *ROWS, (4,), 200_000),
    "frozen": (models.frozen, *ROWS, (4,), 60_000),
    "convolutions": (models.convolutional, *IMAGES, (4,), 500_000),
    "mask": (models.Language, lambda: TOKENS(100), lambda: TOKENS(100), (4,), 1_500_000),
    "tied": (lambda: models.Language(tied=True), lambda: TOKENS(100), lambda: TOKENS(100), (2, 2), 1_500_000),
    "blocks with other settings": (models.Scaled, lambda: TOKENS(64), lambda: TOKENS(64), (2,), 200_000),
    "experts": (models.Experts, lambda: TOKENS(64), lambda: TOKENS(64), (2,), 1_200_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_training(case):
    build, inputs, targets, mesh, memory = CASES[case]
    mt.manual_seed(3)
    inputs, targets = inputs(), targets()
    # What is computed does not depend on how near the placements are to the best, whose proof would take long.
    plan = models.placed(build, inputs, targets, mesh, memory, gap=0.2 if build is models.Scaled else 0.05)
    assert plan.memory <= memory
    models.compare(plan, build, inputs, targets)


@pytest.mark.slow
@pytest.mark.parametrize("build", [*unusual.PARTS, *unusual.WHOLE])
def test_unusual_models(build):
    mt.manual_seed(3)
    inputs, targets = [mt.randn(8, 16)], [mt.randint(0, 10, (8,))]
    plan = models.placed(build, inputs, targets, (2,), 10**9, time_limit=5)
    assert len(plan.remarks) == (build in unusual.WHOLE)
    if plan.remarks:
        assert re.match(f"placed as a whole: .*{unusual.WHOLE[build]}", plan.remarks[0])
    models.compare(plan, build, inputs, targets)


def test_inputs_may_be_distributed():
    inputs, targets = [mt.randn(32, 64)], [mt.randint(0, 16, (32,))]
    plan = models.placed(models.mlp, inputs, targets, (4,), 200_000)

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (4,))
        model = plan.apply(models.seeded(models.mlp), mesh)
        given = [distribute_tensor(t, mesh, [Shard(0)], src_data_rank=None) for t in (*inputs, *targets)]
        return model(*given).item(), model(*inputs, *targets).item()

    for a, b in dist.sim.run(step, world_size=4):
        assert abs(a / b - 1) < 1e-6


def test_inference():
    inputs = [mt.randn(4, 64)]
    with mt.device("meta"):
        model = models.mlp()
    plan = mt.plan.place_operators(model, mt.empty(4, 64, device="meta"), devices="2xH100, 2 per node", training=False, precision="fp32",
                                   max_memory=90_000)  # fmt: skip
    expected = models.seeded(models.mlp).eval()(*inputs)

    def step():
        dist.init_process_group()
        y = plan.apply(models.seeded(models.mlp).eval(), init_device_mesh("cpu", (2,)))(*inputs)
        return y.full_tensor() if isinstance(y, DTensor) else y

    for y in dist.sim.run(step, world_size=2):
        assert mt.allclose(y, expected, atol=1e-5)


@pytest.mark.slow
def test_gradients_of_scaled_losses():
    """The gradient that the loss gets, as from a GradScaler, scales all others."""
    inputs, targets = [mt.randn(32, 64)], [mt.randint(0, 16, (32,))]
    plan = models.placed(models.mlp, inputs, targets, (2,), 500_000)

    def step(scale):
        dist.init_process_group()
        model = plan.apply(models.seeded(models.mlp), init_device_mesh("cpu", (2,)))
        (model(*inputs, *targets) * scale).backward()
        return model[0].weight.grad.full_tensor()

    one, eight = (dist.sim.run(lambda s=scale: step(s), world_size=2)[0] for scale in (1.0, 8.0))
    assert mt.allclose(8 * one, eight, rtol=1e-5)


def test_accumulation_of_gradients_with_other_placements():
    """Adding a gradient communicates where it is placed otherwise, which other simulated ranks must not wait for."""

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (4,))
        p = mt.nn.Parameter(distribute_tensor(mt.ones(8, 8), mesh, [Replicate()]))
        x = distribute_tensor(mt.ones(4, 8), mesh, [Shard(0)])
        for _ in range(2):
            (x @ p).sum().backward()
        return p.grad.full_tensor()

    for grad in dist.sim.run(step, world_size=4, timeout=60):
        assert mt.equal(grad, mt.full((8, 8), 8.0))
