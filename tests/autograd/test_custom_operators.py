"""Gradients of custom operators: `Op.gradient`, decompositions, views, and PyTorch's `torch.library`."""

import gc
import itertools
import weakref

import numpy as np
import pytest

import metatensor as mt
from metatensor.torch_api import torch
from metatensor.torch_api.torch import library

pytest.importorskip("metatensor_cpu")
numbers = itertools.count()


@pytest.fixture
def name():
    return f"gradient_test::op{next(numbers)}"


def leaf(*values, **kwargs):
    return mt.tensor(list(values), device="cpu", requires_grad=True, **kwargs)


def define(name, schema, meta, kernel=None):
    op = mt.library.define(name + schema)
    mt.library.meta(name)(meta)
    if kernel is not None:
        op.kernel("cpu")(kernel)
    return op


def like(x, *_, **__):
    return mt.Spec(x.shape, x.dtype)


def cube(name):
    return define(name, "(Tensor x, float by=1.0) -> Tensor", like,
                  lambda out, x, by: np.asarray(out).__setitem__(..., np.asarray(x) ** 3 * by))  # fmt: skip


def test_a_function_for_each_argument(name):
    op = define(name, "(Tensor x, Tensor y, *, float by=2.0) -> Tensor", like,
                lambda out, x, y, by: np.asarray(out).__setitem__(..., np.asarray(x) * np.asarray(y) * by))  # fmt: skip
    op.gradient(x=lambda grad, y, by: grad * y * by, y=lambda grad, x, by: grad * x * by)
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = op(x, y, by=5.0)
    assert z.grad_fn._saved_y is y
    z.sum().backward()
    assert x.grad.tolist() == [15, 20] and y.grad.tolist() == [5, 10]
    assert op(x, y.detach()).grad_fn._saved_x is None  # x is needed for the gradient of y alone
    with mt.no_grad():
        assert not op(x, y).requires_grad
    x, y = x.detach().to("meta").requires_grad_(), y.detach().to("meta")
    op(x, y).sum().backward()
    assert x.grad.is_meta and x.grad.shape == (2,)


def test_one_function_for_all_arguments(name):
    op = define(name, "(Tensor x, Tensor? y=None) -> Tensor", like, lambda out, x, y: x + 1 if y is None else x * y)

    @op.gradient
    def _(grad, x, y, wanted):
        assert wanted == (True, y is not None)
        return (grad * y, grad * x) if y is not None else (grad, None)

    x, y = leaf(2.0), leaf(3.0)
    op(x, y).backward()
    op(x).backward()
    assert x.grad.tolist() == [4] and y.grad.tolist() == [2]


def test_one_function_for_some_arguments(name):
    op = define(name, "(Tensor x, Tensor weight, int n) -> Tensor", like, lambda out, x, weight, n: x * weight * n)

    @mt.library.gradient(name, "x")
    def _(grad, weight, n):
        return grad * weight * n

    x, w = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match=r"argument 'weight' requires grad, but .* no gradient for it; pass weight\.detach"):
        op(x, w, 2)
    op(x, w.detach(), 2).backward()
    assert x.grad.tolist() == [6]


def test_lists_and_several_results(name):
    op = define(name, "(Tensor[] xs, Tensor scale) -> (Tensor total, Tensor scaled)", lambda xs, scale: (like(scale), like(scale)),
                lambda out, xs, scale: (sum(xs), scale * len(xs)))  # fmt: skip

    @op.gradient
    def _(grad_total, grad_scaled, xs):
        return [grad_total for _ in xs], grad_scaled * len(xs)

    xs, scale = [leaf(1.0), leaf(2.0), mt.ones(1)], leaf(4.0)
    total, scaled = op(xs, scale)
    (total * 2 + scaled).backward()
    assert xs[0].grad.tolist() == xs[1].grad.tolist() == [2] and scale.grad.tolist() == [3]


