"""``__torch_dispatch__`` of subclasses and modes: overloads, wrappers, gradients, recursion."""

import contextlib
import copy
import pickle

import pytest

import metatensor as mt
from metatensor.torch_api import torch
from metatensor.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass, return_and_correct_aliasing
from metatensor.utils._pytree import tree_map


class Logging(mt.Tensor):
    """A wrapper of another tensor that logs each operator and runs it on the wrapped tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    calls = []

    @staticmethod
    def __new__(cls, elem):
        made = mt.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype, device=elem.device,
            requires_grad=elem.requires_grad,
        )  # fmt: skip
        made.elem = elem.detach() if elem.requires_grad else elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func, types, args, kwargs))
        args, kwargs = tree_map(lambda x: x.elem if isinstance(x, Logging) else x, (args, kwargs or {}))
        return tree_map(lambda x: cls(x) if isinstance(x, mt.Tensor) else x, func(*args, **kwargs))

    def __tensor_flatten__(self):
        return ["elem"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["elem"])


@pytest.fixture
def names():
    Logging.calls.clear()

    def read():
        found = [str(func) for func, *_ in Logging.calls]
        Logging.calls.clear()
        return found

    return read


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_wrapper_sees_operators(names, device):
    x = Logging(mt.ones(2, 3, device=device))
    assert x.shape == (2, 3) and x.device.type == device and type(x + 1) is Logging
    values, indices = x.max(1)
    assert type(values) is type(indices) is Logging
    mt.nn.functional.linear(x, mt.ones(4, 3, device=device), mt.ones(4, device=device)), x.sum(1, keepdim=True), x[0], x.t()
    assert names() == [
        "aten.add.Tensor", "aten.max.dim", "aten.addmm.default", "aten.sum.dim_IntList", "aten.select.int", "aten.t.default"]  # fmt: skip


def test_what_it_is_called_with(names):
    x, y = Logging(mt.ones(2, 3)), mt.ones(2, 3)
    mt.add(y, x, alpha=2)
    func, types, args, kwargs = Logging.calls[0]
    assert func is torch.ops.aten.add.Tensor and types == (Logging,) and args == (y, x) and kwargs == {"alpha": 2}
    assert func.overloadpacket is torch.ops.aten.add and func.namespace == "aten" and func.name() == "aten::add.Tensor"
    assert func.__name__ == "add.Tensor" and repr(func) == "<OpOverload(op='aten.add', overload='Tensor')>"
    schema = func._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" and not schema.is_mutable
    assert [(a.name, a.kwarg_only, a.default_value) for a in schema.arguments] == [
        ("self", False, None), ("other", False, None), ("alpha", True, 1)]  # fmt: skip
    assert torch.ops.aten.add_.Tensor._schema.arguments[0].alias_info.is_write and torch.Tag.pointwise in func.tags
    assert pickle.loads(pickle.dumps(func)) is copy.deepcopy(func) is func


def test_in_place_and_out(names):
    x = Logging(mt.zeros(2))
    version = x._version
    assert x.add_(1) is x and x.elem.tolist() == [1, 1] and x._version == version + 1
    out = Logging(mt.empty(2))
    assert mt.add(x, x, out=out) is out and out.elem.tolist() == [2, 2]
    assert names() == ["aten.add_.Tensor", "aten.add.out"]
    assert x.sum().item() == 2 and names()[-1] == "aten._local_scalar_dense.default"


def test_it_is_below_gradients(names):
    x = Logging(mt.ones(2, requires_grad=True))
    inside = []

    class Watching(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_dispatch__(func, types, args, kwargs)
            inside.append(result.requires_grad)
            return result

    y = Watching(mt.ones(2, requires_grad=True)) * 2
    assert x.requires_grad and x.is_leaf and y.requires_grad and not y.is_leaf and inside == [False]
    assert not x.detach().requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with mt.no_grad():
        assert not (x * 2).requires_grad


def test_subclasses_without_a_storage_of_their_own(names):
    class Tagged(mt.Tensor):
        @staticmethod
        def __new__(cls, data):
            return mt.Tensor._make_subclass(cls, data)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with no_dispatch():
                return func(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def no_dispatch():
        guard = torch._C._DisableTorchDispatch()
        try:
            yield
        finally:
            del guard

    x = Tagged(mt.ones(3))
    assert (x + 1).tolist() == [2, 2, 2] and x.sum().item() == 3


def test_nobody_answers():
    class Silent(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="Silent returned NotImplemented"):
        Silent(mt.ones(2)) + 1


def test_subclasses_are_asked_before_their_bases(names):
    class Below(Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "below", types

    assert Logging(mt.ones(2)) + Below(mt.ones(2)) == ("below", (Below, Logging)) and names() == []


class Noting(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append((str(func), len(types)))
        return func(*args, **(kwargs or {}))


def test_modes_see_factories_and_subclasses(names):
    x = Logging(mt.ones(2, 2))
    with Noting() as mode:
        mt.zeros(2)
        mt.nn.functional.softmax(x, 1)
        x.mm(x)
    assert mode.names == [("aten.zeros.default", 0), ("aten._softmax.default", 1), ("aten.mm.default", 1)]
    assert names() == ["aten._softmax.default", "aten.mm.default"]
    with Noting() as mode, torch._C._DisableTorchDispatch():
        mt.ones(2) + 1
    assert mode.names == []


def test_quantised_wrapper():
    class Quantised(mt.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, values, scale):
            made = mt.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype, device=values.device)
            made.values, made.scale = values, scale
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.detach.default:
                return return_and_correct_aliasing(func, args, kwargs or {}, cls(args[0].values, args[0].scale))
            if func is torch.ops.aten.t.default:
                return cls(args[0].values.t(), args[0].scale)
            if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
                plain = [a.values.to(a.scale.dtype) * a.scale if isinstance(a, cls) else a for a in args]
                return func(*plain)
            raise NotImplementedError(str(func))

    linear = mt.nn.Linear(3, 2)
    weight = mt.tensor([[1, 2, 3], [4, 5, 6]], dtype=mt.int8)
    linear.weight = mt.nn.Parameter(Quantised(weight, mt.tensor(0.5)), requires_grad=False)
    assert isinstance(linear.weight, Quantised) and isinstance(linear.weight, mt.nn.Parameter)
    with mt.no_grad():
        assert mt.allclose(linear(mt.ones(1, 3)), mt.tensor([[3.0, 7.5]]) + linear.bias)
    with pytest.raises(NotImplementedError, match="aten.mul.Tensor"):
        linear.weight * 2


def test_flattening():
    x = Logging(mt.ones(2))
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(mt.ones(2))
    inner, context = x.__tensor_flatten__()
    back = type(x).__tensor_unflatten__({name: getattr(x, name) for name in inner}, context, x.size(), x.stride())
    assert back.elem is x.elem


def test_wrappers_that_cannot_be():
    for error, cls, options in [(RuntimeError, type("Plain", (mt.Tensor,), {}), {}), (TypeError, int, {}),
                                (NotImplementedError, Logging, {"dispatch_sizes_strides_policy": "sizes"}),
                                (NotImplementedError, Logging, {"dispatch_device": True})]:  # fmt: skip
        with pytest.raises(error, match="_make_wrapper_subclass"):
            mt.Tensor._make_wrapper_subclass(cls, (2,), **options)


STATEMENTS = """a + b;1 + a;1 - a;a * 2;a / 2;a // 2;a % 2;2 % a;a ** 2;2 ** a;a @ m;-a;~i;i & 1;i | i;a == b;a != 1;a < 1
a[0];a[0, 1:];a[None];a.T;a.sum();a.sum(1);a.sum(1, True);a.mean();a.max();a.max(1);torch.max(a, b)
a.to(torch.float64);a.view(3, 2);a.reshape(6);a.permute(1, 0);a.transpose(0, 1);F.linear(a, m);F.softmax(a, 1)
F.relu(a);F.gelu(a);F.layer_norm(a, (3,));F.conv2d(x4, w);F.pad(a, (1, 1));torch.stack([a, b]);torch.zeros(3)
torch.full((2,), 3.);torch.arange(3);torch.zeros_like(a);a.new_zeros(3);torch.where(a > 0, a, b);a.clamp(0, 1)
a.add(b, alpha=2);F.embedding(i, m);F.max_pool2d(x4, 2);torch.topk(a, 1);a.chunk(2);a.expand(2, 2, 3)
a.argmax();a.gather(1, i);a.masked_fill(a > 0, 1.);a.flatten();a.all();a.any(1);F.silu(a);torch.roll(a, 1)
a.add_(b);a.mul_(2);a.zero_();a.copy_(b);a.relu_();a.repeat(2, 1);a.unbind();a.split(1);a.clone()"""


@pytest.mark.torch
def test_pointwise_operators_are_those_of_pytorch():
    import torch as theirs

    names = "add.Tensor mul.Tensor relu sigmoid lerp.Tensor gelu clamp.Tensor t transpose.int cumsum cumprod tril triu addmm " \
            "addmv addr baddbmm scatter.src scatter_add index_add index_copy masked_scatter put renorm unsqueeze squeeze.dim " \
            "as_strided feature_dropout sum.default"
    for name in names.split():
        name, _, overload = name.partition(".")
        tags = [[tag.name for tag in getattr(getattr(t.ops.aten, name), overload or "default").tags] for t in (torch, theirs)]
        assert ("pointwise" in tags[0]) == ("pointwise" in tags[1]), name


@pytest.mark.torch
def test_overloads_and_arguments_like_pytorch():
    import torch as theirs
    from torch.utils._python_dispatch import TorchDispatchMode as TheirMode

    def seen(t, base):
        class Mode(base):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                calls.append((str(func), texts(args), {name: str(value).rpartition(".")[2] for name, value in (kwargs or {}).items()}))
                return func(*args, **(kwargs or {}))

        def texts(value):
            if isinstance(value, (list, tuple)):
                return [texts(part) for part in value]
            return "T" if isinstance(value, t.Tensor) else str(value)

        found = {}
        for statement in STATEMENTS.replace("\n", ";").split(";"):
            names = {"torch": t, "F": t.nn.functional, "a": t.ones(2, 3), "b": t.ones(2, 3), "i": t.ones(2, 3, dtype=t.int64),
                     "m": t.ones(3, 3), "x4": t.ones(1, 3, 8, 8), "w": t.ones(4, 3, 3, 3)}  # fmt: skip
            calls = []
            with Mode():
                eval(statement, names)
            found[statement] = calls
        return found

    theirs_seen, mine = seen(theirs, TheirMode), seen(torch, TorchDispatchMode)
    assert {s: mine[s] for s in mine if mine[s] != theirs_seen[s]} == {}
