"""Every layer compared with PyTorch's: signature, repr, attributes, state, and results of a chain."""

import inspect

import pytest

import metatensor as mt
from metatensor import nn
from nn.cases import build, layers

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:enable_nested")]
CASES = [pytest.param(*case, id="".join(case)) for case in layers()]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


# Never enabled in metatensor, which has no nested tensors.
NOT_COMPARED = {"use_nested_tensor"}


def plain_attributes(module):
    found = {k: v for k, v in vars(module).items() if not k.startswith("_") and not callable(v) and k not in NOT_COMPARED}
    return {k: repr(v) if type(v).__module__.endswith("options") else v for k, v in found.items()}


@pytest.mark.parametrize("name, call", CASES)
def test_layer(torch, name, call):
    ours = build(nn, name, call)
    with torch.device("meta"):
        theirs = build(torch.nn, name, call)
    assert repr(ours) == repr(theirs)
    assert ours.extra_repr() == theirs.extra_repr()
    assert plain_attributes(ours) == plain_attributes(theirs)
    ours_state = {k: (tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in ours.state_dict().items()}
    theirs_state = {k: (tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in theirs.state_dict().items()}
    assert list(ours_state.items()) == list(theirs_state.items())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    assert sorted(ours._parameters) == sorted(theirs._parameters)
    assert sorted(ours._buffers) == sorted(theirs._buffers)


# A decorator hides PyTorch's signature.
DEPRECATED = {"Container", "NLLLoss2d"}


@pytest.mark.parametrize("name", sorted({name for name, _ in layers()} - DEPRECATED))
def test_signature(torch, name):
    def arguments(cls):
        found = inspect.signature(cls).parameters.values()
        plain = [(p, getattr(p.default, "__name__", p.default)) for p in found if p.kind not in (p.VAR_KEYWORD,)]
        return [(p.name, p.kind, default.rpartition(".")[2] if isinstance(default, str) else default) for p, default in plain]

    ours, theirs = arguments(getattr(nn, name)), arguments(getattr(torch.nn, name))
    assert ours == theirs


@pytest.mark.parametrize("name", sorted({name for name, _ in layers()}))
def test_forward_signature(torch, name):
    ours = list(inspect.signature(getattr(nn, name).forward).parameters)
    theirs = list(inspect.signature(getattr(torch.nn, name).forward).parameters)
    if name not in ("ModuleDict", "ModuleList", "RNNBase"):  # PyTorch's raise
        assert ours == theirs