def test_differentiated_twice(name):
    op = cube(name)
    op.gradient(x=lambda grad, x, by: grad * 3 * x * x * by)
    x = leaf(2.0, dtype=mt.float64)
    assert mt.autograd.gradgradcheck(op, x) and mt.autograd.gradcheck(op, x)
    (first,) = mt.autograd.grad(op(x, 2.0), x, create_graph=True)
    assert mt.autograd.grad(first, x)[0].tolist() == [24]


def test_a_decomposition_is_differentiated(name):
    op = cube(name)
    op.decomposition(lambda x, by: x * x * x * by)
    x = leaf(2.0)
    op(x, by=2.0).backward()
    assert x.grad.tolist() == [24]
    op.gradient(x=lambda grad, x: grad * 0 + 7)  # a declared gradient is preferred
    x.grad = None
    op(x).backward()
    assert x.grad.tolist() == [7]


def test_without_a_gradient(name):
    op = cube(name)
    y = op(leaf(2.0))
    with pytest.raises(NotImplementedError, match=f"{name}: metatensor has no rule"):
        y.backward()
    op.gradient(x=lambda grad: grad)  # declared after the first call
    x = leaf(2.0)
    op(x).backward()
    assert x.grad.tolist() == [1]


def test_writing_without_a_gradient(name):
    op = define(name, "(Tensor(a!) total, Tensor x) -> ()", lambda total, x: None)

    @op.kernel("cpu")
    def _(out, total, x):
        np.asarray(total)[...] += np.asarray(x)

    total, x = mt.zeros(2), leaf(1.0, 2.0)
    op(total, x)
    assert total.tolist() == [1, 2] and total.requires_grad
    with pytest.raises(NotImplementedError, match=f"{name}: metatensor has no rule"):
        total.sum().backward()
    whole = mt.zeros(4)
    op(whole[1:3], x)  # through a view
    with pytest.raises(NotImplementedError, match=f"{name}: metatensor has no rule"):
        whole.sum().backward()
    total = mt.zeros(2)
    op(total, x.detach())
    assert not total.requires_grad


def test_views(name):
    op = mt.op(name, schema="(Tensor(a) x, *, int at=0) -> Tensor(a)")(lambda x, at: x[at])
    x = leaf(1.0, 2.0)
    op(x, at=1).backward()
    assert x.grad.tolist() == [0, 1]
    h = x * 1
    op(h, at=0).mul_(5)
    h.sum().backward()
    assert x.grad.tolist() == [5, 2]


def test_fake_tensors(name):
    op = cube(name)
    op.gradient(x=lambda grad, x, by: grad * 3 * x * x * by)
    from metatensor.deferred import FakeTensorMode

    with FakeTensorMode():
        x = mt.ones(3, device="cpu", requires_grad=True)
        op(x).sum().backward()
        assert x.grad.device.type == "cpu" and x.grad.shape == (3,)


def test_mistakes(name):
    op = cube(name)
    for rules, message in (({"z": lambda grad: grad}, "there is no argument 'z'"), ({"x": lambda grad, y: grad}, "is called 'y'"),
                           ({"by": lambda grad: grad}, "'by' is not a tensor"), ({"x": 3}, "must be a function, not int")):
        with pytest.raises(TypeError, match=message):
            op.gradient(**rules)
    factor = 2
    with pytest.raises(TypeError, match="must not capture variables"):
        op.gradient(x=lambda grad: grad * factor)
    with pytest.raises(TypeError, match="names of arguments must be str"):
        op.gradient("x", 3)
    with pytest.raises(TypeError, match="pass either"):
        op.gradient("x", x=lambda grad: grad)
    op.gradient(x=lambda grad: grad)
    with pytest.raises(RuntimeError, match="declared already"):
        op.gradient(x=lambda grad: grad)
    with pytest.raises(RuntimeError, match="declared already"):
        mt.mul.gradient(input=lambda grad: grad)
    with pytest.raises(AttributeError, match="no op 'nonsense'"):
        mt.library.gradient("nonsense")
    writing = define(name + "_", "(Tensor(a!) x) -> ()", lambda x: None)
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        writing.gradient(x=lambda grad: grad)
    pair = define(name + "pair", "(Tensor x, Tensor y) -> Tensor", like, lambda out, x, y: x + y)
    pair.gradient(lambda grad: grad)
    with pytest.raises(RuntimeError, match="1 gradients for 2 arguments"):
        pair(leaf(1.0), leaf(1.0)).backward()


