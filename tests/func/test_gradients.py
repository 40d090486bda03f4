"""The function transforms: gradients, products with Jacobians, and what they give inside each other and `vmap`."""

import numpy as np
import pytest

import metatensor as mt
from metatensor import func
from metatensor.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

F64 = {"dtype": mt.float64, "device": "cpu"}


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def tensors(t, shapes, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    return [t.from_numpy(a.copy()).to("cpu") for a in arrays]


def attention(t, x):
    return t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None] * 2).sum()


def network(t, x, w):
    f = t.nn.functional
    h = f.gelu(f.layer_norm(x @ w, (x.shape[-1],)))
    return (f.log_softmax(h, -1) * h).sum()


def convolution(t, x):
    return t.nn.functional.conv1d(x[None], x[:2, None, :2].expand(2, 3, 2), x[0, :2], padding=1).square().sum()


# Functions of a matrix (3, 4) that return a number.
NUMBERS = {
    "cubes": lambda t, x: (x**3).sum(),
    "product": lambda t, x: x[0].prod() * x.sum(),
    "norm": lambda t, x: t.linalg.vector_norm(x) * x.exp().mean(),
    "softmax": lambda t, x: (t.softmax(x, -1) * x).sum(),
    "logsumexp": lambda t, x: x.logsumexp(0).sin().sum(),
    "matrix product": lambda t, x: (x @ x.T).sin().sum(),
    "selected": lambda t, x: x[1] @ x[2] + x[:, 1].sum() * x[0, 0],
    "sorted": lambda t, x: (x.sort(-1).values[:, :2] ** 2).sum() + x.max() ** 2,
    "normalized": lambda t, x: t.nn.functional.layer_norm(x, (4,)).pow(3).sum(),
    "variance": lambda t, x: x.var() * x.std(0).sum(),
    "cumulative": lambda t, x: (x.cumsum(0) * x.cumprod(1)).sum(),
    "loss": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 3, 1], device="cpu")),
    "convolution": convolution,
    "attention": attention,
    "network": lambda t, x: network(t, x, x.T @ x),
    "in place": lambda t, x: in_place(x),
    "joined": lambda t, x: t.cat([x, x * x]).prod(0).sum() + t.stack([x, x]).sin().sum(),
    "indices": lambda t, x: (x[numbers(t, 0, 2, 0)] * x).sum() + x.flatten().index_select(0, numbers(t, 1)).sum() ** 2,
    "where": lambda t, x: t.where(x > 0, x * x, x**3).sum(),
    "einsum": lambda t, x: t.einsum("ij,kj,ik->", x, x, x @ x.T),
}  # fmt: skip


def numbers(t, *values):
    return t.tensor(values, device="cpu")


def in_place(x):
    y = x.clone()
    y[0].mul_(x[1])
    y.sin_()
    y[:, 1] = x[:, 2] ** 2
    return (y * y).sum()


TRANSFORMS = {
    "grad": lambda t, f: t.func.grad(f),
    "hessian": lambda t, f: t.func.hessian(f),
    "jacfwd of jacfwd": lambda t, f: t.func.jacfwd(t.func.jacfwd(f)),
    "jacrev of jacrev": lambda t, f: t.func.jacrev(t.func.jacrev(f)),
    "jacrev of jacfwd": lambda t, f: t.func.jacrev(t.func.jacfwd(f)),
    "jvp of grad": lambda t, f: lambda x: t.func.jvp(t.func.grad(f), (x,), (t.ones_like(x),)),
    "grad of jvp": lambda t, f: t.func.grad(lambda x: t.func.jvp(f, (x,), (x.cos(),))[1]),
    "jvp of jvp": lambda t, f: lambda x: t.func.jvp(lambda x: t.func.jvp(f, (x,), (x * x,))[1], (x,), (x,)),
}


