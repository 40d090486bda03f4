"""The tensor object: metadata, attributes, copies, pickles, and invalid use."""

import copy
import gc
import pickle
import weakref

import pytest

import metatensor as mt


def meta(*shape, **kw):
    return mt.empty(shape, device="meta", **kw)


def test_metadata():
    t = meta(2, 3, 4)
    assert t.shape == (2, 3, 4) and isinstance(t.shape, mt.Size) and t.shape.numel() == 24
    assert t.stride() == (12, 4, 1) and t.stride(-1) == 1 and t.size(1) == 3
    assert (t.ndim, t.dim(), t.numel(), t.itemsize, t.nbytes) == (3, 3, 24, 4, 96)
    assert t.is_meta and not t.is_cpu and t.storage_offset() == 0
    assert len(t) == 2 and t.layout is mt.strided
    with pytest.raises(IndexError):
        t.size(3)
    with pytest.raises(TypeError):
        t.size("x")
    with pytest.raises(TypeError):
        len(meta())


def test_many_dimensions():
    t = meta(*[1] * 10, 2, 3)
    assert t.ndim == 12 and (t + 1).shape == t.shape and t[0].ndim == 11
    with pytest.raises(RuntimeError):
        meta(*[1] * 73)
    most = meta(*[1] * 72)
    assert (most + 1).ndim == 72 and most.permute(*range(71, -1, -1)).flatten().shape == (1,)
    for reduce in (lambda t: t.sum(), lambda t: t.amax(0), lambda t: t.aminmax(dim=0), lambda t: t.flip(0)):
        with pytest.raises(RuntimeError, match="64 dimensions"):
            reduce(most)


@pytest.mark.parametrize("name", ["size", "stride"])
def test_one_size_or_stride(name):
    matrix, number = mt.empty(2, 3, device="meta"), mt.empty((), device="meta")
    assert getattr(matrix, name)(mt.tensor(1, device="cpu")) == getattr(matrix, name)()[1]
    for dim, error in ((2, IndexError), (-3, IndexError), (True, TypeError), (1.0, TypeError), ("a", TypeError)):
        with pytest.raises(error):
            getattr(matrix, name)(dim)
    for dim in (0, -1):
        with pytest.raises(IndexError, match="0-d tensor"):
            getattr(number, name)(dim)


def test_sizes_are_checked():
    with pytest.raises(RuntimeError, match="63 bits"):
        meta(2**33, 2**33)
    with pytest.raises(RuntimeError, match="63 bits"):
        meta(2**62)
    with pytest.raises(RuntimeError):
        meta(-1)
    big = meta(2**30, 2**30)
    assert big.numel() == 2**60
    with pytest.raises(RuntimeError):
        big.double().expand(2, 2**30, 2**30).contiguous()
    assert meta(0, 2**62).numel() == 0


def test_size_is_a_tuple_with_manners():
    s = meta(2, 3, 4).shape
    assert repr(s) == "metatensor.Size([2, 3, 4])"
    assert isinstance(s[1:], mt.Size) and isinstance(s + (1,), mt.Size) and s[-1] == 4
    assert hash(s) == hash((2, 3, 4)) and pickle.loads(pickle.dumps(s)) == s
    with pytest.raises(IndexError):
        s[3]


def test_profiles_of_printing():
    """An unknown profile has no effect. yolov5 and yolov7 pass "long", which is unknown."""
    x = mt.tensor([1 / 3] * 8, device="cpu")
    try:
        before = repr(x)
        mt.set_printoptions(profile="long")
        assert repr(x) == before and "0.3333," in before
        mt.set_printoptions(profile="short", linewidth=320)
        assert "0.33," in repr(x)
        mt.set_printoptions(threshold=4)
        assert "..." in repr(x)
    finally:
        mt.set_printoptions(profile="default", linewidth=80)
    assert repr(x) == before


def test_printing():
    assert repr(meta(30, 30)) == "tensor(..., device='meta', size=(30, 30))"
    assert repr(meta(2, dtype=mt.bfloat16)) == "tensor(..., device='meta', size=(2,), dtype=metatensor.bfloat16)"
    assert repr(meta(1, requires_grad=True)).endswith("requires_grad=True)")


def test_attributes_are_made_when_set():
    t = meta(2)
    t.name = "x"
    assert t.name == "x" and t.__dict__ == {"name": "x"}
    with pytest.raises(AttributeError):
        t.nothing
    with pytest.raises(AttributeError):
        t.shape = (3,)
    t.me = t
    seen = weakref.ref(t)
    del t
    gc.collect()
    assert seen() is None