# torch.library -----------------------------------------------------------------------------------------------------------------


def scaled(name, **how):
    @library.custom_op(name, mutates_args=())
    def op(x: mt.Tensor, by: float) -> mt.Tensor:
        return mt.from_numpy(np.asarray(x.detach()) * by)

    op.register_fake(lambda x, by: mt.empty_like(x))
    return op


def test_register_autograd(name):
    op = scaled(name)

    def setup_context(ctx, inputs, output):
        x, ctx.by = inputs
        ctx.save_for_backward(x, output)
        assert ctx.needs_input_grad == (True, False) and not mt.is_grad_enabled()

    def backward(ctx, grad):
        x, output = ctx.saved_tensors
        assert output.tolist() == (x * ctx.by).tolist() and ctx.needs_input_grad == (True, False)
        return grad * ctx.by, None

    op.register_autograd(backward, setup_context=setup_context)
    x = leaf(1.0, 2.0)
    y = op(x, 3.0)
    space, _, short = name.partition("::")
    assert y.grad_fn.name() == f"GeneratedBackwardFor_{space}_{short}_defaultBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    with mt.no_grad():
        assert not op(x, 3.0).requires_grad
    assert not op(x.detach(), 3.0).requires_grad
    assert getattr(getattr(torch.ops, space), short)(x, 2.0).requires_grad
    with pytest.raises(RuntimeError, match="declared already"):
        op.register_autograd(backward)


