"""requires_grad, grad modes and inference mode, without a backward pass."""

import threading

import pytest

import metatensor as mt


def leaf(*shape):
    return mt.empty(shape, device="meta", requires_grad=True)


def test_results_of_ops_on_what_requires_grad():
    a = leaf(2)
    b = a * 2
    assert a.is_leaf and a.grad_fn is None
    assert b.requires_grad and not b.is_leaf and b.grad_fn is not None
    assert a.view(2, 1).requires_grad
    assert not (a > 0).requires_grad
    assert not a.detach().requires_grad and a.detach().is_leaf


def test_no_grad_and_enable_grad():
    a = leaf(2)
    with mt.no_grad():
        assert not mt.is_grad_enabled()
        b = a * 2
        assert not b.requires_grad and b.is_leaf
        with mt.enable_grad():
            assert (a * 2).requires_grad
    assert (a * 2).requires_grad


def test_decorators():
    a = leaf(2)

    @mt.no_grad()
    def f():
        return a * 2

    @mt.no_grad
    def g():
        return f(), a * 2

    @mt.no_grad()
    def h():
        yield a * 2
        yield mt.is_grad_enabled()

    assert not f().requires_grad and not g()[1].requires_grad
    steps = h()
    assert not next(steps).requires_grad
    assert mt.is_grad_enabled()
    assert next(steps) is False


def test_set_grad_enabled():
    mt.set_grad_enabled(False)
    try:
        assert not mt.is_grad_enabled()
    finally:
        mt.set_grad_enabled(True)
    with mt.set_grad_enabled(False):
        assert not mt.is_grad_enabled()
    assert mt.is_grad_enabled()
    with pytest.raises(TypeError):
        mt.set_grad_enabled(1)


def test_grad_mode_belongs_to_its_thread():
    seen = []
    with mt.no_grad():
        t = threading.Thread(target=lambda: seen.append(mt.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_writing_in_place_to_a_leaf():
    a = leaf(2)
    with pytest.raises(RuntimeError, match="leaf"):
        a.add_(1)
    with pytest.raises(RuntimeError, match="leaf"):
        a[0] = 1
    with mt.no_grad():
        a.add_(1)
    assert a.is_leaf and a.requires_grad
    b = a * 1
    b.add_(1)
    assert b.requires_grad and not b.is_leaf


def test_in_place_with_an_argument_that_requires_grad():
    b = mt.empty(2, device="meta")
    b.add_(leaf(2))
    assert b.requires_grad and not b.is_leaf


def test_out_records_nothing():
    a = leaf(2)
    with pytest.raises(RuntimeError, match="grad"):
        mt.add(a, a, out=mt.empty(2, device="meta"))
    with mt.no_grad():
        mt.add(a, a, out=mt.empty(2, device="meta"))


def test_only_floating_point_requires_grad():
    with pytest.raises(RuntimeError):
        mt.empty(2, dtype=mt.int64, device="meta", requires_grad=True)
    with pytest.raises(RuntimeError):
        mt.empty(2, dtype=mt.bool, device="meta").requires_grad_()
    assert mt.empty(2, dtype=mt.complex64, device="meta").requires_grad_().requires_grad


def test_switching_off():
    a = leaf(2)
    a.requires_grad = False
    assert not a.requires_grad
    b = leaf(2) * 2
    with pytest.raises(RuntimeError):
        b.requires_grad = False


def test_grad_is_checked():
    a = leaf(2)
    assert a.grad is None
    a.grad = mt.empty(2, device="meta")
    assert a.grad.shape == (2,)
    a.grad = None
    for wrong in (mt.empty(3, device="meta"), mt.empty(2, dtype=mt.float64, device="meta"), a):
        with pytest.raises(RuntimeError):
            a.grad = wrong
    with pytest.raises(TypeError):
        a.grad = 1


def test_inference_mode():
    a = leaf(2)
    with mt.inference_mode():
        b = a * 2
        assert mt.is_inference_mode_enabled()
    assert b.is_inference() and not b.requires_grad
    assert not (a * 2).is_inference()
    with pytest.raises(RuntimeError):
        b.requires_grad = True


def test_function_runs_forward():
    class Double(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            assert not mt.is_grad_enabled()
            return x * 2

    assert Double.apply(leaf(2)).requires_grad
    assert not Double.apply(mt.empty(2, device="meta")).requires_grad


def test_the_private_name_of_grad():
    weight = mt.nn.Parameter(mt.ones(2))
    weight._grad = mt.full((2,), 3.0)
    assert weight.grad.tolist() == [3, 3] and weight._grad is weight.grad
    mt.nn.utils.clip_grad_value_([weight], 1.0)
    assert weight._grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError):
        weight._grad = mt.ones(3)
    weight._grad = None
    assert weight.grad is None
