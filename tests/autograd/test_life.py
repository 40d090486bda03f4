"""How long graphs and gradients live: growth, cycles, depth, threads, and collection during a walk."""

import functools
import gc
import subprocess
import sys
import threading
import weakref

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*shape, device="cpu"):
    return mt.ones(*(shape or (3,)), device=device, requires_grad=True)


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


# Growth --------------------------------------------------------------------------------------------------------


def step(model, x):
    loss = nn.functional.mse_loss(model(x), x)
    model.zero_grad()
    loss.backward()


@pytest.mark.slow
@pytest.mark.parametrize("device, steps", [("meta", 1000), ("cpu", 300),
                                           pytest.param("meta", 100_000, marks=pytest.mark.slow)])  # fmt: skip
def test_steps_do_not_grow(device, steps):
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4)).to(device)
    x = mt.ones(2, 4, device=device)
    optimizer = mt.optim.AdamW(model.parameters())
    for _ in range(100):
        step(model, x)
        optimizer.step()
    before = blocks()
    for _ in range(steps):
        step(model, x)
        optimizer.step()
    assert blocks() - before < 500


STEP = """
import resource, sys
import metatensor as mt
from metatensor import nn

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()

x = mt.ones(16, 16, device=DEVICE, requires_grad=True)
w = mt.ones(16, 16, device=DEVICE, requires_grad=True)

def run():
    y = (x @ w).softmax(-1) * 1
    y[0].mul_(2)
    z = mt.cat([y, y.t()]).sum()
    z.register_hook(lambda g: g * 2)
    (g,) = mt.autograd.grad(z, x, create_graph=True)
    (g * g).sum().backward()

for _ in range(1000):
    run()
before = resident()
for _ in range(STEPS):
    run()
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("device, steps", [("cpu", 2000), pytest.param("cpu", 100_000, marks=pytest.mark.slow)])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_resident_memory_does_not_grow(device, steps):
    code = STEP.replace("DEVICE", repr(device)).replace("STEPS", str(steps))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 4 << 20


# Cycles --------------------------------------------------------------------------------------------------------


def saved_output(x):
    return x.exp().tanh().softmax(-1)


def written(x):
    y = x * 1
    y[0].mul_(2)
    return y


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: None)
    y.grad_fn.register_hook(lambda *_: None)
    y.retain_grad()
    return y * y


def function(x):
    class Exp(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[1]

    return Exp.apply(x)


def packed(x):
    with mt.autograd.graph.saved_tensors_hooks(lambda t: (t.shape, t), lambda p: p[1]):
        return x.exp() * x


def anomaly(x):
    with mt.autograd.set_detect_anomaly(True):
        return (x * x).sqrt()


def recurrent(x):
    return nn.GRU(3, 3)(x.reshape(1, 1, 3).expand(2, 1, 3))[0]


def attention(x):
    q = x.reshape(1, 1, 1, 3).expand(1, 1, 4, 3)
    return nn.functional.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize("walk", ["none", "backward", "twice", "create", "grad of grad", "failed"])
@pytest.mark.parametrize("make", [saved_output, written, hooked, function, packed, anomaly, recurrent, attention])
def test_graphs_are_freed_without_the_collector(without_collector, make, walk):
    x = leaf()
    y = make(x)
    node, result = weakref.ref(y.grad_fn), weakref.ref(y)
    loss = y.sum()
    if walk == "backward":
        loss.backward()
    elif walk == "twice":
        loss.backward(retain_graph=True)
        loss.backward()
    elif walk == "create":
        (g,) = mt.autograd.grad(loss, x, create_graph=True)
        del g
    elif walk == "grad of grad":
        (g,) = mt.autograd.grad(loss, x, create_graph=True)
        if g.requires_grad:
            g.sum().backward()
        del g
    elif walk == "failed":
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward()
    del y, loss
    assert node() is None and result() is None


def test_a_failed_walk_keeps_nothing(without_collector):
    """What a traceback refers to is freed with it."""
    x = leaf()
    y = x.exp()
    node = weakref.ref(y.grad_fn)
    y.backward(mt.ones(3))
    try:
        y.backward(mt.ones(3))
    except RuntimeError as error:
        assert "freed" in str(error)
    del y
    assert node() is None


def test_a_leaf_and_its_accumulator(without_collector):
    x = leaf()
    there = weakref.ref(x)
    y = x * 2
    y.sum().backward()
    accumulator = y.grad_fn.next_functions[0][0]
    del x
    assert there() is accumulator.variable  # the graph keeps the leaf
    del y, accumulator
    assert there() is None


def test_values_are_freed_as_the_walk_goes():
    alive = []
    x = leaf()
    middle = x.exp()
    saved = weakref.ref(middle)
    loss = (middle * middle).sum()
    del middle
    x.register_hook(lambda g: alive.append(saved() is not None))
    assert saved() is not None
    loss.backward()
    assert alive == [False] and saved() is None  # while `loss` and its nodes live


def test_cycles_that_users_make_are_collected():
    x = leaf()
    y = x * 2
    node = weakref.ref(y.grad_fn)
    y.grad_fn.metadata["itself"] = y
    y.register_hook(lambda g, y=y: g)
    del y
    gc.collect()
    assert node() is None


@pytest.mark.parametrize("how", ["create_graph", "by hand"])
def test_gradients_with_a_graph_are_collected(how):
    x = leaf()
    y = (x * x).exp()
    node = weakref.ref(y.grad_fn)
    if how == "create_graph":
        y.sum().backward(create_graph=True)
    else:
        x.grad = y
    assert x.grad.grad_fn is not None  # which leads to x
    del x, y
    gc.collect()
    assert node() is None


# Depth -------------------------------------------------------------------------------------------------------------

DEEP = """
import gc, sys, threading
import metatensor as mt

