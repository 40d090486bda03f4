"""`mt.program.trace`: what is captured, and that a program does what the callable does, bit for bit."""

import gc
import weakref
from functools import partial

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")


def rand(*shape, **options):
    return mt.rand(*shape, device="cpu", **options)


def small():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 4))
    return model.to("cpu")


def same_run(fn, *args, state=()):
    """Return the program, after comparing what it returns and writes with what the callable does on copies."""
    mt.manual_seed(5)
    program = mt.program.trace(fn, *args)
    copies = [t.detach().clone() for t in state]
    given = [a.detach().clone() if isinstance(a, mt.Tensor) else a for a in args]
    mt.manual_seed(9)
    want = fn(*args)
    left = [t.detach().clone() for t in state]
    for t, copy in zip(state, copies):
        t.detach().copy_(copy)
    for a, copy in zip(args, given):
        if isinstance(a, mt.Tensor):
            a.detach().copy_(copy)
    mt.manual_seed(9)
    got = program(*args)
    assert mt.default_generator.get_state().tolist() == after(fn, args, state, copies, given)
    flat = [list(mt.utils._pytree.tree_leaves(x)) for x in (want, got)]
    assert len(flat[0]) == len(flat[1])
    assert all(mt.equal(a, b) and a.stride() == b.stride() if isinstance(a, mt.Tensor) else a == b for a, b in zip(*flat))
    return program, left


def after(fn, args, state, copies, given):
    for t, copy in zip(state, copies):
        t.detach().copy_(copy)
    for a, copy in zip(args, given):
        if isinstance(a, mt.Tensor):
            a.detach().copy_(copy)
    mt.manual_seed(9)
    fn(*args)
    return mt.default_generator.get_state().tolist()


def names(program):
    return [call.op.name for call in program.calls]


def test_a_function():
    program, _ = same_run(lambda x, y: {"sum": (x @ y).relu().sum(), "twice": [x * 2, 3]}, rand(2, 3), rand(3, 4))
    assert names(program)[0] == "matmul" and len(program.inputs) == 2 and not program.held


def test_views_and_writes():
    def fn(x):
        y = x.clone()
        y[0] = 7
        y.t()[1].mul_(3)
        z = y.view(-1)[2:]
        z += 1
        mt.add(z, 1, out=z)
        nn.functional.relu(y, inplace=True)
        return y, z, y.transpose(0, 1), x.expand(2, *x.shape)

    program, _ = same_run(fn, rand(3, 4))
    by_storage = {}
    for value in program.outputs:
        by_storage.setdefault(value.storage, []).append(value)
    assert sorted(map(len, by_storage.values())) == [1, 3]
    assert any(call.writes for call in program.calls)


def test_layout_changes_of_a_tensor():
    def fn(x):
        y = x.clone()
        y.t_()
        y.unsqueeze_(0)
        z = mt.empty(0, device="cpu")
        z.resize_(2, 2).fill_(3.0)
        z.set_(y)
        return y, z + 1

    same_run(fn, rand(3, 4))


def test_write_to_an_argument():
    x = rand(3)
    program = mt.program.trace(lambda x: x.add_(1), x)
    y = mt.zeros(3, device="cpu")
    assert program(y) is y and y.tolist() == [1, 1, 1]


def test_random_numbers_are_drawn_as_the_callable_draws_them():
    program, _ = same_run(lambda x: nn.functional.dropout(x, 0.5) + mt.rand(4, device="cpu") + mt.randn(4, device="cpu"), rand(4))
    mt.manual_seed(1)
    first, second = program(mt.ones(4, device="cpu")), program(mt.ones(4, device="cpu"))
    assert not mt.equal(first, second)


def test_a_generator_of_its_own():
    g = mt.Generator()
    program = mt.program.trace(lambda: mt.rand(4, generator=g, device="cpu"))
    g.manual_seed(3)
    a = program()
    g.manual_seed(3)
    assert mt.equal(a, mt.rand(4, generator=g, device="cpu"))


