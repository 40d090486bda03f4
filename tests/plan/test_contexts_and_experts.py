"""Context and expert parallelism in plans: costs are those that a parallel program has on simulated ranks."""

from collections import Counter

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, init_device_mesh
from metatensor.distributed.tensor.experimental import context_parallel
from metatensor.distributed.tensor.parallel import ExpertParallel, parallelize_module
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from metatensor.plan.contexts import cut
from metatensor.plan.costing import Coster
from plan.test_search import search
from plan.transformers_like import Decoder, Layer, decoder, tokens

WIDTH, EXPERTS = 256, 8


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(mt.empty(EXPERTS, 2 * WIDTH, WIDTH)) for _ in range(2))
        self.w2 = nn.Parameter(mt.empty(EXPERTS, WIDTH, 2 * WIDTH))

    def forward(self, x, counts):
        w1, w2, w3 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2, self.w3))
        ends = counts.cumsum(0, dtype=mt.int32)
        return F.grouped_mm(F.silu(F.grouped_mm(x, w1.mT, offs=ends)) * F.grouped_mm(x, w3.mT, offs=ends), w2.mT, offs=ends)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, EXPERTS, bias=False), Experts()

    def forward(self, x):
        rows = x.flatten(0, 1)
        scores, chosen = self.gate(rows).softmax(-1).topk(1)
        counts = (chosen == mt.arange(EXPERTS, device=x.device)).sum(0)
        order = chosen.flatten().argsort(stable=True)
        return x + mt.zeros_like(rows).index_add(0, order, self.experts(rows.index_select(0, order), counts)).view_as(x)


class Sparse(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.mixture = Mixture()

    def forward(self, x):
        return self.mixture(x)


@pytest.fixture
def costers(monkeypatch):
    found = []
    monkeypatch.setattr(Coster, "__init__", lambda self, *args, _make=Coster.__init__: (found.append(self), _make(self, *args))[1])
    return found


ONE = {"tensor": [1], "pipeline": [1], "micro_batches": [2], "recompute": ["none"], "shard": [0], "sequence": [False], "precision": "bf16"}


def pairs(log, degree):
    return Counter((entry.kind, entry.bytes) for entry in log if entry.bytes and len(entry.group) == degree)


def test_context_parallelism(costers):
    plan = search(**{**ONE, "context": [4]})
    cost = costers[0].block(0, Degrees(data=2, context=4, micro_batch=2, precision="bf16")).cost
    assert plan.best.degrees.context == 4 and plan.best.tensor_communication > 0

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("meta", (4,))
        layer = decoder().layers[0].to(mt.bfloat16)
        x = mt.empty(2, tokens(1).shape[1], WIDTH, dtype=mt.bfloat16, device="meta")
        with mt.analysis.policy("cuda"), context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]), CommunicationLog() as log:
            y = layer(x.detach().requires_grad_())
            y.backward(mt.empty_like(y))
        return pairs(log, 4)

    made = dist.sim.run(step, world_size=4)[0]
    assert made and made == Counter((kind, nbytes) for kind, nbytes, _ in cost.forward.groups + cost.backward.groups)


def test_expert_parallelism(costers):
    with mt.device("meta"):
        model = Decoder(layer=Sparse)
    plan = search(model, **{**ONE, "expert": [4]})
    cost = costers[0].block(0, Degrees(data=8, expert=4, micro_batch=2, precision="bf16")).cost
    assert cost.expert_parameters == 3 * 2 * WIDTH * WIDTH * EXPERTS // 4 and cost.parameters == WIDTH * EXPERTS
    assert plan.best.degrees.expert == 4

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("meta", (4,))
        with mt.device("meta"):
            layer = parallelize_module(Mixture().to(mt.bfloat16), mesh, {"experts": ExpertParallel()})
        x = mt.empty(2, tokens(1).shape[1], WIDTH, dtype=mt.bfloat16, device="meta", requires_grad=True)
        with mt.analysis.policy("cuda"), CommunicationLog() as log:
            y = layer(x)
            y.backward(mt.empty_like(y))
        return pairs(log, 4)

    made = dist.sim.run(step, world_size=4)[0]
    assert made and made == Counter((kind, nbytes) for kind, nbytes, _ in cost.forward.groups + cost.backward.groups)
    less = search(model, **{**ONE, "expert": [8]}).best
    assert less.memory[0]["parameter"] < plan.best.memory[0]["parameter"]
    three = search(model, **{**ONE, "expert": [3], "devices": "6xH100", "global_batch": 48})
    assert "cannot be divided among 3 ranks" in three.rejected[0].limit


@pytest.mark.parametrize("sequence", [False, True])
def test_experts_with_tensor_parallelism(costers, sequence):
    with mt.device("meta"):
        model = Decoder(layer=Sparse)
    plan = search(model, **{**ONE, "tensor": [2], "expert": [1, 2], "sequence": [sequence]})
    assert {one.degrees.expert for one in plan.layouts} == {1, 2}
    for expert in (1, 2):
        cost = costers[0].block(0, Degrees(4, 2, expert=expert, micro_batch=2, sequence=sequence)).cost
        assert cost.expert_parameters == 3 * 2 * WIDTH * WIDTH * EXPERTS // (2 * expert)
        assert any(kind == "all_to_all" for kind, _, _ in cost.forward.groups) == (expert > 1)


class Mixed(Layer):
    def forward(self, x):
        return super().forward(x).cumsum(1)


def test_a_block_that_mixes_positions_is_not_divided_along_the_sequence():
    with mt.device("meta"):
        model = Decoder(layer=Mixed)
    plan = search(model, **{**ONE, "context": [2]})
    assert not plan.fits and "something besides attention mixes positions" in plan.rejected[0].limit


def test_offload():
    plain = search(**{**ONE, "precision": "bf16-master"}).best
    limit = plain.peak - 1
    found = search(**{**ONE, "precision": "bf16-master"}, offload=["none", "optimizer", "activations"], max_memory=limit)
    by = {one.degrees.offload: one for one in found.layouts}
    assert "none" not in by and by["optimizer"].offload > 0 and by["optimizer"].peak < plain.peak
    assert by["optimizer"].host > 0 and by["optimizer"].seconds > plain.seconds
    with pytest.raises(ValueError, match="offload 'disk' is unknown"):
        search(offload=["disk"])


def test_precisions():
    plan = search(**{**ONE, "precision": ["fp32", "bf16"]})
    assert {one.degrees.precision for one in plan.layouts} == {"fp32", "bf16"} and plan.best.degrees.precision == "bf16"
    assert all(a.mfu < 1 for a in plan.layouts)


def test_tokens_are_cut_along_the_sequence_even_if_there_are_as_many_samples():
    with mt.device("meta"):
        tokens, table, activations = mt.empty(8, 8, dtype=mt.int64), mt.empty(8, 8), mt.empty(8, 8, 8)
        found = [tuple(t.shape) for t in cut((tokens, table, activations), 8, 2)]
    assert found == [(8, 4), (4, 8), (8, 4, 8)]
