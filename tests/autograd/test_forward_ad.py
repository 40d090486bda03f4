"""Forward mode: tangents, levels, how they combine with gradients, and custom functions."""

import gc
import weakref

import numpy as np
import pytest

import metatensor as mt
from metatensor.autograd import forward_ad as fw


def tensor(*values, **options):
    return mt.tensor(list(values), device="cpu", dtype=mt.float64, **options)


def push(f, x, t):
    with fw.dual_level():
        return fw.unpack_dual(f(fw.make_dual(x, t))).tangent


def derivative(f):
    return lambda x: push(f, x, mt.ones_like(x))


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


def in_place(x):
    y = x.clone()
    y[1:].mul_(x[:-1])
    y.sin_()
    y[0] = x[2]
    return y


def through_a_view(x):
    y = mt.zeros(3, device="cpu", dtype=mt.float64)
    v = y[1:]
    y.add_(x * x)
    v.mul_(x[0])
    return y


def picked(x):
    y = mt.zeros(4, device="cpu", dtype=mt.float64)
    y[mt.tensor([1, 3], device="cpu")] = x[:2]
    y.index_put_((mt.tensor([1, 1], device="cpu"),), x[1:], accumulate=True)
    return y


def transposed_in_place(x):
    y = (x[:, None] * x).clone()
    y.t_()
    y[0] *= 2
    return y


FUNCTIONS = {
    "element-wise": lambda x: x.sin() * x + 3 / x,
    "cumulative": lambda x: x.cumsum(0) * x.cumprod(0),
    "softmax": lambda x: mt.softmax(x, 0) + mt.log_softmax(x * x, 0),
    "products": lambda x: x[:, None] * x @ mt.linalg.vecdot(x, x).reshape(1, 1).expand(3, 1),
    "reductions": lambda x: x.var() + x.logsumexp(0) + x.norm() + x.prod() + x.max() + x.median(),
    "moments": lambda x: mt.stack(mt.var_mean(x) + mt.std_mean(x, unbiased=False) + mt.var_mean(x[0], correction=0)),
    "moments along dimensions": lambda x: mt.cat(mt.std_mean(x[:, None] * x, 1, correction=2) + mt.var_mean(x[:, None] * x, 0, False)),
    "complex moments": lambda x: mt.stack([part.real for part in mt.std_mean(mt.complex(x, x * x))]),
    "factorized": lambda x: mt.linalg.cholesky(x[:, None] * x + 5 * mt.eye(3, device="cpu", dtype=mt.float64), upper=True),
    "sorted": lambda x: x.sort(descending=True).values * x.topk(1).values,
    "indexed": lambda x: x[mt.tensor([2, 0, 0], device="cpu")].gather(0, mt.tensor([1, 1], device="cpu")),
    "joined": lambda x: mt.cat([x, mt.stack([x, x * x]).view(-1), mt.ones(1, device="cpu", dtype=mt.float64)]),
    "normalized": lambda x: mt.nn.functional.layer_norm(x, (3,), x, x * 2),
    "convolved": lambda x: mt.nn.functional.conv1d(x.view(1, 1, 3), x[:2].view(1, 1, 2), x[:1], padding=1),
    "linear": lambda x: mt.nn.functional.linear(x, x[:, None] * x, x),
    "added product": lambda x: mt.addmm(x, x[:, None] * x, (x[:, None] + x).sin(), beta=2, alpha=3),
    "complex": lambda x: (mt.complex(x, x * x).exp() * mt.complex(x, x)).abs(),
    "loss": lambda x: mt.nn.functional.binary_cross_entropy_with_logits(x, tensor(0.2, 0.9, 0.5)),
    "in place": in_place,
    "view in place": through_a_view,
    "picked in place": picked,
    "transposed in place": transposed_in_place,
    "no dependence": lambda x: x * 0 + 3,
    "zeroed": lambda x: (x * x).zero_() + x,
    "filled": lambda x: x.clone().fill_(2.0) + x.masked_fill(x > 1, x[0]),
    "copied": lambda x: mt.empty(3, device="cpu", dtype=mt.float64).copy_(x * x),
    "where": lambda x: mt.where(x > 1, x * x, 2.0) + mt.where(x > 1, 0.5, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_differences(name):
    f, x, t = FUNCTIONS[name], tensor(0.7, 1.9, -1.2), tensor(0.3, -0.8, 1.1)
    eps = 1e-6
    close(push(f, x, t) if push(f, x, t) is not None else f(x) * 0, (f(x + eps * t) - f(x - eps * t)) / (2 * eps) + 0)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "view in place"])
