"""Programs without a backward pass that contain custom functions: a gradient that they do not have is an error."""

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker
from metatensor.program import dead_code, functionalize, load, split, trace
from metatensor.utils.flop_counter import FlopCounterMode

MESSAGE = "no gradient leads through Scaled"


class Scaled(mt.autograd.Function):
    """Doubles its argument. Its gradient is 10, so that it cannot be confused with that of an operator."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 10

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 10


class Same(mt.autograd.Function):
    """Returns its argument, and reverses the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Written(mt.autograd.Function):
    """Doubles its argument in place."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 10


class Parts(mt.autograd.Function):
    """Returns two parts, of which only the first has a gradient, and their number."""

    @staticmethod
    def forward(ctx, x, count):
        first, second = x[:2] * count, x[2:] * count
        ctx.mark_non_differentiable(second)
        return first, second, count

    @staticmethod
    def backward(ctx, grad, *_):
        return mt.zeros(4), None


def ones(*shape, requires_grad=False):
    return mt.ones(*shape, device="cpu", requires_grad=requires_grad)


def one_path(x):
    return Scaled.apply(x).exp()


def two_paths(x):
    return Scaled.apply(x) + x.exp()


def executed(program):
    scope = {}
    exec(program.code, scope)
    return lambda *args: scope["forward"](program.tensors, *args)


def in_parts(program):
    parts = split(program, where=lambda call: call.op.name == "_without_backward")
    assert len(parts) == 2
    return parts


def reloaded(program, tmp_path):
    program.save(tmp_path / "p.mtp")
    return load(tmp_path / "p.mtp")


@pytest.mark.parametrize("fn", [one_path, two_paths])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("way", ["program", "file", "code", "dead code", "functionalized", "parts", "traced again"])
def test_a_gradient_that_is_not_in_the_program_is_an_error(fn, requires_grad, way, tmp_path):
    program = trace(fn, ones(3, requires_grad=requires_grad))
    run = {
        "program": lambda: program,
        "file": lambda: reloaded(program, tmp_path),
        "code": lambda: executed(program),
        "dead code": lambda: dead_code(program),
        "functionalized": lambda: functionalize(program),
        "parts": lambda: in_parts(program),
        "traced again": lambda: trace(program, ones(3)),
    }[way]()
    x = ones(3, requires_grad=True)
    result = run(x)
    assert result.requires_grad
    assert mt.equal(result, fn(ones(3)))
    with pytest.raises(RuntimeError, match=MESSAGE):
        result.sum().backward()
    assert x.grad is None


def test_without_gradients_the_program_runs_as_before():
    program = trace(two_paths, ones(3, requires_grad=True))
    with mt.no_grad():
        result = program(ones(3, requires_grad=True))
    assert not result.requires_grad
    assert not program(ones(3)).requires_grad
    assert mt.equal(result, two_paths(ones(3)))


def test_gradients_that_do_not_pass_through_the_function_are_right():
    program = trace(lambda x, y: Scaled.apply(x) * y, ones(3, requires_grad=True), ones(3, requires_grad=True))
    y = ones(3, requires_grad=True)
    program(ones(3), y).sum().backward()
    assert y.grad.tolist() == [2, 2, 2]
    program(ones(3, requires_grad=True).detach(), y).sum().backward()
    y = ones(3, requires_grad=True)
    result = program(ones(3, requires_grad=True), y)
    assert mt.autograd.grad(result.sum(), y)[0].tolist() == [2, 2, 2]


def test_gradients_of_parameters_before_the_function_are_errors():
    class Model(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = mt.nn.Linear(3, 3, device="cpu"), mt.nn.Linear(3, 3, device="cpu")

        def forward(self, x):
            return self.second(Scaled.apply(self.first(x)))

    model = Model()
    program = trace(model, ones(2, 3))
    result = program(ones(2, 3)).sum()
    grads = mt.autograd.grad(result, list(model.second.parameters()), retain_graph=True)
    expected = mt.autograd.grad(model(ones(2, 3)).sum(), list(model.second.parameters()))
    assert all(mt.equal(a, b) for a, b in zip(grads, expected, strict=True))
    with pytest.raises(RuntimeError, match=MESSAGE):
        result.backward()


@pytest.mark.parametrize("transform", ["grad", "jacrev", "jvp", "vjp"])
def test_transforms(transform):
    program = trace(lambda x: two_paths(x).sum(), ones(3))
    x = ones(3)
    with pytest.raises(RuntimeError, match=MESSAGE):
        if transform == "vjp":
            mt.func.vjp(program, x)[1](mt.ones((), device="cpu"))
        elif transform == "jvp":
            mt.func.jvp(program, (x,), (x,))
        else:
            getattr(mt.func, transform)(program)(x)


def test_vmap():
    program = trace(two_paths, ones(3))
    batch = mt.arange(6.0, device="cpu").reshape(2, 3)
    assert mt.equal(mt.func.vmap(program)(batch), two_paths(batch))
    traced = trace(mt.func.vmap(two_paths), batch)
    assert mt.equal(traced(batch), two_paths(batch))
    with pytest.raises(RuntimeError, match=MESSAGE):
        traced(batch.clone().requires_grad_()).sum().backward()
    with pytest.raises(RuntimeError, match=MESSAGE):
        mt.func.vmap(mt.func.grad(lambda x: program(x).sum()))(batch)


def test_an_argument_that_is_returned():
    def fn(x):
        h = x * 3
        return Same.apply(h) + h

    program = trace(fn, ones(3))
    assert mt.equal(program(ones(3)), fn(ones(3)))
    with pytest.raises(RuntimeError, match="through Same"):
        program(ones(3, requires_grad=True)).sum().backward()
    # The argument itself keeps its gradient.
    program = trace(lambda x: (Same.apply(x), x * 3), ones(3, requires_grad=True))
    x = ones(3, requires_grad=True)
    program(x)[1].sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize("later", [False, True])
def test_results_that_are_changed_in_place(later):
    def fn(x):
        y = Scaled.apply(x)
        if later:
            y[0].add_(1)
        y.add_(1)
        return y

    for program in (trace(fn, ones(3, requires_grad=True)), functionalize(trace(fn, ones(3)))):
        result = program(ones(3, requires_grad=True))
        assert mt.equal(result, fn(ones(3)))
        with pytest.raises(RuntimeError, match=MESSAGE):
            result.sum().backward()
        with pytest.raises(RuntimeError, match=MESSAGE):
            program(ones(3, requires_grad=True))[1:].sum().backward()


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("passes", [lambda p: p, functionalize])
def test_arguments_that_the_function_changes_in_place(view, passes):
    def fn(x):
        h = x + 1
        part = h[1:]
        Written.apply(h)
        return part if view else h

    program = passes(trace(fn, ones(3)))
    result = program(ones(3, requires_grad=True))
    assert mt.equal(result, fn(ones(3)))
    with pytest.raises(RuntimeError, match="through Written"):
        result.sum().backward()


def test_outputs_without_a_gradient():
    program = trace(lambda x: Parts.apply(x, 3)[:2], ones(4, requires_grad=True))
    first, second = program(ones(4, requires_grad=True))
    assert first.requires_grad and not second.requires_grad
    with pytest.raises(RuntimeError, match="through Parts"):
        first.sum().backward()


def test_under_no_grad_nothing_is_noted():
    with mt.no_grad():
        program = trace(two_paths, ones(3, requires_grad=True))
    assert "_without_backward" not in program.operators()
    x = ones(3, requires_grad=True)
    assert not program(x).requires_grad


@pytest.mark.parametrize("fn", [two_paths, lambda x: Same.apply(x * 2), lambda x: Written.apply(x * 2).add_(1)])
def test_a_program_with_a_backward_pass_has_the_gradient(fn):
    def step(x):
        y = fn(x)
        y.sum().backward()
        return y

    x = ones(3, requires_grad=True)
    program = trace(step, x)
    assert "_without_backward" not in program.operators()
    x = ones(3, requires_grad=True)
    fn(x).sum().backward()
    given = ones(3, requires_grad=True)
    program(given)
    (effect,) = [e for e in program.effects if e.kind == "grad"] or [None]
    if effect is not None:
        assert mt.equal(program.tensors[effect.name].grad, x.grad)


def test_costs_do_not_change():
    program = trace(two_paths, mt.empty(3, device="meta", requires_grad=True))
    (call,) = [c for c in program.calls if c.op.name == "_without_backward"]
    assert call.result.storage == call.args[0].storage
    x = mt.empty(3, device="meta")
    with FlopCounterMode(display=False) as traced, MemoryTracker() as of_program:
        program(x)
    with FlopCounterMode(display=False) as direct, MemoryTracker() as of_function:
        two_paths(x)
    assert traced.get_total_flops() == direct.get_total_flops()
    assert of_program.peak == of_function.peak


def test_modules_with_backward_hooks():
    model = mt.nn.Sequential(mt.nn.Linear(2, 2, device="cpu"), mt.nn.ReLU())
    model[1].register_full_backward_hook(lambda *_: None)
    program = trace(model, ones(2))
    with mt.no_grad():
        program(ones(2))
    with pytest.raises(RuntimeError, match="through a module with backward hooks"):
        program(ones(2)).sum().backward()


def test_a_program_of_named_sizes_has_no_gradient_either():
    program = trace(two_paths, ones(3), sizes={"n": (1, 8)}, dims={"x": ["n"]})
    assert mt.equal(program(ones(5)), two_paths(ones(5)))
    with pytest.raises(RuntimeError, match=MESSAGE):
        program(ones(5, requires_grad=True)).sum().backward()