CONSTANT_STATISTICS = ("jacfwd of jacfwd", "jacrev of jacfwd", "grad of jvp", "jvp of jvp")


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", NUMBERS)
def test_like_torch(name, transform):
    torch = pytest.importorskip("torch")
    if name in ("normalized", "network") and transform in CONSTANT_STATISTICS:
        pytest.skip("there PyTorch takes the mean and deviation of layer_norm for constants")
    results = []
    for t in (mt, torch):
        (x,) = tensors(t, [(3, 4)])
        f = TRANSFORMS[transform](t, lambda x, t=t: NUMBERS[name](t, x))
        results.append([leaves(f(x))])
    for a, b in zip(*map(leaves, results), strict=True):
        assert tuple(a.shape) == tuple(b.shape) and not a.requires_grad
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("transform", ["hessian", "jacfwd of jacfwd", "jacrev of jacfwd"])
@pytest.mark.parametrize("name", NUMBERS)
def test_second_derivatives_agree(name, transform):
    (x,) = tensors(mt, [(3, 4)], 1)
    f = lambda x: NUMBERS[name](mt, x)
    close(TRANSFORMS[transform](mt, f)(x), jacrev(jacrev(f))(x))
    close(jvp(lambda x: jvp(f, (x,), (x,))[1], (x,), (x,))[1], jvp(f, (x,), (x,))[1] + jvp(grad(f), (x,), (x,))[1].mul(x).sum())
    close(TRANSFORMS["grad of jvp"](mt, f)(x), grad(lambda x: (grad(f)(x) * x.cos()).sum())(x))


@pytest.mark.parametrize("transform", ["grad", "hessian", "jvp of grad", "grad of jvp", "jacrev of jacrev"])
@pytest.mark.parametrize("name", NUMBERS)
def test_under_vmap(name, transform):
    (x,) = tensors(mt, [(2, 3, 4)], 3)
    f = TRANSFORMS[transform](mt, lambda x: NUMBERS[name](mt, x))
    many = leaves(vmap(f)(x))
    each = [leaves(f(one)) for one in x]
    for k, got in enumerate(many):
        close(got, mt.stack([one[k] for one in each]))


def test_gradients_of_each_example():
    w, x = tensors(mt, [(4, 4), (5, 3, 4)])
    loss = lambda w, x: network(mt, x, w)
    each = vmap(grad(loss), in_dims=(None, 0))(w, x)
    assert each.shape == (5, 4, 4)
    for got, one in zip(each, x):
        close(got, grad(loss)(w, one))
    inside = vmap(lambda x: grad(lambda w: loss(w, x))(w))(x)
    close(inside, each)
    # A gradient of a sum over the batch, and of its own gradients.
    close(grad(lambda w: vmap(loss, in_dims=(None, 0))(w, x).sum())(w), each.sum(0))
    twice = grad(lambda w: vmap(grad(loss), in_dims=(None, 0))(w, x).pow(2).sum())(w)
    slow = sum(grad(lambda w, one=one: grad(loss)(w, one).pow(2).sum())(w) for one in x)
    close(twice, slow)


def test_nested_gradients_are_not_confused():
    x = mt.tensor(3.0, **F64)
    close(grad(lambda x: x * grad(lambda y: x + y)(mt.tensor(1.0, **F64)))(x), mt.tensor(1.0, **F64))
    close(grad(lambda x: x * grad(lambda y: x * y)(mt.tensor(1.0, **F64)))(x), 2 * x)
    close(grad(grad(grad(lambda x: x**4)))(x), 24 * x)
    close(vmap(grad(lambda x: x * grad(lambda y: x * y * y)(x)))(mt.stack([x, 2 * x])), 6 * mt.stack([x, 2 * x]) ** 2)


def test_structures():
    x, y = tensors(mt, [(2,), (2,)])
    g, (value, aux) = grad_and_value(lambda p, y: ((p["a"] * y).sum() + p["b"][0].sum(), {"y": y}), has_aux=True)({"a": x, "b": (x,)}, y)
    close(g["a"], y)
    close(g["b"][0], mt.ones(2, **F64))
    assert value.shape == () and aux["y"] is y
    assert isinstance(grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, y), tuple)
    close(grad(lambda x, y: (x * y).sum(), argnums=-1)(x, y), x)
    j = jacrev(lambda x, y: {"p": x * y, "q": x.sum()}, argnums=(0, 1))(x, y)
    close(j["p"][0], mt.diag(y))
    assert j["q"][1].shape == (2,) and not j["q"][1].any()
    k = jacfwd(lambda x, y: {"p": x * y, "q": x.sum()}, argnums=(0, 1))(x, y)
    for a, b in zip(leaves(j), leaves(k), strict=True):
        close(a, b)
    out, pull = vjp(lambda x, y: (x * y, [x.sum()]), x, y)
    gx, gy = pull((mt.ones(2, **F64), [mt.tensor(2.0, **F64)]))
    close(gx, y + 2)
    close(gy, x)
    out, pull, aux = vjp(lambda x: (x * 2, 7), x, has_aux=True)
    assert aux == 7 and len(pull(x)) == 1
    out, tangent, aux = jvp(lambda p: (p["x"] * 2, p["x"]), ({"x": x},), ({"x": y},), has_aux=True)
    close(tangent, 2 * y)
    close(aux, x)
    assert grad(lambda x: (x.sum(), "aux"), has_aux=True)(x)[1] == "aux"
    close(jacrev(lambda x: x.sin(), chunk_size=1)(x), mt.diag(x.cos()))
    assert jacrev(lambda x: (x, x * 2), has_aux=True)(x)[1].shape == (2,)
    assert jacfwd(lambda x: (x, x * 2), has_aux=True)(x)[1].shape == (2,)


