"""Hooks: when they run, their arguments, and the effect of their results."""

import copy
import gc
import pickle
import warnings

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn import _hooks


class Add(nn.Module):
    """Return x + y. Inputs may be numbers or tensors."""

    def forward(self, x, y=0):
        return x + y


def test_forward_pre_hook():
    net = Add()
    seen = []
    net.register_forward_pre_hook(lambda module, args: seen.append((module, args)))
    net.register_forward_pre_hook(lambda module, args: args[0] * 10)
    net.register_forward_pre_hook(lambda module, args: (args[0], 5))
    assert net(2) == 25 and seen == [(net, (2,))]


def test_forward_pre_hook_with_kwargs():
    net = Add()
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "y": 7}), with_kwargs=True)
    assert net(1, y=100) == 8
    net.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"pair \(args, kwargs\)"):
        net(1)


def test_forward_hook():
    net = Add()
    net.register_forward_hook(lambda module, args, output: output * 2)
    net.register_forward_hook(lambda module, args, kwargs, output: output + kwargs["y"], with_kwargs=True)
    net.register_forward_hook(lambda module, args, output: None)
    assert net(1, y=3) == 11


def test_order_and_prepend():
    net = Add()
    order = []

    def note(name):
        return lambda *args: order.append(name)

    net.register_forward_hook(note("second"))
    net.register_forward_hook(note("first"), prepend=True)
    net.register_forward_pre_hook(note("b"))
    net.register_forward_pre_hook(note("a"), prepend=True)
    with (
        _hooks.register_module_forward_pre_hook(note("global pre")),
        _hooks.register_module_forward_hook(note("global")),
    ):
        net(1)
    assert order == ["global pre", "a", "b", "global", "first", "second"]
    order.clear()
    net(1)
    assert order == ["a", "b", "first", "second"]


def test_removing():
    net = Add()
    handle = net.register_forward_hook(lambda m, args, output: 0, always_call=True, with_kwargs=False)
    assert net(1) == 0
    handle.remove()
    handle.remove()
    assert net(1) == 1 and not net._forward_hooks and not net._forward_hooks_always_called
    with net.register_forward_pre_hook(lambda m, args: (5,)):
        assert net(1) == 5
    assert net(1) == 1
    handle = net.register_forward_hook(lambda m, args, output: 0)
    del net
    gc.collect()
    handle.remove()


def test_hooks_may_remove_themselves():
    net = Add()
    handles = []

    def once(module, args, output):
        handles.pop().remove()
        return output + 100

    handles.append(net.register_forward_hook(once))
    assert net(1) == 101 and net(1) == 1


