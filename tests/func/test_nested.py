"""Function transforms inside each other: values, `requires_grad` and classes of errors are those of PyTorch."""

import warnings

import numpy as np
import pytest

import metatensor as mt
import metatensor.func


def cases(t, fn):
    """Return functions without arguments, by name. `t` is the library, and `fn` its transforms."""
    vmap, grad, vjp, jvp, jacrev, jacfwd, hessian = fn.vmap, fn.grad, fn.vjp, fn.jvp, fn.jacrev, fn.jacfwd, fn.hessian
    rng = np.random.default_rng(0)
    f = t.nn.functional

    def numbers(*shape):
        return t.from_numpy(np.asarray(rng.standard_normal(shape)))

    x, y, w, v, s, b = (numbers(*shape) for shape in ((3, 4), (3, 4), (4, 4), (4,), (), (2, 3, 4)))
    m = w @ w.mT + 4 * t.eye(4, dtype=t.float64)
    one, empty, labels = t.ones_like(s), t.zeros(0, dtype=t.float64), t.tensor([1])
    leaf = v.clone().requires_grad_()

    def g(a):
        return (a.sin() * a).sum()

    def h(a, c):
        return (a * c).tanh().sum()

    def mat(a):
        return (w @ a).sin()

    def without_gradient(a):
        with t.no_grad():
            c = a**2
        return (a * c).sum()

    def outside(call):
        with t.no_grad():
            return call()

    def writes(a):
        a = a.clone()
        a[0] = a[1] * 2
        return (a**2).sum()

    def derivative(a):
        return jvp(lambda c: c**3, (a,), (t.ones_like(a),))[1]

    made = {
        "grad vmap grad": lambda: grad(lambda a: vmap(grad(g))(a).square().sum())(x),
        "vmap grad vmap grad": lambda: vmap(grad(lambda a: vmap(grad(g))(a).square().sum()))(b),
        "grad grad grad": lambda: grad(grad(grad(lambda a: a**4)))(s),
        "grad inside grad": lambda: grad(lambda a: a * grad(lambda c: a * c)(s))(s),
        "jvp jvp": lambda: jvp(derivative, (s,), (one,)),
        "a constant of an inner jvp": lambda: jvp(lambda a: a * jvp(lambda c: a + c, (s,), (one,))[1], (s,), (one,)),
        "jvp inside jvp": lambda: jvp(lambda a: a * jvp(lambda c: a * c, (s,), (one,))[1], (s,), (one,)),
        "jvp grad": lambda: jvp(grad(g), (v,), (v + 1,)),
        "grad jvp": lambda: grad(lambda a: jvp(g, (a,), (v,))[1])(v),
        "vmap jvp grad": lambda: vmap(lambda a, d: jvp(grad(g), (a,), (d,)))(x, y),
        "vmap jvp shared tangent": lambda: vmap(lambda a: jvp(g, (a,), (v,)))(x),
        "jvp vmap": lambda: jvp(vmap(g), (x,), (y,)),
        "jvp of vmap of grad": lambda: jvp(vmap(grad(g)), (x,), (y,)),
        "vmap tangents only": lambda: vmap(lambda d: jvp(mat, (v,), (d,))[1])(x),
        "jacrev": lambda: jacrev(mat)(v),
        "jacfwd": lambda: jacfwd(mat)(v),
        "hessian": lambda: hessian(g)(v),
        "jacfwd jacfwd": lambda: jacfwd(jacfwd(mat))(v),
        "jacrev jacrev": lambda: jacrev(jacrev(mat))(v),
        "jacrev jacfwd": lambda: jacrev(jacfwd(mat))(v),
        "vmap hessian": lambda: vmap(hessian(g))(x),
        "vmap jacrev": lambda: vmap(jacrev(mat))(x),
        "vmap jacfwd": lambda: vmap(jacfwd(mat))(x),
        "vmap jacfwd shared": lambda: vmap(lambda a, c: jacfwd(lambda q: q * a)(c), in_dims=(0, None))(x, v),
        "vmap jacrev shared": lambda: vmap(lambda a, c: jacrev(lambda q: q * a)(c), in_dims=(0, None))(x, v),
        "vmap grad argnums": lambda: vmap(grad(h, argnums=(0, 1)))(x, y),
        "vmap grad shared": lambda: vmap(grad(h, argnums=1), in_dims=(0, None))(x, v),
        "hessian mixed": lambda: jacfwd(jacrev(h, argnums=(0, 1)), argnums=(0, 1))(v, v * 2),
        "no_grad inside": lambda: grad(without_gradient)(v),
        "no_grad inside twice": lambda: grad(lambda a: grad(without_gradient)(a).sum())(v),
        "no_grad outside": lambda: outside(lambda: grad(g)(v)),
        "no_grad outside jvp": lambda: outside(lambda: jvp(g, (v,), (v,))),
        "no_grad inside jvp": lambda: jvp(without_gradient, (v,), (v,)),
        "vmap no_grad": lambda: vmap(grad(without_gradient))(x),
        "no_grad between": lambda: grad(lambda a: outside(lambda: grad(g)(a)).sum())(v),
        "no_grad between jacrev": lambda: jacrev(lambda a: outside(lambda: grad(g)(a)))(v),
        "grad beside a leaf": lambda: grad(h)(v, leaf),
        "grad of a leaf": lambda: grad(g)(leaf),
        "vmap of leaf": lambda: vmap(lambda a: a * 2)(x.clone().requires_grad_()),
        "aux": lambda: grad(lambda a: (g(a), a * 2), has_aux=True)(v),
        "aux vmap": lambda: vmap(grad(lambda a: (g(a), a * 2), has_aux=True))(x),
        "vmap grad_and_value": lambda: vmap(fn.grad_and_value(g))(x),
        "vjp tuple": lambda: vjp(lambda a, c: (a * c, a), v, v + 1)[1]((v, v)),
        "vmap vjp": lambda: vmap(lambda a: vjp(mat, a)[1](v))(x),
        "vmap of vjp_fn": lambda: vmap(vjp(mat, v)[1])(t.eye(4, dtype=t.float64)),
        "vjp dict": lambda: vjp(lambda d: {"o": d["a"] * 2}, {"a": v})[1]({"o": v}),
        "linearize": lambda: fn.linearize(mat, v)[1](v),
        "vmap linearize": lambda: vmap(fn.linearize(mat, v)[1])(x),
        "jvp tuple": lambda: jvp(lambda a, c: (a * c, a + c), (v, v), (v, v * 2)),
        "jvp aux": lambda: jvp(lambda a: (a * 2, a * 3), (v,), (v,), has_aux=True),
        "jacrev chunk": lambda: jacrev(mat, chunk_size=2)(v),
        "vmap in place": lambda: vmap(lambda a: a.clone().add_(1).mul_(a))(x),
        "vmap grad setitem": lambda: vmap(grad(writes))(x),
        "hessian setitem": lambda: hessian(writes)(v),
        "solve": lambda: vmap(grad(lambda a: t.linalg.solve(m, a).sum()))(x),
        "hess solve": lambda: hessian(lambda a: (t.linalg.inv(m + t.outer(a, a))).sum())(v),
        "hess softmax": lambda: hessian(lambda a: f.log_softmax(a, 0)[0])(v),
        "vmap hess cdist": lambda: vmap(hessian(lambda a: (a - v).norm()))(x),
        "hess ln": lambda: hessian(lambda a: f.layer_norm(a, (4,))[0])(v),
        "jvp ce": lambda: vmap(lambda a: jvp(lambda q: f.cross_entropy(q[None], labels), (a,), (v,)))(x),
        "nested vmap dims": lambda: vmap(vmap(lambda a, c: a * c, in_dims=(0, None)), in_dims=(1, 0), out_dims=1)(
            numbers(4, 3, 2), numbers(3)
        ),
        "vmap out none": lambda: vmap(lambda a: s, out_dims=None)(x),
        "vmap tree": lambda: vmap(lambda d: {"r": d["a"] + d["b"][0]}, in_dims=({"a": 0, "b": (None,)},))({"a": x, "b": (v,)}),
        "bad randomness": lambda: vmap(g, randomness="x")(x),
        "item": lambda: vmap(lambda a: a.sum().item())(x),
        "a branch": lambda: vmap(lambda a: a if a.sum() > 0 else -a)(x),
        "nonscalar grad": lambda: grad(mat)(v),
        "grad of integers": lambda: grad(g)(t.arange(3)),
        "vjp bad": lambda: vjp(mat, v)[1](numbers(3)),
        "jvp bad": lambda: jvp(mat, (v,), (numbers(3),)),
        "jvp list": lambda: jvp(mat, v, v),
        "argnums": lambda: grad(g, argnums=2)(v),
        "argnums neg": lambda: grad(h, argnums=-1)(v, v),
        "kwargs": lambda: vmap(lambda a, k: a * k)(x, k=v),
        "grad kw": lambda: grad(lambda a, k: (a * k).sum())(v, k=v),
        "chunk": lambda: vmap(lambda a: a * 2, chunk_size=2)(x),
        "chunk bad": lambda: vmap(lambda a: a, chunk_size=0)(x),
        "complex grad": lambda: grad(lambda a: (a * a.conj()).real.sum())(t.complex(v, v * 2)),
        "jacrev complex out": lambda: jacrev(lambda a: t.complex(a, a * 2))(v),
        "jacfwd int out": lambda: jacfwd(lambda a: (a * 2, t.arange(2)))(v),
        "grad none used": lambda: grad(lambda a, c: c.sum(), argnums=(0, 1))(v, v),
        "jacrev unused": lambda: jacrev(lambda a: v * 1)(v),
        "jacfwd unused": lambda: jacfwd(lambda a: v * 1)(v),
        "grad empty": lambda: grad(lambda a: a.sum())(empty),
        "vmap size 0": lambda: vmap(g)(t.zeros(0, 4, dtype=t.float64)),
        "hess empty": lambda: hessian(lambda a: a.square().sum())(empty),
        "jacrev empty out": lambda: jacrev(lambda a: a[:0])(v),
    }
    for kind in ("error", "different", "same"):
        made |= {
            f"drawn {kind}": lambda kind=kind: vmap(lambda a: t.zeros(2) + 0 * t.rand(2), randomness=kind)(x),
            f"dropout {kind}": lambda kind=kind: vmap(lambda a: f.dropout(a, 0.5) * 0, randomness=kind)(x.abs()),
            f"dropout of all {kind}": lambda kind=kind: vmap(grad(lambda a: f.dropout(a, 1.0).sum()), randomness=kind)(x),
            f"in place {kind}": lambda kind=kind: vmap(lambda a: a.clone().normal_() * 0 + a, randomness=kind)(x),
            f"shared in place {kind}": lambda kind=kind: vmap(lambda a: v.clone().normal_() * 0 + a, randomness=kind)(x),
            f"permuted {kind}": lambda kind=kind: vmap(lambda a: t.randperm(4).sort()[0] + a, randomness=kind)(x),
            f"nested {kind}": lambda kind=kind: vmap(
                lambda q: vmap(lambda a: a + t.rand(4) * 0, randomness=kind)(q), randomness=kind
            )(b),
            f"mixed {kind}": lambda kind=kind: vmap(lambda q: vmap(lambda a: a + t.rand(4) * 0)(q), randomness=kind)(b),
            f"jacfwd {kind}": lambda kind=kind: jacfwd(lambda a: f.dropout(a, 1.0), randomness=kind)(v),
        }
    return made


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def outcome(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return leaves(function())
        except Exception as error:
            return type(error)


@pytest.mark.torch
@pytest.mark.parametrize("name", cases(mt, metatensor.func))
def test_nested(name):
    torch = pytest.importorskip("torch")
    got, want = (outcome(cases(t, fn)[name]) for t, fn in ((mt, metatensor.func), (torch, torch.func)))
    if isinstance(got, type) or isinstance(want, type):
        assert got is want
        return
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        assert ours.requires_grad == theirs.requires_grad
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9)