def test_on_meta_and_twice(name):
    op = scaled(name)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    library.register_autograd(name, lambda ctx, grad: (grad * ctx.saved_tensors[0] * 2, None), setup_context=keep)
    x = mt.empty(3, device="meta", requires_grad=True)
    (first,) = mt.autograd.grad(op(x, 2.0).sum(), x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    assert first.is_meta and second.shape == (3,)
    x = leaf(3.0)
    (first,) = mt.autograd.grad(op(x, 2.0), x, create_graph=True)
    assert first.tolist() == [6] and mt.autograd.grad(first, x)[0].tolist() == [2]


def test_lists_of_tensors(name):
    library.define(name, "(Tensor[] xs, Tensor y, float by) -> Tensor[]")
    library.impl(name, "cpu", lambda xs, y, by: [x * y * by for x in xs])
    library.register_fake(name, lambda xs, y, by: [mt.empty_like(x) for x in xs])
    seen = []

    def setup_context(ctx, inputs, output):
        xs, y, ctx.by = inputs
        assert isinstance(xs, list) and isinstance(output, list)
        ctx.save_for_backward(*xs, y)

    def backward(ctx, grads):
        seen.append(ctx.needs_input_grad)
        *xs, y = ctx.saved_tensors
        return [g * y * ctx.by for g in grads], sum(g * x * ctx.by for g, x in zip(grads, xs, strict=True)), None

    library.register_autograd(name, backward, setup_context=setup_context)
    space, _, short = name.partition("::")
    op = getattr(getattr(torch.ops, space), short)
    xs, y = [leaf(1.0), mt.tensor([2.0], device="cpu"), leaf(3.0)], leaf(5.0)
    products = op(xs, y, 10.0)
    assert isinstance(products, list)
    (products[0] + products[2]).backward()
    assert seen == [([True, False, True], True, False)]
    assert xs[0].grad.tolist() == xs[2].grad.tolist() == [50] and y.grad.tolist() == [40]


def test_several_results(name):
    library.define(name, "(Tensor x, Tensor? y) -> (Tensor, Tensor)")
    library.impl(name, "cpu", lambda x, y: (x * 2, x * 3))
    library.register_fake(name, lambda x, y: (mt.empty_like(x), mt.empty_like(x)))
    library.register_autograd(name, lambda ctx, first, second: (first * 2 + second * 3, None))
    space, _, short = name.partition("::")
    x = leaf(1.0)
    twice, thrice = getattr(getattr(torch.ops, space), short)(x, None)
    thrice.backward(retain_graph=True)  # the gradient of the other is zeros
    (twice + thrice).backward()
    assert x.grad.tolist() == [8]


def test_keyword_only_arguments(name):
    library.define(name, "(Tensor x, *, float by=2.0) -> Tensor")
    library.impl(name, "cpu", lambda x, *, by: x * by)
    library.register_fake(name, lambda x, *, by=2.0: mt.empty_like(x))

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.by = keyword_only_inputs["by"]

    library.register_autograd(name, lambda ctx, grad: grad * ctx.by, setup_context=setup_context)
    space, _, short = name.partition("::")
    x = leaf(1.0)
    getattr(getattr(torch.ops, space), short)(x, by=7.0).backward()
    getattr(getattr(torch.ops, space), short)(x).backward()
    assert x.grad.tolist() == [9]


def test_without_a_fake_function_the_kernel_runs_once(name):
    runs = []

    @library.custom_op(name, mutates_args=())
    def op(x: mt.Tensor) -> mt.Tensor:
        runs.append(mt.is_grad_enabled())
        return x * 2

    op.register_autograd(lambda ctx, grad: grad * 2)
    x = leaf(1.0)
    y = op(x)
    assert runs == [False]
    y.backward()
    assert x.grad.tolist() == [2]


def test_kernels_for_autograd(name):
    space, _, short = name.partition("::")
    lib = library.Library(space, "FRAGMENT")
    lib.define(f"{short}(Tensor x) -> Tensor")
    lib.impl(short, lambda x: x * x, "CPU")
    lib.impl(short, lambda x: mt.empty_like(x), "Meta")
    op = getattr(getattr(torch.ops, space), short)

    class Square(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch._C._AutoDispatchBelowAutograd():
                return op(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    lib.impl(short, Square.apply, "Autograd")
    x = leaf(3.0)
    y = op(x)
    assert y.grad_fn.name() == "SquareBackward"
    y.backward()
    assert x.grad.tolist() == [6]


def test_composite_kernels_are_differentiated(name):
    space, _, short = name.partition("::")
    lib = library.Library(space, "FRAGMENT")
    lib.define(f"{short}(Tensor x, *, float by=2.0) -> Tensor")
    lib.impl(short, lambda x, *, by=2.0: x.exp() * by, "CompositeImplicitAutograd")
    x = leaf(0.0)
    getattr(getattr(torch.ops, space), short)(x, by=3.0).backward()
    assert x.grad.tolist() == [3]


def test_mistakes_in_registrations(name):
    library.define(name, "(Tensor(a!) x) -> ()")
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        library.register_autograd(name, lambda ctx: None)
    library.define(name + "k", "(Tensor x, *, Tensor y) -> Tensor")
    with pytest.raises(NotImplementedError, match="keyword-only argument is a tensor"):
        library.register_autograd(name + "k", lambda ctx, grad: grad)
    op = scaled(name + "w")
    op.register_autograd(lambda ctx, grad: grad)
    with pytest.raises(RuntimeError, match="1 gradients for 2 arguments"):
        op(leaf(1.0), 2.0).backward()


def test_a_graph_is_freed_without_the_collector(name):
    op = scaled(name)
    op.register_autograd(lambda ctx, grad: (grad, None), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
    gc.disable()
    try:
        x = leaf(1.0)
        y = op(x, 2.0)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()
