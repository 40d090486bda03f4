"""What a rank of `fully_shard` holds, by category, against figures worked out by hand."""

import importlib
from pathlib import Path

import pytest

import metatensor as mt
from metatensor import analysis, nn
from metatensor import distributed as dist
from metatensor.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from metatensor.nn import functional as F

EXAMPLES = Path(__file__).parents[3] / "examples"
WIDTH, LAYERS, VOCABULARY, RANKS = 512, 4, 600, 8
BLOCK = 8 * WIDTH * WIDTH * 4  # bytes of the parameters of a block
ROOT = 2 * VOCABULARY * WIDTH * 4
SHARDS = (LAYERS * BLOCK + ROOT) // RANKS


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


@pytest.fixture
def mesh():
    yield dist.init_device_mesh("meta", (RANKS,))
    dist.destroy_process_group()


def model(mesh, **options):
    with mt.device("meta"):
        found = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, VOCABULARY, bias=False))
    for block in found[1:-1]:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(found, mesh=mesh, **options)


def tokens():
    return mt.zeros(1, 2, dtype=mt.int64, device="meta")


def step(found):
    found(tokens()).sum().backward()


@pytest.mark.parametrize("again", [False, True])
def test_peak_of_a_step(mesh, again):
    """The peak is where a block's gradients exist before they are copied.

    By then the next block is being gathered, and the gradients of the last one are being reduced, each in a flat tensor.
    """
    found = model(mesh)
    if again:
        step(found)
        found.zero_grad()
    profile = analysis.profile(step, found)
    peak = profile.at_peak()
    assert peak["parameter"] == SHARDS + ROOT + BLOCK
    assert peak["communication"] == 2 * BLOCK
    # The gradients of the head, which belongs to the root, and the shards of those of the two blocks that came before
    assert peak["gradient"] == BLOCK + ROOT // 2 + 2 * BLOCK // RANKS
    assert profile.resident["parameter"] == SHARDS
    alive = {record.category: 0 for record in profile.storages}
    for record in profile.storages:
        if record.died is None:
            alive[record.category] += record.nbytes
    assert {name: size for name, size in alive.items() if size} == {"gradient": SHARDS}


def test_peak_of_a_forward_pass(mesh):
    """The flat tensor of a block is kept until the next block has been gathered, so there are two."""
    found = model(mesh)
    with mt.no_grad():
        peak = analysis.profile(found, tokens()).at_peak()
        assert peak["parameter"] == SHARDS + ROOT + BLOCK and peak["communication"] == 2 * BLOCK
        found.set_reshard_after_forward(False)
        assert analysis.profile(found, tokens()).at_peak()["parameter"] == SHARDS + ROOT + LAYERS * BLOCK
        with analysis.MemoryTracker() as memory:
            for module in found.modules():
                if hasattr(module, "reshard"):
                    module.reshard()
        assert memory.current == 0
    assert sum(one.to_local().nbytes for one in found.parameters()) == SHARDS


def test_mixed_precision(mesh):
    """Gathered parameters and their gradients have half the size. Gradients of shards are float32."""
    found = model(mesh, mp_policy=MixedPrecisionPolicy(param_dtype=mt.bfloat16, reduce_dtype=mt.float32))
    profile = analysis.profile(step, found)
    peak = profile.at_peak()
    assert peak["parameter"] == SHARDS + (ROOT + BLOCK) // 2
    assert peak["communication"] in (BLOCK // 2 + BLOCK, BLOCK // 2 + 2 * BLOCK)  # the reduction of a block begins before another ends
    assert sum(one.grad.to_local().nbytes for one in found.parameters()) == SHARDS


def test_storages_are_freed(mesh):
    found = model(mesh)
    with analysis.MemoryTracker() as memory:
        for _ in range(3):
            step(found)
            found.zero_grad()
            assert memory.current == 0


@pytest.mark.slow
def test_llama_3_8b_on_8_ranks(mesh, monkeypatch):
    """Parameters, gradients and states of AdamW of one of 8 ranks, in float32."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with mt.device("meta"):
        found = importlib.import_module("llama3").llama3_8b()
    for layer in found.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(found, mesh=mesh)
    optimizer = mt.optim.AdamW(found.parameters())

    def train():
        found(tokens()).sum().backward()
        optimizer.step()

    width, hidden, vocabulary, keys = 4096, 14336, 128256, 1024
    attention = 2 * width * width + 2 * keys * width  # queries and output, keys and values
    layer = attention + 3 * hidden * width + 2 * width
    root = 2 * vocabulary * width + width  # embedding, head, last norm
    parameters = 32 * layer + root
    assert parameters == 8_030_261_248
    shards = 4 * parameters // 8
    with dist.CommunicationLog() as log:
        profile = analysis.profile(train)
    assert profile.resident["parameter"] == shards == 4_015_130_624
    alive = {"gradient": 0, "optimizer state": 0}
    for record in profile.storages:
        if record.died is None and record.nbytes:
            alive[record.category] += record.nbytes
    counters = 4 * (32 * 9 + 3)  # a number of steps for each parameter
    assert alive == {"gradient": shards, "optimizer state": 2 * shards + counters}
    assert profile.at_peak()["parameter"] == shards + 4 * (root + layer)
    # The root is gathered once, the layers twice. All gradients are reduced once.
    assert log.bytes_by_kind() == {"all_gather": 4 * (root + 2 * 32 * layer), "reduce_scatter": 4 * parameters}
    assert [one.kind for one in log].count("all_gather") == 1 + 2 * 32 and len(log) == 1 + 3 * 32 + 1
