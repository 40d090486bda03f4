"""Arbitrary arguments cause only Python exceptions, in every op and every public function of the core."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor._core import formats, layout, op, storage, storage_views

ALLOWED = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError, OverflowError, AttributeError,
           ZeroDivisionError, ArithmeticError, BufferError, KeyError, MemoryError, AssertionError)
OPS = sorted(name for name in op.registry if "::" not in name)
DTYPES = [mt.float32, mt.float16, mt.bfloat16, mt.int64, mt.uint8, mt.bool, mt.complex64, mt.float8_e5m2, mt.qint8]

tensors = st.builds(
    lambda shape, dtype, view: _shown(mt.empty(shape, dtype=dtype, device="meta"), view),
    st.lists(st.integers(0, 4), max_size=6), st.sampled_from(DTYPES), st.integers(0, 4))


def _shown(t, view):
    """Return a view of a tensor, or the tensor."""
    if view == 1 and t.dim() > 1:
        return t.transpose(0, -1)
    if view == 2 and t.dim():
        return t.unsqueeze(0).expand(2, *t.shape)
    if view == 3 and t.dim() and t.shape[0] > 1:
        return t[1:]
    return t


scalars = st.one_of(st.integers(-3, 5), st.integers(-2**70, 2**70), st.floats(), st.booleans(), st.none(),
                    st.complex_numbers(), st.text(max_size=4), st.sampled_from([mt.float32, mt.int64, mt.strided,
                    mt.channels_last, mt.device("meta"), "meta", "sum", "mean", "same", ...]))
values = st.one_of(tensors, tensors, scalars, st.lists(st.one_of(st.integers(-3, 5), tensors), max_size=4),
                   st.lists(st.integers(-2**66, 2**66), max_size=3), st.just([[1, 2], [3]]), st.just({}))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(OPS), st.lists(values, max_size=6), st.dictionaries(
    st.sampled_from(["dim", "keepdim", "dtype", "device", "out", "p", "eps", "size", "other", "weight", "bias",
                     "padding", "stride", "generator", "input", "index", "reduction"]), values, max_size=2))
def test_any_op_with_anything(name, args, kwargs):
    with mt.device("meta"):
        try:
            op.registry[name](*args, **kwargs)
        except ALLOWED:
            pass


def _plausible(kind, rng):
    """Return an argument of the right type with any value."""
    shape = [rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.randint(0, 5))]
    t = mt.empty(shape, dtype=rng.choice(DTYPES), device="meta")
    number = rng.choice([-(2**63), -(2**40), -3, -1, 0, 1, 2, 3, 7, 2**31, 2**62, 2**63 - 1])
    kind = kind.rstrip("?").partition("(")[0] if "(" in kind else kind.rstrip("?")
    if kind == "Tensor":
        return t
    if kind == "Tensor|Scalar":
        return rng.choice([t, number, 0.5, True, 1j])
    if kind == "Tensor[]":
        return [mt.empty(shape, device="meta") for _ in range(rng.randint(0, 3))] + [t] * rng.randint(0, 1)
    if kind.startswith("int["):
        return [rng.choice([-1, 0, 1, 2, 3, number]) for _ in range(rng.randint(0, 5))]
    if kind.startswith("float["):
        return [rng.random() for _ in range(3)]
    return {"int": number, "float": rng.choice([0.0, 0.5, -1.0, float("nan"), float("inf")]),
            "Scalar": rng.choice([number, 0.5, 1j]), "bool": rng.random() < 0.5, "dtype": rng.choice(DTYPES),
            "device": "meta", "layout": mt.strided, "memory_format": rng.choice([mt.channels_last,
            mt.contiguous_format, mt.preserve_format, mt.channels_last_3d]),
            "str": rng.choice(["sum", "mean", "none", "same", "ij", "reflect", "tanh", "floor", "x"])}.get(kind)


@pytest.mark.parametrize("name", OPS)
def test_right_types_with_any_values(name):
    from metatensor._core.schema import parse

    rng = random.Random(name)
    called = op.registry[name]
    with mt.device("meta"):
        for text in called.schemas:
            schema = parse(text)
            for _ in range(60):
                args, kwargs = [], {}
                for a in schema.arguments:
                    if not a.required and rng.random() < 0.5:
                        if not a.kwonly:
                            break
                        continue
                    value = _plausible(a.type, rng)
                    if a.kwonly:
                        kwargs[a.name] = value
                    else:
                        args.append(value)
                try:
                    called(*args, **kwargs)
                except ALLOWED:
                    pass


anything = st.one_of(scalars, values)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(tensors, anything, anything)
def test_indexing_with_anything(t, index, value):
    for key in (index, (index, value), [index, value], slice(index, value) if not hasattr(index, "shape") else index):
        try:
            t[key]
        except ALLOWED:
            pass
        try:
            t[key] = value
        except ALLOWED:
            pass


FUNCTIONS = [
    mt.device, mt.promote_types, mt.can_cast, mt.set_default_dtype, mt.broadcast_shapes, mt.is_tensor, mt.Tensor,
    mt.Spec, mt.dtype, mt.Size, layout.contiguous_strides, layout.compute_view_strides, layout.broadcast_shapes,
    layout.is_non_overlapping_and_dense, storage.make_storage, storage.make_fake_storage, storage.set_data,
    storage.copy_storage, storage.rebuild_storage, storage_views.tensor_from_storage, mt.Tensor._make_subclass,
    mt.Tensor.as_subclass, mt.Tensor.size, mt.Tensor.stride, mt.Tensor.numpy, mt.Tensor.requires_grad_,
    mt.Tensor.__add__, mt.Tensor.__getitem__, mt.Tensor.__deepcopy__, op.namespace, op.op_by_name, op.define_op,
    formats._by_name, mt.no_grad, mt.inference_mode, mt.Tensor.element_size, mt.Tensor.data_ptr,
]


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FUNCTIONS), st.lists(anything, max_size=4))
def test_any_public_function_with_anything(function, args):
    try:
        function(*args)
    except ALLOWED:
        pass
    finally:
        mt.set_default_dtype(mt.float32)


def test_what_looks_like_a_scalar_and_holds_none():
    class Text:
        dtype, ndim, shape = "int64", 0, ()

        def item(self):
            return "x"

    t = mt.empty(3, device="meta")
    for call in (lambda: mt.add(t, Text()), lambda: t.ge_(Text()), lambda: mt.tensor([Text()], device="meta")):
        with pytest.raises(TypeError):
            call()


def test_names_of_ops_are_text():
    for call in (mt.library.get_op, mt.library.op, mt.library.flops):
        with pytest.raises(TypeError, match="str"):
            call([1])


def test_tags_are_unpickled_by_their_names_only():
    for name in ("cpu", "_by_name", ""):
        with pytest.raises(ValueError, match="no memory format"):
            formats._by_name(name)


def test_one_result_goes_into_a_tensor_not_a_tuple(device):
    t = mt.ones(2, device=device)
    for out in ((mt.ones(2, device=device),), [mt.ones(2, device=device)]):
        with pytest.raises(TypeError, match="must be a Tensor"):
            mt.special.i1e(t, out=out)
