"""The comparison of values detects errors."""

from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's operator database imports it

from oracle import judging, values

NAN = float("nan")


@pytest.mark.parametrize(
    "ours, theirs, near",
    [
        ([1.0, 1.0], [1.0, 1.0], True),
        ([1.0, 1.5], [1.0, 1.0], False),
        ([1.0, 1.0], [NAN, 1.0], True),
        ([2.0, 1.0], [NAN, 1.0], False),
        ([1.0, 5.0], [NAN, 1.0], False),
        ([123.0, -5e3], [NAN, 1.0], False),
        ([NAN, 1.0], [NAN, 1.0], False),
    ],
)
def test_a_lost_value_of_pytorch_excuses_nothing(ours, theirs, near):
    assert judging.nearer(torch.tensor(ours), torch.tensor(theirs), torch.ones(2, dtype=torch.float64)) is near


@pytest.mark.parametrize(
    "ours, theirs, same",
    [
        ([NAN, 1.0], [float("inf"), 1.0], True),
        ([NAN, 1.0], [float("inf"), 2.0], False),
        ([NAN, NAN], [NAN, 1.0], False),
        ([1.0, 1.0], [1.0, 2.0], False),
    ],
)
def test_singular_systems_may_differ_in_what_is_not_finite(ours, theirs, same):
    assert judging.singular("lu_solve", torch.tensor(ours), torch.tensor(theirs)) is same
    assert not judging.singular("add", torch.tensor(ours), torch.tensor(theirs))


class LinAlgError(RuntimeError):
    pass


@pytest.mark.parametrize(
    "name, args, kwargs",
    [
        ("linalg.inv", ([[1.0, 2.0], [2.0, 4.0]],), {}),
        ("inverse", ([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]],), {}),
        ("linalg.solve", ([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]), {"left": True}),
        ("linalg.tensorinv", ([[1.0, 2.0], [2.0, 4.0]],), {"ind": 1}),
        ("linalg.tensorsolve", ([[1.0, 2.0], [2.0, 4.0]], [1.0, 1.0]), {"dims": (0,)}),
    ],
)
def test_a_singular_matrix_may_be_refused(name, args, kwargs):
    args = tuple(map(torch.tensor, args))
    refused = LinAlgError("the matrix is singular: element 2 of its diagonal is zero after elimination")
    regular = tuple(x + 3 * torch.eye(*x.shape[-2:]) if x.ndim >= 2 else x for x in args)
    assert judging.rightly_refused(name, args, kwargs, refused)
    assert not judging.rightly_refused(name, regular, kwargs, refused)
    assert not judging.rightly_refused("linalg.det", args, kwargs, refused)
    assert not judging.rightly_refused(name, args, kwargs, LinAlgError("the matrix is not square"))
    assert not judging.rightly_refused(name, args, kwargs, RuntimeError("the matrix is singular"))


@pytest.mark.parametrize("sizes, dims", [((6, 2, 3), None), ((2, 6, 3), (0,)), ((2, 6, 3), (-1, 0))])
def test_the_matrix_of_tensorsolve(sizes, dims):
    a, b = torch.arange(36.0).cos().reshape(sizes), torch.arange(6.0)
    x = torch.linalg.solve(judging.tensorsolve_matrix(a, b, dims), b)
    torch.testing.assert_close(torch.linalg.tensorsolve(a, b, dims).ravel(), x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "sin"])
def test_clobbered_arguments_are_found(name):
    x = torch.tensor([3.0, 1.0, 1.0, 2.0])
    args = (x, 2) if name == "topk" else (x,)
    result = getattr(torch, name)(*args)
    case = values.Case("call", torch.float32, 0, None, args, {})

    def judged(after):
        results = [(result, result), ([after], [x])]
        return values.Runner(torch).values(SimpleNamespace(name=name), getattr(torch, name), case, results, (1e-6, 1e-5))

    assert judged(x.clone()) is None
    assert "Mismatched" in judged(x * -9)


def test_other_indices_of_equal_elements_pass_where_the_arguments_do():
    x, out = torch.tensor([1.0, 1.0]), [torch.empty(2), torch.empty(2, dtype=torch.int64)]
    case = values.Case("out", torch.float32, 0, None, (x,), {"out": tuple(out)})
    theirs, ours = (x, torch.tensor([0, 1])), (x, torch.tensor([1, 0]))

    def judged(after):
        results = [(ours, theirs), ([after, *ours], [x, *theirs])]
        return values.Runner(torch).values(SimpleNamespace(name="sort"), torch.sort, case, results, (1e-6, 1e-5))

    assert judged(x.clone()) is None
    assert "Mismatched" in judged(x * -9)
