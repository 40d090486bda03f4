"""Activation checkpointing: the gradients of plain runs bit for bit, less memory, and errors."""

import gc
import weakref
from functools import partial

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.analysis import MemoryTracker
from metatensor.overloads import packet
from metatensor.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

MM = packet("aten", "mm").default
ADDMM = packet("aten", "addmm").default
EACH_WAY = [{"use_reentrant": True}, {"use_reentrant": False}, {"use_reentrant": False, "early_stop": False}]


class Block(nn.Module):
    """A part of a transformer, with dropout."""

    def __init__(self, width=16, **kwargs):
        super().__init__()
        self.norm = nn.LayerNorm(width, **kwargs)
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.2, **kwargs)
        self.up = nn.Linear(width, 4 * width, **kwargs)
        self.down = nn.Linear(4 * width, width, **kwargs)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.dropout(self.down(nn.functional.gelu(self.up(x))))


def blocks(n=3, **kwargs):
    mt.manual_seed(0)
    return nn.ModuleList([Block(**kwargs) for _ in range(n)])


def train(layers, call, steps=2):
    """Return all gradients of some steps with dropout, and the loss."""
    mt.manual_seed(1)
    x = mt.randn(2, 5, 16, device="cpu", requires_grad=True)
    for _ in range(steps):
        y = x
        for layer in layers:
            y = call(layer, y)
        loss = (y * y).mean()
        loss.backward()
    return [loss.tolist(), *(t.grad.tolist() for t in [x, *layers.parameters()])]


def nested(layer, x):
    return checkpoint(lambda x: checkpoint(layer, x, use_reentrant=False) * 1.5, x, use_reentrant=False)


def reentrant_inside(layer, x):
    return checkpoint(lambda x: checkpoint(layer, x, use_reentrant=True) * 1.5, x, use_reentrant=False)


def inside_reentrant(layer, x):
    return checkpoint(lambda x: checkpoint(layer, x, use_reentrant=False) * 1.5, x, use_reentrant=True)


@pytest.mark.parametrize("options", EACH_WAY, ids=str)
def test_gradients_are_those_of_the_plain_run(options):
    plain = train(blocks(device="cpu"), lambda layer, x: layer(x))
    assert train(blocks(device="cpu"), partial(checkpoint, **options)) == plain


@pytest.mark.parametrize("call", [nested, reentrant_inside, inside_reentrant])
def test_checkpoints_inside_checkpoints(call):
    plain = train(blocks(device="cpu"), lambda layer, x: layer(x) * 1.5)
    assert train(blocks(device="cpu"), call) == plain


@pytest.mark.parametrize("policy", [
    [ADDMM], [packet("aten", "native_dropout").default], lambda context, op, *args, **kwargs: True,
    lambda context, op, *args, **kwargs: False, lambda context, op, *args, **kwargs: "dropout" not in str(op),
    lambda context, op, *args, **kwargs: CheckpointPolicy.PREFER_CPU_OFFLOAD,
])  # fmt: skip
def test_a_policy_changes_no_gradient(policy):
    contexts = partial(create_selective_checkpoint_contexts, policy)
    plain = train(blocks(device="cpu"), lambda layer, x: layer(x))
    assert train(blocks(device="cpu"), partial(checkpoint, use_reentrant=False, context_fn=contexts)) == plain


