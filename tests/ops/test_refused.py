"""Calls that are refused on cpu with PyTorch's class of exception, and valid calls close to them."""

import pytest

import metatensor as mt

from .against import agree

pytestmark = pytest.mark.torch


def tensors(*specs):
    """Return PyTorch tensors, given as (dtype, size, ...)."""
    import torch

    return [torch.arange(torch.Size(size).numel()).reshape(size).to(getattr(torch, dtype)) for dtype, *size in specs]


CALLS = {
    "the target of a loss of integers": (
        lambda lib, x, y: lib.nn.functional.multi_margin_loss(x, y), [("int64", 5, 10), ("int64", 5)]),
    "the lengths of a loss of integers": (
        lambda lib, x, y: lib.nn.functional.ctc_loss(x, y, (5, 5), (3, 3)), [("int64", 5, 2, 4), ("int64", 2, 3)]),
    "shift by complex numbers": (lambda lib, x, y: x.bitwise_left_shift_(y), [("int64", 3), ("complex64", 3)]),
    "divisors with complex numbers": (lambda lib, x, y: x.gcd_(y), [("uint8", 3), ("complex64", 3)]),
    "comparison with complex numbers": (lambda lib, x, y: x.gt_(y), [("float32", 3), ("complex64", 3)]),
    "search in complex numbers": (lambda lib, x, y: lib.searchsorted(x, y), [("complex64", 3), ("float32", 3)]),
    "search for a complex number": (lambda lib, x: lib.searchsorted(x, 1 + 2j), [("float32", 3)]),
    "search for bools in bools": (lambda lib, x, y: lib.bucketize(x, y), [("bool", 4), ("bool", 4)]),
    "search for bools in integers": (lambda lib, x, y: lib.bucketize(x, y), [("bool", 4), ("int64", 4)]),
    "search for a bool in bools": (lambda lib, x: lib.searchsorted(x, True), [("bool", 4)]),
    "a complex target": (lambda lib, x, y: lib.nn.functional.soft_margin_loss(x, y), [("float32", 3), ("complex64", 3)]),
    "index_copy by int32": (lambda lib, x, i, y: x.index_copy_(0, i, y), [("float32", 4, 4), ("int32", 2), ("float32", 2, 4)]),
    "rms_norm of too few dimensions": (lambda lib, x: lib.nn.functional.rms_norm(x, [2, 1]), [("float32", 2)]),
    "rms_norm of too few dimensions, with another weight": (
        lambda lib, x: lib.nn.functional.rms_norm(x, [1, 1], x), [("float32", 1)]),
    "search for nothing in bools": (lambda lib, x, y: lib.bucketize(x, y), [("bool", 0), ("bool", 4)]),
    "rms_norm of another shape": (lambda lib, x: lib.nn.functional.rms_norm(x, [3]), [("float32", 2)]),
    "frac of bools": (lambda lib, x: x.frac_(), [("bool", 3)]),
    "random complex numbers in a range": (lambda lib, x: x.random_(to=1), [("complex64", 3)]),
    "convolution without a batch": (
        lambda lib, x, w: lib.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        [("float32", 2, 5, 5), ("float32", 3, 2, 2, 2)]),
    "a maximum in its argument": (lambda lib, x, i: lib.max(x, 1, out=(x[0], i)), [("float32", 5, 5, 5), ("int64", 5, 5)]),
    "a mode in its argument": (lambda lib, x, i: lib.mode(x, 1, out=(x[0], i)), [("float32", 5, 5, 5), ("int64", 5, 5)]),
    "group_norm of two dtypes": (lambda lib, x, w: lib.nn.functional.group_norm(x, 2, w, w), [("complex64", 1, 6, 3), ("float32", 6)]),
    "complex bags": (lambda lib, i, w: lib.nn.functional.embedding_bag(i, w, i[:1], mode="sum"), [("int64", 5), ("complex64", 10, 5)]),
    "distinct complex rows": (lambda lib, x: lib.unique_consecutive(x, dim=0), [("complex64", 3, 2)]),
    "addmm with a complex factor": (lambda lib, x: lib.addmm(x, x, x, beta=1j), [("float32", 3, 3)]),
    "addmm with a complex factor of no products": (
        lambda lib, x, y, z: lib.addmm(x, y, z, alpha=1j), [("float32", 2), ("float32", 2, 0), ("float32", 0, 2)]),
    "addmm with a complex factor beside no products": (
        lambda lib, x, y, z: lib.addmm(x, y, z, beta=1j), [("float32", 2), ("float32", 2, 0), ("float32", 0, 2)]),
    "addbmm with a complex factor": (lambda lib, x, y: lib.addbmm(x, y, y, alpha=1j), [("float16", 3, 3), ("float16", 2, 3, 3)]),
    "addmv with a complex factor without imaginary part": (
        lambda lib, x, y: lib.addmv(x, y, x, alpha=1 + 0j), [("float32", 3), ("float32", 3, 3)]),
    "inner with a number": (lambda lib, x, y, z: lib.inner(x, y, out=z), [("float32",), ("float32", 3), ("float64", 3)]),
    "inner to another dtype": (lambda lib, x, y, z: lib.inner(x, y, out=z), [("float32", 3), ("float32", 5, 3), ("float64", 5)]),
    "average of a line": (lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), [("float32", 4)]),
    "norms of a line": (lambda lib, x: lib.nn.functional.lp_pool2d(x, 2.0, 2), [("float32", 4)]),
    "complex logsumexp to real numbers": (lambda lib, x, y: lib.logsumexp(x, 1, out=y), [("complex64", 2, 3), ("float32", 2)]),
    "complex logsumexp to integers": (lambda lib, x, y: lib.logsumexp(x, 1, out=y), [("complex64", 2, 3), ("int64", 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_refused_like_in_pytorch(name):
    call, specs = CALLS[name]
    agree(call, *tensors(*specs), tolerance=1e-4)


def test_values_that_do_not_fit_a_mask_are_refused():
    x, mask = mt.zeros(5, 6, device="cpu"), mt.tensor([True, False, True, True, False], device="cpu")
    for accumulate in (False, True):
        with pytest.raises(RuntimeError, match="do not broadcast"):
            x.index_put_((mask,), mt.ones(5, device="cpu"), accumulate=accumulate)


def test_sizes_of_shapes_must_be_integers():
    assert mt.broadcast_shapes((2, 1), 3) == (2, 3)
    with pytest.raises(TypeError, match="sizes must be ints"):
        mt.broadcast_shapes((0, 1, 3), (0, 0.5, 3))