def chain(n, device="meta"):
    x = mt.ones(2, device=device, requires_grad=True)
    y = x
    for _ in range(n):
        y = STEP
    return x, y

def main():
    gc.disable()
    before = sys.getallocatedblocks()
    x, y = chain(NODES)
    del x, y                              # freed without a walk
    x, y = chain(NODES)
    y.sum().backward()
    assert x.grad.shape == (2,)
    del x, y                              # freed after a walk
    x, y = chain(NODES)
    (g,) = mt.autograd.grad(y.sum(), x, retain_graph=True)
    del g, x, y
    assert sys.getallocatedblocks() - before < 5000, sys.getallocatedblocks() - before
    gc.enable()
    x, y = chain(NODES // 10)
    gc.collect()
    y.sum().backward(create_graph=True)
    del x, y
    gc.collect()

threading.stack_size(256 << 10)         # a small stack
t = threading.Thread(target=main)
t.start()
t.join()
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["y * 2", "y.exp()", "y[:]", "mt.stack([y, y])[0]"])
@pytest.mark.parametrize("nodes", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_deep_graphs(how, nodes):
    code = DEEP.replace("STEP", how).replace("NODES", str(nodes))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert found.returncode == 0 and found.stdout.strip() == "done", found.stderr[-2000:]


FUNCTIONS = """
import sys, threading
import metatensor as mt

class Same(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1
    @staticmethod
    def backward(ctx, grad):
        return grad

def main():
    x = y = mt.ones(2, device="meta", requires_grad=True)
    for _ in range(30_000):
        y = Same.apply(y)
    y.sum().backward(retain_graph=True)
    del x, y

threading.stack_size(256 << 10)
t = threading.Thread(target=main)
t.start()
t.join()
print("done")
"""


@pytest.mark.slow
def test_deep_graphs_of_functions():
    found = subprocess.run([sys.executable, "-c", FUNCTIONS], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0 and found.stdout.strip() == "done", found.stderr[-2000:]


# Threads ---------------------------------------------------------------------------------------------------------------


def in_threads(function, n=8):
    """Run ``function(i)`` in `n` threads at once. Raise the first of their exceptions."""
    errors, start = [], threading.Barrier(n)

    def run(i):
        start.wait()
        try:
            function(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_eight_threads_with_graphs_of_their_own(device):
    def work(i):
        for _ in range(50):
            x = mt.full((4,), float(i + 1), device=device, requires_grad=True)
            y = x * x
            y[0].mul_(3)
            (g,) = mt.autograd.grad(y.sum(), x, create_graph=True)
            g.sum().backward()
            if device == "cpu":
                assert g.tolist() == [6.0 * (i + 1), *[2.0 * (i + 1)] * 3] and x.grad.tolist() == [6, 2, 2, 2]

    in_threads(work)


def test_eight_threads_with_shared_leaves():
    leaves = [leaf(64) for _ in range(3)]
    rounds = 40

    def work(i):
        for _ in range(rounds):
            sum((x * (i + 1)).sum() for x in leaves).backward()

    in_threads(work)
    for x in leaves:
        assert x.grad.tolist() == [float(rounds * sum(range(1, 9)))] * 64


def test_eight_threads_walk_one_graph():
    x = leaf(16)
    loss = (x.exp() * x).sum()
    (expected,) = mt.autograd.grad(loss, x, retain_graph=True)

    def work(i):
        for _ in range(20):
            (g,) = mt.autograd.grad(loss, x, retain_graph=True)
            assert mt.equal(g, expected)

    in_threads(work)


def test_one_graph_may_be_freed_by_another_thread():
    """Each walk either gives the gradient or says that the saved values are freed."""
    for _ in range(20):
        x = leaf(4)
        loss = (x.exp() * x).sum()
        done = []

        def work(i, loss=loss, done=done):
            try:
                loss.backward()
                done.append(i)
            except RuntimeError as error:
                assert "freed" in str(error)

        in_threads(work, 4)
        assert done


def test_modes_of_threads():
    """no_grad in one thread does not stop recording in another."""

    def work(i):
        for _ in range(200):
            x = leaf()
            if i % 2:
                with mt.no_grad():
                    assert not (x * 2).requires_grad
            else:
                assert (x * 2).requires_grad

    in_threads(work)


# Walks within walks ---------------------------------------------------------------------------------------------------


def test_backward_inside_hooks():
    x, other = leaf(), leaf()
    y = x * 2

    def hook(g):
        with mt.enable_grad():
            (other * g).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and other.grad.tolist() == [1, 1, 1]


def test_backward_of_the_same_graph_inside_a_hook():
    x = leaf()
    y = (x * x).sum()
    seen = []

    def hook(g):
        if not seen:
            seen.append(None)
            seen[0] = mt.autograd.grad(y, x, retain_graph=True)[0].tolist()

    x.register_hook(hook)
    y.backward(retain_graph=True)
    assert seen == [[2, 2, 2]] and x.grad.tolist() == [2, 2, 2]


def test_walks_nested_too_deeply_raise():
    x = leaf(1)
    y = (x * 2).sum()

    def hook(g):
        with mt.enable_grad():
            (x * 2).sum().backward()

    x.register_hook(hook)
    with pytest.raises(RecursionError):
        y.backward()
    x = leaf(1)  # later walks work
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2]


def test_collection_during_the_walk():
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what other tests have left is not searched in each of the many collections
    gc.set_threshold(1)
    try:
        x = leaf()
        cycle = []
        y = x
        for _ in range(50):
            y = (y * 1).exp().log()
            y.register_hook(lambda g: (gc.collect(), None)[1])
            cycle.append([cycle, y.grad_fn])
        del cycle
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert mt.allclose(x.grad, mt.full((3,), 2.0))
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@pytest.mark.slow
def test_hooks_that_drop_the_graph():
    """A hook deletes all tensors of the graph that is being walked."""
    x = leaf()
    held = [x * 2]
    for _ in range(5):
        held.append(held[-1].exp())
    loss = held[-1].sum()
    node = weakref.ref(held[2].grad_fn)

    def hook(g):
        held.clear()
        gc.collect()

    held[-1].register_hook(hook)
    loss.backward()
    del loss
    assert node() is None and x.grad is not None


def test_an_interrupted_walk_can_be_repeated():
    x = leaf()
    y = x.exp()
    fail = [True]
    y.register_hook(lambda g: 1 / 0 if fail else None)
    z = (y * y).sum()
    with pytest.raises(ZeroDivisionError):
        z.backward(retain_graph=True)
    fail.clear()
    z.backward()
    assert mt.allclose(x.grad, 2 * mt.exp(mt.full((3,), 2.0)))


def _on_several(x, y):
    mt.autograd.graph.register_multi_grad_hook([x, y], lambda grads: None)


def _on_any(x, y):
    mt.autograd.graph.register_multi_grad_hook([x, y], lambda grad: None, mode="any")


HOOKS = {
    "the leaf's": lambda x, y: x.register_hook(lambda grad: None if y is not None else grad),
    "a default": lambda x, y: x.register_hook(lambda grad, y=y: None),
    "a partial": lambda x, y: x.register_hook(functools.partial(lambda kept, grad: None, {"in": [y]})),
    "a node's": lambda x, y: y.grad_fn.register_hook(lambda grads, outer: None if y is not None else grads),
    "several": _on_several,
    "any": _on_any,
}


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_that_refer_to_the_graph_of_their_tensor_are_collected(hook, backward):
    def run():
        x = mt.ones(2, device="cpu", requires_grad=True)
        y = x * 2
        HOOKS[hook](x, y)
        if backward:
            y.sum().backward(retain_graph=True)
        return weakref.ref(x)

    alive = [run() for _ in range(3)]
    gc.collect()
    assert not any(ref() for ref in alive)


# In all of these, a tensor is saved by a graph that then becomes its own.
WRITES = {
    "by itself": lambda x, y: y.mul_(y[:]),
    "by a part of it": lambda x, y: y.mul_(y.chunk(1)[-1]),
    "to a part of it": lambda x, y: y[1].mul_(y[0]),
    "by what it was saved for": lambda x, y: y.add_(y * x),
    "to a part, by what another part was saved for": lambda x, y: y[1].add_((y[0] * x)[1]),
    "through a view of a result of several": lambda x, y: y[0].mul_(y.exp().mul(y)[1]),
    "by a custom function": lambda x, y: y.add_(SavesItsInput.apply(y)),
    "of what requires no grad": lambda x, y: y.detach().add_(x * y.detach()),
}


class SavesItsInput(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
def test_graphs_that_saved_the_tensor_they_end_in_are_collected(write):
    def run():
        x = mt.ones(2, 2, device="cpu", requires_grad=True)
        y = x * 2
        return weakref.ref(y), weakref.ref(WRITES[write](x, y))

    alive = [ref for _ in range(3) for ref in run()]
    gc.collect()
    assert not any(ref() for ref in alive)


PUTS = {
    "key": lambda metadata, t: metadata.__setitem__(t, 1),
    "value": lambda metadata, t: metadata.setdefault("t", [t]),
    "update": lambda metadata, t: metadata.update({"t": t}),
    "or": lambda metadata, t: metadata.__ior__({t: 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("put", PUTS)
def test_metadata_that_refers_to_later_tensors_is_collected(put):
    def run():
        x = mt.ones(2, device="cpu", requires_grad=True)
        y = x * 2
        later = y.exp()
        PUTS[put](y.grad_fn.metadata, later)
        assert len(y.grad_fn.metadata) == 1
        return weakref.ref(later)

    alive = [run() for _ in range(3)]
    gc.collect()
    assert not any(ref() for ref in alive)
