"""Helpers of nn: parameters as a vector, functional_call, skip_init, nn.functional."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F
from metatensor.nn.utils.stateless import functional_call


def test_functional_is_made_of_ops():
    assert type(F.linear).__name__ == "Op" and F.linear.name == "nn.functional.linear"
    assert {"linear", "relu", "conv2d"} <= set(dir(F))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        F.nothing


def test_every_exported_name_exists():
    for name in nn.__all__:
        assert getattr(nn, name) is not None
    for name in nn.modules.__all__:
        assert getattr(nn, name) is getattr(nn.modules, name)
        assert getattr(nn, name).__doc__, name


def test_vectors(device):
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)).to_empty(device=device)
    vector = mt.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], device=device)
    nn.utils.vector_to_parameters(vector, net.parameters())
    assert net[0].weight.tolist() == [[1.0, 2.0], [3.0, 4.0]] and net[1].weight.tolist() == [[5.0, 6.0]]
    assert nn.utils.parameters_to_vector(net.parameters()).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(TypeError, match="several devices"):
        nn.utils.parameters_to_vector([*net.parameters(), mt.empty(1, device="meta")])


@pytest.fixture
def net():
    mt.set_default_device("meta")
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    return net


def test_functional_call(net):
    own = net[0].weight
    seen = []
    net.register_forward_pre_hook(lambda module, args: seen.append((module[0].weight, module[1].weight)))
    new = mt.ones(2, 2)
    x = mt.ones(3, 2)
    assert functional_call(net, {"0.weight": new}, (x,)).shape == (3, 2)
    assert functional_call(net, {"0.weight": new}, x, tie_weights=False).shape == (3, 2)
    assert seen == [(new, new), (new, own)] and net[0].weight is own
    with pytest.raises(RuntimeError):
        functional_call(net, {"0.weight": mt.ones(2, 5)}, (x,))
    assert net[0].weight is own
    functional_call(net[0], {}, (), {"input": x})


def test_functional_call_errors(net):
    x = mt.ones(3, 2)
    with pytest.raises(AttributeError, match="no submodule"):
        functional_call(net, {"nothing.weight": x}, (x,))
    with pytest.raises(RuntimeError, match="missing names"):
        functional_call(net, {"0.weight": mt.ones(2, 2)}, (x,), strict=True)
    with pytest.raises(ValueError, match="are one tensor"):
        functional_call(net, {"0.weight": mt.ones(2, 2), "1.weight": mt.ones(2, 2)}, (x,))
    full = dict(net.named_parameters())
    functional_call(net, full, (x,), strict=True)


def test_further_names_are_attributes_during_the_call():
    class Shifted(mt.nn.Module):
        def forward(self, x):
            return x + getattr(self, "shift", 0)

    module = Shifted()
    assert functional_call(module, {"shift": mt.ones(2)}, (mt.ones(2),)).tolist() == [2.0, 2.0]
    assert not hasattr(module, "shift")


def test_a_module_inside_itself():
    net = mt.nn.Linear(2, 2, bias=False)
    net.me = mt.nn.Sequential(net)
    new = mt.zeros(2, 2)
    assert functional_call(net, {"weight": new}, (mt.ones(1, 2),)).tolist() == [[0.0, 0.0]]


def test_functional_call_of_several_dicts(net):
    x, new = mt.ones(3, 2), mt.ones(2, 2)
    call = mt.func.functional_call
    assert call(net, {"0.weight": new}, x).shape == call(net, ({"0.weight": new}, {"0.bias": mt.ones(2)}), (x,)).shape == (3, 2)
    with pytest.raises(ValueError, match=r"in more than one dict: \['0.weight'\]"):
        call(net, [{"0.weight": new}, {"0.weight": new}], x)
    with pytest.raises(ValueError, match="expected a dict"):
        call(net, 3, x)


def test_stack_module_state(device):
    nets = [nn.BatchNorm1d(3, device=device) for _ in range(4)]
    parameters, buffers = mt.func.stack_module_state(nets)
    assert {k: tuple(v.shape) for k, v in parameters.items()} == {"weight": (4, 3), "bias": (4, 3)}
    assert buffers["num_batches_tracked"].shape == (4,) and parameters["weight"].requires_grad and parameters["weight"].is_leaf
    nets[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match="'weight' must require gradients in all"):
        mt.func.stack_module_state(nets)
    with pytest.raises(RuntimeError, match="at least one"):
        mt.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="the same class"):
        mt.func.stack_module_state([nn.ReLU(), nn.Tanh()])


def test_compile_changes_nothing(net):
    assert net.compile(mode="default") is None and net(mt.ones(3, 2)).shape == (3, 2)


def test_skip_init(device):
    layer = nn.utils.skip_init(nn.Linear, 2, 3, device=device)
    assert layer.weight.device.type == device and layer.weight.requires_grad
    with pytest.raises(RuntimeError, match="has no argument 'device'"):
        nn.utils.skip_init(nn.ReLU)
    with pytest.raises(RuntimeError, match="expected a class of modules"):
        nn.utils.skip_init(int)
