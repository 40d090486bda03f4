"""Custom functions: contexts, saved tensors, dirty and non-differentiable results."""

import pytest

import metatensor as mt
from metatensor.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor=1.0):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.factor, None


def leaf(*values):
    return mt.tensor(list(values), device="cpu", requires_grad=True)


def test_backward_is_called():
    x = leaf(1.0, 2.0)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward" == type(y.grad_fn).__name__
    assert y.grad_fn.next_functions[0][0].variable is x and y.grad_fn.factor == 2
    y.sum().backward()
    assert x.grad.tolist() == [6, 24]


def test_functions_are_differentiated_twice():
    x = leaf(2.0)
    (first,) = mt.autograd.grad(Cube.apply(x), x, create_graph=True)
    assert mt.autograd.grad(first, x)[0].tolist() == [12]


def test_on_meta():
    x = mt.empty(3, 4, device="meta", requires_grad=True)
    Cube.apply(x).sum().backward()
    assert x.grad.shape == (3, 4) and x.grad.is_meta


def test_saved_outputs_have_no_cycle_and_their_node():
    import gc
    import weakref

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    gc.disable()
    try:
        x = leaf(0.0)
        y = Exp.apply(x)
        node = weakref.ref(y.grad_fn)
        (first,) = mt.autograd.grad(y, x, create_graph=True)
        assert mt.autograd.grad(first, x)[0].tolist() == [1]
        del y, first
        assert node() is None
    finally:
        gc.enable()


def test_freed_and_changed_tensors():
    x = leaf(1.0)
    y = Cube.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="freed"):
        y.backward()
    z = x * 1
    y = Cube.apply(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match=r"CubeBackward.*changed in\s+place"):
        y.backward()


def test_undefined_gradients():
    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b))
            return (b if a is None else a + b), None

    for materialize in (True, False):
        seen = []
        x = leaf(1.0)
        Two.apply(x, materialize)[1].backward()
        assert x.grad.tolist() == [1]
        assert seen[0][0].tolist() == [0] if materialize else seen[0][0] is None


def test_results_without_gradient():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            values, places = mt.sort(x)
            rounded = values.round()
            ctx.mark_non_differentiable(rounded)
            return values, places, rounded

        @staticmethod
        def backward(ctx, grad, places, rounded):
            return grad

    values, places, rounded = Sort.apply(leaf(2.0, 1.0))
    assert values.requires_grad and not places.requires_grad and not rounded.requires_grad


def test_changed_arguments():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0)
    y = x * 1
    assert Double.apply(y) is y and y.grad_fn.name() == "DoubleBackward"
    y.backward()
    assert x.grad.tolist() == [2]


def test_returned_arguments_are_views():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    y.backward()
    assert x.grad.tolist() == [3]


def test_setup_context():
    class Scale(Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs_input_grad == (True, False)
            return grad * ctx.factor, None

    x = leaf(1.0)
    Scale.apply(x, 4).backward()
    assert x.grad.tolist() == [4]


WRONG = {
    "too few": (lambda grad: (), RuntimeError, "returned 0 gradients for 1"),
    "too many": (lambda grad: (grad, grad), RuntimeError, "returned 2 gradients for 1"),
    "a number": (lambda grad: 3, RuntimeError, "returned int"),
    "shape": (lambda grad: mt.ones(7, device="cpu"), RuntimeError, r"shape \[7\].*shape \[2\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_gradients(case):
    body, error, message = WRONG[case]

    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return body(grad)

    with pytest.raises(error, match=message):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()


def test_once_differentiable():
    class Once(Cube):
        @staticmethod
        @mt.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x, None

    x = leaf(1.0)
    (first,) = mt.autograd.grad(Once.apply(x), x, mt.ones(1, device="cpu", requires_grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated"):
        first.backward()


def test_methods_must_be_defined():
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(leaf(1.0))
    with pytest.raises(TypeError, match="save_for_backward: expected Tensors, got int"):

        class Bad(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)

        Bad.apply(leaf(1.0))
