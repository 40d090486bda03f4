"""Promotion, broadcasting and strides of element-wise ops: the rules themselves, and compared with PyTorch."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

import metatensor as mt
from ops.layouts import conform, empty, layouts, shapes

NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex32", "complex64", "complex128",
)  # fmt: skip


def meta(shape, dtype=mt.float32, strides=None):
    """Return an uninitialized meta tensor. Strides are in elements."""
    if strides is None:
        return mt.empty(shape, dtype=dtype, device="meta")
    return mt.empty_strided(shape, strides, dtype=dtype, device="meta")


# Promotion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ((3,), (), "left"),  # a 0-d tensor of the same category is ignored
        ((3,), (3,), "wider"),
        ((), (), "wider"),
    ],
)
def test_dimensions_outrank(left, right, expected):
    result = meta(left, mt.float32) + meta(right, mt.float64)
    assert result.dtype is (mt.float32 if expected == "left" else mt.float64)


def test_a_higher_category_wins_without_dimensions():
    assert (meta((3,), mt.int32) + meta((), mt.float64)).dtype is mt.float64
    assert (meta((3,), mt.float16) + meta((), mt.complex128)).dtype is mt.complex32


@pytest.mark.parametrize(
    "dtype, number, expected",
    [
        ("int8", 300, "int8"), ("int32", 2.0, "float32"), ("bool", True, "bool"), ("bool", 2, "int64"),
        ("float16", 2.5, "float16"), ("float16", 1j, "complex32"), ("float64", 1j, "complex128"),
        ("int64", 1j, "complex64"), ("uint8", False, "uint8"),
    ],
)  # fmt: skip
def test_numbers_rank_last(dtype, number, expected):
    t = meta((2,), getattr(mt, dtype))
    assert (t + number).dtype.name == (number + t).dtype.name == expected


def test_the_default_dtype_decides_about_numbers():
    mt.set_default_dtype(mt.float64)
    assert (meta((2,), mt.int32) + 1.5).dtype is mt.float64
    assert mt.sin(meta((2,), mt.int32)).dtype is mt.float64
    assert (meta((2,), mt.float32) + 1.5).dtype is mt.float32


def test_what_does_not_promote():
    with pytest.raises(RuntimeError, match="float8_e5m2"):
        meta((2,), mt.float8_e5m2) + meta((2,), mt.float32)
    with pytest.raises(RuntimeError):
        meta((2,), mt.uint32) + meta((2,), mt.int32)


@pytest.mark.torch
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())])
@pytest.mark.parametrize("op", ["add", "div", "eq", "float_power"])
def test_promotion_of_all_pairs(op, shapes):
    import torch

    for a in NAMES:
        for b in NAMES:
            ours = getattr(mt, op)(*[meta(s, getattr(mt, d)) for s, d in zip(shapes, (a, b))])
            theirs = getattr(torch, op)(*[torch.empty(s, dtype=getattr(torch, d), device="meta") for s, d in zip(shapes, (a, b))])
            assert str(theirs.dtype) == f"torch.{ours.dtype.name}", (a, b)


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("number", [True, 2, 2.5, 1j])
def test_promotion_with_numbers(shape, number):
    import torch

    for name in NAMES:
        for op in ("mul", "div", "eq", "pow"):
            ours = getattr(mt, op)(meta(shape, getattr(mt, name)), number)
            theirs = getattr(torch, op)(torch.empty(shape, dtype=getattr(torch, name), device="meta"), number)
            if name == "bool" and op == "pow" and number is True:
                continue  # PyTorch: int64 on meta, bool on cpu
            assert str(theirs.dtype) == f"torch.{ours.dtype.name}", (name, op)


# Shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes, expected",
    [
        (((3, 1), (1, 4)), (3, 4)), (((), (2, 3)), (2, 3)), (((0,), (1,)), (0,)), (((2, 1, 3), (5, 1)), (2, 5, 3)),
        (((1,) * 8, (2, 1) * 3), (1, 1, 2, 1, 2, 1, 2, 1)),
    ],
)  # fmt: skip
def test_broadcast(shapes, expected):
    result = meta(shapes[0]) * meta(shapes[1])
    assert tuple(result.shape) == expected
    assert result.is_contiguous()


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match=r"add\(\).*\[2, 3\].*\[4\]"):
        meta((2, 3)) + meta((4,))
    with pytest.raises(RuntimeError, match=r"where\(\)"):
        mt.where(meta((2,), mt.bool), meta((3,)), 1.0)


def test_too_many_elements():
    with pytest.raises(RuntimeError):
        meta((2**40, 1)) + meta((1, 2**40))


def test_in_place_does_not_grow():
    with pytest.raises(RuntimeError, match="add_"):
        meta((1, 3)).add_(meta((2, 3)))
    t = meta((2, 3))
    assert t.add_(meta((3,))) is t


def test_in_place_does_not_lose_a_category():
    with pytest.raises(RuntimeError, match="float32"):
        meta((2,), mt.int32).add_(1.5)
    with pytest.raises(RuntimeError):
        meta((2,), mt.int32).div_(2)
    assert meta((2,), mt.float32).eq_(1).dtype is mt.float32


def test_out():
    out = meta((0,))
    assert mt.add(meta((2, 3)), 1, out=out) is out
    assert tuple(out.shape) == (2, 3)
    with pytest.raises(RuntimeError):
        mt.add(meta((2,)), 1.0, out=meta((2,), mt.int32))


# Strides ------------------------------------------------------------------------------------


def test_dense_layouts_are_kept():
    t = meta((2, 3, 4, 5)).permute(0, 2, 3, 1)
    assert mt.relu(t).stride() == t.stride()
    assert (t + t).stride() == t.stride()
    assert (t + 1).stride() == t.stride()


def test_channels_last_is_kept():
    t = meta((2, 3, 4, 5), strides=(60, 1, 15, 3))
    assert mt.sin(t).stride() == (60, 1, 15, 3)
    assert (t * t.clone()).stride() == (60, 1, 15, 3)
    assert (t * meta((3, 1, 1))).stride() == (60, 1, 15, 3)


def test_gaps_are_closed_in_the_same_order():
    t = meta((8, 3, 4), strides=(1, 16, 48))
    assert mt.exp(t).stride() == (1, 8, 24)


def test_the_first_operand_decides():
    a, b = meta((3, 4)), meta((4, 3)).t()
    assert (a + b).stride() == (4, 1)
    assert (b + a).stride() == (1, 3)
    assert mt.rsub(a, b).stride() == (1, 3)


@st.composite
def strides_for(draw, shape):
    """Draw strides of a permuted, padded, expanded or contiguous tensor of this shape."""
    order = draw(st.permutations(range(len(shape))))
    kind = draw(st.sampled_from(["dense", "dense", "padded", "expanded"]))
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
        if kind == "padded":
            step += draw(st.integers(0, 2))
        elif kind == "expanded" and draw(st.booleans()):
            strides[dim] = 0
    return tuple(strides)


@st.composite
def operands(draw, most):
    """Draw up to `most` pairs (shape, strides) that broadcast with one another, none of them empty."""
    full = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    found = []
    for _ in range(draw(st.integers(1, most))):
        shape = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in full)
        shape = shape[draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0 :]
        found.append((shape, draw(strides_for(shape))))
    return found


def significant(shape, strides):
    """Return the strides of dimensions with more than one element."""
    return tuple(0 if n == 1 else s for n, s in zip(shape, strides))


def both(shape, strides, name):
    """Return the same tensor in both libraries. PyTorch's is on cpu, where strides are those of its iterator."""
    import torch

    room = math.prod(shape) and 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    theirs = torch.ones(room, dtype=getattr(torch, name)).as_strided(shape, strides)
    return meta(shape, getattr(mt, name), strides), theirs


