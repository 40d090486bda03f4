"""`torch.library`: custom operators with PyTorch's interface."""

import itertools

import pytest

import metatensor as mt
from metatensor.torch_api import torch
from metatensor.torch_api.torch import library

numbers = itertools.count()


@pytest.fixture
def name():
    return f"torch_api_test::op{next(numbers)}"


def test_custom_op(name):
    @library.custom_op(name, mutates_args=())
    def scaled(x: mt.Tensor, by: float, bias: mt.Tensor | None = None) -> mt.Tensor:
        """Scale and shift."""
        out = x * by
        return out if bias is None else out + bias

    assert scaled(mt.empty(3, device="meta"), 2.0).is_meta  # the function consists of operators that run on meta
    calls = []

    @scaled.register_fake
    def _(x, by, bias=None):
        calls.append("fake")
        return x.new_empty(x.shape)

    out = scaled(mt.empty(3, 4, device="meta"), 2.0)
    assert out.is_meta and out.shape == (3, 4) and calls == ["fake"]
    assert scaled(mt.ones(2), 3.0, bias=mt.ones(2)).tolist() == [4.0, 4.0]
    space, _, short = name.partition("::")
    assert getattr(getattr(torch.ops, space), short).default(mt.ones(2), 2.0).tolist() == [2.0, 2.0]
    assert set(library.opcheck(scaled, (mt.ones(2), 2.0)).values()) == {"SUCCESS"}
    assert repr(scaled) == f"<CustomOpDef({name})>" and scaled.__doc__ == "Scale and shift."


def test_a_wrong_fake_function_is_found(name):
    @library.custom_op(name, mutates_args=())
    def doubled(x: mt.Tensor) -> mt.Tensor:
        return mt.cat([x, x])

    doubled.register_fake(lambda x: x.new_empty(x.shape))
    with pytest.raises(AssertionError):
        library.opcheck(doubled, (mt.ones(2),))
    assert library.opcheck(doubled, (mt.ones(2),), raise_exception=False)["test_faketensor"] != "SUCCESS"


def test_without_a_fake_function_it_runs_for_its_metadata_once(name):
    runs = []

    @library.custom_op(name, mutates_args=())
    def counted(x: mt.Tensor) -> mt.Tensor:
        runs.append(1)
        return x + 1

    assert counted(mt.zeros(3)).tolist() == [1.0, 1.0, 1.0] and len(runs) == 1


def test_a_size_that_depends_on_the_data(name):
    @library.custom_op(name, mutates_args=())
    def positive(x: mt.Tensor) -> mt.Tensor:
        return x[x > 0]

    @positive.register_fake
    def _(x):
        return x.new_empty((library.get_ctx().new_dynamic_size(),))

    assert positive(mt.tensor([1.0, -1.0, 2.0])).tolist() == [1.0, 2.0]
    with pytest.raises(mt.DataDependentError):
        positive(mt.empty(3, device="meta"))
    assert set(library.opcheck(positive, (mt.tensor([1.0, -1.0, 2.0]),)).values()) == {"SUCCESS"}


def test_a_library(name):
    space, _, short = name.partition("::")
    lib = library.Library(space, "FRAGMENT")
    assert lib.define(f"{short}(Tensor x, SymInt[] sizes, *, ScalarType? dtype=None) -> (Tensor, Tensor)") == short
    lib.impl(short, lambda x, sizes, dtype=None: (x.new_empty(sizes), x.new_empty((1,), dtype=dtype)), "Meta")
    op = getattr(getattr(torch.ops, space), short)
    a, b = op(mt.empty(2, device="meta"), [3, 4], dtype=mt.int8)
    assert a.shape == (3, 4) and b.dtype is mt.int8
    lib.impl(short, lambda x, sizes, *, dtype=None: (mt.full(tuple(sizes), 2.0), mt.ones(1, dtype=dtype)), "CPU")
    assert op(mt.ones(2), [2])[0].tolist() == [2.0, 2.0]
    lib.impl(short, library.fallthrough_kernel, "AutogradCPU")
    with pytest.raises(RuntimeError, match="registered already"):
        lib.impl(short, print, "CPU")
    with pytest.raises(RuntimeError, match="unknown dispatch key"):
        lib.impl(short, print, "Nonsense")
    with pytest.raises(RuntimeError, match="no operator of this name"):
        library.register_fake(f"{space}::no_such", print)
    with pytest.raises(ValueError, match="DEF, FRAGMENT or IMPL"):
        library.Library(space, "OTHER")


