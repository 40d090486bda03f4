"""Unexpected objects in the dicts of modules cause only ordinary errors in the compiled look-ups."""

import pytest

import metatensor as mt
from metatensor import nn


class Raising(str):
    """A key whose comparison raises."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        raise ZeroDivisionError


class Clearing(str):
    """A key whose comparison clears the dict that contains it."""

    __hash__ = str.__hash__
    victim = None

    def __eq__(self, other):
        self.victim.clear()
        return True


@pytest.fixture
def net():
    return nn.Linear(2, 3, device="meta")


@pytest.mark.parametrize("group", ["_parameters", "_buffers", "_modules"])
@pytest.mark.parametrize("odd", [None, 3, (1, 2), [("weight", 1)], mt.empty(2, device="meta")], ids=repr)
def test_a_group_that_is_no_dict_holds_nothing(net, group, odd):
    net.__dict__[group] = odd
    with pytest.raises(AttributeError):
        net.missing
    net._forward_hooks, net._non_persistent_buffers_set


@pytest.mark.parametrize("group", ["_forward_hooks", "_forward_pre_hooks"])
def test_hooks_that_are_no_dict(net, group):
    net.__dict__[group] = (1, 2)
    with pytest.raises(AttributeError, match="items"):
        net(mt.empty(2, device="meta"))


@pytest.mark.parametrize("holder", ["__dict__", "_parameters", "_buffers", "_modules"])
@pytest.mark.parametrize("name", ["missing", "_forward_hooks"])
def test_what_a_key_raises_comes_out(net, holder, name):
    getattr(net, holder)[Raising(name)] = None
    with pytest.raises(ZeroDivisionError):
        getattr(net, name)


def test_what_a_key_raises_comes_out_of_a_call_and_of_assignment(net):
    net.__dict__[Raising("forward")] = None
    with pytest.raises(ZeroDivisionError):
        net(mt.empty(2, device="meta"))
    del net.__dict__["_buffers"]
    net.__dict__[Raising("_buffers")] = None
    with pytest.raises(ZeroDivisionError):
        net.extra = 1


@pytest.mark.parametrize("group", ["_parameters", "_buffers", "_modules"])
def test_a_key_that_empties_its_dict(net, group):
    key = Clearing("missing")
    key.victim = getattr(net, group)
    key.victim[key] = object()
    with pytest.raises(AttributeError):
        net.missing
