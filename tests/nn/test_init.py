"""Initialisation: bounds and moments on devices with data, shapes and errors on meta, and the ticket of each draw."""

import math

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn import init

IN_PLACE = {
    "uniform_": {},
    "normal_": {},
    "trunc_normal_": {},
    "constant_": {"val": 2.0},
    "ones_": {},
    "zeros_": {},
    "eye_": {},
    "xavier_uniform_": {},
    "xavier_normal_": {},
    "kaiming_uniform_": {},
    "kaiming_normal_": {},
    "orthogonal_": {},
    "sparse_": {"sparsity": 0.5},
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_returns_its_tensor_and_leaves_grad_mode(name):
    p = nn.Parameter(mt.empty(4, 6, device="meta"))
    assert getattr(init, name)(p, **IN_PLACE[name]) is p
    assert p.requires_grad and p.is_leaf and mt.is_grad_enabled() and p.is_meta


@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_normal_", "orthogonal_"])
def test_takes_a_generator(name):
    generator = mt.Generator()
    getattr(init, name)(mt.empty(4, 4, device="meta"), generator=generator)


def test_the_grad_mode_survives_an_error():
    with pytest.raises(RuntimeError):
        init.uniform_(mt.empty(2, device="meta"), 3, 1)
    assert mt.is_grad_enabled()
    with pytest.raises((TypeError, AttributeError)):
        init.uniform_(3)
    assert mt.is_grad_enabled()


@pytest.mark.parametrize(
    "name, shape, error, words",
    [
        ("eye_", (2, 2, 2), ValueError, "2 dimensions"),
        ("sparse_", (2,), ValueError, "2 dimensions"),
        ("dirac_", (2, 2), ValueError, "3, 4 or 5 dimensions"),
        ("orthogonal_", (2,), ValueError, "at least 2 dimensions"),
        ("xavier_uniform_", (2,), ValueError, "at least 2 dimensions"),
        ("kaiming_normal_", (2,), ValueError, "at least 2 dimensions"),
    ],
)
def test_shapes_that_do_not_fit(name, shape, error, words):
    with pytest.raises(error, match=words):
        getattr(init, name)(mt.empty(shape, device="meta"), **IN_PLACE.get(name, {}))


def test_other_errors():
    weight = mt.empty(4, 4, 3, device="meta")
    with pytest.raises(ValueError, match="'fan_in' or 'fan_out'"):
        init.kaiming_uniform_(weight, mode="fan_side")
    with pytest.raises(ValueError, match="unknown nonlinearity"):
        init.kaiming_uniform_(weight, nonlinearity="sine")
    with pytest.raises(ValueError, match="groups=3"):
        init.dirac_(weight, groups=3)
    with pytest.raises(ValueError, match="must be a number"):
        init.calculate_gain("leaky_relu", "steep")
    for name in ("kaiming_uniform_", "kaiming_normal_"):
        with pytest.warns(UserWarning, match="no elements"):
            getattr(init, name)(mt.empty(0, 4, device="meta"))
    with pytest.warns(UserWarning, match="more than 2 std outside"):
        init.trunc_normal_(weight, mean=10.0)


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("conv_transpose3d") == 1
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 2) == math.sqrt(2 / 5)
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))


def test_fans():
    fans = init._calculate_fan_in_and_fan_out
    assert fans(mt.empty(3, 5, device="meta")) == (5, 3)
    assert fans(mt.empty(3, 5, 2, 4, device="meta")) == (40, 24)


def test_old_names():
    with pytest.warns(FutureWarning, match="nn.init.xavier_uniform is called nn.init.xavier_uniform_"):
        init.xavier_uniform(mt.empty(2, 2, device="meta"))
    for name in ("uniform", "normal", "constant", "eye", "dirac", "kaiming_uniform", "orthogonal", "sparse"):
        assert getattr(init, name).__name__ == name


def test_the_same_values_whether_or_not_others_are_on_meta(device):
    mt.manual_seed(3)
    first = nn.Linear(4, 4, device=device), nn.Linear(4, 4, device=device)
    mt.manual_seed(3)
    second = nn.Linear(4, 4, device="meta"), nn.Linear(4, 4, device=device)
    assert second[1].weight.tolist() == first[1].weight.tolist() != first[0].weight.tolist()


