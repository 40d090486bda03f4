"""Copies, pickles and conversions of every layer keep structure and state, compared with PyTorch if it is installed."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn
from nn.cases import build, layers

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:enable_nested")
CASES = [pytest.param(*case, id="".join(case)) for case in layers()]


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def state_of(module):
    return {k: (tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in module.state_dict().items()}


@pytest.mark.parametrize("name, call", CASES)
def test_copies(name, call):
    layer = build(nn, name, call)
    layer.note = ["mine"]
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(twin) is type(layer) and repr(twin) == repr(layer) and state_of(twin) == state_of(layer)
        assert twin.note == ["mine"] and twin.note is not layer.note
        ours, others = dict(layer.named_parameters()), dict(twin.named_parameters())
        assert ours.keys() == others.keys() and not {id(p) for p in ours.values()} & {id(p) for p in others.values()}
        assert [type(p) for p in ours.values()] == [type(p) for p in others.values()]


@pytest.mark.torch
@pytest.mark.parametrize("name, call", CASES)
@pytest.mark.parametrize("how", ["half", "bfloat16", "double"])
def test_conversions(name, call, how):
    torch = pytest.importorskip("torch")
    ours = build(nn, name, call)
    with torch.device("meta"):
        theirs = build(torch.nn, name, call)
    before = [id(p) for p in ours.parameters()]
    assert state_of(getattr(ours, how)()) == state_of(getattr(theirs, how)())
    assert [id(p) for p in ours.parameters()] == before
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name, call", CASES)
def test_hooks_and_modes(name, call):
    """Every kind of hook, `apply`, `train`, `requires_grad_` and `to_empty` work on every layer."""
    layer = build(nn, name, call)
    seen = []
    handles = [
        layer.register_forward_pre_hook(lambda *a: None),
        layer.register_forward_hook(lambda *a: None, with_kwargs=False, always_call=True),
        layer.register_full_backward_hook(lambda *a: None),
        layer.register_full_backward_pre_hook(lambda *a: None),
        layer.register_state_dict_pre_hook(lambda *a: seen.append("before")),
        layer.register_state_dict_post_hook(lambda *a: seen.append("after")),
        layer.register_load_state_dict_pre_hook(lambda *a: seen.append("load")),
        layer.register_load_state_dict_post_hook(lambda *a: seen.append("loaded")),
    ]
    assert layer.load_state_dict(layer.state_dict()) == ([], [])
    assert seen == ["before", "after", "load", "loaded"]
    for handle in handles:
        handle.remove()
    assert not layer.eval().training and layer.train().training
    assert all(not p.requires_grad for p in layer.requires_grad_(False).parameters())
    state = state_of(layer)
    assert state_of(layer.to_empty(device="meta")) == state
    names = []
    layer.apply(lambda module: names.append(type(module).__name__))
    assert names[-1] == name
