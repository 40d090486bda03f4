"""Calls of every layer, compared with PyTorch's: metadata on meta, and values on cpu for the same weights."""

import copy
import inspect
import pickle
import zlib

import numpy as np
import pytest

import metatensor as mt
from metatensor import nn
from nn import forwards as cases
from nn.cases import build, layers, lazy_layers

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
CASES = [pytest.param(*case, id=f"{case[0]}{case[1]}-{n}") for n, case in enumerate(cases.forwards())]

# Layers that are random in training mode, so that only the metadata can be compared.
RANDOM = {"RReLU()", "FractionalMaxPool2d", "FractionalMaxPool3d"}
DROPOUT = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def is_random(name, call, training):
    return f"{name}{call}" in RANDOM or name in RANDOM or name in DROPOUT and training and call != "(0.0)"


def array_of(spec, rng):
    if isinstance(spec, cases.I):
        return rng.integers(0, spec.high, spec.sizes)
    if isinstance(spec, cases.P):
        return rng.uniform(0.05, 0.95, spec.sizes).astype("float32")
    if isinstance(spec, cases.S):
        return np.where(rng.random(spec.sizes) < 0.5, -1.0, 1.0).astype("float32")
    return rng.standard_normal(spec).astype("float32")


def inputs_of(t, specs, device):
    """Return the inputs in a library, and the keyword arguments."""
    rng = np.random.default_rng(0)

    def one(spec):
        if isinstance(spec, list):
            return tuple(map(one, spec))
        if spec is None or isinstance(spec, bool):
            return spec
        if isinstance(spec, cases.V):
            return spec.value
        return t.from_numpy(np.array(array_of(spec, rng))).to(device)

    if specs[0] == "unpool":
        d = specs[1]
        pooled = getattr(t.nn.functional, f"max_pool{d}d")(one((2, 3, *(6, 4, 8)[:d])).to("cpu"), 2, return_indices=True)
        return [x.to(device) for x in pooled], {}
    if specs[0] == "ctc":
        lengths = [t.tensor(x, device=device) for x in ([12, 10, 11], [4, 3, 5])]
        return [one((12, 3, 6)).log_softmax(-1), one(cases.i(4, 3, 5)) + 2, *lengths], {}
    named = {name: one(spec) for name, spec in specs[-1].items() if name != "eval"} if isinstance(specs[-1], dict) else {}
    return [one(spec) for spec in specs if not isinstance(spec, dict)], named


def leaves(tree):
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def metadata(tree):
    return [
        (tuple(x.shape), tuple(x.stride()), str(x.dtype).split(".")[-1]) if hasattr(x, "stride") else x for x in leaves(tree)
    ]


def fill(t, module):
    """Fill the parameters with the same numbers in both libraries, based on their names."""
    state = module.state_dict()
    for name, tensor in state.items():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        shape = tuple(tensor.shape)
        array = rng.uniform(0.2, 1, shape) if "var" in name or name.endswith("weight") else rng.standard_normal(shape) / 3
        array = array * rng.choice([-1, 1], shape) if name.endswith("weight") and len(shape) > 1 else array
        state[name] = t.from_numpy(np.array(array)).to(tensor.dtype)
    module.load_state_dict(state)


def call(t, name, text, specs, device, training):
    with t.device(device):
        module = build(t.nn, name, text)
        args, kwargs = inputs_of(t, specs, device)
        with t.no_grad():
            if name.startswith("Lazy"):
                module.eval()(*(x.clone() for x in args))
            module.train(training)
            if device == "cpu":
                fill(t, module)
            return module(*args, **kwargs), module, args


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name, text, specs", CASES)
def test_forward(torch, name, text, specs, training):
    if isinstance(specs[-1], dict) and specs[-1].get("eval"):
        training = False
    same_values = not is_random(name, text, training)
    ours, ours_module, ours_args = call(mt, name, text, specs, "cpu", training)
    theirs, theirs_module, theirs_args = call(torch, name, text, specs, "cpu", training)
    assert len(leaves(ours)) == len(leaves(theirs))
    for x, y in zip(leaves(ours), leaves(theirs), strict=True):
        if y is None:
            assert x is None
            continue
        assert tuple(x.shape) == tuple(y.shape)
        assert str(x.dtype).split(".")[-1] == str(y.dtype).split(".")[-1]
        if same_values:
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-4, atol=2e-5)
    if same_values:  # tensors written in place, and running statistics
        for x, y in zip(ours_args, theirs_args, strict=True):
            if x is None:
                continue
            np.testing.assert_allclose(*(leaf.numpy() for leaf in (leaves(x)[0], leaves(y)[0])), rtol=2e-5, atol=2e-6)
    ours_state, theirs_state = ours_module.state_dict(), theirs_module.state_dict()
    assert list(ours_state) == list(theirs_state)
    for key, x in ours_state.items():
        np.testing.assert_allclose(x.numpy(), theirs_state[key].numpy(), rtol=2e-5, atol=2e-6, err_msg=key)
    assert repr(ours_module) == repr(theirs_module)


