"""Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict as sequences and dicts."""

from collections import OrderedDict

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def kinds(container):
    return [type(module).__name__ for module in container]


def row(*names):
    return nn.Sequential(*(getattr(nn, name)() for name in names))


def test_sequential():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
    assert net(mt.ones(5, 2)).shape == (5, 4) and len(net) == 3
    assert nn.Sequential()(3) == 3
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert list(named._modules) == ["a", "b"] and named[0] is named.a and named[-1] is named.b
    assert type(named[:1]) is nn.Sequential and list(named[:1]._modules) == ["a"]


def test_sequential_as_a_list():
    net = row("ReLU", "Tanh", "GELU")
    assert kinds(net.append(nn.SiLU())) == ["ReLU", "Tanh", "GELU", "SiLU"]
    net.insert(1, nn.Sigmoid())
    net.insert(-1, nn.Mish())
    assert kinds(net) == ["ReLU", "Sigmoid", "Tanh", "GELU", "Mish", "SiLU"] and list(net._modules) == list("012345")
    del net[0], net[1:3]
    assert kinds(net) == ["Sigmoid", "Mish", "SiLU"] and list(net._modules) == list("012")
    assert type(net.pop(-1)) is nn.SiLU and kinds(net.pop(slice(0, 1))) == ["Sigmoid"] and kinds(net) == ["Mish"]
    net[0] = nn.ReLU()
    assert kinds(net + row("Tanh")) == ["ReLU", "Tanh"] and kinds(net * 2) == kinds(2 * net) == ["ReLU", "ReLU"]
    net += row("Tanh")
    net *= 2
    assert kinds(net) == ["ReLU", "Tanh"] * 2 and net[0] is net[2]
    net.extend(net)
    assert len(net) == 8 and list(reversed(list(net)))[0] is net[-1]


@pytest.mark.parametrize(
    "error, change",
    [
        (TypeError, lambda net: net.append(3)),
        (TypeError, lambda net: nn.Sequential(3)),
        (IndexError, lambda net: net[2]),
        (IndexError, lambda net: net[-3]),
        (IndexError, lambda net: net.__delitem__(5)),
        (IndexError, lambda net: net.__setitem__(5, nn.ReLU())),
        (IndexError, lambda net: net.insert(9, nn.ReLU())),
        (AssertionError, lambda net: net.insert(0, 3)),
        (ValueError, lambda net: net + 3),
        (ValueError, lambda net: net * 0),
        (TypeError, lambda net: net * "a"),
        (TypeError, lambda net: net["0"]),
    ],
)
def test_sequential_errors(error, change):
    with pytest.raises(error):
        change(row("ReLU", "Tanh"))


def test_module_list():
    net = nn.ModuleList(nn.Linear(i, i) for i in (1, 2, 3))
    assert len(net) == 3 and net[1].in_features == 2 and net[-1] is net[2] and kinds(net[1:]) == ["Linear"] * 2
    assert type(net[:2]) is nn.ModuleList and list(net[1:]._modules) == ["0", "1"]
    net.insert(1, nn.ReLU())
    net.append(nn.Tanh())
    net += [nn.GELU()]
    assert kinds(net) == ["Linear", "ReLU", "Linear", "Linear", "Tanh", "GELU"]
    del net[2:4]
    del net[-1]
    assert kinds(net) == ["Linear", "ReLU", "Tanh"] and list(net._modules) == ["0", "1", "2"]
    assert type(net.pop(1)) is nn.ReLU and kinds(net + [nn.SiLU()]) == ["Linear", "Tanh", "SiLU"]
    net[0] = nn.Mish()
    assert kinds(net) == ["Mish", "Tanh"] and net[0] in net
    for error, change in (
        (TypeError, lambda: nn.ModuleList(3)),
        (TypeError, lambda: nn.ModuleList([3])),
        (IndexError, lambda: net[2]),
        (IndexError, lambda: net.__delitem__(2)),
        (NotImplementedError, lambda: net(1)),
    ):
        with pytest.raises(error):
            change()


def test_module_list_repr():
    net = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())])
    assert repr(net) == (
        "ModuleList(\n"
        "  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "  (2): ReLU()\n"
        "  (3-4): 2 x Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        ")"
    )


