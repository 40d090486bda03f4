"""Modules as Python objects: construction, calls, repr, copies, pickles, and lifetime."""

import copy
import gc
import pickle
import weakref

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


def test_init_takes_no_arguments():
    with pytest.raises(TypeError, match="takes no arguments"):
        nn.Module(3)
    with pytest.raises(TypeError, match="takes no arguments"):
        nn.Module(a=3)


def test_cooperative_init():
    class Mixin:
        def __init__(self, value=0):
            self.value = value

    class Both(nn.Module, Mixin):
        call_super_init = True

    class Without(nn.Module, Mixin):
        pass

    assert Both(value=5).value == 5
    assert not hasattr(Without(), "value")


def test_multiple_inheritance_and_class_changes():
    class Mixin:
        def twice(self):
            return self.size * 2

    class Both(Mixin, Net):
        pass

    net = Both()
    assert net.twice() == 6
    net.__class__ = Net
    assert type(net) is Net and not hasattr(net, "twice")


def test_dict_is_readable_and_assignable():
    net = Net()
    assert net.__dict__ is vars(net) and net.__dict__["size"] == 3
    other = Net()
    state = dict(net.__dict__)
    other.__dict__ = state
    assert other.__dict__ is state and other.scale is net.scale
    with pytest.raises(TypeError, match="must be a dict"):
        other.__dict__ = 3


def test_calls():
    net = Net()
    x = mt.ones(4, 2)
    assert net(x).shape == (4, 3)
    assert net(x=x).shape == (4, 3)
    assert net(*[x]).shape == (4, 3)
    assert net.__call__(x).shape == (4, 3)
    assert net._call_impl(x).shape == (4, 3)
    assert nn.Module.__call__(net, x).shape == (4, 3)
    with pytest.raises(TypeError, match="forward"):
        net()
    with pytest.raises(TypeError, match="forward"):
        net(x, y=3)
    with pytest.raises(NotImplementedError, match="Module is called, but defines no forward"):
        nn.Module()(3)


def test_forward_replaced():
    net = Net()
    net.forward = lambda x: x + 1
    assert net(41) == 42
    del net.forward
    Net.forward, original = (lambda self, x: x * 2), Net.forward
    try:
        assert net(21) == 42
    finally:
        Net.forward = original

    class Static(nn.Module):
        @staticmethod
        def forward(x, *, y=0):
            return x + y

    assert Static()(1, y=2) == 3


def test_call_replaced():
    class Calling(nn.Module):
        def __call__(self, *args, **kwargs):
            return ["called", super().__call__(*args, **kwargs)]

        def forward(self, x):
            return x

    assert Calling()(3) == ["called", 3]

    class Later(nn.Module):
        def forward(self, x):
            return x

    net = Later()
    assert net(3) == 3
    Later.__call__ = lambda self, x, **kwargs: (x, kwargs)
    assert net(3, k=1) == (3, {"k": 1})
    del Later.__call__
    assert net(3) == 3


def test_train_and_eval():
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="expected a bool"):
        net.train(1)


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Linear(20, 30)) == "Linear(in_features=20, out_features=30, bias=True)"
    net = Net()
    assert repr(net) == "Net(\n  (first): Linear(in_features=2, out_features=3, bias=True)\n)"
    assert repr(nn.Sequential(net, nn.ReLU())) == (
        "Sequential(\n"
        "  (0): Net(\n"
        "    (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  )\n"
        "  (1): ReLU()\n"
        ")"
    )
    net.first = None
    assert repr(net) == "Net(\n  (first): None\n)"

    class Lines(Net):
        def extra_repr(self):
            return "a=1\nb=2"

    assert repr(Lines()) == (
        "Lines(\n  a=1\n  b=2\n  (first): Linear(in_features=2, out_features=3, bias=True)\n)"
    )


def test_dir():
    names = dir(Net())
    for name in ("first", "scale", "count", "size", "forward", "parameters"):
        assert name in names
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


def test_copies():
    net = Net()
    net.eval()
    net.register_forward_hook(print)
    deep = copy.deepcopy(net)
    assert deep.scale is not net.scale and isinstance(deep.scale, nn.Parameter)
    assert not deep.training and deep._non_persistent_buffers_set == {"cache"} and len(deep._forward_hooks) == 1
    assert deep.first.weight.shape == (3, 2)
    shallow = copy.copy(net)
    assert shallow.scale is net.scale and shallow._parameters is net._parameters
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    again = copy.deepcopy(tied)
    assert again[1].weight is again[0].weight is not tied[0].weight


def test_pickles():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    net[0].weight.requires_grad_(False)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(net, protocol))
        assert repr(back) == repr(net)
        assert list(back.state_dict()) == list(net.state_dict())
        assert isinstance(back[0].weight, nn.Parameter) and not back[0].weight.requires_grad
        assert back[1].weight.requires_grad and back(mt.ones(5, 2)).shape == (5, 3)


def test_weak_references_and_cycles():
    net = Net()
    net.myself = [net]
    ref = weakref.ref(net)
    del net
    gc.collect()
    assert ref() is None


def test_many_modules_leave_nothing_behind():
    def work():
        net = Net()
        net(mt.ones(2, 2))
        del net.size
        with pytest.raises(AttributeError):
            net.nothing

    work()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        work()
    gc.collect()
    assert len(gc.get_objects()) - before < 50