# PyTorch's meta kernel returns (1,), its cpu kernel ().
OTHERWISE_ON_META = ("MultiLabelMarginLoss", "(reduction='none')", [(4,), cases.i(4, 4)])


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name, text, specs", CASES)
def test_forward_on_meta(torch, name, text, specs, training):
    if isinstance(specs[-1], dict) and specs[-1].get("eval"):
        training = False
    try:
        theirs = call(torch, name, text, specs, "meta", training)[0]
    except (NotImplementedError, RuntimeError):
        pytest.skip("PyTorch does not compute it on meta")
    if (name, text, specs) == OTHERWISE_ON_META:
        pytest.skip("PyTorch's meta kernel differs from its cpu kernel")
    ours = call(mt, name, text, specs, "meta", training)[0]
    assert metadata(ours) == metadata(theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name, text", [pytest.param(*case, id="".join(case)) for case in layers()])
def test_dtypes(torch, name, text, dtype):
    short = {"float16": "half", "bfloat16": "bfloat16", "float64": "double"}[dtype]
    states = []
    for t in (mt, torch):
        with t.device("meta"):
            module = getattr(build(t.nn, name, text), short)()
        states.append([(key, tuple(x.shape), str(x.dtype).split(".")[-1]) for key, x in module.state_dict().items()])
    assert states[0] == states[1]


@pytest.mark.parametrize("name, text, specs", CASES)
def test_forward_of_bfloat16(torch, name, text, specs):
    def run(t):
        with t.device("meta"), t.no_grad():
            module = build(t.nn, name, text)
            args, kwargs = inputs_of(t, specs, "meta")
            if name.startswith("Lazy"):
                module.eval()(*args)

            def cast(x):
                if isinstance(x, tuple):
                    return tuple(map(cast, x))
                return x.bfloat16() if hasattr(x, "is_floating_point") and x.is_floating_point() else x

            return module.bfloat16().eval()(*map(cast, args), **{key: cast(x) for key, x in kwargs.items()})

    try:
        theirs = run(torch)
    except Exception:
        pytest.skip("PyTorch does not compute it on meta, or not in bfloat16")
    if (name, text, specs) == OTHERWISE_ON_META:
        pytest.skip("PyTorch's meta kernel differs from its cpu kernel")
    assert metadata(run(mt)) == metadata(theirs)


@pytest.mark.parametrize("name, text", [pytest.param(*case, id="".join(case)) for case in layers()])
def test_copies(name, text):
    module = build(nn, name, text)
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), copy.copy(module)):
        assert type(made) is type(module)
        assert repr(made) == repr(module)
        assert list(made.state_dict()) == list(module.state_dict())
        assert all((x == y).all() for x, y in zip(made.state_dict().values(), module.state_dict().values(), strict=True))
        assert made.training == module.training
        assert sorted(vars(made)) == sorted(vars(module))
    for x, y in zip(copy.deepcopy(module).parameters(), module.parameters(), strict=True):
        assert x is not y
        assert type(x) is type(y)


def test_every_class_is_here(torch):
    """Every class of torch.nn has a case."""
    public = {
        name for name, value in vars(torch.nn).items() if inspect.isclass(value) and issubclass(value, torch.nn.Module)
    } - {"Module"}
    assert public - {name for name, _ in layers()} - {name for name, _, _ in lazy_layers()} == set()
    called = {name for name, _, _ in cases.forwards()}
    assert public - called - cases.NO_FORWARD == set()
    assert called - public == set()


def test_cases_are_varied():
    """Each class with arguments is called with several sets of them."""
    calls = {}
    for name, text, _ in cases.forwards():
        calls.setdefault(name, set()).add(text)
    def takes_arguments(name):
        found = inspect.signature(getattr(nn, name)).parameters.values()
        return any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found)

    once = {name for name, texts in calls.items() if len(texts) < 2 and takes_arguments(name)}
    assert once <= {"Softmax2d", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "DataParallel"}
