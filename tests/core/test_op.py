"""Op objects: binding, overloads, errors, in-place and out=, pickling."""

import copy
import inspect
import itertools
import pickle

import pytest

import metatensor as mt
from metatensor import library
from metatensor._core.op import Op, registry

_names = (f"test_op::f{i}" for i in itertools.count())


def meta(*shape, **kw):
    return mt.empty(shape, device="meta", **kw)


def make(arguments, body, returns="Tensor"):
    name = next(_names)
    op = library.define(f"{name}({arguments}) -> {returns}")
    library.meta(name)(body)
    return op


def test_functions_and_methods_are_one_op():
    assert mt.add.name == "add" and isinstance(mt.add, Op)
    assert mt.Tensor.add.op is mt.add

    class Layer:
        act = mt.relu

    assert Layer().act(meta(2)).shape == (2,)  # unlike a function, an op in a class is not bound to the instance


def test_ops_pickle_by_name():
    for op in (mt.add, registry["add_"], mt.nn.functional.relu):
        assert pickle.loads(pickle.dumps(op)) is op
        assert copy.deepcopy(op) is op
    assert pickle.loads(pickle.dumps(mt.Tensor.add)) is mt.Tensor.add


@pytest.mark.slow
def test_signatures_and_docs():
    signature = inspect.signature(mt.add)
    assert list(signature.parameters) == ["input", "other", "alpha", "out"]
    assert signature.parameters["alpha"].default == 1
    assert mt.add.__doc__.startswith("`input + alpha * other`.")
    for name, op in registry.items():
        assert inspect.signature(op) and op.__doc__, name


def test_arguments_by_name_in_any_order():
    f = make("Tensor input, int[] size, *, float p=0.5", lambda x, size, p: mt.Spec((*size, int(p * 2)), x.dtype))
    x = meta(1)
    assert f(x, (2, 3)).shape == (2, 3, 1)
    assert f(size=[2], input=x, p=2).shape == (2, 4)
    assert f(x, 2, 3).shape == (2, 3, 1)


@pytest.mark.parametrize("args, kwargs, text", [
    ((), {}, "'input'"), ((1,), {}, "'input'.*Tensor.*int"), (("x",), {}, "Tensor"),
    ((None,), {}, "Tensor"), (("t", "a"), {}, "'n'.*int.*str"), (("t", 1.5), {}, "'n'.*int.*float"),
    (("t", True), {}, "'n'"), (("t", 1, 2), {}, "takes 2 positional"), (("t",), {"q": 1}, "'q'"),
    (("t", 1), {"n": 1}, "multiple values"), (("t",), {"flag": 1}, "'flag'.*bool"),
])
def test_wrong_calls_name_the_op_and_the_argument(args, kwargs, text):
    f = make("Tensor input, int n=1, *, bool flag=False", lambda x, n, flag: mt.Spec((n,), x.dtype))
    args = [meta(1) if a == "t" else a for a in args]
    with pytest.raises(TypeError, match=text) as info:
        f(*args, **kwargs)
    assert f.name in str(info.value)


def test_calls_that_fit_no_overload_list_them():
    with pytest.raises(TypeError, match="(?s)max.*other.*dim"):
        mt.max(meta(2), "x", [])


def test_numpys_names_of_arguments():
    assert mt.sum(meta(2, 3), axis=1, keepdims=True).shape == (2, 1)


def test_a_second_definition_is_refused():
    op = make("Tensor x", lambda x: x)
    with pytest.raises(RuntimeError, match="already"):
        library.define(f"{op.name}(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="already"):
        library.meta(op.name)(lambda x: x)
    library.kernel(op.name, "cpu")(lambda out, x: None)
    with pytest.raises(RuntimeError, match="already"):
        library.kernel(op.name, "cpu")(lambda out, x: None)


@pytest.mark.parametrize("name", ["f", "a::", "::b", "a::b::c", "a b::c", "a.b"])
def test_names_of_custom_ops(name):
    with pytest.raises(ValueError):
        library.define(f"{name}(Tensor x) -> Tensor")


def test_in_place_keeps_shape_and_dtype():
    a = meta(2, 3)
    assert a.add_(1) is a and a._version == 1
    for wrong in (meta(4, 2, 3), meta(5, 3)):
        with pytest.raises(RuntimeError):
            a.add_(wrong)
    with pytest.raises(RuntimeError, match="cast"):
        meta(2, dtype=mt.int64).add_(1.5)
    with pytest.raises(RuntimeError, match="memory"):
        meta(1).expand(4).add_(1)


def test_out_is_resized_cast_and_checked():
    a = meta(2, 3)
    out = meta(0)
    assert mt.add(a, a, out=out) is out and out.shape == (2, 3) and out.untyped_storage().nbytes() == 24
    with pytest.warns(UserWarning, match="resize"):
        mt.add(a, a, out=meta(5))
    assert mt.add(a, a, out=meta(2, 3, dtype=mt.float64)).dtype is mt.float64
    with pytest.raises(RuntimeError, match="cast"):
        mt.add(a, a, out=meta(2, 3, dtype=mt.int64))
    with pytest.raises(TypeError, match="out"):
        mt.add(a, a, out=3)
    with pytest.raises(TypeError, match="out"):
        mt.max(a, 0, out=meta(0))
    strided = meta(3, 2).t()
    assert mt.add(a, a, out=strided).stride() == (1, 2)


def test_partial_overlap_is_refused():
    x = meta(10)
    with pytest.raises(RuntimeError, match="overlap"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="overlap"):
        mt.add(x[1:], 1, out=x[:-1])


def test_specs_are_checked():
    with pytest.raises(RuntimeError, match="negative"):
        make("Tensor x", lambda x: mt.Spec((-1,), x.dtype))(meta(1))
    with pytest.raises(TypeError, match="dtype"):
        make("Tensor x", lambda x: mt.Spec((1,), "float32"))(meta(1))
    with pytest.raises(RuntimeError, match="strides"):
        make("Tensor x", lambda x: mt.Spec((1,), x.dtype, strides=(1, 2)))(meta(1))
    with pytest.raises(RuntimeError, match="63 bits"):
        make("Tensor x", lambda x: mt.Spec((2**40, 2**40), x.dtype))(meta(1))


def test_named_results():
    r = mt.max(meta(2, 3), 0)
    values, indices = r
    assert r.values is values and r.indices is indices and indices.dtype is mt.int64
    assert type(r).__name__ == "max"


def test_schema_from_annotations():
    @mt.op(next(_names))
    def f(x: mt.Tensor, n: int, rest: list[mt.Tensor], *, scale: float | None = None) -> mt.Spec:
        """Doc."""
        return mt.Spec((n, len(rest)), x.dtype)

    assert f.schemas[0].endswith("(Tensor x, int n, Tensor[] rest, *, float? scale=None) -> Tensor")
    assert f(meta(1), 2, [meta(1)]).shape == (2, 1)
    assert f.__doc__.startswith("Doc.")
    with pytest.raises(TypeError, match="annotation"):
        mt.op(next(_names))(lambda x: x)


def test_custom_ops_are_found_by_namespace():
    op = make("Tensor x", lambda x: x)
    assert getattr(mt.ops.test_op, op.name.partition("::")[2]) is op
    with pytest.raises(AttributeError):
        mt.ops.test_op.nothing