def test_linearize():
    x, t = tensors(mt, [(3,), (3,)])
    calls = []

    def f(x):
        calls.append(1)
        return x.sin() * x.sum(), x[0]

    out, push = linearize(f, x)
    want_out, want = jvp(f, (x,), (t,))
    got = push(t)
    for a, b in zip(leaves([out, got]), leaves([want_out, want]), strict=True):
        close(a, b)
    push(t * 2)
    assert len(calls) == 2
    for a, b in zip(leaves(vmap(push)(mt.stack([t, 2 * t]))), leaves(want), strict=True):
        close(a, mt.stack([b, 2 * b]))
    with pytest.raises(RuntimeError, match="shape"):
        push(mt.ones(4, **F64))
    with pytest.raises(RuntimeError, match="float32"):
        push(mt.ones(3, device="cpu"))


def test_grad_modes():
    x = mt.tensor([1.0, 2.0], requires_grad=True, **F64)
    f = lambda x: (x**3).sum()
    assert grad(f)(x).requires_grad and not grad(f)(x.detach()).requires_grad
    with mt.no_grad():
        assert not grad(f)(x).requires_grad
        close(hessian(f)(x.detach()), mt.diag(6 * x.detach()))
    # What is computed without gradients inside is a constant.

    def partly(x):
        with mt.no_grad():
            c = x * x
        return (c * x).sum()

    close(grad(partly)(x.detach()), x.detach() ** 2)
    # Closures.
    w = mt.tensor(2.0, requires_grad=True, **F64)
    g = grad(lambda x: (w * x * x).sum())(x.detach())
    (of_w,) = mt.autograd.grad(g.sum(), w)
    close(of_w, (2 * x).sum())
    value, pull = vjp(lambda x: x * w, x.detach())
    assert value.requires_grad and pull(mt.ones(2, **F64))[0].requires_grad
    value, pull = vjp(lambda x: x * 2, x.detach())
    assert not value.requires_grad and not pull(mt.ones(2, **F64))[0].requires_grad
    (g,) = mt.autograd.grad(grad(f)(x).sum(), x)
    close(g, 6 * x)
    x.grad = None
    grad(f)(x)
    assert x.grad is None


def test_modules():
    layer = mt.nn.Sequential(mt.nn.Linear(3, 4), mt.nn.Tanh(), mt.nn.Linear(4, 1)).to("cpu").double()
    params = dict(layer.named_parameters())
    (x,) = tensors(mt, [(5, 3)])

    def loss(params, x):
        return func.functional_call(layer, params, (x,)).pow(2).sum()

    each = vmap(grad(loss), in_dims=(None, 0))({k: v.detach() for k, v in params.items()}, x)
    layer(x).pow(2).sum().backward()
    for name, p in layer.named_parameters():
        assert each[name].shape == (5, *p.shape)
        close(each[name].sum(0), p.grad)


@pytest.mark.slow
@pytest.mark.parametrize("transform", [grad, hessian])
def test_on_meta(transform):
    x = mt.empty(3, 4, device="meta")
    for name, f in NUMBERS.items():
        if name not in ("loss", "indices"):
            assert transform(lambda x, f=f: f(mt, x))(x).shape[-2:] == (3, 4)
            assert vmap(transform(lambda x, f=f: f(mt, x)))(mt.empty(2, 3, 4, device="meta")).shape[-2:] == (3, 4)


