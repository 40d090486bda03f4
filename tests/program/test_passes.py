"""Passes, comparison and printing of programs."""

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")


def rand(*shape):
    return mt.rand(*shape, device="cpu")


def names(program):
    return [call.op.name for call in program.calls]


def test_dead_code():
    def fn(x):
        x.exp().sin()
        y = x + 1
        y.mul_(2)
        z = x.clone()
        z[0] = 3  # written, and never read
        return y

    x = rand(3)
    program = mt.program.trace(fn, x)
    less = mt.program.dead_code(program)
    assert names(less) == ["add", "mul_"] and mt.equal(less(x), program(x))


def test_dead_code_keeps_writes_to_what_others_see():
    model = nn.BatchNorm1d(3, device="cpu")
    program = mt.program.trace(lambda x: (model(x), x.add_(1), None)[2], rand(4, 3))
    less = mt.program.dead_code(program)
    assert {"copy_", "add_"} <= set(names(less))
    before = model.running_mean.clone()
    less(rand(4, 3))
    assert not mt.equal(before, model.running_mean)


def test_dead_code_keeps_random_numbers():
    def fn(x):
        mt.rand(3, device="cpu")
        return x + mt.rand(3, device="cpu")

    x = rand(3)
    program = mt.program.trace(fn, x)
    less = mt.program.dead_code(program)
    assert names(less) == ["rand", "add"]
    mt.manual_seed(1)
    a = program(x)
    mt.manual_seed(1)
    assert mt.equal(a, less(x))


def test_dead_code_of_a_chain_of_views():
    def fn(x):
        y = mt.zeros(4, device="cpu")
        y.view(2, 2)[0].add_(x)
        return y

    x = rand(2)
    program = mt.program.trace(fn, x)
    assert mt.equal(mt.program.dead_code(program)(x), program(x))


def test_common_subexpressions():
    def fn(x):
        a = x.exp()
        b = x.exp()
        x.add_(1)
        return a + b + x.exp() + x.exp() + x.pow(2) + x.pow(2.0) + mt.rand(3, device="cpu") + mt.rand(3, device="cpu")

    x = rand(3)
    program = mt.program.trace(fn, x)
    less = mt.program.common_subexpressions(program)
    assert names(less).count("exp") == 2 and names(less).count("pow") == 2 and names(less).count("rand") == 2
    outcomes = []
    for one in (program, less):
        mt.manual_seed(1)
        outcomes.append(one(x.clone()))
    assert mt.equal(*outcomes)


def test_common_subexpressions_leave_results_that_are_written():
    def fn(x):
        a, b = x.exp(), x.exp()
        a.add_(1)
        return a + b

    x = rand(3)
    program = mt.program.trace(fn, x)
    assert mt.equal(mt.program.common_subexpressions(program)(x), program(x))


def test_common_subexpressions_keep_memory_alive_long_enough():
    def fn(x):
        a = x.exp().sum()
        for _ in range(3):
            a = a + x.exp().sum()
        return a

    x = rand(3)
    program = mt.program.trace(fn, x)
    less = mt.program.common_subexpressions(program)
    assert names(less).count("exp") == 1 and mt.equal(less(x), program(x))


def test_equal_and_diff():
    def make(width, last):
        with mt.device("meta"):
            model = nn.Sequential(nn.Linear(4, width), last, nn.Linear(width, 2))
            return mt.program.trace(model, mt.empty(1, 4))

    one, other = make(8, nn.ReLU()), make(8, nn.ReLU())
    assert mt.program.equal(one, other) and not mt.program.diff(one, other)
    changed = make(8, nn.GELU())
    assert not mt.program.equal(one, changed)
    assert {change.kind for change in mt.program.diff(one, changed)} == {"removed", "added"}
    wider = mt.program.diff(one, make(16, nn.ReLU()))
    assert "0.weight: float32[8, 4] -> 0.weight: float32[16, 4]" in " ".join(map(str, wider))


def test_code_runs():
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4)).to("cpu")

    def fn(x):
        y = model(x)
        y.sum().backward()
        return {"y": y.detach(), "parts": (y.detach()[0], [1.5, float("inf")])}

    x = rand(5, 8)
    program = mt.program.trace(fn, x)
    scope = {}
    exec(program.code, scope)
    runs = []
    for run in (lambda tensors: scope["forward"](tensors, x), lambda tensors: program.bind(tensors)(x)):
        tensors = {name: t.detach().clone() for name, t in program.tensors.items()}
        mt.manual_seed(4)
        runs.append((run(tensors), tensors))
    assert mt.equal(runs[0][0]["y"], runs[1][0]["y"]) and runs[0][0]["parts"][1] == [1.5, float("inf")]
    for name, t in runs[0][1].items():
        other = runs[1][1][name]
        assert mt.equal(t, other), name


def test_listing():
    program = mt.program.trace(nn.Linear(3, 2, device="meta"), mt.empty(5, 3, device="meta"))
    text = str(program)
    assert "input: float32[5, 3]" in text and "weight: float32[2, 3] = parameter weight" in text
    assert "float32[5, 2] = nn.functional.linear(input, weight, bias)" in text
    assert repr(program) == "Program('Linear', inputs=1, held=2, calls=1)"


def test_names_that_collide():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mt", mt.zeros(2, device="cpu"))
            self.register_buffer("x0", mt.zeros(2, device="cpu"))

        def forward(self, lambda_):
            return lambda_ + self.mt + self.x0

    program = mt.program.trace(Odd(), rand(2))
    scope = {}
    exec(program.code, scope)
    x = rand(2)
    assert mt.equal(scope["forward"](program.tensors, x), x)


def test_equality_tells_sharing_apart():
    def pair(x):
        return x.clone(), x.clone()

    x = rand(3)
    one = mt.program.trace(lambda x: mt.add(*pair(x)), x)
    values = [call.result for call in one.calls]
    twice = one.replace(calls=[*one.calls[:2], one.calls[2].replace(args=(values[0], values[0]))])
    assert not mt.program.equal(one, twice) and not mt.program.equal(twice, one) and mt.program.equal(twice, twice)
    zero, minus = (mt.program.trace(lambda x, n=n: x * n, x) for n in (0.0, -0.0))
    assert not mt.program.equal(zero, minus)


def test_diff_of_long_programs():
    def model(depth):
        return nn.Sequential(*[nn.Linear(4, 4, device="meta") for _ in range(depth)])

    x = mt.empty(1, 4, device="meta")
    one, other = mt.program.trace(model(2000), x), mt.program.trace(model(2001), x)
    changes = mt.program.diff(one, other)
    assert [change.kind for change in changes] == ["parameter", "parameter", "added"]

def test_code_with_batch_norm_in_training_can_be_differentiated():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).to("cpu")
    x = rand(5, 4)
    program = mt.program.trace(model, x)
    scope = {}
    exec(program.code, scope)
    grads = []
    for run in (lambda: scope["forward"](program.tensors, x), lambda: program(x), lambda: model(x)):
        model.zero_grad()
        run().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    assert all(mt.equal(a, b) and mt.equal(a, c) for a, b, c in zip(*grads))
