"""Joining tensors, and broadcasting them to one shape, compared with PyTorch; errors."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.arrays import numbers
from ops.layouts import conform, layouts
from ops.pairs import DTYPES, pair, same

SOME = settings(max_examples=200)


@st.composite
def joinable(draw, like=False):
    """Draw (layouts, dim) with shapes that agree in all dimensions or all but one. Sometimes they do not."""
    first = draw(layouts(max_size=3))
    n = len(first[0])
    d = draw(st.integers(-n - 1, n))
    found = [first]
    for _ in range(draw(st.integers(0, 2))):
        shape = list(first[0])
        if not like and n and -n <= d < n:
            shape[d] = draw(st.integers(0, 3))
        if shape and draw(st.integers(0, 9)) == 0:
            shape[draw(st.integers(0, n - 1))] += 1
        found.append(draw(layouts(tuple(shape))))
    if draw(st.integers(0, 9)) == 0:
        found.insert(draw(st.integers(0, len(found))), ((0,), (1,)))
    return found, d


@pytest.mark.torch
@SOME
@given(joinable(), st.lists(st.sampled_from(["float32", "float32", "int64", "bool", "float16"]), min_size=4, max_size=4))
def test_cat_on_meta(case, dtypes):
    found, d = case
    conform(lambda lib, *t: lib.cat(t, d), *zip(found, dtypes))


@pytest.mark.torch
@SOME
@given(joinable(like=True))
def test_stack_on_meta(case):
    found, d = case
    conform(lambda lib, *t: lib.stack(t, d), *[(layout, "float32") for layout in found])


@pytest.mark.torch
@settings(max_examples=100)
@given(joinable(), st.sampled_from(["hstack", "vstack", "dstack", "column_stack", "row_stack"]))
def test_stacks_on_meta(case, name):
    conform(lambda lib, *t: getattr(lib, name)(t), *[(layout, "float32") for layout in case[0]])


@pytest.mark.torch
@pytest.mark.parametrize("name", ["channels_last", "contiguous_format"])
@pytest.mark.parametrize("d", range(-5, 5))
def test_memory_format(name, d):
    def shaped(lib, a, b):
        return a.to(memory_format=lib.channels_last), b.to(memory_format=getattr(lib, name))

    tensors = tensors_of(0, (2, 3, 4, 5), (2, 3, 4, 5))
    agree(lambda lib, a, b: lib.cat(shaped(lib, a, b), d), *tensors)
    agree(lambda lib, a, b: lib.stack(shaped(lib, a, b), d), *tensors)


def test_lazy_conjugates_among_tensors(device):
    """Kernels get resolved values, never lazily conjugated or negated tensors."""
    z = mt.tensor([1 + 2j], device=device)
    assert mt.cat([z, z.conj()]).tolist() == [1 + 2j, 1 - 2j]
    assert mt.stack([z.conj().imag, z.real]).tolist() == [[-2], [1]]


@pytest.mark.torch
def test_values():
    a, b, c = tensors_of(0, (2, 3), (2, 3), (4, 3))
    agree(lambda lib, a, b, c: lib.cat([a, b.t().t(), c]), a, b, c)
    agree(lambda lib, a, b: lib.concat((a, b), dim=1), a, b)
    agree(lambda lib, a, b: lib.concatenate((a, b.double()), axis=-1), a, b)
    agree(lambda lib, a, b: lib.cat([a.half(), b.bfloat16()]), a, b)
    for d in range(-3, 3):
        agree(lambda lib, a, b: lib.stack([a, b], d), a, b)
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        agree(lambda lib, a, b: getattr(lib, name)([a, b]), a, b)
    for shape in ((), (3,)):
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            agree(lambda lib, a, b: getattr(lib, name)([a, b]), *tensors_of(1, shape, shape))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_on_a_device(dtype, device):
    import torch

    arrays = [numbers(dtype, shape, i) for i, shape in enumerate([(2, 3, 2), (2, 1, 2), (2, 3, 2)])]
    (a, x), (b, y), (c, z) = (pair(array, dtype, device) for array in arrays)
    same(mt.cat([a, b, c.permute(2, 1, 0)], 1), torch.cat([x, y, z.permute(2, 1, 0)], 1))
    same(mt.cat([a[:0], a, a[:0, :, :], b.expand(2, 3, 2)], -3), torch.cat([x[:0], x, x[:0, :, :], y.expand(2, 3, 2)], -3))
    same(mt.stack([a, c], -1), torch.stack([x, z], -1))
    assert mt.block_diag().shape == (1, 0) and mt.block_diag().device == mt.empty(1).device
    same(mt.block_diag(a[0], b[0, 0], c[1, :, :0], a[0, 0, 0]), torch.block_diag(x[0], y[0, 0], z[1, :, :0], x[0, 0, 0]))
    same(mt.cat([a, c.to(mt.float64)]), torch.cat([x, z.to(torch.float64)]))
    same(mt.stack([a > 0, c]) if dtype[0] != "c" else a, torch.stack([x > 0, z]) if dtype[0] != "c" else x)


def test_out_that_cannot_be_cast_and_devices(device):
    a = mt.ones(2, device=device)
    for name in ("cat", "stack", "hstack", "vstack", "dstack", "column_stack"):
        for place, error in ((device, TypeError), ("meta", RuntimeError)):
            with pytest.raises(error, match=name):
                getattr(mt, name)([a.to(place)] * 2, out=mt.empty(0, dtype=mt.int64, device=place))
    with pytest.raises(RuntimeError, match="device"):
        mt.cat([a, mt.ones(2, device="meta")])


@pytest.mark.torch
@SOME
@given(st.lists(layouts(max_size=2), max_size=3))
def test_broadcast_tensors(found):
    conform(lambda lib, *t: lib.broadcast_tensors(*t), *[(layout, "float32") for layout in found])


@pytest.mark.torch
@SOME
@given(layouts(max_dims=4), st.sampled_from([1, 2, 3]))
def test_at_least(layout, n):
    conform(lambda lib, t: getattr(lib, f"atleast_{n}d")(t), (layout, "float32"))
    conform(lambda lib, t: getattr(lib, f"atleast_{n}d")([t, t]), (layout, "float32"))


@pytest.mark.torch
@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing):
    for shapes in (((2,),), ((2,), (3,)), ((2,), (), (4,)), ((0,), (2,)), ((2, 2),)):
        agree(lambda lib, *t: lib.meshgrid(*t, indexing=indexing), *tensors_of(0, *shapes))
        agree(lambda lib, *t: lib.meshgrid(list(t), indexing=indexing), *tensors_of(0, *shapes))
    agree(lambda lib, a, b: lib.meshgrid(a, b.double(), indexing=indexing), *tensors_of(0, (2,), (2,)))


def test_meshgrid_without_indexing_warns():
    a, b = mt.empty(2, device="meta"), mt.empty(3, device="meta")
    with pytest.warns(UserWarning, match="indexing='ij'"):
        assert mt.meshgrid(a, b)[0].shape == (2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mt.meshgrid(a, b, indexing="xy")[0].shape == (3, 2)


@pytest.mark.torch
def test_products_and_blocks():
    for shapes in (((2,),), ((2,), (3,)), ((2,), (1,), (3,)), ((2, 2),)):
        agree(lambda lib, *t: lib.cartesian_prod(*t), *tensors_of(0, *shapes))
    for shapes in (((2, 3),), ((2, 3), (2,), ()), ((0, 2), (2, 0)), ((1, 2, 3),)):
        agree(lambda lib, *t: lib.block_diag(*t), *tensors_of(0, *shapes))


def test_out(device):
    a = mt.ones(2, 3, device=device)
    out = mt.empty(0, device=device)
    assert mt.cat([a, a], out=out) is out and out.shape == (4, 3)
    empty = mt.empty(0, device=out.device)
    for dim in (1, 5, -2):  # no tensor counts, so there is no dimension to be in range
        assert mt.cat([empty, empty], dim).shape == mt.cat([empty, empty], dim, out=mt.empty(0, device=out.device)).shape == (0,)
    assert mt.cat([empty, a], 1, out=mt.empty(0, device=out.device)).shape == a.shape
    assert mt.hstack([a, a], out=out).shape == (2, 6)
    assert mt.stack([a, a], out=mt.empty(2, 2, 3, dtype=mt.float64, device=device)).dtype is mt.float64


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: mt.cat([]), ValueError, "at least one tensor is needed"),
        (lambda t: mt.stack([]), RuntimeError, "at least one tensor is needed"),
        (lambda t: mt.cat([t, t[0]]), RuntimeError, r"tensor 1 of shape \[3\] does not match shape \[2, 3\]"),
        (lambda t: mt.cat([t, t.t()]), RuntimeError, r"sizes must match except in dimension 0: tensor 1 of shape \[3, 2\]"),
        (lambda t: mt.cat([t.sum()]), RuntimeError, "tensor 0 is 0-d"),
        (lambda t: mt.cat([t], 2), IndexError, "dimension 2 is out of range"),
        (lambda t: mt.cat(t), TypeError, "must be list or tuple of Tensors, not Tensor"),
        (lambda t: mt.stack([t, t[0]]), RuntimeError, r"tensor 1 has \[3\], but the first one has \[2, 3\]"),
        (lambda t: mt.broadcast_tensors(t, t.t()), RuntimeError, r"\[2, 3\], \[3, 2\]"),
    ],
)
def test_errors_name_the_tensors(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(2, 3, device="meta"))


def test_meshgrid_asks_for_indexing():
    a = mt.arange(2)
    with pytest.warns(UserWarning, match="indexing"):
        mt.meshgrid(a, a)
    with pytest.warns(UserWarning, match="indexing"):
        mt.meshgrid(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [t.tolist() for t in mt.meshgrid(a, a, indexing="ij")] == [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
        mt.meshgrid(a, indexing="xy")
        mt.cartesian_prod(a, a)


def test_the_block_diagonal_matrix_of_nothing_is_on_the_default_device():
    pytest.importorskip("metatensor_cpu")
    for device in ("cpu", "meta"):
        with mt.device(device):
            for made in (mt.block_diag(), mt.block_diag([])):
                assert made.shape == (1, 0) and made.dtype is mt.float32 and made.device.type == device
    with pytest.raises(RuntimeError, match="at least one"):
        mt._core.op.registry["_block_diag"]([])
