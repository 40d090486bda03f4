"""What an inference server can do with a model."""

import json

import pytest

import metatensor as mt
from metatensor import nn


class Attention(nn.Module):
    """Embedding, one attention with keys and values of `groups` heads of 8, and a head."""

    def __init__(self, groups=2, width=64):
        super().__init__()
        self.embed, self.head, self.groups = nn.Embedding(1000, width), nn.Linear(width, 1000), groups
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, 8 * groups), nn.Linear(width, 8 * groups)

    def forward(self, tokens, keys=None, values=None):
        x = self.embed(tokens)
        q, k, v = (t.unflatten(-1, (-1, 8)).transpose(1, 2) for t in (self.q(x), self.k(x), self.v(x)))
        keys, values = (new if old is None else mt.cat([old, new], 2) for old, new in ((keys, k), (values, v)))
        y = nn.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        return {"logits": self.head(y.transpose(1, 2).flatten(2)), "keys": keys, "values": values}


def model(**options):
    with mt.device("meta"):
        return Attention(**options).to(mt.float16)


def test_figures():
    net = model()
    plan = mt.plan.serve(net, devices="t4", context=1000, max_memory=50_000_000)
    assert plan.state_per_token == 2 * 2 * 8 * 2 and plan.state_per_sequence == 1000 * 64 and plan.shared_state == 0
    assert plan.weight_bytes == sum(p.numel() for p in net.parameters()) * 2
    assert [str(group) for group in plan.state] == ["2 x float16[batch, 2, length, 8]"]
    room = plan.memory - plan.weight_bytes - plan.working_bytes
    assert plan.users == room // 64_000 and plan.longest_context == room // 64
    assert plan.decode[-1].batch == plan.users and plan.fits
    assert json.loads(json.dumps(plan.to_dict()))["users"] == plan.users
    assert "2 x float16[batch, 2, length, 8]" in str(plan)


def test_times_grow_with_the_batch_and_the_context():
    short, long = (mt.plan.serve(model(), devices="t4", context=n, batches=[1, 64, 256]) for n in (1000, 32_000))
    times = [row.seconds for row in long.decode]
    assert times[0] < times[1] < times[2] and times[2] > short.decode[2].seconds
    assert long.decode[2].tokens_per_second == 256 / times[2]
    assert long.prefill_seconds > short.prefill_seconds


def test_the_dtype_and_the_blocks_of_the_cache():
    half = mt.plan.serve(model(), devices="t4", context=1000, cache_dtype=mt.float8_e4m3fn, block=64, batches=[1])
    assert half.state_per_token == 32 and half.state_per_sequence == 1024 * 32
    assert [str(group) for group in half.state] == ["2 x float8_e4m3fn[batch, 2, length, 8]"]


def test_stored_weights(tmp_path):
    net, path = model(), tmp_path / "small.safetensors"
    mt.save({"q.qweight": mt.zeros(64, 8, dtype=mt.int32), "q.scales": mt.zeros(4, 64), "embed.weight": mt.zeros(1000, 64)}, path)
    plan = mt.plan.serve(net, devices="t4", context=100, weights=path, batches=[1])
    assert plan.weight_bytes == 64 * 8 * 4 + 4 * 64 * 4 + 1000 * 64 * 4
    assert any("int32" in remark for remark in plan.remarks)


@pytest.mark.slow
def test_what_does_not_fit_is_explained():
    plan = mt.plan.serve(model(), devices="t4", context=100_000, max_memory=1_000_000, chunk=128)
    assert not plan.fits and "one sequence at this context needs" in plan.limit_reason and "does not fit" in str(plan)
    plan = mt.plan.serve(model(), devices="t4", context=100, max_memory=1000)
    assert "the weights take" in plan.limit_reason and plan.longest_context == 0


def test_a_state_that_does_not_grow():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 8)

        def forward(self, tokens, memory=None):
            x = self.embed(tokens)
            memory = x.sum(1) if memory is None else memory + x.sum(1)
            return {"logits": x + memory[:, None], "memory": memory}

    plan = mt.plan.serve(Recurrent().to("meta"), devices="t4", context=500)
    assert plan.state_per_token == 0 and plan.longest_context is None and plan.state_per_sequence == 32


def test_slow_code_is_extended(monkeypatch):
    monkeypatch.setattr("metatensor.plan.states.PATIENCE", 0.0)
    plan = mt.plan.serve(model(), devices="t4", context=1000, batches=[1])
    assert plan.state_per_sequence == 1000 * 64 and "extended linearly" in plan.remarks[0]


def test_slow_code_is_extended_from_prompts_without_a_past(monkeypatch):
    class Masked(Attention):
        def forward(self, tokens, keys=None, values=None):
            if keys is not None:
                mt.ones(tokens.shape[1], tokens.shape[1] + keys.shape[2], dtype=mt.int64, device=keys.device).sum()
            return super().forward(tokens, keys, values)

    with mt.device("meta"):
        net = Masked().to(mt.float16)
    exact = mt.plan.serve(net, devices="t4", context=1024, batches=[])
    monkeypatch.setattr("metatensor.plan.states.PATIENCE", 0.0)
    extended = mt.plan.serve(net, devices="t4", context=1024, batches=[])
    assert "extended linearly" in extended.remarks[0]
    assert extended.working_bytes == pytest.approx(exact.working_bytes, rel=1e-3)


@pytest.mark.parametrize(("options", "message"), [
    ({"context": 0}, "context must be at least 1"),
    ({"context": 8, "block": 0}, "block must be at least 1"),
    ({"context": 8, "utilization": 1.5}, "utilization"),
    ({"context": 8, "devices": "t4,h100"}, "the devices differ"),
    ({"context": 8, "devices": "cpu:4GB"}, "one kind of device"),
])  # fmt: skip
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        mt.plan.serve(model(), **{"devices": "t4", **options})


def test_a_model_without_a_state():
    with pytest.raises(RuntimeError, match="keeps nothing between two steps"):
        mt.plan.serve(nn.Embedding(10, 8, device="meta"), devices="t4", context=8)