def test_a_policy_decides_what_runs_again():
    asked, ran = [], []

    class Log(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            ran.append(op.name)
            return op(*args, **kwargs)

    def policy(context, op, *args, **kwargs):
        asked.append((str(op), context.is_recompute))
        return CheckpointPolicy.MUST_SAVE if op is MM else CheckpointPolicy.PREFER_RECOMPUTE

    x = mt.ones(2, 2, device="cpu", requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy)
    y = checkpoint(lambda x: (x @ x).sin().cos(), x, use_reentrant=False, context_fn=contexts).sum()
    assert asked == [("aten.mm.default", False), ("aten.sin.default", False), ("aten.cos.default", False)]
    hook = y.grad_fn.register_prehook(lambda grads: Log().__enter__() and None)
    try:
        y.backward()
    finally:
        mt._core.modes.current_modes()[-1].__exit__(None, None, None)
    hook.remove()
    assert "sin" in ran and ran.count("mm") == 2  # both of them are gradients


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_products_that_are_kept_are_not_changed_by_the_bias(device):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(device)  # transposes the batch
    x = mt.ones(2, 3, 8, device=device, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, [MM])
    checkpoint(layer, x, use_reentrant=False, context_fn=contexts).square().sum().backward()
    found, x.grad = x.grad, None
    layer(x).square().sum().backward()
    assert found.shape == x.grad.shape and (device == "meta" or mt.equal(found, x.grad))


def test_results_without_values_are_not_offloaded():
    kept = create_selective_checkpoint_contexts(lambda *args, **kwargs: CheckpointPolicy.MUST_CPU_OFFLOAD)
    x = mt.ones(2, 2, device="meta", requires_grad=True)
    checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=lambda: kept).sum().backward()
    assert x.grad.is_meta


@pytest.mark.parametrize("options", EACH_WAY, ids=str)
def test_memory_falls(options):
    with mt.device("meta"):
        layers, x = blocks(8), mt.empty(2, 50, 16)
    figures = {}
    for name, call in (("plain", lambda layer, x: layer(x)), ("checkpoint", partial(checkpoint, **options))):
        with MemoryTracker() as memory:
            y = x.requires_grad_()
            for layer in layers:
                y = call(layer, y)
            loss = y.sum()
            del y
            kept = memory.current
            loss.backward()
            del loss
        figures[name] = kept, memory.peak, memory.current
        for p in [x, *layers.parameters()]:
            p.grad = None
    # The input of each layer is kept, the state of the random generator, and the sum at the end.
    assert figures["checkpoint"][0] == 7 * 2 * 50 * 16 * 4 + 8 * 16 + 4
    assert figures["checkpoint"][0] < figures["plain"][0] / 10
    assert figures["checkpoint"][1] < figures["plain"][1] / 3
    assert figures["checkpoint"][2] == figures["plain"][2]  # the gradients


def test_a_policy_keeps_what_it_says():
    with mt.device("meta"):
        x, w = mt.empty(64, 64, requires_grad=True), mt.empty(64, 64, requires_grad=True)

    def kept(policy):
        contexts = partial(create_selective_checkpoint_contexts, policy)
        with MemoryTracker() as memory:
            loss = checkpoint(lambda x: ((x @ w).sin().cos().exp() @ w).sum(), x, use_reentrant=False, context_fn=contexts)
            before = memory.current
            loss.backward()
            del loss
        x.grad = w.grad = None
        assert memory.current == 0
        return before

    unit, few = 64 * 64 * 4, 4 + 16  # the sum, and the state of the random generator
    assert kept(lambda *args, **kwargs: False) == few
    assert kept([MM]) == few + 2 * unit
    assert kept(lambda context, op, *args, **kwargs: op is not MM) == few + 3 * unit


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("reentrant", [True, False])
def test_sequences(segments, reentrant):
    def run(call):
        mt.manual_seed(0)
        layers = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8, device="cpu"), nn.Dropout(0.5), nn.Tanh()) for _ in range(3)])
        x = mt.randn(4, 8, device="cpu", requires_grad=True)
        call(layers, x).sum().backward()
        return [p.grad.tolist() for p in [x, *layers.parameters()]]

    again = run(lambda layers, x: checkpoint_sequential(layers, segments, x, use_reentrant=reentrant))
    assert again == run(lambda layers, x: layers(x))


