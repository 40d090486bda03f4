"""x[index] and x[index] = value, compared with PyTorch and NumPy; errors."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import layouts
from ops.viewing import agree as views_agree

BOUND = st.none() | st.integers(-6, 6)


@st.composite
def basic(draw, ndim):
    """Draw ints, slices, None and ... for a tensor of some dimensions, sometimes too many."""
    item = st.one_of(
        st.integers(-3, 3), st.builds(slice, BOUND, BOUND, st.none() | st.integers(1, 3)), st.none(), st.builds(slice, st.none())
    )
    index = draw(st.lists(item, max_size=ndim + draw(st.integers(0, 1))))
    if draw(st.booleans()):
        index.insert(draw(st.integers(0, len(index))), Ellipsis)
    return index[0] if len(index) == 1 and draw(st.booleans()) else tuple(index)


@pytest.mark.torch
@settings(max_examples=500)
@given(layouts(max_dims=4), st.data())
def test_basic_indices_show_what_they_do_in_pytorch(layout, data):
    index = data.draw(basic(len(layout[0])))
    views_agree(lambda lib, t: t[index], layout)


@st.composite
def advanced(draw, shape, masks=True):
    """Draw an index with index tensors, masks or lists among ints, slices, None and ..., as a function of the library."""
    makers = []
    used = 0
    broadcast = draw(st.sampled_from([(), (1,), (2,), (2, 1), (2, 3), (0,)]))
    while used < len(shape) and draw(st.integers(0, 4)):
        size = shape[used]
        kind = draw(st.sampled_from(["tensor", "tensor", "list", "mask", "slice", "int", "none", "bool"]))
        if kind == "tensor" and size:
            part = draw(st.sampled_from([broadcast, broadcast[1:]]))
            values = np.asarray(draw(st.lists(st.integers(-size, size - 1), min_size=int(np.prod(part)), max_size=int(np.prod(part)))))
            makers.append(
                lambda lib, d, v=values.astype("i8").reshape(part): lib.tensor(v.tolist(), dtype=lib.int64, device=d).reshape(v.shape)
            )
            used += 1
        elif kind == "list" and size:
            values = draw(st.lists(st.integers(-size, size - 1), min_size=2, max_size=2))
            makers.append(lambda lib, d, v=values: v)
            used += 1
        elif kind == "mask" and masks:
            values = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            makers.append(lambda lib, d, v=values: lib.tensor(v, dtype=lib.bool, device=d))
            used += 1
        elif kind == "slice":
            makers.append(lambda lib, d, v=draw(st.builds(slice, BOUND, BOUND, st.none() | st.integers(1, 3))): v)
            used += 1
        elif kind == "int" and size:
            makers.append(lambda lib, d, v=draw(st.integers(-size, size - 1)): v)
            used += 1
        elif kind == "none":
            makers.append(lambda lib, d: None)
        elif kind == "bool":
            makers.append(lambda lib, d, v=draw(st.booleans()): v)
    if draw(st.integers(0, 3)) == 0:
        makers.insert(draw(st.integers(0, len(makers))), lambda lib, d: Ellipsis)
    return lambda lib, device: tuple(make(lib, device) for make in makers)


@pytest.mark.torch
@settings(max_examples=500)
@given(layouts(max_dims=4, max_size=3), st.data())
def test_index_tensors(layout, data):
    index = data.draw(advanced(layout[0]))
    views_agree_or_fail(lambda lib, t: t[index(lib, "cpu")], layout)


def views_agree_or_fail(call, layout):
    """Compare as for views. The offset of a copy is ignored."""
    import torch

    theirs = attempt(lambda: call(torch, filled(torch, layout, "cpu")))
    for device in ("meta", "cpu"):
        ours = attempt(lambda: call(mt, filled(mt, layout, device)))
        if isinstance(theirs, Exception):
            # The values of index tensors are not checked on meta.
            assert isinstance(ours, type(theirs)) or device == "meta" and "out of bounds" in str(theirs), (layout, ours, theirs)
            continue
        if isinstance(ours, Exception):
            raise AssertionError(f"{layout} on {device}: PyTorch gives {tuple(theirs.shape)}") from ours
        assert tuple(ours.shape) == tuple(theirs.shape), (layout, device)
        if 0 not in ours.shape:
            there = attempt(lambda: call(torch, filled(torch, layout, device)))
            there = theirs if isinstance(there, Exception) else there
            known = [(a, b) for n, a, b in zip(ours.shape, ours.stride(), there.stride()) if n > 1]
            assert all(a == b for a, b in known), (layout, device, ours.stride(), there.stride())
        if device == "cpu":
            assert ours.tolist() == theirs.tolist(), layout


def filled(lib, layout, device):
    shape, strides = layout
    need = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    return lib.arange(need, dtype=lib.float32, device=device).as_strided(shape, strides)


def attempt(call):
    try:
        return call()
    except Exception as error:
        return error


@pytest.mark.torch
@settings(max_examples=300)
@given(st.lists(st.integers(0, 3), max_size=4), st.data(), st.sampled_from(["number", "like", "row", "wrong"]))
def test_assignment(shape, data, kind):
    import torch

    make = data.draw(st.one_of(st.builds(lambda i: lambda lib, d: i, basic(len(shape))), advanced(tuple(shape))))
    start = torch.arange(int(np.prod(shape, dtype=int)), dtype=torch.float32).reshape(shape)
    part = attempt(lambda: start[make(torch, "cpu")])
    assume(not isinstance(part, Exception) or kind == "number")
    # If two values are assigned to an element, either may remain.
    if kind != "number" and not isinstance(part, Exception):
        assume(len(set(part.reshape(-1).tolist())) == part.numel())
        size = {"like": part.shape, "row": (1, *part.shape[-1:]), "wrong": (7,)}[kind]
        values = -torch.arange(1, 1 + int(np.prod(size, dtype=int)), dtype=torch.float32).reshape(size)

    def assign(lib, device):
        t = lib.tensor(start.tolist(), dtype=lib.float32, device=device).reshape(shape)
        value = -7 if kind == "number" else lib.tensor(values.tolist(), dtype=lib.float32, device=device).reshape(size)
        t[make(lib, device if device != "meta" else "cpu")] = value
        return t

    theirs = attempt(lambda: assign(torch, "cpu"))
    for device in ("cpu", "meta"):
        ours = attempt(lambda: assign(mt, device))
        if isinstance(theirs, Exception):
            # The number of true elements of a mask is unknown on meta.
            assert isinstance(ours, type(theirs)) or device == "meta", (ours, theirs)
        elif isinstance(ours, Exception):
            raise AssertionError(f"{shape} on {device}: PyTorch assigns") from ours
        elif device == "cpu":
            assert ours.tolist() == theirs.tolist()


# Tests without PyTorch --------------------------------------------------------------------------------


def test_what_is_a_view():
    t = mt.empty(3, 4, device="meta")
    for view in (t[0], t[:, 1:], t[...], t[None], t[()], t[0, ...]):
        assert view._base is t
    for copy in (t[[0]], t[mt.zeros(1, dtype=mt.int64, device="meta")], t[True]):
        assert copy.untyped_storage()._cdata != t.untyped_storage()._cdata


def test_lists_and_tuples():
    t = mt.empty(3, 4, 5, device="meta")
    assert t[[0, 1]].shape == (2, 4, 5) and t[[0, 1], [0, 1]].shape == (2, 5)
    assert t[[[0, 1], [0, 1]]].shape == (2, 5)  # short lists that contain sequences count as tuples
    assert t[[0, slice(None)]].shape == (4, 5) and t[[None]].shape == (1, 3, 4, 5)
    assert t[[0] * 40].shape == (40, 4, 5)
    assert t[(),].shape == (0, 4, 5) and t[range(2)].shape == (2, 4, 5)


def test_arrays_and_scalars_of_numpy():
    t = mt.empty(3, 4, device="meta")
    assert t[np.array([0, 2])].shape == (2, 4) and t[np.int64(1)].shape == (4,) and t[np.array(1)].shape == (4,)
    assert mt.arange(3)[np.array([True, False, True])].tolist() == [0, 2]


def test_masks_whose_values_are_known():
    t = mt.empty(3, 4, device="meta")
    assert t[[True, False, True]].shape == (2, 4)
    assert t[mt.tensor([True, False, True])].shape == (2, 4)
    assert t[:, mt.tensor([False, True, True, True])].shape == (3, 3)


@pytest.mark.parametrize("index", [mt.ones(3, dtype=mt.bool, device="meta"), (slice(None), mt.ones(4, dtype=mt.uint8, device="meta"))])
def test_masks_without_data(index):
    t = mt.empty(3, 4, device="meta")
    with pytest.raises(mt.DataDependentError, match=r"a mask of shape .* use metatensor.where\(mask, tensor, 0\)"):
        t[index]
    t[index] = 1  # the shape of the result is known
    t[index] = mt.empty(2, device="meta")


@pytest.mark.torch
@pytest.mark.parametrize(
    "layout, index, strides",
    [
        (((1, 2), (1, 1)), (None, [0, 0]), (4, 2, 1)),
        (((1, 2, 3), (1, 1, 4)), (slice(None), [1, 0]), (6, 3, 1)),
        (((2, 2, 3), (3, 1, 3)), (slice(None), [1, 0]), (1, 2, 4)),
        (((1, 1), (1, 1)), ([0], False, None, 0), (1, 1)),
    ],
)
def test_strides_of_what_index_tensors_give(layout, index, strides):
    """On devices, strides of index tensors in dimensions of size 1 affect the result. On meta they do not."""
    import torch

    assert torch.empty_strided(*layout)[index].stride() == strides
    assert mt.empty_strided(*layout)[index].stride() == strides
    assert mt.empty_strided(*layout, device="meta")[index].stride() == \
        torch.empty_strided(*layout, device="meta")[index].stride()


def test_index_tensors_of_no_dimension():
    t = mt.empty(3, 4, device="meta")
    assert t[mt.tensor(1)]._base is t  # the value of the index is known, so this is a view
    unknown = mt.zeros((), dtype=mt.int64, device="meta")
    assert t[unknown].shape == (4,) and t[:, unknown].shape == (3,) and t[unknown, None].shape == (1, 4)
    t[unknown] = 1
    t[:, unknown] = mt.empty(3, device="meta")
    with pytest.raises(RuntimeError):
        t[unknown] = mt.empty(3, device="meta")


def test_index_tensors_on_another_device(device):
    index = mt.tensor([0, 2])
    assert mt.arange(3, device=device)[index].tolist() == [0, 2]
    t = mt.zeros(3, device=device)
    t[index] = mt.tensor(5.0)
    assert t.tolist() == [5, 0, 5]
    with pytest.raises(NotImplementedError, match="no data"):
        mt.arange(3, device=device)[index.to("meta")]


def test_assignment_of_numbers_and_scalars(device):
    t = mt.zeros(2, 3, dtype=mt.int32, device=device)
    t[0] = 2.7
    t[1, 0] = True
    t[1, 1] = np.float64(4)
    t[:, 2] = mt.tensor(9, device=device)
    assert t.tolist() == [[2, 2, 9], [1, 4, 9]]
    t[t > 3] = 0
    assert t.tolist() == [[2, 2, 0], [1, 0, 0]]
    t[[1, 1], [0, 0]] = mt.tensor([5, 5], dtype=mt.int32, device=device)
    assert t[1, 0] == 5


def test_assignment_records_gradients():
    t, value = mt.zeros(3, device="meta"), mt.zeros((), device="meta", requires_grad=True)
    t[0] = value
    assert t.requires_grad and not t.is_leaf
    leaf = mt.zeros(3, device="meta", requires_grad=True)
    assert leaf[0].requires_grad and not leaf[0].is_leaf
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 1
    with mt.no_grad():
        leaf[0] = 1
        assert not leaf[0].requires_grad


def test_modes_see_ops():
    seen = []

    class Record(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append(op.name)
            return op(*args, **kwargs)

    t, i, values = mt.empty(3, 4, device="meta"), mt.zeros(2, dtype=mt.int64, device="meta"), mt.empty(2, device="meta")
    with Record():
        t[0, 1:, None]
        t[...]
        t[i]
        t[0] = 1
        t[:, i] = values
    assert seen == ["select", "slice", "unsqueeze", "alias", "_index", "select", "fill_", "_index_put_"]


@pytest.mark.parametrize(
    "index, error, message",
    [
        (5, IndexError, r"index 5 is out of bounds for dimension 0 of a tensor of shape \[3, 4\]"),
        ((0, -5), IndexError, "index -5 is out of bounds for dimension 1"),
        ((0, 0, 0), IndexError, r"too many indices for a tensor of shape \[3, 4\]"),
        (2**70, ValueError, "does not fit in 64 bits"),
        (slice(None, None, -1), ValueError, "the step of a slice must be positive, got -1"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice(1.0, 2), TypeError, "slice indices must be integers"),
        (1.5, IndexError, "not float"),
        ({1}, IndexError, "not set"),
        ("a", TypeError, "invalid data type 'str'"),
        (mt.zeros(2, device="meta"), IndexError, "must be int64, int32, uint8 or bool, not float32"),
        (mt.ones(2, dtype=mt.bool), IndexError, r"the mask of shape \[2\] does not match the tensor of shape \[3, 4\]"),
        (mt.tensor([[0, 1], [1, 0]])[:0], None, ""),
        ((mt.tensor([0, 1]), mt.tensor([0, 1, 2])), IndexError, r"index tensors of shapes \[2\], \[3\] do not broadcast"),
        (tuple([None] * 80), RuntimeError, "at most 72 dimensions"),
        (tuple([None] * 200), (IndexError, RuntimeError), "at most"),
    ],
)
def test_errors(index, error, message):
    t = mt.empty(3, 4, device="meta")
    if error is None:
        assert t[index].shape == (0, 2, 4)
        return
    with pytest.raises(error, match=message):
        t[index]


@pytest.mark.parametrize(
    "value, error, message",
    [
        ([1, 2], TypeError, "cannot assign a list"),
        ("a", TypeError, "cannot assign a str"),
        (np.array("a"), TypeError, "cannot assign a ndarray"),
        (None, TypeError, "cannot assign a NoneType"),
        (1j, RuntimeError, "cannot be converted to float32"),
        (mt.zeros(3), RuntimeError, "does not broadcast"),
    ],
)
def test_values_that_cannot_be_assigned(value, error, message):
    with pytest.raises(error, match=message):
        mt.zeros(3, 4)[0] = value


def test_0d_tensors():
    t = mt.zeros((), device="meta")
    assert t[...].shape == () and t[None].shape == (1,) and t[True].shape == (1,)
    with pytest.raises(IndexError, match="use tensor.item"):
        t[0]
    with pytest.raises(IndexError, match="too many indices"):
        t[:]


@pytest.mark.slow
@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.integers(),
            st.floats(),
            st.booleans(),
            st.text(),
            st.just(Ellipsis),
            st.builds(slice, st.integers() | st.none(), st.floats() | st.none()),
        ),
        lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
        max_leaves=6,
    )
)
def test_anything_else_raises_a_python_exception(index):
    t = mt.empty(2, 3, device="meta")
    for call in (lambda: t[index], lambda: t.__setitem__(index, 1)):
        try:
            call()
        except (IndexError, TypeError, ValueError, RuntimeError, OverflowError):
            pass


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_one_index_may_have_any_integer_dtype(dtype):
    x, i = mt.arange(6.0).reshape(2, 3), mt.tensor(1, dtype=getattr(mt, dtype))
    assert x[i].tolist() == [3.0, 4.0, 5.0] and x[:, i].tolist() == [1.0, 4.0]
    x[i, i] = 9.0
    assert x[1, 1].item() == 9.0
    if dtype not in ("int32", "int64"):
        with pytest.raises(IndexError):
            x[i.reshape(1)]


def test_lists_of_text_are_no_indices():
    x = mt.ones(3, 3)
    for index in (["x", 2], [2, "x"], (..., ["x", 2]), [["x"]]):
        with pytest.raises(TypeError):
            x[index]


def test_masks_of_bytes_are_warned_of():
    t, mask = mt.ones(3, device="cpu"), mt.tensor([1, 0, 1], dtype=mt.uint8, device="cpu")
    with pytest.warns(UserWarning, match="uint8 tensor is used as a mask") as seen:
        assert t[mask].shape == (2,)
        t[mask] = 2.0
        t.index_put_((mask,), mt.tensor(3.0, device="cpu"))
    assert len(seen) == 3 and {w.filename for w in seen} == {__file__}
    assert t.tolist() == [3, 1, 3]


def test_index_put_without_an_index():
    with pytest.raises(RuntimeError, match="0-d tensor"):
        mt.tensor(1.0, device="cpu").index_put([], mt.tensor([1.0], device="cpu"), True)