@pytest.mark.torch
@example([((3, 4), (1, 3)), ((3, 4), (4, 1))])
@given(operands(3))
def test_strides_are_those_of_pytorch(layouts):
    import torch

    calls = {
        1: [lambda m, a: m.exp(a), lambda m, a: a + 2, lambda m, a: m.clamp(a, 0, 1), lambda m, a: a == 1.5],
        2: [lambda m, a, b: a + b, lambda m, a, b: m.rsub(a, b), lambda m, a, b: m.lerp(a, b, 0.5),
            lambda m, a, b: m.clamp(a, min=b)],
        3: [lambda m, a, b, c: m.addcmul(a, b, c), lambda m, a, b, c: m.where(a > 0, b, c), lambda m, a, b, c: m.clamp(a, b, c)],
    }  # fmt: skip
    for function in calls[len(layouts)]:
        for device in ("meta", "cpu"):
            mine, reference = (function(m, *[empty(m, t, device=device) for t in layouts]) for m in (mt, torch))
            assert tuple(mine.shape) == tuple(reference.shape)
            assert significant(mine.shape, mine.stride()) == significant(reference.shape, reference.stride()), device


@pytest.mark.torch
@given(st.lists(st.integers(0, 3), max_size=4), st.data())
def test_every_stride_on_meta(shape, data):
    """Strides of dimensions of size 1 are compared too. There is one operand, because PyTorch's meta kernels ignore
    numbers and treat empty tensors as contiguous.
    """
    import torch

    strides = data.draw(strides_for(tuple(shape)))
    theirs = torch.empty_strided(shape, strides, device="meta")
    ours = meta(tuple(shape), strides=strides)
    for call in [lambda m, t: -t, lambda m, t: t + 2, lambda m, t: 2 - t, lambda m, t: t == 1,
                                    lambda m, t: m.zeros_like(t), lambda m, t: m.rand_like(t), lambda m, t: t + t]:  # fmt: skip
        assert tuple(call(mt, ours).stride()) == call(torch, theirs).stride()
    if 0 in shape:
        assert tuple((ours + meta(())).stride()) == (theirs + torch.empty((), device="meta")).stride()
        assert tuple(ours.sort(-1).values.stride()) == theirs.sort(-1).values.stride()


