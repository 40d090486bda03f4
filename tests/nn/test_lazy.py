"""Lazy layers, which take sizes from their first input, and their uninitialized parameters."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn.parameter import is_lazy
from nn.cases import build, lazy_layers

CASES = [pytest.param(*case, id="".join(case[:2])) for case in lazy_layers()]


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def state_of(module):
    return {k: (tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in module.state_dict().items()}


@pytest.mark.torch
@pytest.mark.parametrize("name, call, shape", CASES)
def test_like_torch(name, call, shape):
    torch = pytest.importorskip("torch")
    ours = build(nn, name, call)
    with torch.device("meta"):
        theirs = build(torch.nn, name, call)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [is_lazy(p) for p in ours.parameters()] == [torch.nn.parameter.is_lazy(p) for p in theirs.parameters()]
    got, want = ours(mt.empty(shape)), theirs(torch.empty(shape, device="meta"))
    assert (tuple(got.shape), got.stride()) == (tuple(want.shape), want.stride())
    assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(ours) == repr(theirs)
    assert state_of(ours) == state_of(theirs)
    assert not ours._forward_pre_hooks and not ours._load_state_dict_pre_hooks
    plain = lambda m: {k: v for k, v in vars(m).items() if not k.startswith("_")}
    assert plain(ours) == plain(theirs)


@pytest.mark.torch
@pytest.mark.parametrize("name, call, shape", CASES)
def test_values_like_torch(name, call, shape):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    mt.set_default_device(None)
    ours, theirs = build(nn, name, call), build(torch.nn, name, call)
    x = torch.randn(shape)
    want = theirs(x)
    ours.load_state_dict({k: mt.from_numpy(v.clone().numpy()).clone() for k, v in theirs.state_dict().items()})
    if theirs.state_dict():
        assert not ours.has_uninitialized_params()
    if "BatchNorm" in name and theirs.track_running_stats:
        theirs.eval(), ours.eval()
        want = theirs(x)
    got = ours(mt.from_numpy(x.numpy()))
    assert getattr(ours, "in_channels", 3) and getattr(ours, "num_features", 3)
    torch.testing.assert_close(torch.tensor(got.tolist()), want.detach(), atol=1e-5, rtol=1e-4)


def test_tensors_without_a_shape():
    parameter = nn.UninitializedParameter(dtype=mt.float64)
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad and repr(parameter) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="no shape before"):
        parameter.shape
    with pytest.raises(RuntimeError, match="no memory to share"):
        parameter.share_memory_()
    for use in (lambda: parameter + 1, parameter.numel, lambda: mt.zeros(3).add(parameter), lambda: mt.empty_like(parameter)):
        with pytest.raises(ValueError, match="has no shape yet"):
            use()
    assert parameter.to(mt.float16).dtype == mt.float16
    for twin in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(twin) is nn.UninitializedParameter and twin.dtype == mt.float64 and twin.is_meta
    before = parameter
    parameter.materialize((2, 3))
    assert before is parameter and type(parameter) is nn.Parameter and parameter.shape == (2, 3) and parameter.dtype == mt.float64
    assert (parameter + 1).shape == (2, 3)
    other = nn.UninitializedParameter(requires_grad=False)
    other.materialize((4,), dtype=mt.float16)
    assert other.dtype == mt.float16 and not other.requires_grad
    buffer = nn.UninitializedBuffer(persistent=False)
    assert isinstance(buffer, nn.Buffer) and not buffer.requires_grad
    buffer.materialize(())
    assert type(buffer) is nn.Buffer and buffer.shape == ()


def test_a_buffer_is_registered():
    module = nn.Module()
    module.stat = nn.UninitializedBuffer(persistent=False)
    assert list(module._buffers) == ["stat"] and not module.state_dict()
    module.stat.materialize((3,))
    assert module.stat.shape == (3,)


def test_copies_conversions_and_state():
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    twins = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    for twin in twins:
        assert twin(mt.empty(5, 3)).shape == (5, 4) and type(twin[0]) is nn.Linear
        assert twin[1].running_mean.shape == (4,)
    assert net[0].has_uninitialized_params()
    net.half()
    assert net(mt.empty(5, 3, dtype=mt.float16)).dtype == mt.float16 and net[1].running_mean.dtype == mt.float16
    again = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    assert again.load_state_dict(net.state_dict()) == ([], [])
    assert again[0].weight.shape == (4, 3) and type(again[0]) is nn.LazyLinear
    assert again(mt.empty(5, 3)).shape == (5, 4) and again[0].in_features == 3
    fresh = nn.LazyLinear(4)
    fresh.load_state_dict(nn.LazyLinear(4).state_dict())
    assert fresh.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="no shape before"):
        nn.Linear(2, 4).load_state_dict(fresh.state_dict())


@pytest.mark.parametrize(
    "error, words, call",
    [
        (RuntimeError, "expected 3 or 4 dimensions", lambda: nn.LazyConv2d(2, 1)(mt.empty(2, 2))),
        (ValueError, "does not divide", lambda: nn.LazyConv1d(2, 1, groups=2)(mt.empty(1, 3, 4))),
        (AssertionError, "does not fit the weight that was loaded", lambda: loaded()(mt.empty(2, 5))),
        (RuntimeError, "left parameters without a shape", lambda: Forgetful()(mt.empty(2))),
        (NotImplementedError, "does not define initialize_parameters", lambda: Undefined()(mt.empty(2))),
    ],
)
def test_refusals(error, words, call):
    with pytest.raises(error, match=words):
        call()


def loaded():
    layer = nn.LazyLinear(4)
    layer.load_state_dict(nn.Linear(3, 4).state_dict())
    return layer


class Undefined(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.UninitializedParameter()


class Forgetful(Undefined):
    def initialize_parameters(self, input):
        pass


def test_a_class_of_ones_own():
    class Scale(Undefined):
        def initialize_parameters(self, input, other=None):
            self.weight.materialize(input.shape[-1:])

        def forward(self, input, other=None):
            return input * self.weight

    layer = Scale()
    assert layer(mt.empty(2, 3), other=1).shape == (2, 3) and type(layer) is Scale and layer.weight.shape == (3,)
    assert layer(mt.empty(5, 3)).shape == (5, 3)
