"""The kernel policy `eager` beside the memory events of PyTorch's CPU profiler."""

import gc

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker, policy

pytestmark = pytest.mark.torch

SLACK = 64
"""Bytes by which figures may differ: numbers that PyTorch puts into tensors, such as the divisor of a mean."""
PHASES = ("inference", "forward", "saved", "backward")


def of_torch(torch, make):
    """Return the peaks of inference, forward and backward, and what forward leaves, in bytes, by PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile, record_function

    make(torch, "cpu")(True).backward()  # loads libraries
    gc.collect()
    step = make(torch, "cpu")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        with record_function("phase: inference"), torch.no_grad():
            step(False)
        with record_function("phase: forward"):
            loss = step(True)
        with record_function("phase: backward"):
            loss.backward()
    events = run.profiler.kineto_results.events()
    phases = sorted((e.start_ns(), e.end_ns()) for e in events if e.name().startswith("phase: "))
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    now, figures, at = 0, [], 0
    for k, (_, end) in enumerate(phases):
        peak = now
        while at < len(changes) and changes[at][0] <= end:
            now += changes[at][1]
            peak = max(peak, now)
            at += 1
        figures.append(peak)
        if k == 1:
            figures.append(now)
    return dict(zip(PHASES, figures, strict=True))


def of_policy(make):
    """Return the same for metatensor on meta, under the policy."""
    with policy("eager"), MemoryTracker() as memory:
        step = make(mt, "meta")
        made, figures = memory.current, []
        memory.reset_peak()
        with mt.no_grad():
            step(False)
        figures.append(memory.peak - made)
        memory.reset_peak()
        loss = step(True)
        figures += [memory.peak - made, memory.current - made]
        memory.reset_peak()
        loss.backward()
        figures.append(memory.peak - made)
    return dict(zip(PHASES, figures, strict=True))


def of_tensor(function, *shape):
    def make(t, device):
        x = t.ones(*shape, device=device, requires_grad=True)
        return lambda train: function(t, x).sum()

    return make


def of_module(build, *shape):
    def make(t, device):
        module, x = build(t.nn).to(device), t.ones(*shape, device=device)

        def step(train):
            module.train(train)
            return module(x).mean()

        return step

    return make


def attention(**kwargs):
    def make(t, device):
        q, k, v = (t.ones(2, 4, 200, 64, device=device, requires_grad=True) for _ in range(3))
        mask = {"attn_mask": t.ones(200, 200, device=device, dtype=t.bool)} if kwargs.get("masked") else kwargs
        return lambda train: t.nn.functional.scaled_dot_product_attention(q, k, v, **mask).mean()

    return make


def of_indices(function):
    def make(t, device):
        w, i = t.ones(64, 100, device=device, requires_grad=True), t.zeros(32, dtype=t.int64, device=device)
        return lambda train: function(t, w, i).mean()

    return make


def block(nn):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(64), nn.LayerNorm(64)])
            self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
            self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.mlp(self.norms[1](x))

    return Block()


def convnet(nn):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


CASES = {
    "mul": of_tensor(lambda t, x: x * x, 60, 100),
    "exp": of_tensor(lambda t, x: x.exp(), 60, 100),
    "div": of_tensor(lambda t, x: x / (x + 2), 60, 100),
    "gelu": of_tensor(lambda t, x: t.nn.functional.gelu(x), 60, 100),
    "silu": of_tensor(lambda t, x: t.nn.functional.silu(x), 60, 100),
    "mish": of_tensor(lambda t, x: t.nn.functional.mish(x), 60, 100),
    "glu": of_tensor(lambda t, x: t.nn.functional.glu(x), 60, 100),
    "prelu": of_module(lambda nn: nn.PReLU(), 60, 100),
    "softmax": of_tensor(lambda t, x: x.softmax(-1), 60, 100),
    "log_softmax": of_tensor(lambda t, x: x.log_softmax(-1), 60, 100),
    "logsumexp": of_tensor(lambda t, x: x.logsumexp(0), 60, 100),
    "max": of_tensor(lambda t, x: x.max(0)[0], 60, 100),
    "var": of_tensor(lambda t, x: x.var(0), 60, 100),
    "cumsum": of_tensor(lambda t, x: x.cumsum(0), 60, 100),
    "matmul": of_tensor(lambda t, x: x @ x.T, 60, 100),
    "bmm": of_tensor(lambda t, x: x @ x.transpose(1, 2), 8, 40, 50),
    "cat": of_tensor(lambda t, x: t.cat([x, x], 0), 60, 100),
    "dropout": of_tensor(lambda t, x: t.nn.functional.dropout(x, 0.5, True), 60, 100),
    "mse_loss": of_tensor(lambda t, x: t.nn.functional.mse_loss(x, x.detach()), 60, 100),
    "smooth_l1_loss": of_tensor(lambda t, x: t.nn.functional.smooth_l1_loss(x, x.detach()), 60, 100),
    "max_pool2d": of_tensor(lambda t, x: t.nn.functional.max_pool2d(x, 2), 4, 8, 16, 16),
    "avg_pool2d": of_tensor(lambda t, x: t.nn.functional.avg_pool2d(x, 2), 4, 8, 16, 16),
    "several uses": of_tensor(lambda t, x: x.exp() + x.sin() + x.cos(), 60, 100),
    "attention": attention(),
    "attention, causal": attention(is_causal=True),
    "attention, masked": attention(masked=True),
    "attention with dropout": attention(dropout_p=0.1),
    "embedding": of_indices(lambda t, w, i: t.nn.functional.embedding(i, w)),
    "index": of_indices(lambda t, w, i: w[i]),
    "cross_entropy": of_indices(lambda t, w, i: t.nn.functional.cross_entropy(w[:32] * 1, i)),
    "linear": of_module(lambda nn: nn.Linear(100, 200), 8, 5, 100),
    "layer_norm": of_module(lambda nn: nn.LayerNorm(100), 60, 100),
    "rms_norm": of_module(lambda nn: nn.RMSNorm(100), 60, 100),
    "group_norm": of_module(lambda nn: nn.GroupNorm(2, 8), 4, 8, 16, 16),
    "batch_norm": of_module(lambda nn: nn.BatchNorm2d(8), 4, 8, 16, 16),
    "mlp": of_module(lambda nn: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10)), 16, 64),
    "transformer block": of_module(block, 2, 32, 64),
    "encoder layer": of_module(lambda nn: nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True), 2, 32, 64),
}


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    threads = found.get_num_threads()
    found.set_num_threads(1)
    yield found
    found.set_num_threads(threads)


@pytest.mark.parametrize("name", CASES)
def test_the_figures_are_those_of_the_profiler(torch, name):
    expected, found = of_torch(torch, CASES[name]), of_policy(CASES[name])
    wrong = {phase: (expected[phase], found[phase]) for phase in PHASES if abs(expected[phase] - found[phase]) > SLACK}
    assert not wrong, f"(profiler, policy): {wrong}"


def test_a_convolutional_network_is_near(torch):
    """oneDNN copies tensors into layouts of its own, which depend on the CPU and do not count."""
    expected, found = of_torch(torch, of_module(convnet, 2, 3, 16, 16)), of_policy(of_module(convnet, 2, 3, 16, 16))
    assert abs(expected["saved"] - found["saved"]) <= SLACK
    for phase in PHASES:
        assert 0.9 < found[phase] / expected[phase] < 1.1, phase