def test_always_call():
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError("forward")

    net = Failing()
    ran = []
    net.register_forward_hook(lambda m, args, output: ran.append("never"))
    net.register_forward_hook(lambda m, args, output: ran.append(output), always_call=True)
    with pytest.raises(KeyError, match="forward"):
        net(1)
    assert ran == [None]
    net.register_forward_hook(lambda m, args, kwargs, output: 1 / 0, always_call=True, with_kwargs=True)
    with pytest.warns(UserWarning, match="ZeroDivisionError"), pytest.raises(KeyError):
        net(1)
    ok = Add()
    count = []
    ok.register_forward_hook(lambda m, args, output: count.append(1), always_call=True)
    ok.register_forward_hook(lambda m, args, output: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ok(1)
    assert count == [1]


def test_global_always_call_and_kwargs():
    ran = []
    with _hooks.register_module_forward_hook(
        lambda m, args, kwargs, output: ran.append((args, kwargs, output)), with_kwargs=True, always_call=True
    ):
        Add()(1, y=2)
        with pytest.raises(TypeError):
            Add()("a", 1)
    assert ran == [((1,), {"y": 2}, 3), (("a", 1), {}, None)]
    assert not _hooks._global_forward_hooks and not _hooks._global_forward_hooks_always_called


def test_hooks_see_calls_through_every_entry():
    net = Add()
    seen = []
    net.register_forward_pre_hook(lambda m, args: seen.append(args))
    net(1)
    net(*(2,), y=3)
    net.__call__(4)
    net._call_impl(5)
    net.forward(6)
    assert seen == [(1,), (2,), (4,), (5,)]


def test_registration_hooks():
    net = nn.Module()
    seen = []
    replacement = nn.Parameter(mt.ones(7, device="meta"))
    with (
        _hooks.register_module_parameter_registration_hook(lambda m, name, p: replacement),
        _hooks.register_module_buffer_registration_hook(lambda m, name, b: seen.append(name)),
        _hooks.register_module_module_registration_hook(lambda m, name, s: seen.append((name, type(s)))),
    ):
        net.p = nn.Parameter(mt.ones(1, device="meta"))
        net.register_buffer("b", mt.ones(1, device="meta"))
        net.b = mt.ones(2, device="meta")
        net.m = nn.ReLU()
        net.add_module("n", nn.ReLU())
        net.plain = 3
    assert net.p is replacement
    assert seen == ["b", "b", ("m", nn.ReLU), ("n", nn.ReLU)]


def test_backward_hooks_are_kept_but_not_mixed():
    net = Add()
    handle = net.register_full_backward_hook(print)
    net.register_full_backward_pre_hook(print)
    assert len(net._backward_hooks) == len(net._backward_pre_hooks) == 1
    with pytest.raises(RuntimeError, match="cannot have both"):
        net.register_backward_hook(print)
    handle.remove()
    assert not net._backward_hooks
    other = Add()
    other.register_backward_hook(print)
    with pytest.raises(RuntimeError, match="cannot have both"):
        other.register_full_backward_hook(print)
    for register in (
        _hooks.register_module_backward_hook,
        _hooks.register_module_full_backward_hook,
        _hooks.register_module_full_backward_pre_hook,
    ):
        register(print).remove()


def test_a_handle_survives_copying_and_pickling():
    net = Add()
    handle = net.register_forward_hook(_double)
    pair = pickle.loads(pickle.dumps((net, handle)))
    assert pair[0](2) == 4
    pair[1].remove()
    assert pair[0](2) == 2 and net(2) == 4
    pair = copy.deepcopy((net, handle))
    pair[1].remove()
    assert pair[0](2) == 2 and net(2) == 4


def _double(module, args, output):
    return output * 2


def test_state_dict_hooks():
    net = nn.Linear(1, 1, device="meta")
    order = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep_vars: order.append(("pre", prefix, keep_vars)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: order.append(("post", prefix, list(state))))
    outer = nn.Sequential(net)
    outer.state_dict(keep_vars=True)
    assert order == [("pre", "0.", True), ("post", "0.", ["0.weight", "0.bias"])]
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"other": 1})
    assert net.state_dict() == {"other": 1}
    bad = nn.ReLU()
    bad.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="return None"):
        bad.state_dict()
    with pytest.raises(RuntimeError, match="already"):
        bad._register_state_dict_hook(next(iter(bad._state_dict_hooks.values())))


def test_load_state_dict_hooks():
    net = nn.Sequential(nn.Linear(1, 1, device="meta"))
    state = {"old.weight": net[0].weight, "0.bias": net[0].bias}

    def rename(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        assert module is net and prefix == ""
        state_dict["0.weight"] = state_dict.pop("old.weight")

    handle = net.register_load_state_dict_pre_hook(rename)
    assert repr(net.load_state_dict(state)) == "<All keys matched successfully>"
    assert "old.weight" in state, "the caller's dict stays as it was"
    handle.remove()
    with pytest.raises(RuntimeError, match="Missing"):
        net.load_state_dict(state)

    def forgive(module, keys):
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    net.register_load_state_dict_post_hook(forgive)
    net.load_state_dict(state)
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(RuntimeError, match="return None"):
        net.load_state_dict(state)


def test_older_load_hook_and_dead_modules():
    net = nn.Linear(1, 1, device="meta")
    calls = []
    net._register_load_state_dict_pre_hook(lambda *args: calls.append(len(args)))
    net._register_load_state_dict_pre_hook(lambda *args: calls.append(len(args)), with_module=True)
    net.load_state_dict(net.state_dict())
    assert calls == [7, 8]
    hook = list(net._load_state_dict_pre_hooks.values())[1]
    again = copy.deepcopy(net)
    assert list(again._load_state_dict_pre_hooks.values())[1].module() is again
    del net
    gc.collect()
    with pytest.raises(RuntimeError, match="does not exist any more"):
        hook()


def test_no_warnings_on_ordinary_calls():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Add()(1)


def test_a_handle_names_its_tables():
    net = Add()
    first = net.register_forward_hook(lambda *args: None)
    second = net.register_forward_hook(lambda *args: None, always_call=True)
    assert first.hooks_dict_ref() is net._forward_hooks and list(net._forward_hooks) == [first.id, second.id]
    assert any(table() is net._forward_hooks_always_called for table in second.extra_dict_ref)
    first.remove()
    assert list(second.hooks_dict_ref()) == [second.id]
    del net
    gc.collect()
    assert second.hooks_dict_ref() is None


def test_tables_of_global_hooks():
    tables = nn.modules.module
    handle = tables.register_module_forward_hook(lambda *args: None, always_call=True)
    assert handle.id in tables._global_forward_hooks and handle.id in tables._global_forward_hooks_always_called
    handle.remove()
    assert not tables._global_forward_hooks and not tables._global_forward_hooks_always_called
