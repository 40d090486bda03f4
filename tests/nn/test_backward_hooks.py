"""Backward hooks of modules."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn.modules.module import register_module_full_backward_hook


def layer():
    made = nn.Linear(2, 1, bias=False).to("cpu")
    made.weight.data.fill_(3)
    return made


def test_full_hooks_see_both_gradients():
    module, seen = layer(), []
    handle = module.register_full_backward_hook(lambda m, i, o: seen.append((m is module, i[0].tolist(), o[0].tolist())))
    x = mt.ones(1, 2, device="cpu", requires_grad=True)
    (module(x) * 2).sum().backward()
    assert seen == [(True, [[6, 6]], [[2]])] and x.grad.tolist() == [[6, 6]]
    handle.remove()
    module(x).sum().backward()
    assert len(seen) == 1


def test_hooks_replace_gradients():
    module = layer()
    module.register_full_backward_pre_hook(lambda m, o: (o[0] * 10,))
    module.register_full_backward_hook(lambda m, i, o: (i[0] + 1,))
    x = mt.ones(1, 2, device="cpu", requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [[31, 31]] and module.weight.grad.tolist() == [[10, 10]]


def test_inputs_without_gradients():
    module, seen = layer(), []
    module.register_full_backward_hook(lambda m, i, o: seen.append((i, o[0].tolist())))
    module(mt.ones(1, 2, device="cpu")).sum().backward()
    assert seen == [((), [[1]])]


def test_older_hooks_see_the_last_operator():
    module, seen = layer(), []
    module.register_backward_hook(lambda m, i, o: seen.append(o[0].tolist()))
    module(mt.ones(1, 2, device="cpu")).sum().backward()
    assert seen == [[[1]]]


def test_global_hooks():
    seen = []
    with register_module_full_backward_hook(lambda m, i, o: seen.append(type(m).__name__)):
        nn.Sequential(layer(), nn.ReLU())(mt.ones(1, 2, device="cpu", requires_grad=True)).sum().backward()
    assert seen == ["ReLU", "Linear", "Sequential"]


def test_wrong_numbers_of_gradients():
    module = layer()
    module.register_full_backward_hook(lambda m, i, o: (i[0], i[0]))
    with pytest.raises(RuntimeError, match="returned 2 gradients, not 1"):
        module(mt.ones(1, 2, device="cpu", requires_grad=True)).sum().backward()


def test_nothing_is_watched_without_gradients():
    module = layer()
    module.register_full_backward_hook(lambda m, i, o: None)
    with mt.no_grad():
        assert module(mt.ones(1, 2, device="cpu")).grad_fn is None