def test_subclasses():
    class Sub(mt.Tensor):
        def twice(self):
            return self * 2

    s = meta(2).as_subclass(Sub)
    s.tag = 1
    assert s.twice().shape == (2,) and copy.deepcopy(s).tag == 1 and type(copy.deepcopy(s)) is Sub
    with pytest.raises(TypeError):
        mt.Tensor._make_subclass(int, meta(1))
    with pytest.raises(TypeError):
        mt.Tensor._make_subclass(Sub, 3)


def test_bare_instances_are_whole():
    t = mt.Tensor.__new__(mt.Tensor)
    assert t.shape == (0,) and repr(t) and (t + 1).shape == (0,)
    assert mt.Tensor().numel() == 0


@pytest.mark.parametrize("kind", [type(mt.add), type(mt.Tensor.add), type(mt.strided)])
def test_what_has_no_constructor(kind):
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind.__new__(kind)


def test_storages_are_shared_by_views():
    t = meta(4)
    v = t[1:]
    assert v.untyped_storage() == t.untyped_storage() and v._base is t
    assert v.untyped_storage()._cdata == t.untyped_storage()._cdata
    assert v.untyped_storage().nbytes() == 16 and t.untyped_storage().data is None
    assert (t + 0).untyped_storage() != t.untyped_storage()
    assert v[1:]._base is t


def test_deep_copies_keep_sharing():
    t = meta(4, requires_grad=True)
    pair = copy.deepcopy([t, t.data[1:], t])
    assert pair[0] is pair[2] and pair[0].requires_grad
    assert pair[1].untyped_storage() == pair[0].untyped_storage() != t.untyped_storage()
    assert pair[1].storage_offset() == 1
    with pytest.raises(RuntimeError):
        copy.deepcopy(t * 2)


def test_pickles_keep_sharing():
    t = meta(4)
    t.tag = "x"
    a, b = pickle.loads(pickle.dumps((t, t[2:])))
    assert a.tag == "x" and a.is_meta and a.shape == (4,)
    assert a.untyped_storage() == b.untyped_storage() and b.storage_offset() == 2


def test_values_are_not_there():
    t = meta(1)
    for what in (t.item, t.tolist, lambda: bool(t), lambda: int(t), lambda: float(t), lambda: 0 in t):
        with pytest.raises(NotImplementedError):
            what()
    with pytest.raises(TypeError, match=r"numpy\(\): cannot view a tensor of shape \[1\] on meta"):
        t.numpy()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        mt.ones(5, device="meta").to("cpu")
    with pytest.raises(RuntimeError):
        bool(meta(2))


def test_bits_of_floats():
    for dtype in (mt.float32, mt.complex64):
        with pytest.raises(TypeError, match="only integers and bools have bits to invert"):
            ~meta(2, dtype=dtype)
    assert (~meta(2, dtype=mt.int8)).dtype is mt.int8


def test_data():
    t = meta(2, requires_grad=True)
    assert not t.data.requires_grad and t.data.untyped_storage() == t.untyped_storage()
    t.data = meta(3, dtype=mt.float64)
    assert t.shape == (3,) and t.dtype is mt.float64 and t.requires_grad
    with pytest.raises(TypeError):
        t.data = 1


def test_unknown_operands():
    t = meta(2)
    for wrong in ("x", None, [1], object()):
        with pytest.raises(TypeError):
            t + wrong
        with pytest.raises(TypeError):
            wrong @ t
    assert (t == "x") is False and (t != "x") is True


def test_hashing_is_by_identity():
    t, u = meta(2), meta(2)
    assert {t: 1}[t] == 1 and hash(t) != hash(u)


def test_reflected_methods_apply_to_anything():
    """Called through the class, reflected methods return NotImplemented for arguments that they do not support."""

    class Sub(mt.Tensor):
        pass

    t = mt.tensor([4.0])
    assert mt.Tensor.__rsub__(2, 3) is mt.Tensor.__rpow__(t, "x") is mt.Tensor.__rdiv__(2, 3, device="cpu") is NotImplemented
    assert mt.Tensor.__rsub__(t, 1).tolist() == [-3] and t.__rdiv__(2).tolist() == [0.5]
    for x in (t, t.as_subclass(Sub), mt.nn.Parameter(t.clone())):
        assert [(2 - x).item(), (2**x).item(), (10 % x).item(), (x - 2).item()] == [-2, 16, 2, 2]
    assert type(2 - t.as_subclass(Sub)) is type(t - t.as_subclass(Sub)) is Sub
    with pytest.raises(AttributeError):
        mt.Tensor.__rdiv__(2, t)
    with pytest.raises(TypeError):
        "x" - t