def test_tangents_are_those_of_reverse_mode(name):
    f, x, t = FUNCTIONS[name], tensor(0.7, 1.9, -1.2, requires_grad=True), tensor(0.3, -0.8, 1.1)
    y = f(x)
    if not y.requires_grad:
        return
    w = mt.ones_like(y)
    (g,) = mt.autograd.grad(y, x, w)
    tangent = push(f, x, t)
    close((tangent * w).sum(), (g * t).sum())
    # Reverse over forward, and forward over reverse.
    (over_forward,) = mt.autograd.grad(tangent.sum(), x, allow_unused=True) if tangent.requires_grad else (None,)

    def gradient(x):
        return mt.autograd.grad(f(x), x, w)[0]

    over_reverse = push(gradient, x, t)
    if over_forward is None or over_reverse is None:
        assert (over_forward is None or not over_forward.any()) and (over_reverse is None or not over_reverse.any())
    else:
        close(over_forward, over_reverse)


@pytest.mark.parametrize("f", [mt.var_mean, mt.std_mean])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments_of_too_few_elements(f):
    with fw.dual_level():
        spread, mean = (fw.unpack_dual(t).tangent for t in f(fw.make_dual(tensor(3.0), tensor(2.0))))
        assert spread.isnan() and mean.item() == 2
        spread, mean = (fw.unpack_dual(t).tangent for t in f(fw.make_dual(tensor(), tensor())))
        assert (spread.isnan() if f is mt.std_mean else spread == 0) and mean.isnan()  # the square root has the tangent 0 / NaN


def test_nested_levels():
    x = tensor(1.0, 2.0)
    f = derivative(derivative(derivative(lambda x: x**5)))
    close(f(x), 60 * x**2)
    # The inner derivative does not see the outer direction.
    close(derivative(lambda x: x * derivative(lambda y: x + y)(tensor(1.0, 1.0)))(x), mt.ones_like(x))
    close(derivative(lambda x: x * derivative(lambda y: x * y)(tensor(1.0, 1.0)))(x), 2 * x)


def test_levels():
    with pytest.raises(RuntimeError, match="level"):
        fw.make_dual(tensor(1.0), tensor(1.0))
    assert fw.unpack_dual(tensor(1.0)).tangent is None
    with fw.dual_level() as outer:
        x = fw.make_dual(tensor(1.0), tensor(2.0))
        with fw.dual_level() as inner:
            assert (outer, inner) == (0, 1)
            assert fw.unpack_dual(x).tangent is None
            assert fw.unpack_dual(x, level=0).tangent.item() == 2
            with pytest.raises(RuntimeError, match="innermost"):
                fw.exit_dual_level(level=0)
            y = fw.make_dual(x, tensor(3.0)) * x
            assert fw.unpack_dual(y).tangent.item() == 3
            assert fw.unpack_dual(fw.unpack_dual(y).tangent, level=0).tangent.item() == 6
            assert fw.unpack_dual(fw.unpack_dual(y).primal, level=0).tangent.item() == 4
    with pytest.raises(RuntimeError, match="no level"):
        fw.exit_dual_level()
    with fw.dual_level():
        assert fw.unpack_dual(x * 2).tangent is None  # the level of its tangent is over
    assert fw.enter_dual_level() == 0
    fw.exit_dual_level()


def test_refusals():
    with fw.dual_level():
        with pytest.raises(ValueError, match="floating-point"):
            fw.make_dual(mt.ones(2, dtype=mt.int64), mt.ones(2))
        with pytest.raises(RuntimeError, match="shape"):
            fw.make_dual(mt.ones(2), mt.ones(3))
        with pytest.raises(TypeError, match="Tensor"):
            fw.make_dual(mt.ones(2), 1.0)
        x = fw.make_dual(tensor(1.0), tensor(1.0))
        with pytest.raises(RuntimeError, match="already"):
            fw.make_dual(x, tensor(1.0))
        with pytest.raises(NotImplementedError, match="out="):
            mt.sin(x, out=tensor(0.0))
        assert fw.unpack_dual(x.detach()).tangent is None
        assert fw.unpack_dual(x > 0).tangent is None
        with mt.no_grad():
            assert fw.unpack_dual(x * 2).tangent.item() == 2
        with fw._set_fwd_grad_enabled(False):
            assert not fw._is_fwd_grad_enabled()
            y = x * 2
        assert fw.unpack_dual(y).tangent is None


def test_a_dual_tensor_is_a_view():
    x, t = tensor(1.0, 2.0), tensor(3.0, 4.0)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert dual.data_ptr() == x.data_ptr()
        assert fw.unpack_dual(dual).tangent is t
        assert fw.unpack_dual(dual).primal.data_ptr() == x.data_ptr()
        y = dual + 1
        y.mul_(2)
    assert t.tolist() == [3, 4]  # y has a tangent of its own


def test_only_dual_calls_cost_more():
    x = mt.ones(2, device="meta")
    with fw.dual_level():
        assert fw.unpack_dual(x * 2).tangent is None
        y = fw.make_dual(x, mt.ones(2, device="meta")) @ mt.ones(2, 3, device="meta")
        assert fw.unpack_dual(y).tangent.shape == (3,)


