"""Element-wise losses: values and metadata compared with PyTorch, definitions, errors."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional

REDUCTIONS = ("none", "mean", "sum")
# name -> options, and kinds of input and target: "any", "unit" (0 to 1) or "sign" (-1 or 1)
LOSSES = {
    "mse_loss": ([{}], "any", "any"),
    "l1_loss": ([{}], "any", "any"),
    "smooth_l1_loss": ([{}, {"beta": 0.5}, {"beta": 0.0}], "any", "any"),
    "huber_loss": ([{}, {"delta": 0.5}], "any", "any"),
    "binary_cross_entropy": ([{}], "unit", "unit"),
    "binary_cross_entropy_with_logits": ([{}], "any", "unit"),
    "kl_div": ([{}, {"log_target": True}], "any", "unit"),
    "hinge_embedding_loss": ([{}, {"margin": 0.3}], "any", "sign"),
    "soft_margin_loss": ([{}], "any", "sign"),
    "poisson_nll_loss": ([{}, {"log_input": False}, {"full": True}], "unit", "count"),
    "multilabel_soft_margin_loss": ([{}], "any", "unit"),
}
CASES = [(name, options) for name, (variants, _, _) in LOSSES.items() for options in variants]
SAME_SHAPE = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
BROADCAST = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "hinge_embedding_loss", "poisson_nll_loss")


def made(tensor, kind):
    if kind == "unit":
        return tensor.sigmoid()
    if kind == "sign":
        return tensor.sign()
    return tensor.abs().round() if kind == "count" else tensor


def operands(name, *shapes, dtype="float32", seed=0):
    _, first, second = LOSSES[name]
    a, b = tensors_of(seed, *shapes, dtype=dtype)
    return made(a, first), made(b, second)


def call(name, **options):
    return lambda lib, *t: getattr(lib.nn.functional, name)(*t, **options)


@pytest.mark.torch
@pytest.mark.parametrize("name, options", CASES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_against_torch(name, options, reduction):
    for shape in ((3, 4), (2, 3, 4), (5,), (0, 4)):
        agree(call(name, reduction=reduction, **options), *operands(name, shape, shape), tolerance=2e-5)
    if name != "multilabel_soft_margin_loss":
        agree(call(name, reduction=reduction, **options), *operands(name, (), ()), tolerance=2e-5)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", BROADCAST)
@given(st.sampled_from([((3, 4), (4,)), ((3, 1), (1, 4)), ((4,), (2, 3, 1)), ((3,), (4,))]), st.sampled_from(REDUCTIONS))
@settings(max_examples=12)
def test_broadcasting(name, shapes, reduction):
    agree(call(name, reduction=reduction), *operands(name, *shapes), tolerance=2e-5)


@pytest.mark.torch
@pytest.mark.parametrize("name", LOSSES)
def test_strides(name):
    a, b = operands(name, (3, 4), (3, 4))
    for x, y in ((a.t().contiguous().t(), b), (a, b.t().contiguous().t()), (a.t().contiguous().t(), b.t().contiguous().t())):
        agree(call(name, reduction="none"), x, y, tolerance=2e-5)


@pytest.mark.torch
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float64", "float32"), ("bfloat16", "bfloat16"), ("int64", "int64")])
def test_dtypes(name, dtypes):
    import torch

    a, b = operands(name, (3, 4), (3, 4), dtype="float64")
    a, b = a.to(getattr(torch, dtypes[0])), b.to(getattr(torch, dtypes[1]))
    for reduction in REDUCTIONS:
        # In half precision, PyTorch rounds between the steps of a loss.
        tolerance = 0.15 if dtypes[0] == "bfloat16" else 2e-5
        agree(call(name, reduction=reduction), a, b, tolerance=tolerance, values=dtypes[0] != "int64")


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights(reduction):
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        (w,) = tensors_of(4, (3, 4))
        agree(lambda lib, a, b, w: getattr(lib.nn.functional, name)(a, b, reduction=reduction, weight=w),
              *operands(name, (3, 4), (3, 4)), w, tolerance=2e-5)  # fmt: skip
    for shape in ((3, 4), (4,), (1,), (2, 3, 4), (5,)):
        (w,) = tensors_of(4, shape)
        for name in SAME_SHAPE:
            agree(lambda lib, a, b, w: getattr(lib.nn.functional, name)(a, b, w, reduction=reduction),
                  *operands(name, (3, 4), (3, 4)), w, tolerance=2e-5)  # fmt: skip
        agree(lambda lib, a, b, w: lib.nn.functional.binary_cross_entropy_with_logits(a, b, pos_weight=w, reduction=reduction),
              *operands(SAME_SHAPE[1], (3, 4), (3, 4)), w, tolerance=2e-5)  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [False, True])
def test_gaussian(reduction, full):
    options = {"reduction": reduction, "full": full}
    for shape in ((3, 4), (3, 1), (3,), (4,), (2, 4)):
        a, b, v = tensors_of(0, (3, 4), (3, 4), shape)
        agree(lambda lib, a, b, v: lib.nn.functional.gaussian_nll_loss(a, b, v, **options), a, b, v.abs(), tolerance=2e-5)
    agree(lambda lib, a, b: lib.nn.functional.gaussian_nll_loss(a, b, 2.0, **options), a, b, tolerance=2e-5)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("average, reduce", [(True, None), (False, None), (None, False), (None, True), (False, True)])
def test_outdated_reduction(average, reduce):
    agree(call("mse_loss", size_average=average, reduce=reduce), *operands("mse_loss", (3, 4), (3, 4)), tolerance=2e-5)
    agree(call("kl_div", reduction="batchmean"), *operands("kl_div", (3, 4), (3, 4)), tolerance=2e-5)


def test_definition(device):
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4))
    x, y = mt.from_numpy(a.copy()).to(device), mt.from_numpy(b.copy()).to(device)
    np.testing.assert_allclose(values(F.mse_loss(x, y)), ((a - b) ** 2).mean(), rtol=1e-12)
    np.testing.assert_allclose(values(F.l1_loss(x, y, reduction="none")), np.abs(a - b), rtol=1e-12)
    np.testing.assert_allclose(values(F.mse_loss(x, y, reduction="sum")), ((a - b) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "name, options, error, message",
    [
        ("mse_loss", {"reduction": "most"}, ValueError, "'none', 'mean' or 'sum'"),
        ("mse_loss", {"reduction": "batchmean"}, ValueError, "'none', 'mean' or 'sum'"),
        ("huber_loss", {"delta": 0.0}, RuntimeError, "delta.*positive"),
        ("smooth_l1_loss", {"beta": -1.0}, RuntimeError, "beta.*negative"),
        ("mse_loss", {"weight": mt.empty(4, device="meta")}, ValueError, "weight must have the input's shape"),
        ("binary_cross_entropy", {"weight": mt.empty(5, device="meta")}, RuntimeError, "weight.*does not expand"),
        ("l1_loss", {"target": mt.empty(5, device="meta")}, RuntimeError, "broadcast"),
        ("kl_div", {"target": mt.empty(3, 4, dtype=mt.int64, device="meta")}, RuntimeError, "floating-point"),
        ("gaussian_nll_loss", {"var": -1.0}, ValueError, "negative"),
        ("mse_loss", {"target": 0.5}, TypeError, "target"),
    ],
)
def test_bad_arguments(name, options, error, message):
    t = mt.empty(3, 4, device="meta")
    with pytest.raises(error, match=message):
        getattr(F, name)(**({"input": t, "target": t} | options))


def test_bad_values(device):
    t = mt.from_numpy(np.array([0.5, 1.5], "float32")).to(device)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        F.binary_cross_entropy(t, t)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(t, t, mt.from_numpy(np.array([1.0, -1.0], "float32")).to(device))


def test_soft_margins_have_the_dtype_of_the_input(device):
    for target in (mt.float16, mt.float64, mt.bool, mt.uint8):
        x = mt.full((2,), -2.0, device=device)
        found = mt.nn.functional.soft_margin_loss(x, mt.ones(2, dtype=target, device=device))
        assert found.dtype is mt.float32 and abs(found.item() - 2.126928) < 1e-5


def test_integers_and_bools():
    f, i, b = mt.ones(2), mt.ones(2, dtype=mt.int32), mt.ones(2, dtype=mt.bool)
    gaussian, poisson = mt.nn.functional.gaussian_nll_loss, mt.nn.functional.poisson_nll_loss
    for arguments in ((f, f, i), (f, f, b), (b, f, f), (f, b, f)):
        with pytest.raises(RuntimeError):
            gaussian(*arguments)
    assert gaussian(i, i, 1.0).dtype is mt.float32
    assert gaussian(f, f, i, eps=1).dtype is mt.float32
    assert poisson(i, f.half()).dtype is mt.float32 and poisson(f.half(), i).dtype is mt.float16
    assert poisson(b, f).dtype is mt.float32
    for arguments in ((b, b), (b, f, False), (f, b, True, True)):
        with pytest.raises(RuntimeError):
            poisson(*arguments)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_different_shapes_are_broadcast_with_a_warning(name, place):
    column, row = mt.zeros(3, 1, device=place), mt.zeros(3, device=place)
    with pytest.warns(UserWarning, match=r"target's shape \[3\] differs from the input's shape \[3, 1\]") as seen:
        assert getattr(F, name)(column, row, reduction="none").shape == (3, 3)
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(F, name)(row, row + 1)