class Square(mt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * x * y, x + 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return 2 * x * y * g + h, (x * x * g).sum_to_size(y.shape)

    @staticmethod
    def jvp(ctx, tx, ty):
        x, y = ctx.saved_tensors
        return 2 * x * y * tx + x * x * ty, tx


def test_custom_functions():
    x, y = tensors(mt, [(4, 3), (3,)])
    plain = lambda x, y: (x * x * y).sum() + (x + 1).sum()
    custom = lambda x, y: sum(part.sum() for part in Square.apply(x, y))
    for transform in (grad, lambda f: grad(f, 1), lambda f: jacrev(grad(f)), lambda f: jacfwd(grad(f)), lambda f: jacfwd(jacfwd(f))):
        close(transform(custom)(x[0], y), transform(plain)(x[0], y))
        close(vmap(transform(custom), in_dims=(0, None))(x, y), vmap(transform(plain), in_dims=(0, None))(x, y))
    close(grad(lambda y: vmap(custom, in_dims=(0, None))(x, y).sum())(y), grad(lambda y: vmap(plain, in_dims=(0, None))(x, y).sum())(y))

    class Own(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x**n

        @staticmethod
        def backward(ctx, g):
            return g, None

        @staticmethod
        def vmap(info, in_dims, x, n):
            assert info.batch_size == 4 and in_dims == (0, None)
            return x.movedim(0, 1) ** n, 1

    close(vmap(lambda x: Own.apply(x, 2))(x), x**2)

    class Without(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    with pytest.raises(RuntimeError, match="vmap"):
        vmap(Without.apply)(x)


ERRORS = {
    "no scalar": lambda t, x: t.func.grad(lambda x: x)(x),
    "no tensor": lambda t, x: t.func.grad(lambda x: 3.0)(x),
    "no aux": lambda t, x: t.func.grad(lambda x: x.sum(), has_aux=True)(x),
    "argnums": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=1)(x),
    "argnums twice": lambda t, x: t.func.grad(lambda x, y: x.sum(), argnums=(0, 0))(x, x),
    "no argnums": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=())(x),
    "an argument": lambda t, x: t.func.grad(lambda x: x)(3.0),
    "integers": lambda t, x: t.func.grad(lambda x: x.sum())(t.ones(3, dtype=t.int64, device="cpu")),
    "primals": lambda t, x: t.func.jvp(lambda x: x, x, x),
    "no primals": lambda t, x: t.func.jvp(lambda: x, (), ()),
    "structures": lambda t, x: t.func.jvp(lambda x: x, (x,), (x, x)),
    "strict": lambda t, x: t.func.jvp(lambda x: t.ones(2), (x,), (x,), strict=True),
    "gradients": lambda t, x: t.func.vjp(lambda x: (x, x), x)[1](x),
    "jacrev of a number": lambda t, x: t.func.jacrev(lambda x: 3)(x),
    "chunk_size": lambda t, x: t.func.jacrev(lambda x: x, chunk_size=0)(x),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    torch = pytest.importorskip("torch")
    raised = []
    for t in (mt, torch):
        try:
            ERRORS[name](t, tensors(t, [(3,)])[0])
        except Exception as error:
            raised.append(type(error))
        else:
            raised.append(None)
    assert raised[1] is not None and raised[0] is raised[1]


def test_gradients_of_each_member_for_a_shared_argument():
    """The gradient is one for each member, also where the function uses views of the argument."""
    w = mt.from_numpy(np.random.default_rng(0).standard_normal((2, 4, 4)))
    x = mt.from_numpy(np.random.default_rng(1).standard_normal((3, 2, 4)))
    functions = [
        lambda w, a: mt.einsum("ni,oij,nj->no", a, w, a).sum(),
        lambda w, a: (a @ w[0].mT).sum(),
        lambda w, a: (w.reshape(8, 4) * a[0]).square().sum(),
        lambda w, a: mt.nn.functional.bilinear(a, a, w).sum(),
        lambda w, a: mt.nn.functional.conv1d(a.unsqueeze(0), w[:, :2]).square().sum(),
        lambda w, a: sum((part * a.sum()).sum() for part in w.unbind(1)),
    ]
    for f in functions:
        want = mt.stack([grad(f)(w, a) for a in x])
        for given in (w, w.expand(3, *w.shape), w.repeat(3, 1, 1, 1)):
            got = vmap(grad(f), in_dims=(None if given is w else 0, 0))(given, x)
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)