@pytest.mark.torch
@given(operands(2), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_metadata_of_mixed_dtypes(layouts, first, second):
    import torch

    pairs = [both(shape, strides, name) for (shape, strides), name in zip(layouts, (first, second))]
    ours, theirs = [p[0] for p in pairs], [p[1].to("meta") for p in pairs]
    for op in ("add", "mul", "eq") if len(pairs) == 2 else ("abs", "isnan"):
        mine, reference = getattr(mt, op)(*ours), getattr(torch, op)(*theirs)
        assert tuple(mine.shape) == tuple(reference.shape)
        assert str(reference.dtype) == f"torch.{mine.dtype.name}"


# Operators ----------------------------------------------------------------------------------


def test_operators_are_the_ops():
    t, i = meta((2,)), meta((2,), mt.int32)
    assert [x.dtype for x in (t + 1, 1 - t, t * 2, 2 / t, t // 2, t % 2, 2**t, -t, abs(t))] == [mt.float32] * 9
    assert [x.dtype for x in (i & 1, 1 | i, i ^ i, ~i, i << 1, i >> 1)] == [mt.int32] * 6
    assert [x.dtype for x in (t == 1, t != t, t < 1, t <= 1, 1 < t, 1 <= t)] == [mt.bool] * 6
    assert +t is t


def test_in_place_operators_keep_the_object():
    t, i = meta((2,)), meta((2,), mt.int32)
    before = t, i
    t += 1
    t -= 1
    t *= 2
    t /= 2
    t //= 2
    t %= 2
    t **= 2
    i &= 1
    i |= 1
    i ^= 1
    i <<= 1
    i >>= 1
    assert t is before[0] and i is before[1]


def test_other_operands_are_left_to_them():
    class Other:
        def __radd__(self, other):
            return "radd"

        def __eq__(self, other):
            return "eq"

    assert meta((2,)) + Other() == "radd"
    with pytest.raises(TypeError):
        meta((2,)) + "text"


def test_two_numbers_are_no_operands():
    for op in (mt.remainder, mt.pow, mt.float_power, mt.special.zeta):
        with pytest.raises(TypeError):
            op(2, 3)


@pytest.mark.torch
@given(data=st.data(), name=st.sampled_from(("add", "maximum", "eq", "atan2", "float_power", "addcmul", "sqrt", "exp")))
def test_operands_are_converted_before_their_strides_count(data, name):
    """A dense layout of another dtype keeps its strides. One with gaps or repeats becomes dense in the same order."""
    shape = data.draw(shapes(min_size=1))
    count = {"addcmul": 3, "sqrt": 1, "exp": 1}.get(name, 2)
    operands = [(data.draw(layouts(shape)), data.draw(st.sampled_from(NAMES[:6] + NAMES[8:10]))) for _ in range(count)]
    conform(lambda m, *tensors: getattr(m, name)(*tensors), *operands)


@pytest.mark.torch
@given(operands(2), st.sampled_from(["float32", "int64", "bool"]), st.sampled_from(["float32", "float64", "bool"]))
def test_strides_on_meta_of_mixed_dtypes(layouts, first, second):
    """Operands are broadcast, converted to the common dtype, and only then ordered."""
    import torch

    layouts = [*layouts, layouts[0]][:2]
    for call in (lambda m, a, b: m.add(a, b), lambda m, a, b: a == b, lambda m, a, b: m.logical_and(a, b),
                 lambda m, a, b: m.where(a > 0, a, b), lambda m, a, b: m.atan2(a, b)):  # fmt: skip
        mine, reference = (call(m, *[empty(m, t, d) for t, d in zip(layouts, (first, second))]) for m in (mt, torch))
        assert tuple(mine.shape) == tuple(reference.shape)
        assert significant(mine.shape, mine.stride()) == significant(reference.shape, reference.stride())