def test_format():
    number = mt.tensor(1.5)
    assert f"{number} {number:.3f}" == "1.5 1.500" and f"{mt.tensor([1.5])}" == "tensor([1.5000])"
    assert f"{mt.nn.Parameter(number)}".startswith("Parameter containing")
    assert f"{mt.empty((), device='meta')}" == repr(mt.empty((), device="meta"))


@pytest.mark.parametrize("name, error, text", [
    ("to_sparse_csr", NotImplementedError, "strided tensors only"), ("to_sparse", NotImplementedError, "strided tensors only"),
    ("to_sparse_coo", NotImplementedError, "strided tensors only"), ("values", RuntimeError, "not sparse"),
    ("dequantize", RuntimeError, "not quantized"), ("solve", RuntimeError, "removed"),
])  # fmt: skip
def test_methods_of_other_kinds_of_tensors(name, error, text):
    with pytest.raises(error, match=rf"{name}\(\): .*{text}"):
        getattr(mt.empty(2, device="meta"), name)()
    assert getattr(mt.Tensor, name).__doc__


def test_what_old_code_asks_a_tensor():
    x = mt.empty(2, 3, device="meta")
    assert x.output_nr == 0 and x.volatile is False and x.is_coalesced() is False
    assert x.resize(3, 2).shape == (3, 2) and x.resize_as(x.t()).shape == (3, 2)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_data_ptr_without_data_is_the_offset(device):
    with mt.FakeTensorMode():
        t = mt.empty(3, device=device)
    assert (t.data_ptr(), t[1:].data_ptr(), t[3:].data_ptr(), mt.empty(4, dtype=mt.float64, device="meta")[2:].data_ptr()) == (0, 4, 0, 16)
    assert t[1:].untyped_storage().data_ptr() == 0 and t.untyped_storage().nbytes() == 12


def test_attributes_of_the_class_may_be_set():
    cuda = mt.Tensor.cuda
    try:
        mt.Tensor.cuda = lambda self, *args: "mine"
        mt.Tensor.described = property(lambda self: list(self.shape))
        x = mt.empty(2, device="meta")
        assert x.cuda() == "mine" and x.described == [2] and mt.nn.Parameter(x).described == [2]
    finally:
        mt.Tensor.cuda = cuda
        del mt.Tensor.described
    assert not hasattr(x, "described") and mt.Tensor.cuda is cuda


def test_module_load():
    x, y = mt.zeros(2), mt.ones(2)
    assert x.module_load(y, assign=True).data_ptr() == y.data_ptr()
    assert x.module_load(y).data_ptr() == x.data_ptr() and x.tolist() == [1, 1]


def test_new_by_size():
    x = mt.ones(2, dtype=mt.float64)
    assert x.new(size=(2, 3)).shape == x.new(size=mt.Size([2, 3])).shape == (2, 3) and x.new(size=(1,)).dtype is mt.float64
    with pytest.raises(TypeError):
        x.new(2, size=(2,))


def test_numbers_of_complex_tensors_and_those_with_gradients():
    assert float(mt.tensor(2 + 0j, device="cpu")) == 2 and int(mt.tensor(3 + 0j, device="cpu")) == 3
    for convert in (int, float):
        with pytest.raises(RuntimeError, match="imaginary part"):
            convert(mt.tensor(1j, device="cpu"))
    with pytest.warns(UserWarning, match="requires grad"):
        float(mt.tensor(2.0, requires_grad=True, device="cpu"))


def test_printed_forms():
    assert repr(mt.tensor([1j], device="cpu")) == "tensor([0.+1.j])"
    assert repr(mt.tensor([1j], dtype=mt.complex128, device="cpu")) == "tensor([0.+1.j], dtype=metatensor.complex128)"
    found = mt.tensor([[1.0, 2.0]], device="cpu").max(1)
    assert repr(found) == "metatensor.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"


def test_the_order_of_dimensions_may_be_ambiguous():
    assert mt.empty(2, 3, 4, device="meta").dim_order(ambiguity_check=True) == (0, 1, 2)
    single = mt.empty(2, 1, 4, 4, device="meta")
    for check in (True, [mt.contiguous_format, mt.channels_last]):
        with pytest.raises(RuntimeError, match="order|several of the formats"):
            single.dim_order(ambiguity_check=check)
    assert single.dim_order(ambiguity_check=[mt.contiguous_format]) == (0, 1, 2, 3)
    with pytest.raises(TypeError, match="ambiguity_check"):
        single.dim_order(ambiguity_check="yes")