def test_seeding_inside_is_refused():
    def fn():
        a = mt.rand(2, device="cpu")
        mt.manual_seed(1)
        return a + mt.rand(2, device="cpu")

    mt.manual_seed(2)
    with pytest.raises(RuntimeError, match="seed"):
        mt.program.trace(fn)
    mt.rand(1, device="cpu")
    mt.manual_seed(1)
    mt.rand(1, device="cpu")
    with pytest.raises(RuntimeError, match="seed"):
        mt.program.trace(fn)


def test_a_module_in_training():
    model = small()
    program, left = same_run(model, rand(5, 8), state=list(model.buffers()))
    assert set(program.parameters) == {name for name, _ in model.named_parameters()}
    assert {name for name, kind in program.kinds.items() if kind == "buffer"} == {name for name, _ in model.named_buffers()}
    assert all(mt.equal(a, b) for a, b in zip(left, model.buffers()))
    linear = next(call for call in program.calls if call.op.name == "nn.functional.linear")
    assert program.modules[linear.module] == "0" and linear.place[0].endswith("test_tracing.py")


def test_gradients_flow_through_a_program():
    model, x = small().eval(), rand(5, 8)
    program = mt.program.trace(model, x)
    model(x).sum().backward()
    want = [p.grad for p in model.parameters()]
    model.zero_grad()
    program(x).sum().backward()
    assert all(mt.equal(a, p.grad) for a, p in zip(want, model.parameters()))


def test_detached_parts_stay_detached():
    x = rand(3, requires_grad=True)
    program = mt.program.trace(lambda x: (x * x.detach()).sum(), x)
    y = rand(3, requires_grad=True)
    program(y).backward()
    assert mt.equal(y.grad, y.detach())


@pytest.mark.parametrize("foreach", [False, True])
def test_a_training_step(foreach):
    model = small()
    used = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=foreach)
    x, target = rand(5, 8), rand(5, 4)

    def step(x, target):
        used.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        used.step()
        return loss.detach()

    step(x, target)
    state = [*model.parameters(), *model.buffers(), *(t for s in used.state.values() for t in s.values() if isinstance(t, mt.Tensor))]
    program, left = same_run(step, x, target, state=state)
    assert all(mt.equal(a, b) for a, b in zip(left, state))
    assert {effect.name for effect in program.effects if effect.kind == "grad"} == {name for name, _ in model.named_parameters()}
    assert any(call.backward for call in program.calls) and not program.reads


def test_tied_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 4, device="cpu")
            self.head = nn.Linear(4, 10, bias=False, device="cpu")
            self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    program = mt.program.trace(Tied(), mt.tensor([1, 2], device="cpu"))
    assert list(program.held) == ["embedding.weight"] and program.tied == {"head.weight": "embedding.weight"}


def test_other_parameters():
    model = nn.Linear(3, 2, device="cpu")
    program, x = mt.program.trace(model, rand(1, 3)), rand(1, 3)
    other = nn.Linear(3, 2, device="cpu")
    assert mt.equal(program.bind(other.state_dict())(x), other(x))
    with pytest.raises(KeyError, match="'gain'"):
        program.bind({"gain": x})
    with pytest.raises(ValueError, match=r"weight.*float32\[2, 3\]"):
        program.bind({"weight": x})


def test_a_program_traced_on_meta_runs_on_cpu():
    with mt.device("meta"):
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    x = rand(5, 8)
    program = mt.program.trace(lambda x: model(x) + mt.arange(4, device=x.device), mt.empty(5, 8, device="meta"))
    real = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("cpu")
    assert mt.equal(program.bind(real.state_dict())(x), real(x) + mt.arange(4, device="cpu"))


def test_numbers_that_were_read_are_noted():
    program = mt.program.trace(lambda x: x * x.sum().item(), rand(3))
    assert [(at, op) for at, op, _ in program.reads] == [(1, "item")]