def test_backward_may_run_again():
    x = mt.tensor([0.5, 2.0], device="cpu", requires_grad=True)
    y = checkpoint(lambda x: x.sin().cos() * x, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.tolist()
    y.backward()
    assert x.grad.tolist() == [2 * g for g in first]
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_second_derivatives():
    x = mt.tensor([0.5, 2.0], device="cpu", dtype=mt.float64, requires_grad=True)

    def second(y):
        (g,) = mt.autograd.grad(y.sum(), x, create_graph=True)
        return [g.tolist(), mt.autograd.grad((g * g).sum(), x)[0].tolist()]

    assert second(checkpoint(lambda x: x.sin().exp() * x, x, use_reentrant=False)) == second(x.sin().exp() * x)


def test_the_function_is_called_once_for_all_it_saved():
    calls = []

    def function(x):
        calls.append(mt.is_grad_enabled())
        return x.sin().cos().exp().tanh()

    x = mt.ones(3, device="cpu", requires_grad=True)
    y = checkpoint(function, x, use_reentrant=False)
    assert calls == [True]
    y.sum().backward()
    assert calls == [True, True]
    with mt.no_grad():
        checkpoint(function, x, use_reentrant=False)
    assert calls[2:] == [False]
    checkpoint(function, x, use_reentrant=True).sum().backward()
    assert len(calls[3:]) == 2


def test_it_stops_early():
    reached = []

    def function(x):
        y = x.sin()
        reached.append(1)
        return y + 1

    x = mt.ones(3, device="cpu", requires_grad=True)
    for stop, times in ((True, 1), (False, 2)):
        reached.clear()
        checkpoint(function, x, use_reentrant=False, early_stop=stop).sum().backward()
        assert len(reached) == times
        reached.clear()
        with set_checkpoint_early_stop(stop):
            y = checkpoint(function, x, use_reentrant=False, early_stop=not stop)
        y.sum().backward()
        assert len(reached) == times


def test_handlers_of_exceptions_do_not_see_the_early_stop():
    seen = []

    def function(x):
        try:
            return x.sin() + 1
        except Exception as error:
            seen.append(error)
            return x

    x = mt.ones(3, device="cpu", requires_grad=True)
    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert not seen and x.grad.tolist() == x.cos().tolist()


def test_random_numbers():
    def run(**options):
        mt.manual_seed(3)
        x = mt.ones(20, device="cpu", requires_grad=True)
        y = checkpoint(lambda x: nn.functional.dropout(x.sin(), 0.5).exp(), x, **options)
        y.sum().backward()
        return x.grad.tolist() == ((y > 1) * 2 * y * x.cos()).tolist(), mt.rand(3, device="cpu").tolist()

    mt.manual_seed(3)
    nn.functional.dropout(mt.ones(20, device="cpu"), 0.5)
    after = mt.rand(3, device="cpu").tolist()
    assert run(use_reentrant=False) == run(use_reentrant=True) == (True, after)
    assert run(use_reentrant=False, preserve_rng_state=False) != (True, after)


@pytest.mark.parametrize("reentrant", [True, False])
def test_autocast_is_restored(reentrant):
    dtypes = []

    def function(x):
        y = x @ x
        dtypes.append(y.dtype)
        return y.sin()

    x = mt.ones(2, 2, device="cpu", requires_grad=True)
    with mt.amp.autocast("cpu", dtype=mt.bfloat16):
        y = checkpoint(function, x, use_reentrant=reentrant)
    y.sum().backward()
    assert dtypes == [mt.bfloat16, mt.bfloat16] and x.grad.dtype is mt.float32


def test_arguments_and_results_of_any_kind():
    x = mt.ones(2, device="cpu", requires_grad=True)
    a, b, c = checkpoint(lambda x, n, *, scale, more: (x.sin() * n, n, {"k": more.exp() * scale}), x, 2, scale=3.0, more=x,
                         use_reentrant=False)  # fmt: skip
    assert b == 2
    (a + c["k"]).sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * x.cos() + 3 * x.exp()).tolist())
    y, n = checkpoint(lambda x, n: (x.sin(), n), x, 5, use_reentrant=True)
    assert n == 5 and y.grad_fn.name() == "CheckpointFunctionBackward"


def test_a_function_that_changes():
    calls = []

    def once_more(x):
        calls.append(1)
        return x.sin().exp() if len(calls) == 1 else x.sin()

    def once_less(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.sin().exp()

    def smaller(x):
        calls.append(1)
        return (x if len(calls) == 1 else x[:1]).sin()

    def run(function, **options):
        calls.clear()
        checkpoint(function, mt.ones(2, device="cpu", requires_grad=True), use_reentrant=False, **options).sum().backward()

    with pytest.raises(CheckpointError, match="saved 2 tensors at first, but 1"):
        run(once_more)
    with pytest.raises(CheckpointError, match="saved 1 tensors at first, but 2"):
        run(once_less, early_stop=False)
    run(once_less)  # stops before it would notice
    with pytest.raises(CheckpointError, match=r"tensor 0 was .*\[2\] on cpu, is .*\[1\] on cpu"):
        run(smaller)
    run(smaller, determinism_check="none")
    with pytest.raises(CheckpointError, match=r"at first, from operator 1: exp\(.*\nrecomputed, from operator 1: none"):
        run(once_more, debug=True)
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="from operator 1: exp"):
        run(once_more)


