"""Plans of operators: what they choose, what they report, and their errors."""

import re
from itertools import product

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor._core.capture import Value
from metatensor.analysis.collectives import collective_time
from metatensor.devices.topologies import topology
from metatensor.distributed.tensor import Replicate, Shard, init_device_mesh
from metatensor.plan.blocks import Given
from metatensor.plan.operators.capturing import parts_of, whole_part
from metatensor.plan.operators.choosing import Limits, choose
from metatensor.plan.operators.strategies import Costs, nbytes_of, placements_of_input
from metatensor.plan.worlds import simulated
from metatensor.program.structure import leaves
from plan.operators import models
from plan.transformers_like import decoder, tokens


def place(rows, **options):
    with mt.device("meta"):
        model, x = nn.Sequential(nn.Linear(8192, 32768), nn.GELU(), nn.Linear(32768, 8192)), mt.empty(rows, 8192)
    return mt.plan.place_operators(model, x, **{"devices": "8xH100", "precision": "bf16", **options})


def test_few_rows_cut_the_matrices_and_many_rows_the_batch():
    few, many = place(64), place(1 << 20)
    assert (few.placements["0.weight"], few.placements["2.weight"]) == ((Shard(0),), (Shard(1),))
    assert {kind for kind, _, _ in few.communication} == {"all_reduce"} and few.gap < 1e-3
    linear = next(one for one, call in zip(many._choice.parts[0].strategies, many._choice.parts[0].part.program.calls)
                  if call.op.name == "nn.functional.linear")  # fmt: skip
    assert linear.inputs[0] == (Shard(0),)


@pytest.mark.slow
def test_memory_is_a_limit():
    inputs, targets = [mt.randn(32, 64)], [mt.randint(0, 16, (32,))]
    free, tight = (models.placed(models.mlp, inputs, targets, (4,), memory) for memory in (10**9, 200_000))
    assert tight.memory <= 200_000 < free.memory and tight.seconds > free.seconds


@pytest.mark.slow
def test_text_and_json():
    with mt.device("meta"):
        plan = mt.plan.place_operators(decoder(), tokens(8), devices="4xH100, 4 per node", precision="bf16")
    assert "layers.0 and 3 more" in str(plan) and "activations between blocks: " in str(plan)
    found = plan.to_dict()
    assert found["mesh"] == [4] and found["step_time_s"] == plan.seconds and [one["count"] for one in found["parts"]] == [1, 4, 1]
    assert set(found["parameters"]) == {name for name, _ in decoder().named_parameters()}
    assert {one["op"] for one in found["parts"][1]["operators"]} >= {"nn.functional.linear", "_scaled_dot_product_flash_attention"}


def parts(batch):
    with mt.device("meta"):
        return parts_of(decoder(width=64, depth=3), Given((tokens(batch, 16),), {}), lambda y: y.float().mean(), (), True)


def test_parts_of_a_model():
    before, block, behind = parts(4)
    assert (before.name, block.paths, behind.name) == ("before", ["layers.0", "layers.1", "layers.2"], "behind")
    assert list(before.parameters) == ["embed.weight"] and list(behind.parameters) == ["norm.weight", "head.weight"]
    assert block.activation.shape == block.result.shape == block.activation_gradient.shape == (4, 16, 64)
    assert behind.result.shape == () and block.gradients.keys() == block.parameters.keys()
    assert not any(call.writes for part in (before, block, behind) for call in part.program.calls)
    assert any(block.backward) and block.backward == sorted(block.backward)


@pytest.mark.parametrize("memory", [10**9, 60_000])
def test_the_optimum_is_that_of_brute_force(memory):
    """All placements of a small program are tried, and the fastest within the memory is what the integer program finds."""
    where = topology("2xH100, 2 per node")
    with simulated(2), mt.device("meta"):
        model = nn.Sequential(nn.Linear(64, 128, bias=False), nn.Linear(128, 64, bias=False))
        part = whole_part(model, Given((mt.empty(32, 64),), {}), None, (), False)
        seconds = lambda kind, nbytes, ranks: collective_time(kind, nbytes, ranks, where).seconds
        costs = Costs(init_device_mesh("meta", (2,)), where, seconds)
        limits = Limits(memory, 4.0, 4.0, 0.0)
        found = choose([part], costs, limits, 20, 0.0)
        best = brute_force(part, costs, memory)
    assert found.gap == 0.0 and abs(found.seconds / best - 1) < 1e-9


def brute_force(part, costs, memory):
    """Return the least time, by trying all placements of parameters and all strategies of calls."""
    names = list(part.parameters)
    best = float("inf")
    for placed in product(*(list(placements_of_input(part.parameters[name].shape, (2,))) for name in names)):
        nbytes = sum(nbytes_of(part.parameters[name], costs.mesh, one) for name, one in zip(names, placed, strict=True))
        if nbytes > memory:
            continue
        known = {part.parameters[name].number: one for name, one in zip(names, placed, strict=True)}
        known |= {value.number: (Replicate(),) for value in part.known()}
        best = min(best, continued(part, costs, known, frozenset(), 0, 0.0))
    return best


