"""`autograd.functional`: products with Jacobians and second derivatives, Jacobians and Hessians."""

import itertools

import numpy as np
import pytest

import metatensor as mt
from metatensor.autograd import functional

FUNCTIONS = {
    "one": (lambda t, x: x * x.sum(), [(3,)]),
    "matrix": (lambda t, x: x.T @ x, [(2, 3)]),
    "two": (lambda t, x, y: (x * y, y.sum() * x[0]), [(3,), (3,)]),
    "one of two": (lambda t, x, y: x.exp(), [(3,), (2,)]),
    "number": (lambda t, x: (x**3).sum(), [(3,)]),
    "number of two": (lambda t, x, y: (x**2 * y).sum(), [(3,), (3,)]),
    "linear": (lambda t, x: x.sum(), [(3,)]),
    "constant": (lambda t, x: t.ones(2, dtype=t.float64), [(3,)]),
}


def tensors(t, shapes, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    return tuple(t.from_numpy(a.copy()).to("cpu") for a in arrays)


def leaves(tree):
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def form(tree):
    return tuple(map(form, tree)) if isinstance(tree, (tuple, list)) else "*"


def compare(ours, theirs):
    assert form(ours) == form(theirs)
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


def both(run, shapes, function):
    """Run in both libraries. Return the results or the classes of the errors."""
    torch = pytest.importorskip("torch")
    results = []
    for t in (mt, torch):
        try:
            with t.device("cpu"):
                results.append(run(t, t.autograd.functional, lambda *xs: function(t, *xs), tensors(t, shapes)))
        except Exception as error:
            results.append(type(error))
    return results


def same(results):
    ours, theirs = results
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours is theirs, results
    else:
        compare(ours, theirs)


def argument(xs):
    return xs if len(xs) > 1 else xs[0]


@pytest.mark.torch
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_like_torch(name, create_graph, strict):
    function, shapes = FUNCTIONS[name]
    options = {"create_graph": create_graph, "strict": strict}

    def weights(t, f, xs):
        found = f(*xs)
        shapes = [tuple(y.shape) for y in leaves(found)]
        made = tensors(t, shapes, 1)
        return made if isinstance(found, tuple) else made[0]

    same(both(lambda t, F, f, xs: F.vjp(f, argument(xs), weights(t, f, xs), **options), shapes, function))
    if not (create_graph and name in ("linear", "one of two", "constant")):  # there PyTorch's zeros require grad
        same(both(lambda t, F, f, xs: F.jvp(f, argument(xs), argument(tensors(t, shapes, 1)), **options), shapes, function))
    same(both(lambda t, F, f, xs: F.jacobian(f, argument(xs), **options), shapes, function))
    if name != "constant" or strict:
        same(both(lambda t, F, f, xs: F.hessian(f, argument(xs), **options), shapes, function))
        same(both(lambda t, F, f, xs: F.vhp(f, argument(xs), argument(tensors(t, shapes, 1)), **options), shapes, function))
        if not (create_graph and strict):
            same(both(lambda t, F, f, xs: F.hvp(f, argument(xs), argument(tensors(t, shapes, 1)), **options), shapes, function))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strategies_agree(name):
    function, shapes = FUNCTIONS[name]
    xs = argument(tensors(mt, shapes))

    def f(*xs):
        with mt.device("cpu"):
            return function(mt, *xs)

    plain = functional.jacobian(f, xs)
    for strategy in ("reverse-mode", "forward-mode"):
        compare(functional.jacobian(f, xs, vectorize=True, strategy=strategy), plain)
    if name.startswith(("number", "linear")):
        second = functional.hessian(f, xs)
        for strategy in ("reverse-mode", "forward-mode"):
            compare(functional.hessian(f, xs, vectorize=True, outer_jacobian_strategy=strategy), second)


ERRORS = {
    "v is missing": lambda t, F, f, xs: F.vjp(f, xs[0]),
    "v of another shape": lambda t, F, f, xs: F.vjp(f, xs[0], t.ones(5)),
    "v is missing in jvp": lambda t, F, f, xs: F.jvp(f, xs[0]),
    "no tensor": lambda t, F, f, xs: F.vjp(f, 3),
    "a list": lambda t, F, f, xs: F.jacobian(f, [xs[0]]),
    "a number returned": lambda t, F, f, xs: F.vjp(lambda x: 3, xs[0]),
    "a dict returned": lambda t, F, f, xs: F.jacobian(lambda x: {"x": x}, xs[0]),
    "strict and vectorized": lambda t, F, f, xs: F.jacobian(f, xs[0], strict=True, vectorize=True),
    "forward, not vectorized": lambda t, F, f, xs: F.jacobian(f, xs[0], strategy="forward-mode"),
    "strategy": lambda t, F, f, xs: F.jacobian(f, xs[0], strategy="sideways"),
    "many numbers": lambda t, F, f, xs: F.hessian(f, xs[0]),
    "many numbers in vhp": lambda t, F, f, xs: F.vhp(f, xs[0], xs[0]),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    ours, theirs = both(ERRORS[name], [(3,)], lambda t, x: x * x)
    assert isinstance(theirs, type) and ours is theirs


def test_graphs():
    x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    for create_graph, product in itertools.product((True, False), (functional.vhp, functional.hvp)):
        _, found = product(lambda x: (x**4).sum(), x, mt.ones(2, device="cpu"), create_graph=create_graph)
        assert found.requires_grad == create_graph
    found = functional.jacobian(lambda x: x**3, x, create_graph=True)
    (g,) = mt.autograd.grad(found.sum(), x)
    assert g.tolist() == [6, 12]