def test_modes_see_the_computation_of_tangents():
    class Count(mt.DispatchMode):
        def __init__(self):
            self.names = []

        def dispatch(self, op, args, kwargs):
            self.names.append(op.name)
            return op(*args, **kwargs)

    x = tensor(1.0, 2.0)
    with Count() as count, fw.dual_level():
        fw.unpack_dual(fw.make_dual(x, x).sin())
    assert "sin" in count.names and "cos" in count.names and "mul" in count.names


def test_nothing_is_kept():
    x = tensor(1.0, 2.0, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        with fw.dual_level():
            y = fw.make_dual(x, tensor(1.0, 1.0)).exp().sin().softmax(0)
            ref = weakref.ref(y)
            del y
        assert ref() is None
    finally:
        gc.enable()


class Cube(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3 * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.factor, None

    @staticmethod
    def jvp(ctx, x_t, _):
        (x,) = ctx.saved_tensors
        return x_t * 3 * x * x * ctx.factor


def test_custom_functions():
    x = tensor(1.0, 2.0, requires_grad=True)
    close(derivative(lambda x: Cube.apply(x, 2) * x)(x), 8 * x**3)
    close(derivative(derivative(lambda x: Cube.apply(x, 2)))(x), 12 * x)
    (g,) = mt.autograd.grad(derivative(lambda x: Cube.apply(x, 2))(x).sum(), x)
    close(g, 12 * x)
    close(derivative(lambda x: mt.autograd.grad(Cube.apply(x, 2).sum(), x)[0])(x), 12 * x)

    class Without(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="jvp"):
        derivative(Without.apply)(x)


def test_gradcheck():
    x = tensor(0.4, 1.3, requires_grad=True)
    z = mt.tensor([0.4 + 1j, 1.3], device="cpu", requires_grad=True, dtype=mt.complex128)
    for f, inputs in ((lambda x: x.sin() * x, (x,)), (lambda z: z * z.conj() + z.exp(), (z,)), (lambda z: z.abs(), (z,))):
        assert mt.autograd.gradcheck(f, inputs, check_forward_ad=True, check_batched_forward_grad=True)
        assert mt.autograd.gradgradcheck(f, inputs, check_fwd_over_rev=True)

    class Wrong(Cube):
        @staticmethod
        def jvp(ctx, x_t, _):
            return x_t

    assert mt.autograd.gradcheck(lambda x: Wrong.apply(x, 2), (x,))
    with pytest.raises(mt.autograd._gradcheck.GradcheckError, match="tangent"):
        mt.autograd.gradcheck(lambda x: Wrong.apply(x, 2), (x,), check_forward_ad=True)
    with pytest.raises(ValueError, match="check_forward_ad"):
        mt.autograd.gradcheck(mt.sin, (x,), check_batched_forward_grad=True)


@pytest.mark.torch
@pytest.mark.parametrize("ops", ["mul", "softmax", "nn.functional.conv2d", "index_put", "cumprod", "nn.functional.batch_norm"])
def test_like_torch(ops):
    from oracle import database, gradients

    runner = gradients.Runner(("float64", "complex128"), 4, forward=True)
    for op in database.entries({ops}):
        tally = runner.run(op)
        assert tally.n and tally.right == tally.n, tally.first


# Eigenvectors and singular vectors -----------------------------------------------------------------------------------


def _matrix(*shape, dtype):
    mt.manual_seed(3)
    return mt.randn(*shape, dtype=dtype, device="cpu")


@pytest.mark.parametrize("dtype", [mt.float64, mt.complex128], ids=str)
def test_tangents_of_eigenvectors_solve_the_differentiated_equation(dtype):
    for function, hermitian in ((mt.linalg.eig, False), (mt.linalg.eigh, True)):
        a, da = _matrix(2, 4, 4, dtype=dtype), _matrix(2, 4, 4, dtype=dtype).roll(1, 0)
        if hermitian:
            a, da = a + a.mH, da + da.mH
        (w, v), (dw, dv) = mt.func.jvp(lambda a, function=function: tuple(function(a)), (a,), (da,))
        left = da.to(v.dtype) @ v + a.to(v.dtype) @ dv
        assert mt.allclose(left, dv * w.unsqueeze(-2) + v * dw.unsqueeze(-2))
        assert mt.allclose((v.conj() * dv).sum(-2).real, mt.zeros(2, 4, dtype=mt.float64, device="cpu"))


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", [mt.float64, mt.complex128], ids=str)
def test_tangents_of_singular_vectors_give_that_of_their_product(dtype, shape):
    a, da = _matrix(*shape, dtype=dtype), _matrix(*shape, dtype=dtype).flip(0)
    (u, s, vh), (du, ds, dvh) = mt.func.jvp(lambda a: tuple(mt.linalg.svd(a, False)), (a,), (da,))
    assert mt.allclose((du * s) @ vh + (u * ds) @ vh + (u * s) @ dvh, da)
    zero = mt.zeros(3, 3, dtype=dtype, device="cpu")
    assert mt.allclose(u.mH @ du + du.mH @ u, zero)
    assert mt.allclose(vh @ dvh.mH + dvh @ vh.mH, zero)
