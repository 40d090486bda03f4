"""Models that the devices of a node serve together."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.devices.topologies import topology
from metatensor.distributed import CommunicationLog
from metatensor.nn import functional as F
from metatensor.plan.decoding import Decoder
from metatensor.plan.dividing import DividedDecoder
from metatensor.plan.worlds import simulated

WIDTH, HEADS, GROUPS, SIZE = 256, 8, 4, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, n * SIZE, bias=False) for n in (HEADS, GROUPS, GROUPS))
        self.o = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def forward(self, x, past):
        q, k, v = (f(x).view(*x.shape[:2], -1, SIZE).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past is not None:
            k, v = mt.cat([past[0], k], 2), mt.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2)), (k, v)


class Experts(nn.Module):
    def __init__(self, number=8):
        super().__init__()
        self.number = number
        self.up, self.down = nn.Parameter(mt.empty(number, WIDTH, 64)), nn.Parameter(mt.empty(number, 64, WIDTH))

    def forward(self, x):
        rows = x.flatten(0, 1).expand(self.number, -1, -1)
        return F.relu(rows @ self.up).bmm(self.down).sum(0).view_as(x)


class Layer(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.norm, self.attention = nn.RMSNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.experts = Experts() if experts else None

    def forward(self, x, past):
        y, past = self.attention(self.norm(x), past)
        x = x + y
        x = x + self.down(F.gelu(self.up(x)))
        return (x if self.experts is None else x + self.experts(x)), past


class Model(nn.Module):
    def __init__(self, depth=3, experts=False):
        super().__init__()
        self.embed = nn.Embedding(1024, WIDTH)
        self.layers = nn.ModuleList(Layer(experts) for _ in range(depth))
        self.head = nn.Linear(WIDTH, 1024, bias=False)

    def forward(self, tokens, past=None):
        x, kept = self.embed(tokens), []
        for i, layer in enumerate(self.layers):
            x, state = layer(x, None if past is None else past[i])
            kept.append(state)
        return {"logits": self.head(x), "past": kept}


def model(**options):
    with mt.device("meta"):
        return Model(**options).to(mt.bfloat16)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_state_and_weights_are_divided(ranks):
    one = mt.plan.serve(model(), devices="h100", context=64, batches=[8], max_memory=40_000_000)
    plan = mt.plan.serve(model(), devices="8xh100", tensor=ranks, context=64, batches=[8], max_memory=40_000_000)
    assert (plan.tensor, plan.replicas) == (ranks, 8 // ranks)
    assert plan.state_per_sequence * ranks == one.state_per_sequence and plan.state_per_token * ranks == one.state_per_token
    assert one.weight_bytes / ranks <= plan.weight_bytes < 1.3 * one.weight_bytes / ranks
    assert str(plan.state[0]) == f"6 x bfloat16[batch, {GROUPS // ranks}, length, 32]"
    assert plan.longest_context > 1.9 * one.longest_context and plan.prefill_seconds > 0
    assert f"{ranks} devices serve a copy of the model together" in str(plan) and plan.to_dict()["tensor"] == ranks


@pytest.mark.slow
def test_a_step_has_the_collectives_of_the_run():
    with simulated(4):
        decoder = DividedDecoder(model(), None, None, 4, topology("4xH100"))
        with decoder._inference():
            state = decoder._call(2, 15, None)
            with CommunicationLog() as log:
                decoder._call(2, 1, state)
        kinds = [entry.kind for entry in log if entry.bytes and entry.kind != "broadcast"]
        assert kinds.count("all_reduce") == 6 and len(kinds) <= 8     # two for each layer; the embedding, the logits
        assert decoder.waiting(2, 15, 1) > 0 and Decoder(model()).waiting(2, 15, 1) == 0
        whole = sum(call.flops for call in Decoder(model()).calls(2, 15, 1))
        assert sum(call.flops for call in decoder.calls(2, 15, 1)) == pytest.approx(whole / 4, rel=0.3)


@pytest.mark.slow
def test_experts_are_divided():
    one = mt.plan.serve(model(experts=True), devices="h100", context=64, batches=[1])
    plan = mt.plan.serve(model(experts=True), devices="4xh100", tensor=4, context=64, batches=[1])
    assert plan.weight_bytes < 0.35 * one.weight_bytes
    assert any("experts are divided among the devices: 3 modules" in remark for remark in plan.remarks)


@pytest.mark.slow
def test_stored_weights_are_divided(tmp_path):
    made = model()
    from metatensor.plan.weights import StoredWeights

    with simulated(4):
        decoder = DividedDecoder(made, None, None, 4, topology("4xH100"))
        stored = StoredWeights(made)
        stored.stored = {path: nbytes // 4 for path, nbytes in stored.own.items()}
        stored.nbytes //= 4
        found = decoder.divided(stored, made)
        assert found.own["layers.0.up"] * 4 == stored.own["layers.0.up"] and found.stored["layers.0.up"] * 4 == stored.stored["layers.0.up"]
        assert found.nbytes < stored.nbytes / 2


@pytest.mark.parametrize(("devices", "tensor", "message"), [
    ("8xh100", 3, "8 devices cannot be divided into groups of 3; possible sizes are 1, 2, 4, 8, or write 9xh100-sxm-80gb"),
    ("h100", 2, "1 device cannot be divided into groups of 2"), ("8xh100", 0, "tensor must be at least 1"),
    ("16xh100", 16, "a node has 8 devices"),
])  # fmt: skip
def test_groups_that_do_not_add_up(devices, tensor, message):
    with pytest.raises(ValueError, match=message):
        mt.plan.serve(model(), devices=devices, tensor=tensor, context=64)


def test_a_model_that_cannot_be_divided():
    class Narrow(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(7, 3)

        def forward(self, tokens, past=None):
            x = self.embed(tokens)
            return {"past": x if past is None else mt.cat([past, x], 1)}

    with mt.device("meta"):
        narrow = Narrow()
    with pytest.raises(ValueError, match="no matrix of Narrow can be divided among 2 devices"):
        mt.plan.serve(narrow, devices="2xh100", tensor=2, context=64)
