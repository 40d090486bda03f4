"""Kernel policies: choosing one, what their kernels save and make, and that results look the same under each."""

import contextlib
import math
import threading

import pytest

import metatensor as mt
from metatensor._core import accounting
from metatensor._core.op import registry
from metatensor.analysis import Kernel, KernelPolicy, MemoryTracker, estimate, estimate_training, policies, policy, profile, register_policy
from metatensor.rules import policies as module

F = mt.nn.functional


@pytest.fixture(autouse=True)
def strictly():
    """Let the exceptions of functions that make parts be raised."""
    was = accounting.set_strict(True)
    yield
    accounting.set_strict(was)


def meta(*sizes, **kwargs):
    return mt.empty(*sizes, device="meta", **kwargs)


def costs(name, call, *inputs):
    """Return the peak and what is left after a call, and the peak of its backward pass, in bytes."""
    with policy(name), MemoryTracker() as memory:
        result = call(*inputs)
        peak, saved = memory.peak, memory.current
        memory.reset_peak()
        if result.requires_grad:
            result.sum().backward()
        return peak, saved, memory.peak


# Choosing ---------------------------------------------------------------------------------------------------


def test_policies_nest_and_end_with_their_block():
    assert module.chosen() is None
    with policy("cuda") as outer:
        assert module.chosen() is outer
        with pytest.raises(KeyError), policy("meta"):
            assert module.chosen() is module.META
            raise KeyError
        assert module.chosen() is outer
    assert module.chosen() is None


def test_a_policy_holds_in_its_thread_only():
    found = []
    with policy("cuda"):
        thread = threading.Thread(target=lambda: found.append((module.chosen(), q_saved())))
        thread.start()
        thread.join()
        inside = q_saved()
    assert found[0][0] is None and found[0][1] == q_saved() > inside


def q_saved():
    q = meta(1, 2, 64, 16, requires_grad=True)
    with MemoryTracker() as memory:
        y = F.scaled_dot_product_attention(q, q, q)
        assert y.shape == q.shape
        return memory.current


def test_unknown_names_and_taken_names():
    with pytest.raises(ValueError, match="no kernel policy 'tpu'; there are cuda, eager, meta"), policy("tpu"):
        pass
    with pytest.raises(ValueError, match="already is"):
        register_policy(KernelPolicy("cuda", "Another one."))


def test_own_policies_build_on_others(monkeypatch):
    monkeypatch.setattr(module, "_registered", dict(module._registered))
    kernels = {"nn.functional.softmin": Kernel()}
    own = register_policy(KernelPolicy("own", "Softmin in one kernel.", kernels, base=module.policy_named("cuda")))
    assert "own" in policies() and module.policy_named("own") is own
    x = meta(64)
    assert costs("meta", lambda: F.softmin(x, 0))[0] == 512
    assert costs("own", lambda: F.softmin(x, 0))[0] == 256
    assert own.recorded_as("nn.functional.rms_norm") is module.policy_named("cuda").recorded_as("nn.functional.rms_norm")


def test_a_device_plugin_ships_its_policy():
    own = KernelPolicy("fast", "Softmin in one kernel.", {"nn.functional.softmin": Kernel()})

    class Fast(mt.devices.DeviceBackend):
        type = "fastpolicy"
        policy = own

        def allocate(self, nbytes, index):
            return bytearray(nbytes)

    mt.plugins.register_backend(Fast())
    assert module.policy_named("fastpolicy") is own
    with pytest.raises(ValueError, match="no kernel policy 'cpu'"):
        module.policy_named("cpu")


# Kernels ------------------------------------------------------------------------------------------------------


def qkv(dtype=mt.float32, heads=4, length=64, width=16):
    return [meta(2, heads, length, width, dtype=dtype, requires_grad=True) for _ in range(3)]