def test_numbers_that_follow_from_constants_are_not_noted():
    def function(x):
        rates = mt.linspace(0, 1, 4, device=x.device)
        rates += 1
        return x * rates[1].item()

    assert not mt.program.trace(function, mt.empty(3, device="meta")).reads
    assert not mt.program.trace(function, rand(3)).reads
    assert mt.program.trace(lambda x: x * mt.rand(1, device="cpu").item(), rand(3)).reads
    with mt.device("meta"):
        kept = mt.zeros(2)
    # another run may have other values there
    assert mt.program.trace(lambda x: x * (kept + 1).sum().item(), mt.empty(3, device="meta")).reads


def test_the_step_count_of_an_optimizer_is_a_number_that_was_read():
    model = nn.Linear(2, 2, device="cpu")
    optimizer = mt.optim.AdamW(model.parameters())

    def step(x):
        model(x).sum().backward()
        optimizer.step()

    step(rand(1, 2))
    assert {op for _, op, _ in mt.program.trace(step, rand(1, 2)).reads} == {"item"}


def test_checkpointed_gradients():
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Tanh()).to("cpu")

    def fn(x):
        mt.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
        return [p.grad for p in layer.parameters()]

    x = rand(2, 4)
    mt.manual_seed(2)
    program = mt.program.trace(lambda: fn(x))
    layer.zero_grad()
    mt.manual_seed(2)
    want = [g.clone() for g in fn(x)]
    mt.manual_seed(2)
    assert all(mt.equal(a, b) for a, b in zip(program(), want))


def test_nothing_is_kept_alive():
    gc.disable()
    try:
        model = nn.Linear(3, 3, device="cpu")
        seen = []

        def fn(x):
            y = model(x)
            seen.append(weakref.ref(y))
            return y.sum()

        program = mt.program.trace(fn, rand(1, 3))
        assert seen[0]() is None
        del program
    finally:
        gc.enable()


def test_memory_of_a_run_is_that_of_the_callable():
    with mt.device("meta"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(5)))
    x = mt.empty(128, 64, device="meta")
    with mt.no_grad():
        program = mt.program.trace(model, x)
        program(x)
        with mt.analysis.MemoryTracker() as own:
            model(x)
        with mt.analysis.MemoryTracker() as replayed:
            program(x)
    assert (own.peak, own.count) == (replayed.peak, replayed.count)


@pytest.mark.parametrize(("args", "error", "words"), [
    ((mt.empty(3, device="meta"), 2), ValueError, r"float32\[2\]"),
    ((mt.empty(2, device="meta", dtype=mt.float64), 2), ValueError, "float64"),
    ((mt.empty(2, device="meta"), 3), ValueError, "trace again"),
    ((mt.empty(2, device="meta"), mt.empty(2, device="meta")), TypeError, "is a tensor now"),
    ((1, 2), TypeError, "expected a Tensor"),
    ((mt.empty(2, device="meta"),), TypeError, "expected 2 positional arguments"),
])  # fmt: skip
def test_other_arguments_are_refused(args, error, words):
    program = mt.program.trace(lambda x, n: x * n, mt.empty(2, device="meta"), 2)
    with pytest.raises(error, match=words):
        program(*args)


def test_hidden_parts_of_operators_are_no_calls():
    model = nn.BatchNorm2d(4, device="meta").eval()
    with mt.no_grad(), mt.analysis.MemoryTracker():
        program = mt.program.trace(model, mt.empty(1, 4, 3, 3, device="meta"))
    assert len(program.calls) == 1 and not [k for k in program.kinds.values() if k == "constant"]


def test_a_program_of_batch_norm_is_differentiated():
    layer, x = nn.BatchNorm1d(3).to("cpu"), rand(4, 3)
    program = mt.program.trace(layer, x)
    program(x).square().sum().backward()
    got, layer.weight.grad = layer.weight.grad, None
    layer(x).square().sum().backward()
    assert mt.equal(got, layer.weight.grad)


