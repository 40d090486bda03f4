"""Ranges, identity matrices and grids of indices: metadata and values compared with PyTorch, errors."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.pairs import DTYPES, same

NUMBERS = st.integers(-20, 20) | st.floats(-20, 20).map(lambda v: round(v, 2))


def both(call):
    """Check that ``call(module, device)`` agrees on meta, on cpu and in PyTorch, including errors."""
    import torch

    def attempt(lib, device):
        try:
            return call(lib, device)
        except Exception as error:
            return error

    theirs, meta, ours = attempt(torch, "cpu"), attempt(mt, "meta"), attempt(mt, "cpu")
    if isinstance(theirs, Exception):
        assert isinstance(meta, type(theirs)) and isinstance(ours, type(theirs)), (theirs, meta, ours)
        return
    for got in (meta, ours):
        if isinstance(got, Exception):
            raise AssertionError(f"raised where PyTorch gives {theirs}") from got
        assert tuple(got.shape) == tuple(theirs.shape) and got.stride() == tuple(theirs.stride())
        assert got.dtype.name == str(theirs.dtype).removeprefix("torch.")
    same(ours, theirs)


@pytest.mark.torch
@settings(max_examples=300)
@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from([None, "int64", "int32", "float32", "float64"]))
def test_arange(start, end, step, dtype):
    if dtype == "int32" and not all(isinstance(v, int) for v in (start, end, step)):
        dtype = "float32"  # PyTorch computes int32 from floats in two ways, depending on the size of the range
    both(lambda lib, d: lib.arange(start, end, step, dtype=dtype and getattr(lib, dtype), device=d))
    both(lambda lib, d: lib.arange(end, device=d))
    both(lambda lib, d: lib.arange(start=start, end=end, device=d))


@pytest.mark.torch
@settings(max_examples=200)
@given(NUMBERS, NUMBERS, st.integers(-1, 12), st.sampled_from([None, "float64", "complex64"]))
def test_linspace(start, end, steps, dtype):
    both(lambda lib, d: lib.linspace(start, end, steps, dtype=dtype and getattr(lib, dtype), device=d))


@pytest.mark.torch
@pytest.mark.parametrize("start, end, steps", [(0, 5, 4), (0, 1.5, 4), (-3.7, 10, 6), (5, 5, 3), (2, 9, 1), (10, -10, 5)])
def test_linspace_of_integers(start, end, steps):
    both(lambda lib, d: lib.linspace(start, end, steps, dtype=lib.int64, device=d))


@pytest.mark.torch
@given(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 6), st.sampled_from([2, 10, 0.5]))
def test_logspace(start, end, steps, base):
    both(lambda lib, d: lib.logspace(start, end, steps, base=base, device=d))


@pytest.mark.torch
@settings(max_examples=200)
@given(st.integers(-1, 5), st.integers(-1, 5), st.integers(-7, 7))
def test_indices_of_triangles(row, col, offset):
    both(lambda lib, d: lib.tril_indices(row, col, offset, device=d))
    both(lambda lib, d: lib.triu_indices(row, col, offset, device=d))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_eye(dtype):
    both(lambda lib, d: lib.eye(3, 4, dtype=getattr(lib, dtype), device=d))
    both(lambda lib, d: lib.eye(2, dtype=getattr(lib, dtype), device=d))
    both(lambda lib, d: lib.eye(0, 3, device=d))
    both(lambda lib, d: lib.scalar_tensor(1, dtype=getattr(lib, dtype), device=d))


def test_bounds_in_tensors(device):
    start, end = mt.tensor(1.0, device=device), mt.tensor(2.0, device=device)
    assert mt.linspace(start, end, 3, device=device).tolist() == [1, 1.5, 2]
    assert mt.arange(mt.tensor(3, device=device), device=device).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"0-d tensors, got shape \[1\]"):
        mt.linspace(mt.zeros(1, device=device), 1, 3)
    with pytest.raises(mt.DataDependentError):
        mt.arange(mt.empty((), device="meta"), device="meta")


def test_out(device):
    whole = mt.empty(0, dtype=mt.float64, device=device)
    assert mt.arange(3, out=whole) is whole and whole.tolist() == [0, 1, 2]
    assert mt.eye(2, out=mt.empty(2, 2, dtype=mt.int8, device=device)).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: mt.arange(0, math.inf, device="meta"), RuntimeError, "unsupported range"),
        (lambda: mt.arange(0, 1, 0, device="meta"), RuntimeError, "the step must not be 0"),
        (lambda: mt.arange(0, 1, -1, device="meta"), RuntimeError, "the sign of the step does not match the bounds"),
        (lambda: mt.arange(0, 4, 0.5, dtype=mt.int64, device="meta"), ValueError, "the step is 0 as an int64"),
        (lambda: mt.arange(5, dtype=mt.bool, device="meta"), NotImplementedError, "dtype bool is not supported"),
        (lambda: mt.arange(2**70, device="meta"), RuntimeError, "too many"),
        (lambda: mt.linspace(0, 1, -1, device="meta"), RuntimeError, "must not be negative, got -1"),
        (lambda: mt.linspace(0, 1j, 3, dtype=mt.float32, device="meta"), RuntimeError, "the dtype must be complex"),
        (lambda: mt.eye(-1, device="meta"), RuntimeError, "must not be negative, got -1 and -1"),
        (lambda: mt.tril_indices(2**40, 2**40, device="meta"), RuntimeError, "63 bits"),
        (lambda: mt.triu_indices(2, 3, dtype=mt.float32, device="meta"), NotImplementedError, "int32 or int64, not float32"),
        (lambda: mt.tril_indices(0, 0, dtype=mt.uint8, device="meta"), NotImplementedError, "int32 or int64, not uint8"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.torch
@pytest.mark.parametrize(
    "arguments",
    [
        "0, 4", "0, 4, dtype=m.int64", "1, 2.5, 0.5", "4, 0, -1", "4, 0", "0, 4, 0", "1, 1", "0, 3.9", "0, float('nan')",
        "0, 1, dtype=m.bool", "0, 4, dtype=m.float16", "0, 1, 0.3, dtype=m.float64", "0, 7, 2, dtype=m.uint8", "4",
        "0.5, 7.5, 2, dtype=m.int32", "0, 4, 1.5, dtype=m.int64", "0, 1e20", "0, 1j", "0, 1, dtype=m.complex64",
        "start=1, end=6, step=2",
    ],
)  # fmt: skip
def test_closed_range(arguments):
    import warnings

    import torch

    results = []
    for library, device in ((torch, "cpu"), (mt, "cpu"), (mt, "meta")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                t = eval(f"m.range({arguments}, device='{device}')", {"m": library})
            results.append((str(t.dtype).partition(".")[2], tuple(t.shape), None if device == "meta" else t.tolist()))
        except (RuntimeError, TypeError, ValueError) as error:
            results.append(error)
    theirs, ours, meta = results
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception) and isinstance(meta, Exception), (theirs, ours, meta)
    else:
        assert ours[:2] == theirs[:2] == meta[:2] and ours[2] == pytest.approx(theirs[2])


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_bounds_that_require_grad_do_not_reach_the_result(steps):
    a = mt.tensor(1.0, requires_grad=True)
    assert not mt.linspace(a, 2.0, steps).requires_grad and not mt.logspace(a, 2.0, steps).requires_grad


@pytest.mark.parametrize("sizes, count", [((0, 2**31 - 1), 0), ((2**31 - 1, 0), 0), ((3, 2**31 - 1, -5), 0), ((3, 2**31 - 1, 1), 9)])
def test_few_indices_of_a_large_triangle(sizes, count):
    """The operators need memory for the indices only, not for the triangle."""
    assert mt.tril_indices(*sizes).shape == (2, count)
    rows, columns, offset = (*sizes, 0)[:3]
    assert mt.triu_indices(columns, rows, -offset).shape == (2, count)


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("offset", range(-6, 7))
def test_triangles_against_their_masks(rows, columns, offset):
    ones = mt.ones(rows, columns)
    assert mt.tril_indices(rows, columns, offset).tolist() == ones.tril(offset).nonzero().t().tolist()
    assert mt.triu_indices(rows, columns, offset).tolist() == ones.triu(offset).nonzero().t().tolist()
