"""The formulas of test_hand_worked for sharded parameters and pipelines: FSDP-8, FSDP 4 x TP 2, PP 4 (1F1B)."""

from collections import Counter
from importlib.util import find_spec

import pytest

import metatensor as mt
from llama_steps import (
    CONFIG,
    EXAMPLE,
    MATRICES,
    NORMS,
    TENSOR_PARALLEL,
    TENSORS,
    L,
    T,
    V,
    activations,
    after,
    d,
    model_of,
    saved,
    tokens,
    train,
)
from metatensor import distributed as dist
from metatensor import nn
from metatensor.analysis import profile_ranks
from metatensor.distributed import fsdp, pipelining
from metatensor.distributed.tensor.parallel import parallelize_module

pytestmark = pytest.mark.slow

if find_spec("metatensor.distributed.fsdp._fsdp_module") is None or not hasattr(pipelining, "__path__"):
    pytest.skip("needs fully_shard and pipelines", allow_module_level=True)


def fully_sharded(dp, tp):
    dist.init_process_group()
    mesh = dist.init_device_mesh("meta", (dp, tp), mesh_dim_names=("dp", "tp"))
    model = model_of(CONFIG)
    if tp > 1:
        parallelize_module(model, mesh["tp"], TENSOR_PARALLEL)
    for block in model.model.layers:
        fsdp.fully_shard(block, mesh=mesh["dp"])
    fsdp.fully_shard(model, mesh=mesh["dp"])
    return model, mt.optim.AdamW(model.parameters()), tokens(1, T)


def communicated(one):
    counts, sizes = Counter(), Counter()
    for each in one.operations:
        counts[each.entry.kind, len(each.entry.group)] += 1
        sizes[each.entry.kind, len(each.entry.group)] += each.entry.bytes
    return counts, sizes


def test_fully_sharded_over_8():
    found = profile_ranks(train, 8, 1, setup=fully_sharded, topology="8xH100")
    assert [one.ranks for one in found.classes] == [list(range(8))]
    one, weights = found.classes[0], 2 * (MATRICES + NORMS)
    assert after(one)["parameter"] == after(one)["gradient"] == weights // 8
    assert after(one)["optimizer state"] == 2 * weights // 8 + 4 * TENSORS
    assert saved(one)["saved for backward"] == activations(1) + 2 * T * d
    counts, sizes = communicated(one)
    root = 2 * (2 * V * d + d)  # embedding, last norm and head stay gathered after the forward pass
    assert counts == {("all_gather", 8): L + 1 + L, ("reduce_scatter", 8): L + 1}
    assert sizes == {("all_gather", 8): weights + weights - root, ("reduce_scatter", 8): weights}


