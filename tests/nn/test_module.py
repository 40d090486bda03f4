"""Attributes of modules: what is registered, what is rejected, and what remains an ordinary attribute."""

import inspect
from collections import OrderedDict

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(mt.ones(3))
        self.register_buffer("count", mt.zeros(1))
        self.register_buffer("cache", mt.zeros(2), persistent=False)
        self.size = 3

    def forward(self, x):
        return self.first(x) * self.scale


def test_members_are_registered_and_others_are_plain():
    net = Net()
    assert list(net._parameters) == ["scale"]
    assert list(net._buffers) == ["count", "cache"]
    assert list(net._modules) == ["first"]
    assert net._non_persistent_buffers_set == {"cache"}
    assert vars(net)["size"] == 3 and "scale" not in vars(net)
    assert net.scale is net._parameters["scale"]
    assert net.count is net._buffers["count"]
    assert net.first is net._modules["first"]
    assert net.training is True


def test_plain_tensors_and_none_are_plain():
    net = nn.Module()
    net.x = mt.ones(2)
    net.y = None
    assert vars(net)["x"].shape == (2,) and vars(net)["y"] is None
    assert not net._parameters and not net._buffers


def test_assignment_moves_a_name_to_its_new_kind():
    net = nn.Module()
    net.x = None
    net.x = nn.Parameter(mt.ones(2))
    assert "x" not in vars(net) and "x" in net._parameters
    net = nn.Module()
    net.x = nn.Linear(2, 2)
    net.x = nn.Parameter(mt.ones(2))
    assert "x" not in net._modules and "x" in net._parameters
    net = nn.Module()
    net.register_buffer("x", mt.ones(2), persistent=False)
    net.x = nn.Linear(2, 2)
    assert not net._buffers and not net._non_persistent_buffers_set and "x" in net._modules


def test_a_member_may_be_none_and_come_back():
    net = Net()
    net.scale = None
    assert net.scale is None and list(net._parameters) == ["scale"]
    assert [name for name, _ in net.named_parameters()] == ["first.weight", "first.bias"]
    net.scale = nn.Parameter(mt.ones(3))
    net.first = None
    assert net.first is None and list(net.children()) == []
    net.count = None
    assert [name for name, _ in net.named_buffers()] == ["cache"]
    net.count = mt.ones(4)
    assert net._buffers["count"].shape == (4,)


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("scale", 3, "parameter 'scale' of Net"),
        ("scale", "linear", "cannot assign Linear to the parameter"),
        ("scale", "tensor", "cannot assign Tensor to the parameter"),
        ("first", 3, "submodule 'first'"),
        ("first", "tensor", "expected a Module or None"),
        ("count", 3, "buffer 'count'"),
    ],
)
def test_a_registered_name_keeps_its_kind(name, value, words):
    value = {"linear": nn.Linear(1, 1), "tensor": mt.ones(2)}.get(value, value)
    with pytest.raises(TypeError, match=words):
        setattr(Net(), name, value)


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.x = value

    for value in (nn.Linear(1, 1), nn.Parameter(mt.ones(1)), nn.Buffer(mt.ones(1))):
        with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) first in Early"):
            Early(value)
    assert Early(3).x == 3
    assert Early(mt.ones(1)).x.shape == (1,)
    bare = nn.Module.__new__(nn.Module)
    for register in (bare.register_parameter, bare.register_buffer, bare.add_module):
        with pytest.raises(AttributeError, match="comes before"):
            register("x", None)


@pytest.mark.parametrize("method", ["register_parameter", "register_buffer", "add_module", "register_module"])
def test_names(method):
    net = Net()
    register = getattr(net, method)
    with pytest.raises(TypeError, match="must be a str, not int"):
        register(3, None)
    with pytest.raises(KeyError, match="dot"):
        register("a.b", None)
    with pytest.raises(KeyError, match="empty"):
        register("", None)
    for taken in ("size", "forward", "training"):
        with pytest.raises(KeyError, match=f"already has an attribute '{taken}'"):
            register(taken, None)
    register("fresh", None)
    register("fresh", None)


def test_names_of_other_kinds_are_taken():
    net = Net()
    with pytest.raises(KeyError):
        net.register_buffer("scale", None)
    with pytest.raises(KeyError):
        net.register_parameter("first", None)
    with pytest.raises(KeyError):
        net.add_module("count", None)


def test_registering_the_wrong_kind():
    net = nn.Module()
    with pytest.raises(TypeError, match="expected a Parameter or None"):
        net.register_parameter("x", mt.ones(1))
    with pytest.raises(TypeError, match="expected a Tensor or None"):
        net.register_buffer("x", 3)
    with pytest.raises(TypeError, match="int is not a Module"):
        net.add_module("x", 3)


def test_a_parameter_is_a_leaf():
    class Marked(mt.Tensor):
        pass

    made = (nn.Parameter(mt.ones(2)) * 2).as_subclass(Marked)
    made._is_param = True
    with pytest.raises(ValueError, match="must be a leaf"):
        nn.Module().register_parameter("x", made)


def test_a_class_attribute_hides_a_member():
    class Hidden(nn.Module):
        weight = None

    net = Hidden()
    with pytest.raises(KeyError, match="already has"):
        net.weight = nn.Parameter(mt.ones(1))
    net.weight = nn.Linear(1, 1)
    assert net.weight is None and "weight" in net._modules