def test_flash_attention_of_cuda():
    size = 2 * 2 * 4 * 64 * 16
    rows = 2 * 4 * 64 * 4  # the logarithms of the sums are float32
    peak, saved, backward = costs("cuda", F.scaled_dot_product_attention, *qkv(mt.bfloat16))
    assert peak == saved == size + rows + 16 + 8
    # result, sum, its gradient; the three gradients; the sums of rows and the float32 gradient of the query, over 128 rows
    workspace = 2 * 4 * 128 * 4 + 2 * 128 * 4 * 32 * 4
    assert backward == saved + 2 + 2 + 3 * size + workspace


def test_efficient_attention_of_cuda():
    size = 4 * 2 * 4 * 40 * 16
    peak, saved, _ = costs("cuda", F.scaled_dot_product_attention, *qkv(length=40))
    assert peak == saved == size + 4 * 2 * 4 * 64 + 2 * 8  # rows in multiples of 32
    with mt.no_grad():
        assert costs("cuda", F.scaled_dot_product_attention, *qkv(length=40))[0] == size + 2 * 8
    mask = meta(40, 40, dtype=mt.bool)
    with_mask = costs("cuda", lambda *given: F.scaled_dot_product_attention(*given, attn_mask=mask), *qkv(length=40))[1]
    assert with_mask == saved + 4 * 40 * 48  # the mask as numbers, its rows padded to 16 elements


@pytest.mark.parametrize("call", [
    lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double()),
    lambda q, k, v: F.scaled_dot_product_attention(q[0], k[0], v[0]),
])  # fmt: skip
def test_attention_without_a_kernel_is_computed_in_steps(call):
    assert costs("cuda", call, *qkv())[:2] == costs("meta", call, *qkv())[:2]


def test_attention_of_eager():
    size = 4 * 2 * 4 * 64 * 16
    rows = 4 * 2 * 4 * 64
    peak, saved, _ = costs("eager", F.scaled_dot_product_attention, *qkv())
    assert saved == size + rows
    assert peak == saved + 4 * (32 * 64 + 2 * 32 + 32 * 16)  # the buffer of one thread
    dropped = lambda *given: F.scaled_dot_product_attention(*given, dropout_p=0.5)
    assert costs("eager", dropped, *qkv())[:2] == costs("meta", dropped, *qkv())[:2]


def test_rms_norm_of_cuda():
    x, w = meta(6, 10, dtype=mt.bfloat16, requires_grad=True), meta(10, dtype=mt.bfloat16, requires_grad=True)
    assert costs("cuda", lambda: F.rms_norm(x, (10,), w))[:2] == (120 + 24, 120 + 24)
    assert costs("meta", lambda: F.rms_norm(x, (10,), w))[1] > 120 + 24


def test_dropout_of_cuda_saves_a_byte_an_element():
    x = meta(6, 10, requires_grad=True)
    assert costs("cuda", lambda: F.dropout(x, 0.5, True))[:2] == (240 + 60, 240 + 60)
    assert costs("meta", lambda: F.dropout(x, 0.5, True))[1] == 240 + 240
    with mt.no_grad():
        assert costs("cuda", lambda: F.dropout(x, 0.5, True))[:2] == (240 + 60, 240)


def test_gradients_are_summed_in_place_except_under_meta():
    made = {}
    for name in policies():
        x = meta(1000, requires_grad=True)
        with policy(name), MemoryTracker() as memory:
            (x.exp() + x.sin() + x.cos()).sum().backward()
        made[name] = memory.count
    assert made["meta"] == made["eager"] + 2 == made["cuda"] + 2  # two sums of gradients


def test_every_entry_is_an_operator_and_has_a_source():
    for name in ("eager", "cuda"):
        found = module.policy_named(name)
        for op, kernel in found.kernels.items():
            assert op in registry or op.rpartition(".")[0] in registry, op
            assert kernel.about and kernel.source, op
        assert found.about.endswith(".") and all(space.source for space in found.workspaces)


# Results -------------------------------------------------------------------------------------------------------