def test_the_older_spellings(name):
    """With a `Library` as first argument, names are relative to it. The function is decorated."""
    namespace, _, short = name.partition("::")
    lib = library.Library(namespace, "FRAGMENT")

    @library.define(lib, f"{short}(Tensor x, float by=1.0) -> Tensor")
    def everywhere(x, by=1.0):
        return x * by

    lib.define(f"{short}_two(Tensor x) -> (Tensor, Tensor)")

    @library.impl(lib, f"{short}_two", "CPU")
    def on_cpu(x):
        return x + 1, x + 2

    @library.impl(lib, f"{short}_two", "Meta")
    def on_meta(x):
        return torch.empty_like(x), torch.empty_like(x)

    pytest.importorskip("metatensor_cpu")
    op, two = getattr(getattr(torch.ops, namespace), short), getattr(getattr(torch.ops, namespace), f"{short}_two")
    assert op(torch.ones(2), 3.0).tolist() == [3, 3] and op(torch.ones(2, device="meta")).is_meta
    assert [t.tolist() for t in two(torch.zeros(1))] == [[1], [2]] and two(torch.ones(2, device="meta"))[1].is_meta
    with pytest.raises(RuntimeError, match="dispatch key 'Nowhere'"):
        library.impl(lib, short, "Nowhere")(on_meta)


def test_a_mutating_operator(name):
    @library.custom_op(name, mutates_args=("x",))
    def fill_with(x: mt.Tensor, value: float) -> None:
        x.fill_(value)

    fill_with.register_fake(lambda x, value: None)
    x = mt.zeros(2)
    fill_with(x, 3.0)
    assert x.tolist() == [3.0, 3.0]


def test_infer_schema():
    def function(x: mt.Tensor, n: int, *, flag: bool = True) -> tuple[mt.Tensor, int]:
        raise NotImplementedError

    assert library.infer_schema(function, mutates_args=("x",)) == "(Tensor(a!) x, int n, *, bool flag=True) -> (Tensor, int)"
    with pytest.raises(ValueError, match="return annotation"):
        library.infer_schema(lambda: None)


def test_names_of_overloads():
    assert {"default", "other", "dim"} <= set(torch.ops.aten.max.overloads())
    assert torch.ops.aten.gelu.overloads() == ["default", "out"]


def test_operators_of_aten():
    x = mt.empty(2, 3, device="meta")
    assert torch.ops.aten.add.Tensor(x, x).shape == (2, 3)
    assert torch.ops.aten.mm.default(x, x.T).shape == (2, 2)
    assert torch.ops.aten.softmax.int(x, True).shape == (2, 3)  # the dispatcher takes True for 1
    with pytest.raises(AttributeError, match="no operator"):
        torch.ops.aten.no_such_operator
    with pytest.raises(AttributeError, match="overload"):
        torch.ops.aten.add.NoSuch
    with pytest.raises(OSError, match="needs PyTorch|compiled against PyTorch"):
        torch.ops.load_library("somewhere/libops.so")


def test_operators_that_take_other_arguments_than_their_functions():
    aten = torch.ops.aten
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    values, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    for call in (aten.max_unpool2d, aten.max_unpool2d.default):
        made = call(values, indices, [5, 4])
        assert made.shape == (1, 2, 5, 4) and made.sum() == values.sum()
    samples = torch.full((1, 2, 2), 0.3)
    values, indices = aten.fractional_max_pool2d(x, [2, 2], [3, 3], samples)
    assert values.shape == indices.shape == (1, 2, 3, 3) and torch.equal(x.flatten(2).gather(2, indices.flatten(2)), values.flatten(2))
    assert aten.embedding(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 2])).tolist() == [[0.0, 1.0], [4.0, 5.0]]