def test_module_dict():
    net = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert list(net) == list(net.keys()) == ["a", "b"] and "a" in net and "c" not in net and len(net) == 2
    net["c"] = nn.GELU()
    net.update([("a", nn.SiLU()), ["d", nn.Mish()]])
    assert kinds(net.values()) == ["SiLU", "Tanh", "GELU", "Mish"] and dict(net.items())["d"] is net.d
    net.update(nn.ModuleDict({"e": nn.ReLU()}))
    assert type(net.pop("e")) is nn.ReLU
    del net["a"]
    net.clear()
    assert len(net) == 0 and repr(net) == "ModuleDict()"
    for error, change in (
        (KeyError, lambda: net["x"]),
        (KeyError, lambda: nn.ModuleDict({"keys": nn.ReLU()})),
        (KeyError, lambda: nn.ModuleDict({"a.b": nn.ReLU()})),
        (TypeError, lambda: nn.ModuleDict({"a": 3})),
        (TypeError, lambda: nn.ModuleDict([1])),
        (TypeError, lambda: net.update(3)),
        (ValueError, lambda: nn.ModuleDict([(1, 2, 3)])),
    ):
        with pytest.raises(error):
            change()


def test_parameter_list():
    values = nn.ParameterList([mt.ones(2), nn.Parameter(mt.ones(3)), "text"])
    assert len(values) == 3 and isinstance(values[0], nn.Parameter) and values[-1] == "text"
    assert [name for name, _ in values.named_parameters()] == ["0", "1"]
    values.append(mt.ones(4))
    values += [mt.ones(5)]
    values[2] = mt.ones(1)
    assert [p.shape[0] for p in values] == [2, 3, 1, 4, 5]
    assert type(values[1:3]) is nn.ParameterList and len(values[1:3]) == 2 and values[1:3][0] is values[1]
    assert list(values.state_dict()) == ["0", "1", "3", "4", "2"] or len(values.state_dict()) == 5
    assert repr(nn.ParameterList([mt.ones(2, 3), 5])) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [metatensor.float32 of size 2x3 (meta)]\n"
        "    (1): Object of type: int\n"
        ")"
    )
    assert repr(nn.ParameterList()) == "ParameterList()"
    for error, change in (
        (TypeError, lambda: nn.ParameterList(mt.ones(2))),
        (TypeError, lambda: nn.ParameterList(3)),
        (IndexError, lambda: values[9]),
        (RuntimeError, lambda: values()),
    ):
        with pytest.raises(error):
            change()


def test_parameter_dict():
    values = nn.ParameterDict({"a": mt.ones(2), "keys": mt.ones(3), "text": "x"})
    assert list(values) == list(values.keys()) == ["a", "keys", "text"] and isinstance(values["keys"], nn.Parameter)
    assert [name for name, _ in values.named_parameters()] == ["a", "_keys"] or len(list(values.parameters())) == 2
    assert values.get("b") is None and values.get("b", 1) == 1 and "text" in values and len(values) == 3
    assert values.setdefault("a") is values["a"] and values.setdefault("c", mt.ones(4)).shape == (4,)
    assert values.popitem()[0] == "c" and values.pop("text") == "x" and list(reversed(values)) == ["keys", "a"]
    both = values | nn.ParameterDict({"z": mt.ones(1)})
    assert list(both) == ["a", "keys", "z"] and list(values) == ["a", "keys"] and both["a"] is values["a"]
    values |= {"y": 1}
    assert dict(values.items())["y"] == 1 and len(values.values()) == 3 and list(values.copy()) == list(values)
    assert list(values.fromkeys(["p", "q"], 0).items()) == [("p", 0), ("q", 0)]
    del values["y"]
    values.clear()
    assert len(values) == 0 and not values._parameters
    for error, change in (
        (AttributeError, lambda: values["a"]),
        (TypeError, lambda: nn.ParameterDict({3: 4})),
        (TypeError, lambda: nn.ParameterDict(3)),
        (TypeError, lambda: nn.ParameterDict([1])),
        (ValueError, lambda: nn.ParameterDict([(1, 2, 3)])),
        (RuntimeError, lambda: values()),
    ):
        with pytest.raises(error):
            change()
    assert "(a): Parameter containing: [metatensor.float32 of size 2 (meta)]" in repr(nn.ParameterDict({"a": mt.ones(2)}))


def test_order_of_the_names_in_a_parameter_dict():
    names = ["b", "a", "c"]
    weights = {name: nn.Parameter(mt.zeros(1)) for name in names}
    assert list(nn.ParameterDict(weights)) == ["a", "b", "c"]
    assert list(nn.ParameterDict(weights.items())) == names
    ordered = nn.ParameterDict(OrderedDict(weights))
    assert list(ordered) == names and list(ordered.copy()) == names and list(nn.ParameterDict(ordered)) == names
    ordered.update({"e": 1, "d": 2, "a": weights["b"]})
    assert list(ordered) == [*names, "d", "e"]