def test_calls_of_a_backward_pass_have_the_module_of_their_operator():
    model = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.Sequential(mt.nn.ReLU(), mt.nn.LayerNorm(4))).to("meta")

    def step(x):
        (model(x) * 2).sum().backward()

    program = mt.program.trace(step, mt.empty(2, 4, device="meta"))
    found = {}
    for call in program.calls:
        if call.backward:
            found.setdefault(program.modules[call.module], set()).add(call.op.name)
    assert found["1.1"] == {"native_layer_norm_backward"} and found["1.0"] == {"threshold_backward"}
    assert "mm" in found["0"] and "mul" in found[""]


def test_a_run_creates_and_frees_what_the_module_does():
    with mt.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)).eval()
        x = mt.empty(2, 3, 16, 16)

    def events(function):
        gc.disable()
        try:
            with mt.no_grad(), mt.analysis.MemoryLog() as log:
                function(x)
        finally:
            gc.enable()
        return [(event.kind, event.change) for event in log.events()]

    with mt.no_grad():
        program = mt.program.trace(model, x)
    assert events(program) == events(model)
    assert sum(change for _, change in events(program)) == 0


def test_a_tensor_that_was_given_twice_must_be_given_twice():
    x = mt.ones(3, device="cpu")
    program = mt.program.trace(lambda a, b: a + b * 2, x, x)
    y = mt.full((3,), 5.0, device="cpu")
    assert mt.equal(program(y, y), y * 3) and mt.equal(program(y, y[:]), y * 3)
    with pytest.raises(ValueError, match="argument .b. was the same tensor as an argument before it"):
        program(x, y)


def test_storages_that_operators_of_known_values_take_are_released_after_them():
    program = mt.program.trace(lambda x: x[mt.arange(4, device=x.device).nonzero().flatten()], mt.empty(4, device="meta"))
    assert mt.equal(program(mt.arange(4.0, device="cpu")), mt.arange(1.0, 4, device="cpu"))


def test_traces_inside_vmap_are_refused():
    x = mt.arange(6.0, device="cpu").view(2, 3)
    with pytest.raises(RuntimeError, match="outside of vmap"):
        mt.vmap(lambda a: mt.program.trace(lambda b: b * 2, a)(a))(x)
    program = mt.program.trace(lambda b: b * 2, x[0])
    assert mt.equal(mt.vmap(program)(x), x * 2)


def test_a_slice_keeps_its_bounds_where_they_reach_the_end():
    x = mt.empty(3, 4, device="meta")
    for fn, wanted in ((lambda t: t[:5], (0, 0, 5)), (lambda t: t[:], (0, 0, (1 << 63) - 1)), (lambda t: t[0:3:1], (0, 0, 3))):
        (call,) = mt.program.trace(fn, x).calls
        assert call.op.name == "slice" and call.args[1:3] == wanted[:2] and call.args[3:] in (wanted[2:], ())
    assert [call.op.name for call in mt.program.trace(lambda t: t[:9, :9], x).calls] == ["alias"]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.InstanceNorm2d, partial(nn.InstanceNorm2d, affine=True, track_running_stats=True)],
                         ids=["batch", "instance", "instance with statistics"])  # fmt: skip
def test_normalization_needs_the_memory_that_it_needed_before(norm, training, grad):
    with mt.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), norm(4), nn.ReLU(inplace=True)).train(training)
        x = mt.empty(2, 3, 8, 8)
    logs = []
    with mt.set_grad_enabled(grad):
        for run in (model, mt.program.trace(model, x)):
            with mt.analysis.MemoryLog() as log:
                run(x)
            logs.append([(event.kind, event.change) for event in log.events()])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("last", ["RMSNorm", "Dropout", "BatchNorm1d"])
def test_a_training_step_creates_and_frees_what_the_callable_does(last):
    with mt.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), {"RMSNorm": nn.RMSNorm(4), "Dropout": nn.Dropout(), "BatchNorm1d": nn.BatchNorm1d(3)}[last])
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    x, logs = mt.empty(2, 3, 4, device="meta"), []
    step(x)
    program = mt.program.trace(step, x)
    program(x)
    for run in (step, program):
        with mt.analysis.MemoryLog() as log:
            run(x)
        logs.append([(event.kind, event.change) for event in log.events()])
    assert logs[0] == logs[1]
    assert "_data" not in program.operators()
