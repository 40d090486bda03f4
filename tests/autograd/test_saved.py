"""What nodes save: under hooks, for second derivatives, and where other code runs the operators."""

import pytest

import metatensor as mt
from metatensor.autograd.graph import save_on_cpu, saved_tensors_hooks
from metatensor.utils._python_dispatch import TorchDispatchMode


def _copies():
    return saved_tensors_hooks(lambda t: t.clone(), lambda t: t)


class _Square(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * (x + y / x)  # 2 x, of which one half goes through the output


FUNCTIONS = {
    "argument": lambda z: (z * z).sum(),
    "result": lambda z: z.exp().sum(),
    "list": lambda z: mt.linalg.multi_dot([z.reshape(1, -1), z.reshape(-1, 1)]).sum() + mt.cat([z, z]).pow(3).sum(),
    "custom": lambda z: _Square.apply(z).sum(),
}


@pytest.mark.parametrize("hooks", [_copies, save_on_cpu])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_under_hooks(name, hooks):
    x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)

    def second(context):
        z = x * 2
        with context:
            y = FUNCTIONS[name](z)
        first = mt.autograd.grad(y, x, create_graph=True)[0]
        return mt.autograd.grad(first.sum(), x)[0]

    assert second(hooks()).tolist() == second(mt.enable_grad()).tolist()


def test_pack_hooks_run_without_recording():
    x = mt.ones(2, device="cpu", requires_grad=True)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append((t * 2).requires_grad) or t, lambda t: t):
        (x * x).sum().backward()
    assert seen == [False, False]


def test_a_hook_that_returns_no_tensor():
    x = mt.ones(2, device="cpu", requires_grad=True)
    with saved_tensors_hooks(lambda t: t, lambda t: None):
        y = x * x
    with pytest.raises(TypeError, match="the unpack hook returned NoneType"):
        y.sum().backward()


class _Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_calls_that_a_dispatch_mode_runs_are_recorded():
    x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)

    def loss():
        y = mt.nn.functional.softmax(x * x, 0)
        y = y * y
        y.add_(x)
        return mt.nn.functional.cross_entropy(y.reshape(1, 2), mt.tensor([1], device="cpu"))

    with _Passing():
        (found,) = mt.autograd.grad(loss(), x)
    assert found.tolist() == mt.autograd.grad(loss(), x)[0].tolist()


def test_results_that_were_not_recorded_raise():
    from metatensor._core.execute import mark_output

    y = mark_output(mt.ones(2, device="cpu"))
    assert y.grad_fn is not None
    with pytest.raises(NotImplementedError, match="not recorded"):
        (y * 2).sum().backward()


def test_a_gradient_that_nobody_else_holds_is_not_copied():
    made = []

    class Double(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            result = grad * 2
            made.append(result.data_ptr())
            return result

    x = mt.ones(3, device="cpu", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.data_ptr() == made[0]
    held = mt.ones(3, device="cpu")
    y = x.view_as(x)
    x.grad = None
    y.backward(held)
    x.grad.zero_()
    assert held.tolist() == [1, 1, 1]


def test_backward_with_inputs_runs_hooks_of_leaves():
    x, w = (mt.ones(2, device="cpu", requires_grad=True) for _ in range(2))
    calls = []
    x.register_post_accumulate_grad_hook(lambda leaf: calls.append(leaf.grad.tolist()))
    z = x * 3
    (z * w).sum().backward(inputs=[x, z])
    assert calls == [[3.0, 3.0]] and z.grad.tolist() == [1, 1] and w.grad is None


def test_increment_version():
    a, b = mt.zeros(2, device="meta"), mt.zeros(2, device="meta")
    mt.autograd.graph.increment_version(a)
    mt.autograd.graph.increment_version([a, b])
    assert (a._version, b._version) == (2, 1)
    with pytest.raises(TypeError, match="increment_version: expected a tensor or a sequence of tensors, got a list"):
        mt.autograd.graph.increment_version((a, [b]))
    assert (a._version, b._version) == (2, 1)