def flat(tensor):
    return tensor.reshape(-1).tolist()


def test_uniform_bounds(device):
    weight = mt.empty(64, 100, device=device)
    for fill, bound in (
        (lambda: init.uniform_(weight, -3, 3), 3),
        (lambda: init.kaiming_uniform_(weight, a=math.sqrt(5)), 0.1),
        (lambda: init.kaiming_uniform_(weight, mode="fan_out", nonlinearity="relu"), math.sqrt(2 * 3 / 64)),
        (lambda: init.xavier_uniform_(weight, gain=2), 2 * math.sqrt(6 / 164)),
    ):
        values = flat(fill())
        assert -bound <= min(values) < -0.99 * bound and 0.99 * bound < max(values) <= bound


def test_normal_moments(device):
    weight = mt.empty(64, 100, device=device)
    for fill, mean, std in (
        (lambda: init.normal_(weight, 2, 0.5), 2, 0.5),
        (lambda: init.kaiming_normal_(weight, nonlinearity="relu"), 0, math.sqrt(2 / 100)),
        (lambda: init.xavier_normal_(weight), 0, math.sqrt(2 / 164)),
    ):
        values = flat(fill())
        m = sum(values) / len(values)
        s = math.sqrt(sum((v - m) ** 2 for v in values) / len(values))
        assert abs(m - mean) < 0.05 * std and abs(s - std) < 0.05 * std


def test_truncated(device):
    values = flat(init.trunc_normal_(mt.empty(64, 100, device=device), std=1.0, a=-0.5, b=1.0))
    assert min(values) >= -0.5 and max(values) <= 1.0 and min(values) < -0.45 and max(values) > 0.95


def test_constants(device):
    weight = mt.empty(2, 3, device=device)
    assert flat(init.constant_(weight, 7)) == [7.0] * 6
    assert flat(init.ones_(weight)) == [1.0] * 6 and flat(init.zeros_(weight)) == [0.0] * 6
    assert init.eye_(weight).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_dirac(device):
    weight = init.dirac_(mt.empty(4, 2, 3, device=device), groups=2)
    passed = [[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
    assert weight.tolist() == passed + passed


def test_orthogonal(device):
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        weight = init.orthogonal_(mt.empty(shape, device=device), gain=2.0)
        matrix = weight.reshape(shape[0], -1)
        small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
        product = (small @ small.t()).tolist()
        for i, row in enumerate(product):
            for j, value in enumerate(row):
                assert abs(value - (4.0 if i == j else 0.0)) < 1e-4


def test_sparse(device):
    weight = init.sparse_(mt.empty(10, 4, device=device), sparsity=0.25, std=1.0)
    for column in zip(*weight.tolist()):
        assert sum(value == 0.0 for value in column) == 3


@pytest.mark.torch
def test_layers_start_as_in_torch(device):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    mt.manual_seed(0)
    for name, arguments in (
        ("Linear", (50, 400)),
        ("Bilinear", (10, 20, 30)),
        ("Conv2d", (8, 64, 5)),
        ("ConvTranspose1d", (32, 64, 5)),
        ("Embedding", (100, 50)),
        ("BatchNorm2d", (500,)),
        ("LayerNorm", (500,)),
        ("PReLU", (5,)),
        ("MultiheadAttention", (64, 4)),
    ):
        ours = getattr(nn, name)(*arguments, device=device).state_dict()
        theirs = getattr(torch.nn, name)(*arguments).state_dict()
        for key, tensor in theirs.items():
            want, got = tensor.double(), torch.tensor(ours[key].tolist(), dtype=torch.float64)
            largest = want.abs().max().item()
            slack = (0.05 + 3 / want.numel() ** 0.5) * largest
            assert abs(want.mean() - got.mean()) <= slack, (name, key)
            assert abs(want.std(correction=0) - got.std(correction=0)) <= slack, (name, key)
            assert got.abs().max() <= 1.3 * largest, (name, key)