def continued(part, costs, known, made, position, seconds):
    if position == len(part.program.calls):
        return seconds
    call = part.program.calls[position]
    every = {number: set(placements_of_input(value.shape, (2,))) | set(known.values()) for number, value in part.program.values.items()}
    strategies, values = costs.strategies(call, every)
    best = float("inf")
    for one in strategies:
        spent, changes, ahead = seconds + one.seconds, set(made), dict(known)
        for value, target in zip(values, one.inputs, strict=True):
            if (value.number, target) not in changes:
                changes.add((value.number, target))
                spent += costs.change(value, known[value.number], target)[0]
        for value, placed in zip(leaves(Value, call.result), one.outputs, strict=True):
            ahead[value.number] = placed
        best = min(best, continued(part, costs, ahead, frozenset(changes), position + 1, spent))
    return best


# Errors -------------------------------------------------------------------------------------------------------


def test_wrong_meshes_and_models():
    with pytest.raises(ValueError, match=r"a mesh of shape \[2, 3\] has 6 devices, but 8xH100 are 8"):
        place(64, mesh=(2, 3))
    with pytest.raises(ValueError, match="must be on meta"):
        mt.plan.place_operators(models.mlp(), mt.empty(4, 64), devices="2xH100, 2 per node")
    with pytest.raises(ValueError, match="expected a module, got function"):
        mt.plan.place_operators(models.mlp, mt.empty(4, 64, device="meta"), devices="2xH100, 2 per node")


@pytest.mark.slow
def test_nothing_fits():
    """The message says how much memory would be enough; it is."""
    with pytest.raises(ValueError, match="no placement was found that fits into 1.00 MB on each of 8 devices; (.+) would be enou") as error:
        place(64, max_memory=1_000_000)
    enough = float(re.search(r"; ([0-9.]+) MB would", str(error.value))[1]) * 1e6
    assert place(64, max_memory=int(enough * 1.005)).memory <= enough * 1.005
    with pytest.raises(ValueError, match="no placement was found"):
        place(64, max_memory=int(enough * 0.99))


def test_losses_that_are_no_numbers():
    with pytest.raises(ValueError, match=r"the loss must return a tensor without dimensions, got a tensor of shape \[64, 8192\]"):
        place(64, loss=lambda y: y)


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        return y[y.sum(1) > 0]


def test_sizes_that_depend_on_values():
    with mt.device("meta"):
        model, x = Chosen(), mt.empty(4, 8)
    with pytest.raises((ValueError, mt.DataDependentError), match="values"):
        mt.plan.place_operators(model, x, devices="2xH100, 2 per node")


def test_apply_checks_the_mesh_and_the_model():
    inputs, targets = [mt.randn(32, 64)], [mt.randint(0, 16, (32,))]
    plan = models.placed(models.mlp, inputs, targets, (2,), 10**9)

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("cpu", (2,))
        with pytest.raises(ValueError, match=r"the plan is for a mesh of shape \[2\], got \[2, 1\]"):
            plan.apply(models.mlp(), init_device_mesh("cpu", (2, 1)))
        with pytest.raises(ValueError, match="the model has no parameter '0.weight'"):
            plan.apply(nn.Identity(), mesh)
        with pytest.raises(ValueError, match=r"made for 0.weight as metatensor.float32\[256, 64\], got metatensor.float64\[256, 64\]"):
            plan.apply(models.mlp().double(), mesh)
        with pytest.raises(ValueError, match=r"expected metatensor.float32\[32, 64\]"):
            plan.apply(models.mlp(), mesh)(mt.randn(8, 64), *targets)
        with pytest.raises(ValueError, match="the planned model has no parameter '5.weight'"):
            plan.apply(models.mlp().append(nn.Linear(16, 16)), mesh)
        with pytest.raises(ValueError, match="4.bias does not require grad, unlike in the planned model"):
            other = models.mlp()
            other[4].bias.requires_grad_(False)
            plan.apply(other, mesh)
        applied = plan.apply(models.mlp(), mesh)
        with pytest.raises(ValueError, match="0.weight is distributed already"):
            plan.apply(applied, mesh)
        with pytest.raises(RuntimeError, match=r"placed for training; call train\(\)"):
            applied.eval()(*inputs, *targets)

    dist.sim.run(step, world_size=2)


def test_tensors_without_values():
    class Scaled(nn.Linear):
        def __init__(self):
            super().__init__(8, 8)
            self.factor = mt.full((8,), 2.0)

        def forward(self, x):
            return super().forward(x * self.factor)

    with mt.device("meta"):
        plan = mt.plan.place_operators(Scaled(), mt.empty(4, 8), devices="2xH100, 2 per node", precision="fp32")

    def step():
        dist.init_process_group()
        with pytest.raises(ValueError, match=r"Scaled uses a tensor of shape \[8\] that is neither a parameter nor a buffer.*register it"):
            plan.apply(Scaled(), init_device_mesh("cpu", (2,)))

    dist.sim.run(step, world_size=2)


@pytest.mark.parametrize("training", [True, False])
def test_modes_of_modules_are_restored(training):
    with mt.device("meta"):
        model, x = models.mlp(), mt.empty(8, 64)
    model[1].eval()
    before = [module.training for module in model.modules()]
    mt.plan.place_operators(model, x, devices="2xH100, 2 per node", training=training)
    assert [module.training for module in model.modules()] == before
