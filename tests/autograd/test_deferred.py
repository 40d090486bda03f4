"""Backward passes in two parts: the gradients of inputs first, those of parameters later. Together they are the whole."""

import gc
import weakref

import pytest

import metatensor as mt
from metatensor import nn
from metatensor._core.engine import gradient_edge, run_backward, run_deferred
from metatensor.nn import functional as F
from metatensor.utils.checkpoint import checkpoint

pytest.importorskip("metatensor_cpu")


class Twice(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, grad * x


class Tied(nn.Module):
    """Uses a weight in two layers, transposed in between, and a parameter that leads to the output alone."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(mt.randn(4, 4)), nn.Parameter(mt.randn(4))

    def forward(self, x):
        w = self.weight.t().contiguous() * 2
        return F.linear(F.linear(x, w).tanh(), w) + F.linear(x, self.weight) + self.bias.exp()


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.a(x)
        y[:, 1:3] = self.b(x)[:, :2]
        y.mul_(2)
        return y.relu_()


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        a = self.parts[0](x)
        b, c = (a.softmax(-1) @ a.t()).chunk(2)
        return mt.cat([self.parts[1](x) + b.sum(), self.parts[2](a) * c.mean()]), self.parts[1](a)


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mt.randn(4))

    def forward(self, x):
        return Twice.apply(x.sin(), self.weight).cos()


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(checkpoint(self.inner, x, use_reentrant=False))


MODELS = {
    "linear": lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4)),
    "tied": Tied, "in place": InPlace, "branches": Branches, "custom": Custom, "recomputed": Recomputed,
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 3, padding=1), nn.BatchNorm1d(3), nn.Flatten()),
    "recurrence": lambda: _First(nn.LSTM(4, 4)),
    "without parameters": lambda: nn.Sequential(nn.Tanh(), nn.Softmax(-1)),
}  # fmt: skip


class _First(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


def run(name, split, needs_input=True):
    mt.manual_seed(3)
    model, x = MODELS[name](), mt.randn(6, 4, requires_grad=needs_input)
    result = model(x)
    outputs = result if isinstance(result, tuple) else (result,)
    roots, grads = [gradient_edge(one) for one in outputs], [mt.arange(float(one.numel())).reshape(one.shape).sin() for one in outputs]
    if split:
        deferred = []
        found = run_backward(roots, grads, False, False, [gradient_edge(x)] if needs_input else [], deferred=deferred)
        assert all(one.grad is None for one in model.parameters()) and x.grad is None
        run_deferred(deferred)
        assert deferred == []
        of_input = found[0] if needs_input else None
    else:
        run_backward(roots, grads, False, False)
        of_input = x.grad
    return of_input, [one.grad for one in model.parameters()]


@pytest.mark.parametrize("needs_input", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_both_parts_are_the_whole(name, needs_input):
    if name == "without parameters" and not needs_input:
        pytest.skip("nothing requires grad")
    of_input, of_parameters = run(name, False, needs_input)
    found_input, found = run(name, True, needs_input)
    assert (of_input is None) == (found_input is None) == (not needs_input)
    assert of_input is None or mt.allclose(found_input, of_input)
    assert len(found) == len(of_parameters) and all(mt.allclose(a, b, atol=1e-6) for a, b in zip(found, of_parameters))


def test_random_graphs():
    for seed in range(40):
        results = []
        for split in (False, True):
            generator = mt.Generator().manual_seed(seed)

            def pick(n, generator=generator):
                return int(mt.randint(n, (), generator=generator).item())

            weights = [mt.randn(3, 3, generator=generator).requires_grad_() for _ in range(3)]
            x = mt.randn(3, 3, generator=generator).requires_grad_()
            values = [x, *weights]
            for _ in range(12):
                a, b = values[pick(len(values))], values[pick(len(values))]
                kinds = [lambda a, b: a @ b, lambda a, b: a + b, lambda a, b: (a * b).tanh(), lambda a, b: a.t().sin(),
                         lambda a, b: mt.cat([a, b])[1:4]]  # fmt: skip
                values.append(kinds[pick(5)](a, b))
            total = sum(one.sum() for one in values[-4:])
            edge = [gradient_edge(total)]
            if split:
                deferred = []
                found = run_backward(edge, [mt.ones(())], False, False, [gradient_edge(x)], deferred=deferred)[0]
                run_deferred(deferred)
            else:
                run_backward(edge, [mt.ones(())], False, False)
                found = x.grad
            results.append([found, *(one.grad for one in weights)])
        for a, b in zip(*results):
            assert (a is None) == (b is None) and (a is None or mt.allclose(a, b, rtol=1e-4, atol=1e-4)), seed


def test_hooks_run_once():
    calls = []
    x, linear = mt.ones(2, 3, requires_grad=True), nn.Linear(3, 3)
    y = linear(x)
    y.register_hook(lambda grad: calls.append("output") or grad * 2)
    y.retain_grad()
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append("node"))
    linear.weight.register_hook(lambda grad: calls.append("weight"))
    linear.weight.register_post_accumulate_grad_hook(lambda parameter: calls.append("accumulated"))
    z = y.exp()
    deferred = []
    found = run_backward([gradient_edge(z)], [mt.ones(2, 3)], False, False, [gradient_edge(x)], deferred=deferred)
    assert calls == ["output", "node"] and mt.allclose(y.grad, 2 * z)
    run_deferred(deferred)
    assert calls == ["output", "node", "weight", "accumulated"]
    assert mt.allclose(found[0], (2 * z) @ linear.weight) and mt.allclose(linear.weight.grad, (2 * z).t() @ x)


def test_what_only_the_inputs_need_is_freed():
    x, linear = mt.ones(2, 3, requires_grad=True), nn.Linear(3, 3, bias=False)
    middle = linear(x.exp())
    result = middle.sin()
    of_sine, of_linear = weakref.ref(middle), result.grad_fn.next_functions[0][0]
    edges, inputs = [gradient_edge(result)], [gradient_edge(x)]
    del middle, result
    deferred = []
    with pytest.raises(RuntimeError, match="freed|second time"):
        run_backward(edges, [mt.ones(2, 3)], False, False, inputs, deferred=deferred)
        assert of_linear._saved_input is not None  # the input of the layer, for the gradient of its weight
        gc.collect()
        assert of_sine() is None
        run_backward(edges, [mt.ones(2, 3)], False, False)
    run_deferred(deferred)
    assert linear.weight.grad.shape == (3, 3)


def test_memory_on_meta():
    """After the first part, what the layers save remains, and what activations save is gone."""
    with mt.device("meta"):
        model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64, bias=False), nn.GELU())))
        x = mt.empty(16, 64, requires_grad=True)
    size = 16 * 64 * 4
    with mt.analysis.MemoryTracker() as tracker:
        y = model(x)
        edges = [gradient_edge(y)]
        del y
        assert tracker.current == 7 * size  # inputs of 4 layers (one is x) and of 4 activations
        deferred = []
        found = run_backward(edges, [mt.empty(16, 64, device="meta")], False, False, [gradient_edge(x)], deferred=deferred)
        del edges
        # Inputs of 3 layers, gradients of the outputs of 4, and that of the input.
        assert tracker.current == (3 + 4 + 1) * size
        run_deferred(deferred)
        assert tracker.current == size + 4 * 64 * 64 * 4
    assert found[0].shape == x.shape