def test_fully_sharded_over_4_with_tensor_parallelism_over_2():
    found = profile_ranks(train, 4, 2, setup=fully_sharded, topology="8xH100")
    assert [one.ranks for one in found.classes] == [list(range(8))]
    one, weights = found.classes[0], 2 * (MATRICES // 8 + NORMS // 4)
    assert after(one)["parameter"] == after(one)["gradient"] == weights
    assert after(one)["optimizer state"] == 2 * weights + 4 * TENSORS
    assert saved(one)["saved for backward"] == activations(2)
    counts, sizes = communicated(one)
    gathered, root = 2 * (MATRICES // 2 + NORMS), 2 * (2 * V * d // 2 + d)
    assert counts == {("all_gather", 4): 2 * L + 1, ("reduce_scatter", 4): L + 1, ("all_reduce", 2): 7 * L + 1, ("all_gather", 2): 2}
    assert sizes["all_gather", 4] == 2 * gathered - root and sizes["reduce_scatter", 4] == gathered
    assert sizes["all_reduce", 2] == (7 * L + 1) * 2 * T * d and sizes["all_gather", 2] == 2 * T * d + 2 * T * V


class Stage(nn.Module):
    """A quarter of the model."""

    def __init__(self, rank):
        super().__init__()
        self.model = EXAMPLE.Decoder(EXAMPLE.Config(layers=L // 4))
        self.lm_head = nn.Linear(d, V, bias=False) if rank == 3 else None
        if rank:
            self.model.embed_tokens = None
        if rank < 3:
            self.model.norm = None

    def forward(self, x):
        if self.model.embed_tokens is not None:
            x = self.model.embed_tokens(x)
        cos, sin = EXAMPLE.rotations(self.model.config, x.shape[1], x)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return x if self.lm_head is None else self.lm_head(self.model.norm(x))


MICRO = 8


def pipeline():
    dist.init_process_group()
    rank = dist.get_rank()
    with mt.device("meta"):
        stage = Stage(rank).to(mt.bfloat16)
        between = mt.empty(1, T, d, dtype=mt.bfloat16)
        last = mt.empty(1, T, V, dtype=mt.bfloat16)
    made = pipelining.PipelineStage(
        stage, rank, 4, mt.device("meta"), (between if rank else tokens(1, T),), (between if rank < 3 else last,)
    )
    schedule = pipelining.Schedule1F1B(made, MICRO, lambda out, x: nn.functional.cross_entropy(out.flatten(0, 1), x.flatten()))
    return schedule, mt.optim.AdamW(stage.parameters()), tokens(MICRO, T), rank


def train_stage(schedule, optimizer, x, rank):
    schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == 3 else {}))
    optimizer.step()


def test_a_pipeline_of_4():
    found = profile_ranks(train_stage, setup=pipeline, topology="4xH100")
    assert [one.ranks for one in found.classes] == [[0], [1], [2], [3]]
    layer = (MATRICES - 2 * V * d + 2 * L * d) // L
    logits, norm, rotations = 2 * T * V + 2, 2 * T * d + 4 * T, 4 * T * CONFIG.head_width
    of_layer = (activations(1) - logits - norm - rotations) // L
    for rank, one in enumerate(found.classes):
        weights = 2 * (layer * L // 4 + V * d * (rank in (0, 3)) + d * (rank == 3))
        assert after(one)["parameter"] == after(one)["gradient"] == weights
        assert after(one)["optimizer state"] == 2 * weights + 4 * (9 * L // 4 + (rank == 0) + 2 * (rank == 3))
        # 1F1B: a stage holds as many micro-batches as there are stages after it, and one more.
        held = min(4 - rank, MICRO)
        # The first layer's input is saved: the embeddings, or what was received, which the schedule holds as well. The last layer's
        # result is sent and freed.
        stream = 2 * T * d
        here = rotations + of_layer * L // 4 - stream + (stream if rank == 0 else 0) + (stream + norm + logits if rank == 3 else 0)
        # What has arrived, inputs and gradients, is freed in the backward pass, as is the gradient of the loss. So it may count as saved.
        arrived, rest = divmod(saved(one)["saved for backward"] - held * here, stream)
        assert rest == (2 if rank == 3 else 0) and 0 <= arrived <= held
        assert saved(one)["temporary"] >= (held * stream if rank else 0)
        counts, sizes = Counter(), Counter()
        for each in one.operations:
            counts[each.entry.kind, each.entry.detail] += 1
            sizes[each.entry.kind] += each.entry.bytes
        neighbours = [other for other in (rank - 1, rank + 1) if 0 <= other < 4]
        assert counts == {(kind, f"{word} {other}"): MICRO for other in neighbours for kind, word in (("send", "to"), ("recv", "from"))}
        assert sizes["send"] == sizes["recv"] == len(neighbours) * MICRO * 2 * T * d
    # The bubble is that of 1F1B or greater, because stages are uneven.
    slowest = max(sum(one.phases()[phase] for phase in ("forward", "backward")) for one in found.classes)
    update = max(one.phases()["optimizer"] for one in found.classes)
    assert found.seconds == pytest.approx(slowest * (MICRO + 3) / MICRO + update, rel=0.1)