class Block(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = mt.nn.ModuleList([mt.nn.LayerNorm(32), mt.nn.RMSNorm(32)])
        self.qkv, self.out = mt.nn.Linear(32, 96), mt.nn.Linear(32, 32)
        self.drop = mt.nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.norms[1](x + self.drop(self.out(y.transpose(1, 2).flatten(2))))


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16])
@pytest.mark.parametrize("name", ["meta", "eager", "cuda"])
def test_results_look_the_same_under_each_policy(name, dtype):
    with mt.device("meta"):
        model, x = Block().to(dtype), mt.empty(2, 16, 32, dtype=dtype)
    seen = []
    for counting in (False, True):
        with policy(name), MemoryTracker() if counting else contextlib.nullcontext():
            y = model(x)
            model.zero_grad()
            y.sum().backward()
            with mt.no_grad():
                z = model.eval()(x)
            model.train()
        seen.append([(t.shape, t.dtype, t.stride()) for t in (y, z, *(p.grad for p in model.parameters()))])
    assert seen[0] == seen[1]  # looking changes nothing
    y = model(x)
    model.zero_grad()
    y.sum().backward()
    plain = [(t.shape, t.dtype, t.stride()) for t in (y, y, *(p.grad for p in model.parameters()))]
    assert [s[:2] for s in seen[0]] == [s[:2] for s in plain]


@pytest.mark.parametrize(("name", "dtype", "error"), [("eager", mt.float32, 1e-4), ("cuda", mt.float32, 1e-4), ("cuda", mt.bfloat16, 0.1)])
def test_values_are_the_same_under_each_policy(name, dtype, error):
    """On devices with values, the fused operators are computed in steps."""
    mt.manual_seed(0)
    found = []
    data = [mt.randn(2, 4, 8, 16, device="cpu").to(dtype) for _ in range(3)]
    for chosen in ("meta", name):
        q, k, v = (t.clone().requires_grad_() for t in data)
        with policy(chosen):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            (F.rms_norm(y, (16,)) * mt.arange(16.0, device="cpu").to(dtype)).sum().backward()
        found.append([y, q.grad, k.grad, v.grad])
    for a, b in zip(*found, strict=True):
        assert mt.allclose(a, b, atol=error, rtol=error)


def test_looking_changes_nothing():
    """Random numbers and nodes are the same with a tracker and without."""
    found = []
    for counting in (False, True):
        mt.manual_seed(0)
        with policy("cuda"), MemoryTracker() if counting else contextlib.nullcontext():
            x = meta(6, 10, requires_grad=True)
            y = F.dropout(x, 0.5, True)
            with mt.no_grad():
                F.dropout(x, 0.5, True)
        found.append((y.grad_fn.name(), mt.rand(3, device="cpu").tolist()))
    assert found[0] == found[1]


# Estimates ------------------------------------------------------------------------------------------------------


def test_estimates_say_their_policy():
    with mt.device("meta"):
        model, x = Block(), mt.empty(2, 16, 32)
    plain = estimate_training(model, x)
    fused = estimate_training(model, x, device="h100-80gb")
    assert (plain.policy, fused.policy) == ("meta", "cuda")
    assert estimate_training(model, x, device="epyc-9654").policy == "eager"
    assert estimate_training(model, x, device="h100-80gb", policy="meta").saved_bytes == plain.saved_bytes > fused.saved_bytes
    assert "kernels: cuda." in str(fused) and "unknown" in str(fused)
    assert fused.to_dict()["policy"] == "cuda" and all(space["nbytes"] is None for space in fused.to_dict()["workspaces"])
    assert fused.forward_flops == plain.forward_flops
    with policy("cuda"):
        assert estimate(model, x).policy == "cuda" and estimate_training(model, x).saved_bytes == fused.saved_bytes
        assert profile(lambda: model(x)).peak > 0


def test_the_backward_pass_of_fused_attention_counts():
    q = [meta(2, 4, 64, 16, requires_grad=True) for _ in range(3)]

    class Attention(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = mt.nn.Parameter(meta(2, 4, 64, 16))

        def forward(self, k, v):
            return F.scaled_dot_product_attention(self.weight, k, v)

    product = 2 * math.prod((2, 4, 64, 64, 16))
    report = estimate_training(Attention(), q[1], q[2], policy="cuda")
    assert (report.forward_flops, report.backward_flops) == (2 * product, 5 * product)
