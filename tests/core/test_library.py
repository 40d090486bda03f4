"""Custom ops: schemas from hints and text, kernels, written arguments, several results, data-dependent results."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import metatensor as mt
from metatensor import library, plugins

COUNT = itertools.count()


def name():
    return f"test_library::f{next(COUNT)}"


def meta(*shape, **options):
    return mt.empty(shape, device="meta", **options)


def signature(function, **options):
    return mt.op(name(), **options)(function).schemas[0].partition("(")[2]


# Schemas ------------------------------------------------------------------------------------------


def test_types_of_arguments():
    def f(a: mt.Tensor, b: mt.Tensor | None, c: list[mt.Tensor], d: tuple[int, ...], e: list[int] | None, f: int | float,
          g: mt.Tensor | float, h: mt.Size, i: mt.dtype, j: mt.device | None, k: mt.Generator | None, l: Any,
          m: mt.nn.Parameter, n: str = "a,b", o: list[float] = [1.0], *, p: complex = 1j, q: bool = False) -> mt.Spec:  # noqa: B006
        return mt.Spec((), mt.float32)

    assert signature(f) == (
        "Tensor a, Tensor? b, Tensor[] c, int[] d, int[]? e, Scalar f, Tensor|Scalar g, int[] h, dtype i, device? j, generator? k, "
        "any l, Tensor m, str n='a,b', float[] o=[1.0], *, Scalar p=1j, bool q=False) -> Tensor")  # fmt: skip


def test_types_of_results():
    def a(x: mt.Tensor) -> tuple[mt.Spec, mt.Tensor | None]: ...
    def b(x: mt.Tensor) -> list[mt.Tensor]: ...
    def c(x: mt.Tensor) -> None: ...

    assert [signature(f).partition(") -> ")[2] for f in (a, b, c)] == ["(Tensor, Tensor?)", "Tensor[]", "()"]


def test_annotations_that_say_nothing():
    def no_result(x: mt.Tensor): ...
    def odd_result(x: mt.Tensor) -> int: ...
    def unknown(x: "NotThere") -> mt.Spec: ...  # noqa: F821
    def odd(x: dict) -> mt.Spec: ...
    def star(*x: mt.Tensor) -> mt.Spec: ...
    def default(x: mt.Tensor, y: float = float("inf")) -> mt.Spec: ...

    for function, message in (
        (no_result, "a return annotation is missing"), (odd_result, "cannot express the result type"), (unknown, "cannot be read"),
        (odd, "parameter 'x': cannot express"), (star, "cannot contain"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            signature(function)
    with pytest.raises(ValueError, match="the default inf is not a literal"):
        signature(default)


def test_what_is_written_to():
    def f(x: mt.Tensor, ys: list[mt.Tensor], z: mt.Tensor | None, n: int) -> None: ...

    assert signature(f, mutates_args=("z", "ys")) == "Tensor x, Tensor(b!)[] ys, Tensor(a!)? z, int n) -> ()"
    with pytest.raises(ValueError, match="mutates_args names 'w', but the parameters are x, ys, z, n"):
        signature(f, mutates_args=["w"])
    with pytest.raises(ValueError, match="'n': mutates_args names this argument, but it is not a tensor"):
        signature(f, mutates_args=["n"])
    with pytest.raises(TypeError, match="must be a tuple of names, not the str 'x'"):
        signature(f, mutates_args="x")


def test_a_schema_given_as_text():
    @mt.op(name(), schema="(Tensor x, float by=2.0, *, int[2] size=1) -> (Tensor values, Tensor scale)")
    def f(x, by, *, size):
        return mt.Spec(x.shape, x.dtype), mt.Spec(size if isinstance(size, tuple) else (size, size), mt.float64)

    result = f(meta(2), size=3)
    assert result.values.shape == (2,) and result.scale.shape == (3, 3)  # named as in the schema
    with pytest.raises(TypeError, match="either schema or mutates_args"):
        mt.op(name(), schema="(Tensor x) -> Tensor", mutates_args=["x"])
    with pytest.raises(ValueError, match="unknown type"):
        mt.op(name(), schema="(Tenser x) -> Tensor")(lambda x: x)
    with pytest.raises(TypeError, match="either composite or data-dependent"):
        mt.op(name(), composite=True, data_dependent=True)


# Meta functions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema, result, said", [
    ("(Tensor x) -> Tensor", None, "returned nothing"),
    ("(Tensor x) -> Tensor", 3, "returned an int"),
    ("(Tensor x) -> Tensor", "two", r"returned 2 results \(Tensor, Tensor\)"),
    ("(Tensor x) -> (Tensor, Tensor)", "one", "returned a Spec"),
    ("(Tensor x) -> (Tensor, Tensor)", "three", "returned 3 results"),
    ("(Tensor x) -> Tensor[]", "one", "returned a Spec"),
    ("(Tensor x) -> ()", "one", "returned a Spec"),
    ("(Tensor(a!) x) -> ()", 3, "returned an int"),
])  # fmt: skip
def test_results_that_are_not_those_of_the_schema(schema, result, said):
    def body(x):
        specs = [mt.Spec(x.shape, x.dtype)] * 3
        return {"one": specs[0], "two": tuple(specs[:2]), "three": tuple(specs)}.get(result, result)

    op = mt.op(name(), schema=schema)(body)
    with pytest.raises(TypeError, match=f"{op.name}: the meta function {said}.*, which is not what the schema says: {op.name}"):
        op(meta(2))


def test_results_that_are_those_of_the_schema():
    def shape(r):
        return r if r is None else tuple(r.shape)

    for schema, body, expected in (
        ("(Tensor x) -> Tensor[]", lambda x: [mt.Spec((i,), x.dtype) for i in range(3)], [(0,), (1,), (2,)]),
        ("(Tensor x) -> (Tensor, Tensor?)", lambda x: (x.new_empty((4,)), None), [(4,), None]),
        ("(Tensor x) -> (Tensor, Tensor)", lambda x: [mt.Spec((1,), x.dtype), x.new_empty(2)], [(1,), (2,)]),
    ):
        result = mt.op(name(), schema=schema)(body)(meta(2))
        assert [shape(r) for r in result] == expected
        assert isinstance(result, list if "[]" in schema else tuple)


def test_an_op_without_a_meta_function():
    op = library.define(f"{name()}(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no meta function was registered; use @metatensor.library.meta"):
        op(meta(2))
    library.meta(op.name)(lambda x: mt.Spec((1,), x.dtype))
    assert op(meta(2)).shape == (1,)
    with pytest.raises(RuntimeError, match="registered already"):
        library.meta(op.name)(lambda x: x)
    with pytest.raises(RuntimeError, match="registered already"):
        library.meta("add")(lambda x: x)


def test_views():
    """The schema declares a view, so no device needs a kernel."""
    op = mt.op(name(), schema="(Tensor(a) x, int n) -> Tensor(a)")(lambda x, n: x[n])
    x = meta(3, 2)
    assert op(x, 1).untyped_storage() is x.untyped_storage() and op(x, 1).storage_offset() == 2
    with pytest.raises(ValueError, match="this op cannot have kernels, because its result is a view"):
        op.kernel("cpu")


# Devices with data ----------------------------------------------------------------------------------

cpu = pytest.mark.skipif(not any(row.name == "cpu" and row.state == "available" for row in plugins.report()), reason="no cpu plugin")


@cpu
def test_optional_and_list_arguments():
    @mt.op(name())
    def total(xs: list[mt.Tensor], bias: mt.Tensor | None = None, weights: list[float] | None = None) -> mt.Spec:
        return mt.Spec(xs[0].shape, xs[0].dtype)

    @total.kernel("cpu")
    def _(out, xs, bias, weights):
        values = sum(np.asarray(x) * w for x, w in zip(xs, weights or [1.0] * len(xs)))
        np.asarray(out)[...] = values if bias is None else values + np.asarray(bias)

    x = mt.ones(2)
    assert total([x, x]).tolist() == [2, 2]
    assert total([x, x], x, weights=(2.0, 3.0)).tolist() == [6, 6]
    assert total([meta(2)], None).shape == (2,)
    with pytest.raises(TypeError, match="argument 'bias'"):
        total([x], 3)


@cpu
def test_writing_to_arguments():
    def norm(x: mt.Tensor, ys: list[mt.Tensor], z: mt.Tensor | None = None) -> mt.Spec:
        return mt.Spec((), x.dtype)

    op = mt.op(name(), mutates_args=("x", "ys", "z"))(norm)

    @op.kernel("cpu")
    def _(out, x, ys, z):
        for t in (x, *ys, *([] if z is None else [z])):
            np.asarray(t)[...] += 1
        return x.sum()

    x, y = mt.zeros(2), mt.zeros(2)
    assert op(x, [y]).item() == 2 and y.tolist() == [1, 1]
    assert (x._version, y._version) == (1, 1)
    a, b = meta(2), meta(2)
    assert op(a, [b], z=b).shape == () and a._version == 1 and b._version == 2
    leaf = mt.zeros(2, requires_grad=True)
    for arguments in ((leaf, []), (x, [leaf]), (x, [], leaf)):
        with pytest.raises(RuntimeError, match="a leaf tensor that requires grad cannot be changed"):
            op(*arguments)
    with pytest.raises(RuntimeError, match="share one place in memory"):
        op(x, [mt.zeros(1).expand(3)])


@cpu
def test_results_whose_shape_depends_on_the_data():
    @mt.op(name(), data_dependent=True)
    def positive(x: mt.Tensor) -> tuple[mt.Spec, mt.Spec]:
        """Return the positive elements and their indices."""
        if x.dim() != 1:
            raise ValueError("expected a vector")

    @positive.kernel("cpu")
    def _(out, x):
        assert out is None
        values = np.asarray(x)
        return mt.from_numpy(values[values > 0]), mt.from_numpy(np.flatnonzero(values > 0))

    values, where = positive(mt.tensor([1.0, -1.0, 2.0]))
    assert values.tolist() == [1, 2] and where.tolist() == [0, 2]
    with pytest.raises(mt.DataDependentError, match="the result depends on the values of a tensor"):
        positive(meta(3))
    for wrong in (meta(2, 2), mt.ones(2, 2)):  # checks that are possible without values come first
        with pytest.raises(ValueError, match="expected a vector"):
            positive(wrong)
    assert positive(mt.ones(2, requires_grad=True))[0].requires_grad
    text = library.define(f"{name()}(Tensor x) -> Tensor", data_dependent=True)  # needs no meta function
    with pytest.raises(mt.DataDependentError):
        text(meta(2))


@cpu
def test_a_meta_function_that_returns_an_argument_would_write_to_it():
    op = mt.op(name(), schema="(Tensor x) -> Tensor")(lambda x: x)
    op.kernel("cpu")(lambda out, x: None)
    with pytest.raises(RuntimeError, match="shares memory with an argument, which the schema does not say"):
        op(mt.ones(2))


# Kernels --------------------------------------------------------------------------------------------


def unary(**kernels):
    op = mt.op(name(), schema="(Tensor x) -> Tensor")(lambda x: mt.Spec(x.shape, x.dtype))
    for device, value in kernels.items():
        op.kernel(device)(fill(value))
    return op


def fill(value):
    def kernel(out, *args):
        np.asarray(out)[...] = value

    return kernel


@cpu
def test_a_second_kernel_has_to_say_that_it_replaces_the_first():
    op = unary(cpu=1)
    assert op(mt.zeros(1)).item() == 1
    with pytest.raises(RuntimeError, match="a kernel for 'cpu' is registered already, by module .*test_library; override=True"):
        op.kernel("cpu")(fill(2))
    assert op(mt.zeros(1)).item() == 1
    op.kernel("cpu", override=True)(fill(2))
    assert op(mt.zeros(1)).item() == 2


@cpu
def test_a_kernel_of_a_device_is_replaced_only_on_purpose():
    assert mt.digamma(mt.ones(1)).item() < 0
    with pytest.raises(RuntimeError, match="digamma: the device 'cpu' has a kernel of its own, from plugin 'cpu' .*override=True"):
        mt.digamma.kernel("cpu")(fill(7))
    try:
        mt.digamma.kernel("cpu", override=True)(fill(7))
        assert mt.digamma(mt.ones(1)).item() == 7
    finally:
        del library.operators._kernels["digamma", "cpu"]
        library.operators.forget_kernels(mt.digamma)
    assert mt.digamma(mt.ones(1)).item() < 0


def test_a_kernel_registered_before_its_device_is_loaded(monkeypatch):
    """While the device is not loaded, a second kernel of the same name cannot be detected. The first use detects it."""
    from metatensor.devices import DeviceBackend

    class Late(DeviceBackend):
        type = "late"

        def kernel(self, name):
            return fill(1) if name == op.name else super().kernel(name)

    op = unary(late=2)
    late = Late()
    with pytest.raises(RuntimeError, match="the device 'late' has a kernel of its own"):
        library.find_kernel(op.name, "late", late)
    library.kernel(op.name, "late", override=True)(print)
    assert library.find_kernel(op.name, "late", late) is print


@pytest.mark.parametrize("op, device, message", [
    ("add_", "cpu", "add_: register kernels under the name add instead"),
    ("t", "cpu", "its result is a view"),
    ("numel", "cpu", "it only reads metadata"),
    ("add", "meta", "the meta device computes no values"),
    ("add", "cuda:0", "write the type alone"),
])
def test_kernels_that_would_never_run(op, device, message):
    with pytest.raises(ValueError, match=message):
        library.kernel(op, device)
    with pytest.raises(AttributeError, match="there is no op 'no_such_op'"):
        library.kernel("no_such_op", "cpu")


@cpu
def test_decomposition():
    op = unary()

    @op.decomposition
    def _(x):
        return x * 3

    assert op(mt.ones(2)).tolist() == [3, 3] and op(meta(2)).is_meta
    with pytest.raises(RuntimeError, match="a decomposition is registered already"):
        op.decomposition(lambda x: x)
    op.kernel("cpu")(fill(5))  # a kernel takes precedence
    assert op(mt.ones(2)).tolist() == [5, 5]


@cpu
@pytest.mark.parametrize("kernel, message", [
    (lambda out, x: x.new_empty((5,)), r"returned shape \[5\] and dtype float32, but shape \[2\] and dtype float32 are expected"),
    (lambda out, x: x.double(), "returned shape .* and dtype float64, but"),
    (lambda out, x: (x, x), "returned a tuple of Tensor, but"),
    (lambda out, x: 5, "returned an int, but"),
])
def test_kernels_that_return_the_wrong_thing(kernel, message):
    op = unary()
    op.kernel("cpu")(kernel)
    with pytest.raises(RuntimeError, match=f"{op.name}: the kernel of the device cpu {message}") as raised:
        op(mt.ones(2))
    assert "the fault is in module " + __name__ in str(raised.value)


@cpu
@pytest.mark.parametrize("kernel, message", [
    (lambda out, x: None, "returned nothing, but tensors with data on cpu are expected"),
    (lambda out, x: (x, x), "returned a tuple of Tensor"),
    (lambda out, x: meta(2), "returned a Tensor on meta without data"),
    (lambda out, x: np.ones(2), "returned a ndarray"),
])
def test_data_dependent_kernels_that_return_the_wrong_thing(kernel, message):
    op = library.define(f"{name()}(Tensor x) -> Tensor", data_dependent=True)
    op.kernel("cpu")(kernel)
    with pytest.raises(RuntimeError, match=f"{op.name}: the kernel of the device cpu {message}.*module .*test_library"):
        op(mt.ones(2))


@cpu
def test_a_kernel_that_raises_is_named():
    def kernel(out, x):
        raise ArithmeticError("no such luck")

    op = unary()
    op.kernel("cpu")(kernel)
    with pytest.raises(ArithmeticError, match="no such luck") as raised:
        op(mt.ones(2))
    (note,) = raised.value.__notes__
    assert note.startswith(f"(in the kernel of {op.name} for cpu, from module {__name__}")


# Finding ops by name --------------------------------------------------------------------------------


def test_ops_are_pickled_by_name():
    op = unary()
    assert pickle.loads(pickle.dumps(op)) is op
    assert library.get_op(op.name) is op is getattr(mt.ops.test_library, op.name.partition("::")[2])
    assert op.name.partition("::")[2] in dir(mt.ops.test_library)
    with pytest.raises(RuntimeError, match="is already defined"):
        library.define(f"{op.name}(Tensor x) -> Tensor")