def test_a_buffer_registered_again_changes_persistence():
    net = nn.Module()
    net.register_buffer("x", mt.ones(1))
    net.register_buffer("x", mt.ones(1), persistent=False)
    assert net._non_persistent_buffers_set == {"x"}
    net.register_buffer("x", mt.ones(1))
    assert net._non_persistent_buffers_set == set()


def test_buffer_by_assignment():
    net = nn.Module()
    net.a = nn.Buffer(mt.ones(2))
    net.b = nn.Buffer(mt.ones(2), persistent=False)
    assert list(net._buffers) == ["a", "b"] and net._non_persistent_buffers_set == {"b"}
    net.x = mt.ones(1)
    with pytest.raises(KeyError, match="already has an attribute 'x'"):
        net.x = nn.Buffer(mt.ones(1))


def test_deletion():
    net = Net()
    for name in ("scale", "cache", "first", "size"):
        delattr(net, name)
        assert not hasattr(net, name)
    assert not net._parameters and list(net._buffers) == ["count"] and not net._non_persistent_buffers_set
    with pytest.raises(AttributeError):
        del net.nothing


def test_reading_what_is_not_there():
    net = Net()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'skale'") as caught:
        net.skale
    assert caught.value.name == "skale" and caught.value.obj is net
    assert getattr(net, "skale", 7) == 7


def test_properties_and_their_errors():
    class Proper(nn.Module):
        @property
        def good(self):
            return 1

        @property
        def bad(self):
            return self.nothing

        @good.setter
        def good(self, value):
            vars(self)["was"] = value

    net = Proper()
    assert net.good == 1
    net.good = 5
    assert net.was == 5
    with pytest.raises(AttributeError, match="nothing"):
        net.bad


def test_getattr_of_a_subclass():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    wrapped = Wrapper(Net())
    assert wrapped.size == 3 and wrapped.inner.size == 3
    assert wrapped.scale is wrapped.inner.scale
    with pytest.raises(AttributeError):
        wrapped.nothing
    with pytest.raises(KeyError):
        wrapped.register_buffer("size", None)


def test_getattr_set_on_a_class_later():
    class Late(nn.Module):
        pass

    net = Late()
    assert not hasattr(net, "anything")
    Late.__getattr__ = lambda self, name: 42
    assert net.anything == 42 and Late().anything == 42
    del Late.__getattr__
    with pytest.raises(AttributeError):
        net.anything


def test_getattribute_of_a_subclass():
    class Curious(nn.Module):
        def __getattribute__(self, name):
            return 1 if name == "one" else super().__getattribute__(name)

    net = Curious()
    net.p = nn.Parameter(mt.ones(1))
    assert net.one == 1 and net.p.shape == (1,)


def test_setattr_of_a_subclass_and_around_it():
    class Loud(nn.Module):
        def __setattr__(self, name, value):
            vars(self).setdefault("seen", []).append(name)
            super().__setattr__(name, value)

    net = Loud()
    net.weight = nn.Parameter(mt.ones(1))
    assert net.seen[-1] == "weight" and "weight" in net._parameters
    plain = nn.Module()
    object.__setattr__(plain, "hidden", nn.Linear(1, 1))
    super(nn.Module, plain).__setattr__("hidden2", nn.Linear(1, 1))
    assert not plain._modules and isinstance(plain.hidden, nn.Linear) and isinstance(plain.hidden2, nn.Linear)
    object.__delattr__(plain, "hidden")
    assert not hasattr(plain, "hidden")


def test_register_parameter_of_a_subclass_sees_assignments():
    class Watching(nn.Module):
        def register_parameter(self, name, param):
            vars(self).setdefault("seen", []).append(name)
            super().register_parameter(name, param)

    net = Watching()
    net.w = nn.Parameter(mt.ones(1))
    assert net.seen == ["w"]


def test_members_in_an_ordered_dict():
    net = nn.Module()
    net._modules = OrderedDict()
    net._parameters = OrderedDict()
    net.a, net.b = nn.Linear(1, 1), nn.ReLU()
    net.w = nn.Parameter(mt.ones(1))
    assert [name for name, _ in net.named_children()] == ["a", "b"]
    assert list(net._parameters) == ["w"]
    del net.a
    assert list(net._modules) == ["b"]


def test_names_that_are_subclasses_of_str():
    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        __hash__ = str.__hash__

    net = Net()
    assert getattr(net, Name("scale")) is net.scale
    setattr(net, Name("other"), nn.Parameter(mt.ones(1)))
    assert net.other.shape == (1,) and type(list(net._parameters)[-1]) is str
    delattr(net, Name("other"))
    assert not hasattr(net, "other")


def test_hook_tables_exist_when_asked_for():
    net = nn.Module()
    for name in (
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_backward_hooks",
        "_backward_pre_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    ):
        table = getattr(net, name)
        assert isinstance(table, OrderedDict) and getattr(net, name) is table
    assert net._is_full_backward_hook is None


def test_signatures_of_modules_and_classes():
    class Called(nn.Module):
        def __call__(self, x, *, scale=1):
            return x

    assert str(inspect.signature(nn.ReLU())) == "(*args, **kwargs)"
    assert str(inspect.signature(Called())) == "(x, *, scale=1)"
    assert list(inspect.signature(nn.ReLU).parameters) == ["inplace"]