def test_saved_values_may_be_looked_at():
    x = mt.tensor([0.5], device="cpu", requires_grad=True)
    y = checkpoint(lambda x: (x * 2).sin(), x, use_reentrant=False)
    assert y.grad_fn._saved_self.tolist() == [1.0] == y.grad_fn._saved_self.tolist()
    y.backward()


def test_changed_inputs_are_noticed():
    for reentrant in (True, False):
        x = mt.ones(2, device="cpu", requires_grad=True) * 1
        y = checkpoint(lambda x: x.sin(), x, use_reentrant=reentrant)
        x.add_(1)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


def test_changed_results_of_a_policy_are_noticed():
    def function(x):
        y = x @ x
        z = y.sin()
        y.add_(1)
        return z.cos() + y

    x = mt.ones(2, 2, device="cpu", requires_grad=True)
    run = partial(checkpoint, function, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="changed in place"):
        run(context_fn=lambda: create_selective_checkpoint_contexts([MM])).sum().backward()
    run(context_fn=lambda: create_selective_checkpoint_contexts([MM], True)).sum().backward()


def test_misuse():
    x = mt.ones(2, device="cpu", requires_grad=True)
    for options, what in (({"context_fn": lambda: None}, "context_fn"), ({"debug": True}, "debug"), ({"input": x}, "keyword")):
        with pytest.raises(ValueError, match=what):
            checkpoint(mt.sin, x, use_reentrant=True, **options)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(mt.sin, x, use_reentrant=False, determinism_check="always")
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(mt.sin, x)
    with pytest.warns(UserWarning, match="none of the inputs"):
        checkpoint(mt.sin, x.detach(), use_reentrant=True)
    with pytest.raises(RuntimeError, match="without inputs"):
        mt.autograd.grad(checkpoint(mt.sin, x, use_reentrant=True).sum(), x)
    with pytest.raises(RuntimeError, match="no output"):
        checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward()
    with pytest.raises(ValueError, match="overloads"):
        create_selective_checkpoint_contexts([packet("aten", "mm")])
    with pytest.raises(TypeError, match="function or a list"):
        create_selective_checkpoint_contexts(3)


def test_backward_inside_the_function():
    def function(x):
        (g,) = mt.autograd.grad(x.sin().sum(), x, create_graph=True)
        return g * x

    x = mt.tensor([0.5], device="cpu", requires_grad=True)
    plain = mt.autograd.grad(function(x), x)[0].tolist()
    assert mt.autograd.grad(checkpoint(function, x, use_reentrant=False), x)[0].tolist() == plain


def test_nothing_is_kept():
    gc.collect()
    gc.disable()
    try:
        for reentrant in (True, False):
            x = mt.ones(1000, device="meta", requires_grad=True)
            inside = []

            def function(x, inside=inside):
                y = x.sin()
                inside.append(weakref.ref(y))
                return y.cos()

            y = checkpoint(function, x, use_reentrant=reentrant)
            assert inside[0]() is None
            y.sum().backward()
            del y
            assert all(ref() is None for ref in inside)
    finally:
        gc.enable()


def test_many_checkpoints_deep():
    x = y = mt.ones(2, device="cpu", requires_grad=True)
    for _ in range(300):
        y = checkpoint(lambda x: x.sin() + x.cos(), y, use_reentrant=False)
    y.sum().backward()
    assert x.grad.isfinite().all()


def test_a_module_on_meta():
    with mt.device("meta"):
        layers = blocks(2)
        y = mt.empty(2, 5, 16)
    for layer in layers:
        y = checkpoint(layer, y, use_reentrant=False)
    y.sum().backward()
    assert all(p.grad.shape == p.shape and p.grad.is_meta for p in layers.parameters())
