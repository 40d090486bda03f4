"""Traversal of module trees, and access to members by path."""

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


@pytest.fixture
def tree():
    shared = nn.Linear(2, 2)
    net = nn.ModuleDict({"a": nn.Sequential(shared, nn.BatchNorm1d(2)), "b": shared, "none": None})
    net.tied = shared.weight
    return net


def test_a_module_inside_itself_has_infinitely_many_names(tree):
    tree.again = tree
    assert [name for name, _ in tree.named_modules()] == ["", "a", "a.0", "a.1"]
    for names in (tree.named_modules, tree.named_parameters, tree.named_buffers):
        with pytest.raises(RecursionError):
            list(names(remove_duplicate=False))


def test_modules(tree):
    assert [name for name, _ in tree.named_modules()] == ["", "a", "a.0", "a.1"]
    assert [name for name, _ in tree.named_modules(remove_duplicate=False)] == ["", "a", "a.0", "a.1", "b"]
    assert [name for name, _ in tree.named_modules(prefix="x")] == ["x", "x.a", "x.a.0", "x.a.1"]
    assert [name for name, _ in tree.named_modules(memo={tree["a"]})] == ["", "b"]
    assert len(list(tree.modules())) == 4 and len(list(tree.modules(remove_duplicate=False))) == 5
    assert [name for name, _ in tree.named_children()] == ["a", "b"]
    assert list(nn.Sequential(tree["b"], tree["b"]).children()) == [tree["b"]]


def test_parameters_and_buffers(tree):
    names = ["tied", "a.0.bias", "a.1.weight", "a.1.bias"]
    assert [name for name, _ in tree.named_parameters()] == names
    every = ["tied", "a.0.weight", "a.0.bias", "a.1.weight", "a.1.bias", "b.weight", "b.bias"]
    assert [name for name, _ in tree.named_parameters(remove_duplicate=False)] == every
    assert [name for name, _ in tree.named_parameters(recurse=False)] == ["tied"]
    assert [name for name, _ in tree.named_parameters(prefix="p", recurse=False)] == ["p.tied"]
    assert len(list(tree.parameters())) == 4 and len(list(tree.parameters(recurse=False))) == 1
    buffers = ["a.1.running_mean", "a.1.running_var", "a.1.num_batches_tracked"]
    assert [name for name, _ in tree.named_buffers()] == buffers
    assert len(list(tree.buffers())) == 3 and list(tree.buffers(recurse=False)) == []


def test_an_overridden_walk_is_used():
    class Closed(nn.Sequential):
        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix, self

    net = nn.Sequential(Closed(nn.ReLU()), nn.Sequential(nn.ReLU()))
    assert [name for name, _ in net.named_modules()] == ["", "0", "1", "1.0"]


def test_modules_may_be_replaced_while_walking():
    net = nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU())
    for _, module in net.named_modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.GELU())
    assert [type(m).__name__ for m in net.modules()] == ["Sequential", "Sequential", "GELU", "GELU"]


def test_a_deep_tree():
    net = nn.Identity()
    for _ in range(3000):
        net = nn.Sequential(net)
    assert sum(1 for _ in net.modules()) == 3001


def test_get(tree):
    assert tree.get_submodule("") is tree and tree.get_submodule("a.0") is tree["b"]
    assert tree.get_parameter("a.0.weight") is tree["b"].weight and tree.get_parameter("tied") is tree.tied
    assert tree.get_buffer("a.1.running_mean") is tree["a"][1].running_mean


@pytest.mark.parametrize(
    "method, path, words",
    [
        ("get_submodule", "a.9", "Sequential has no attribute '9'"),
        ("get_submodule", "a.0.weight", "'weight' is a Parameter, not a Module"),
        ("get_parameter", "a.0.nothing", "Linear has no parameter 'nothing'"),
        ("get_parameter", "a.1.running_mean", "BatchNorm1d has no parameter"),
        ("get_parameter", "x.weight", "has no attribute 'x'"),
        ("get_buffer", "a.0.weight", "Linear has no buffer 'weight'"),
    ],
)
def test_get_what_is_not_there(tree, method, path, words):
    with pytest.raises(AttributeError, match=words):
        getattr(tree, method)(path)


def test_set_submodule(tree):
    new = nn.ReLU()
    tree.set_submodule("a.0", new)
    tree.set_submodule("a.fresh", new)
    tree.set_submodule("top", new)
    assert tree["a"][0] is tree.a.fresh is tree.top is new
    tree.set_submodule("a.1", new, strict=True)
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        tree.set_submodule("a.absent", new, strict=True)
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        tree.set_submodule("x.y", new)
    with pytest.raises(AttributeError, match="not a Module"):
        tree.set_submodule("tied", new)
    with pytest.raises(ValueError, match="empty"):
        tree.set_submodule("", new)
    with pytest.raises(ValueError, match="expected a Module, got int"):
        tree.set_submodule("a.0", 3)
