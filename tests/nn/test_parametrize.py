"""Parametrizations, including orthogonal and normalised weights, compared with PyTorch's."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn.utils import parametrizations, parametrize
from nn.test_layers import ours_of


class Double(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Sum(nn.Module):
    """A parametrization with two originals."""

    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x, mt.zeros_like(x)


class Flat(nn.Module):
    def forward(self, x):
        return x.reshape(-1)


def linear(device="meta"):
    layer = nn.Linear(3, 3, device="meta")
    return layer if device == "meta" else layer.to_empty(device=device).apply(fill)


def fill(layer):
    layer.weight.data = mt.arange(9.0, device=layer.weight.device).view(3, 3)


def test_registering_and_removing(device):
    layer = linear(device)
    before = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Double().eval()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear is parametrize.type_before_parametrizations(linear())
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert layer.parametrizations.weight.original is before and layer.parametrizations.weight[0].training
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
    assert before.tolist()[0] == [0.0, 0.5, 1.0]
    layer.weight = mt.ones(3, 3, device=device)
    assert before.tolist()[0] == [0.5] * 3 and layer.weight.tolist()[0] == [1.0] * 3
    parametrize.register_parametrization(layer, "weight", Symmetric())
    layer.parametrizations.weight.original.data = mt.arange(9.0, device=device).view(3, 3)
    assert layer.weight.tolist() == [[0.0, 2.0, 4.0], [2.0, 8.0, 10.0], [4.0, 10.0, 16.0]]
    with pytest.raises(RuntimeError, match="Symmetric has no right_inverse"):
        layer.weight = mt.ones(3, 3, device=device)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight is before and before.tolist()[0] == [0.0, 2.0, 4.0]
    assert not hasattr(layer, "parametrizations")


def test_several_originals(device):
    layer = linear(device)
    parametrize.register_parametrization(layer, "weight", Sum())
    found = layer.parametrizations.weight
    assert not found.is_tensor and found.ntensors == 2
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert found.original1.requires_grad and found.original1.tolist()[1] == [0.0] * 3
    layer.weight = mt.ones(3, 3, device=device)
    assert found.original0.tolist()[0] == [1.0] * 3
    with pytest.raises(ValueError, match="several originals"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer.weight) is nn.Parameter and layer.weight.tolist()[0] == [1.0] * 3


def test_leaving_the_original_and_buffers(device):
    layer = linear(device)
    parametrize.register_parametrization(layer, "weight", Double())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.tolist()[0] == [0.0, 0.5, 1.0]
    norm = nn.BatchNorm1d(2).to(device)
    parametrize.register_parametrization(norm, "running_var", Double())
    assert "parametrizations.running_var.original" in dict(norm.named_buffers()) and norm.running_var.tolist() == [1.0, 1.0]
    parametrize.remove_parametrizations(norm, "running_var")
    assert "running_var" in norm._buffers


def test_caching_copies_and_pickles():
    layer = parametrize.register_parametrization(linear(), "weight", Double())
    assert layer.weight is not layer.weight
    with parametrize.cached(), parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    twin = copy.deepcopy(layer)
    assert type(twin) is type(layer) and twin.parametrizations.weight.original is not layer.parametrizations.weight.original
    assert twin(mt.empty(2, 3, device="meta")).shape == (2, 3)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    assert layer.half().weight.dtype == mt.float16
    other = linear()
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert parametrize.is_parametrized(other, "weight") and other.parametrizations.weight.original.dtype == mt.float16
    assert parametrize.transfer_parametrizations_and_params(linear(), other) is other


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "no parameter, buffer", lambda layer: parametrize.register_parametrization(layer, "nothing", Double())),
        (ValueError, "has dtype .* and shape", lambda layer: parametrize.register_parametrization(layer, "weight", Flat())),
        (ValueError, "is not parametrized", lambda layer: parametrize.remove_parametrizations(layer, "weight")),
        (ValueError, "at least one module", lambda layer: parametrize.ParametrizationList([], layer.weight)),
        (ValueError, "no parameter or buffer 'nothing'", lambda layer: parametrizations.orthogonal(layer, "nothing")),
        (ValueError, "at least 2 dimensions", lambda layer: parametrizations.orthogonal(layer, "bias")),
        (ValueError, "must be one of", lambda layer: parametrizations.orthogonal(layer, orthogonal_map="qr")),
        (ValueError, "must be positive", lambda layer: parametrizations.spectral_norm(layer, n_power_iterations=0)),
        (IndexError, "out of range", lambda layer: parametrizations.spectral_norm(layer, dim=2)),
        (ValueError, "has no weight norm", nn.utils.remove_weight_norm),
        (ValueError, "has no spectral norm", nn.utils.remove_spectral_norm),
        (ValueError, "must be positive", lambda layer: nn.utils.spectral_norm(layer, n_power_iterations=0)),
        (RuntimeError, "spectral norm already", lambda layer: nn.utils.spectral_norm(nn.utils.spectral_norm(layer))),
    ],
)
def test_refusals(error, words, call):
    with pytest.raises(error, match=words):
        call(linear())


def test_unsafe():
    layer = linear()
    parametrize.register_parametrization(layer, "weight", Flat(), unsafe=True)
    assert layer.weight.shape == (9,)


# name of the function, the layer, further arguments; the same in both libraries
NORMED = [
    ("parametrizations.weight_norm", "Linear(3, 4)", {}),
    ("parametrizations.weight_norm", "Conv2d(3, 4, 2)", {"dim": None}),
    ("parametrizations.weight_norm", "Conv2d(3, 4, 2)", {"dim": 1}),
    ("parametrizations.weight_norm", "Linear(3, 4)", {"name": "bias"}),
    ("parametrizations.spectral_norm", "Linear(3, 4)", {}),
    ("parametrizations.spectral_norm", "ConvTranspose2d(3, 4, 2)", {"n_power_iterations": 3, "eps": 1e-6}),
    ("parametrizations.spectral_norm", "Linear(3, 4)", {"name": "bias"}),
    ("parametrizations.orthogonal", "Linear(3, 3)", {}),
    ("parametrizations.orthogonal", "Linear(3, 5)", {}),
    ("parametrizations.orthogonal", "Linear(5, 3)", {"orthogonal_map": "cayley"}),
    ("parametrizations.orthogonal", "Linear(3, 5)", {"use_trivialization": False}),
    ("parametrizations.orthogonal", "Linear(3, 5)", {"orthogonal_map": "matrix_exp", "use_trivialization": False}),
    ("weight_norm", "Linear(3, 4)", {}),
    ("weight_norm", "ConvTranspose1d(3, 4, 2)", {"dim": 1}),
    ("weight_norm", "Linear(3, 4)", {"dim": None}),
    ("spectral_norm", "Linear(3, 4)", {}),
    ("spectral_norm", "ConvTranspose1d(3, 4, 2)", {"n_power_iterations": 2}),
]
INPUTS = {"Linear(3": (2, 3), "Linear(5": (2, 5), "Conv2d": (1, 3, 4, 4), "ConvTranspose2d": (1, 3, 4, 4), "ConvTranspose1d": (1, 3, 4)}


def function(library, name):
    for part in name.split("."):
        library = getattr(library, part)
    return library


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
@pytest.mark.parametrize("name, layer, options", NORMED)
def test_like_torch(name, layer, options):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    torch.manual_seed(0)
    theirs, ours = (function(lib.nn.utils, name)(eval(f"lib.nn.{layer}"), **options) for lib in (torch, mt))
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state) and ours.state_dict()._metadata == state._metadata
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert repr(ours).replace("_WeightNorm()", "") == repr(theirs).replace("_WeightNorm()", "")
    ours.load_state_dict({k: ours_of(v) for k, v in state.items()})
    if not name.startswith("parametrizations"):
        ours.weight = ours_of(theirs.weight.detach())
    shape = next(v for k, v in INPUTS.items() if layer.startswith(k))
    x = torch.randn(shape)
    for _ in range(2):
        want, got = theirs(x), ours(ours_of(x))
        torch.testing.assert_close(torch.tensor(got.tolist()), want.detach(), atol=1e-4, rtol=1e-3)
    theirs.eval(), ours.eval()
    torch.testing.assert_close(torch.tensor(ours(ours_of(x)).tolist()), theirs(x).detach(), atol=1e-4, rtol=1e-3)
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(torch.tensor(ours.state_dict()[key].tolist()), value, atol=1e-4, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
@pytest.mark.parametrize("name, layer, options", NORMED)
def test_on_meta_and_back(name, layer, options):
    mt.set_default_device("meta")
    made = eval(f"nn.{layer}")
    before = {n: (type(p), p.shape) for n, p in made.named_parameters()}
    function(nn.utils, name)(made, **options)
    shape = next(v for k, v in INPUTS.items() if layer.startswith(k))
    assert made(mt.empty(shape)).shape
    which = options.get("name", "weight")
    if name.startswith("parametrizations"):
        assert copy.deepcopy(made)(mt.empty(shape)).shape
        parametrize.remove_parametrizations(made, which)
    else:
        function(nn.utils, f"remove_{name}")(made)
    assert {n: (type(p), p.shape) for n, p in made.named_parameters()} == before
    assert made(mt.empty(shape)).shape and not made._forward_pre_hooks and not made._state_dict_hooks


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_is(device, shape, map):
    layer = nn.Linear(shape[1], shape[0], device=device)
    parametrizations.orthogonal(layer, orthogonal_map=map)
    q = layer.weight.cpu()
    product = q.mT @ q if shape[0] >= shape[1] else q @ q.mT
    assert mt.allclose(product, mt.eye(min(shape), device="cpu"), atol=1e-5)
    given = layer.weight.detach().clone()
    layer.weight = given
    assert mt.allclose(layer.weight, given, atol=1e-5)


def test_orthogonal_without_trivialization_is_not_assigned_to():
    layer = linear()
    parametrizations.orthogonal(layer, orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="without trivialization"):
        layer.weight = mt.ones(3, 3, device="meta")
    with pytest.raises(ValueError, match="is for real tensors"):
        parametrizations.orthogonal(nn.Linear(2, 3, dtype=mt.complex64, device="meta"), orthogonal_map="householder")


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_old_state_dicts_of_weight_norm():
    old, new = nn.utils.weight_norm(linear()), parametrizations.weight_norm(linear())
    state = old.state_dict()
    assert new.load_state_dict(state) == ([], [])


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_norms_of_what_has_no_shape():
    mt.set_default_device("meta")
    with pytest.raises(ValueError, match="no shape yet"):
        nn.utils.weight_norm(nn.LazyLinear(3))
    with pytest.raises(ValueError, match="no shape yet"):
        nn.utils.spectral_norm(nn.LazyLinear(3))
    with pytest.raises(RuntimeError, match="weight norm already"):
        nn.utils.weight_norm(nn.utils.weight_norm(linear()))
