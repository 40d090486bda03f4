"""Private helpers of nn that libraries use, compared with PyTorch's."""

import numpy as np
import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

pytestmark = pytest.mark.torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def outcome(function, *args, **kwargs):
    """Return the result of a function, or the class of its exception."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error)


# Gradients of convolutions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"stride": 3, "padding": 2, "dilation": 2, "groups": 2}],
    ids=str,
)
def test_conv_gradients(torch, dims, options):
    rng = np.random.default_rng(0)
    size, kernel = (10, 9, 8)[:dims], (3, 2, 2)[:dims]
    x = rng.standard_normal((2, 4, *size))
    w = rng.standard_normal((6, 4 // options.get("groups", 1), *kernel))
    out = getattr(torch.nn.functional, f"conv{dims}d")(torch.from_numpy(x), torch.from_numpy(w), **options)
    g = rng.standard_normal(tuple(out.shape))
    for name, arguments in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
        found = []
        for t in (mt, torch):
            given = [t.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
            found.append(getattr(t.nn.grad, f"conv{dims}d_{name}")(*given, **options))
        assert tuple(found[0].shape) == tuple(found[1].shape)
        np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-9, atol=1e-10)


# Helpers of functional -------------------------------------------------------------------------------------------------

CALLS = {
    "_verify_batch_size": [([2, 3],), ([1, 3],), ([1, 3, 1],), ([1, 3, 2],)],
    "_verify_spatial_size": [([2, 3],), ([1, 3, 1, 1],), ([1, 3, 2],)],
    "_list_with_default": [([2, None], [4, 5, 6]), (3, [4, 5]), ([2, None], [4, 5])],
    "assert_int_or_pair": [(3, "x", "{}"), ([1, 2], "x", "{}"), ([1, 2, 3], "x", "{}")],
    "_is_integer": [(3,), (3.0,), ("3",)],
    "_get_softmax_dim": [("softmax", n, 2) for n in range(5)],
    "_none_or_dtype": [(None,), (3,)],
    "_pair": [(3,), ((1, 2),), ([1, 2],)],
    "_single": [(3,), ((1,),)],
    "_triple": [(3,)],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_small_helpers(torch, name):
    for args in CALLS[name]:
        assert outcome(getattr(F, name), *args) == outcome(getattr(torch.nn.functional, name), *args), args


def test_unpool_output_size(torch):
    for size in (None, [8, 8], [2, 3, 9, 8], [7, 8], [20, 8], [8]):
        args = [2, 2], [2, 2], [0, 0], size
        ours, theirs = (outcome(t.nn.functional._unpool_output_size, t.empty(2, 3, 4, 4), *args) for t in (mt, torch))
        assert ours == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
@pytest.mark.parametrize("other", [None, "float32", "bool"])
def test_canonical_mask(torch, dtype, other):
    found = []
    for t in (mt, torch):
        mask = t.tensor([[True, False], [False, True]]).to(getattr(t, dtype))
        other_type = None if other is None else getattr(t, other)
        made = outcome(t.nn.functional._canonical_mask, mask, "mask", other_type, "other", t.float32)
        found.append(made if isinstance(made, type) else (str(made.dtype).split(".")[-1], made.tolist()))
    assert found[0] == found[1]
    assert F._canonical_mask(None, "mask", None, "other", mt.float32) is None


def test_mha_shape_check(torch):
    shapes = [
        ((5, 2, 8), (6, 2, 8), None, None), ((5, 8), (6, 8), None, None), ((5, 8), (6, 2, 8), None, None), ((8,), (8,), None, None),
        ((5, 2, 8), (6, 2, 8), (2, 6), (5, 6)), ((5, 2, 8), (6, 2, 8), (6,), None), ((5, 8), (6, 8), (6,), (2, 5, 6)),
        ((5, 8), (6, 8), None, (3, 5, 6)), ((5, 2, 8), (6, 2, 8), None, (4, 5, 6)), ((5, 2, 8), (6, 2, 8), None, (6,)),
    ]  # fmt: skip
    for query, key, padding, mask in shapes:
        ours, theirs = (
            outcome(
                t.nn.functional._mha_shape_check, t.empty(query), t.empty(key), t.empty(key),
                None if padding is None else t.empty(padding), None if mask is None else t.empty(mask), 2,
            )
            for t in (mt, torch)
        )  # fmt: skip
        assert ours == theirs


@pytest.mark.parametrize("which", ["self", "cross", "three"])
@pytest.mark.parametrize("bias", [True, False])
def test_in_projections(torch, which, bias):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((5, 2, 4), (6, 2, 4), (6, 2, 4), (12, 4), (12,))]
    found = []
    for t in (mt, torch):
        q, k, v, w, b = (t.from_numpy(a.copy()) for a in arrays)
        q, k, v = {"self": (q, q, q), "cross": (q, k, k), "three": (q, k, v)}[which]
        packed = t.nn.functional._in_projection_packed(q, k, v, w, b if bias else None)
        each = t.nn.functional._in_projection(q, k, v, *w.chunk(3), *(b.chunk(3) if bias else ()))
        found.append([*packed, *each])
        assert outcome(t.nn.functional._in_projection, q, k, v, w, w, w) is AssertionError
    for x, y in zip(*found, strict=True):
        assert (tuple(x.shape), x.stride()) == (tuple(y.shape), y.stride())
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-6)


def test_overriding_classes():
    class Logged(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "seen" if func is marked else NotImplemented

    def marked(x):
        if F.has_torch_function((x,)):
            return F.handle_torch_function(marked, (x,), x)
        return "plain"

    class Plain(mt.Tensor):
        pass

    x = mt.Tensor._make_subclass(Logged, mt.zeros(2))
    assert marked(x) == "seen"
    assert marked(mt.zeros(2)) == marked(3) == marked(None) == "plain"
    plain = mt.Tensor._make_subclass(Plain, mt.zeros(2))
    assert F.has_torch_function_unary(plain) and marked(plain) == "plain"
    assert F.has_torch_function_unary(x)
    assert F.has_torch_function_variadic(1, x)
    with pytest.raises(TypeError):
        F.handle_torch_function(print, (x,), x)


def test_boolean_dispatch():
    chosen = F.boolean_dispatch("flag", 1, False, lambda x, flag=False: "yes", lambda x, flag=False: "no", "a.module", "chosen")
    assert [chosen(1), chosen(1, True), chosen(1, flag=True), chosen(1, flag=False)] == ["no", "yes", "yes", "no"]
    assert (chosen.__name__, chosen.__module__) == ("chosen", "a.module")


def test_scaled_products(torch):
    found = []
    for t in (mt, torch):
        a = (t.arange(16 * 32).reshape(16, 32) % 7).float().to(t.float8_e4m3fn)
        kind = t.nn.functional.ScalingType.TensorWise
        one = t.tensor(0.5)
        found.append(t.nn.functional.scaled_mm(a, a.t(), one, kind, [one], [kind], output_dtype=t.float32))
    assert found[0].tolist() == found[1].tolist()
    F_ = mt.nn.functional
    assert list(F_.ScalingType.__members__) == list(torch.nn.functional.ScalingType.__members__)
    assert list(F_.SwizzleType.__members__) == list(torch.nn.functional.SwizzleType.__members__)
    with pytest.raises(NotImplementedError):
        F_.scaled_mm(a, a, one, F_.ScalingType.BlockWise1x16, one, F_.ScalingType.TensorWise)
    with pytest.raises(NotImplementedError):
        F_.scaled_grouped_mm(a, a, one, None, one, None)


# Files and classes -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_reductions(torch):
    from torch.nn import _reduction as theirs

    from metatensor.nn import _reduction as ours

    for reduction in ("none", "mean", "sum", "elementwise_mean", "max"):
        assert outcome(ours.get_enum, reduction) == outcome(theirs.get_enum, reduction)
    for average in (None, True, False):
        for reduce in (None, True, False):
            assert ours.legacy_get_string(average, reduce) == theirs.legacy_get_string(average, reduce)
            assert ours.legacy_get_enum(average, reduce) == theirs.legacy_get_enum(average, reduce)


def test_common_types(torch):
    from torch.nn import common_types as theirs

    from metatensor.nn import common_types as ours

    for name in vars(theirs):
        if name.endswith("_t"):
            assert hasattr(ours, name), name
            assert str(getattr(ours, name)).replace("metatensor._core.tensor", "torch") == str(getattr(theirs, name)), name


def test_transformer_helpers(torch):
    from torch.nn.modules import transformer as theirs

    from metatensor.nn.modules import transformer as ours

    assert ours._get_activation_fn("gelu") is F.gelu
    assert outcome(ours._get_activation_fn, "tanh") is outcome(theirs._get_activation_fn, "tanh") is RuntimeError
    assert len(ours._get_clones(nn.Linear(2, 3), 3)) == 3
    for shape in ((5, 8), (5, 3, 8)):
        for first in (True, False):
            assert ours._get_seq_len(mt.empty(shape), first) == theirs._get_seq_len(torch.empty(shape), first)
    for mask in ([[0.0, -np.inf], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, -np.inf, -np.inf], [0.0, 0.0, -np.inf]]):
        for hint in (None, True, False):
            given = np.array(mask, dtype="float32")
            assert ours._detect_is_causal_mask(mt.from_numpy(given), hint) == theirs._detect_is_causal_mask(torch.from_numpy(given), hint)
    assert ours._detect_is_causal_mask(None) is theirs._detect_is_causal_mask(None) is False
    assert ours._generate_square_subsequent_mask(3).tolist() == theirs._generate_square_subsequent_mask(3).tolist()


def test_file_names(torch):
    """Classes are in the same files as in PyTorch."""
    import importlib
    import inspect

    missing = []
    for name, cls in vars(torch.nn).items():
        if inspect.isclass(cls) and issubclass(cls, torch.nn.Module) and cls.__module__.startswith("torch.nn"):
            module = importlib.import_module("metatensor" + cls.__module__.removeprefix("torch"))
            if not hasattr(module, name):
                missing.append(f"{cls.__module__}.{name}")
            else:
                assert getattr(module, name) is getattr(nn, name)
    assert missing == []


def test_parametrized_classes():
    from metatensor.nn.utils.parametrizations import weight_norm

    layer = weight_norm(nn.Conv1d(2, 3, 3))
    assert type(layer).__name__ == "ParametrizedConv1d"
    assert type(layer).__module__ == "metatensor.nn.utils.parametrize"
    assert isinstance(layer, nn.Conv1d)


def test_parallel():
    layer = nn.Linear(2, 3)
    x = mt.zeros(4, 2)
    assert nn.parallel.data_parallel(layer, x).shape == (4, 3)
    assert nn.parallel.data_parallel(layer, (x,), device_ids=[0]).shape == (4, 3)
    with pytest.raises(ValueError, match="devices"):
        nn.parallel.data_parallel(layer, x, device_ids=[0, 1])
    with pytest.raises(ValueError, match="process"):
        nn.parallel.DistributedDataParallel(layer)
    assert not isinstance(layer, nn.parallel.DistributedDataParallel)
    for name in ("gather", "parallel_apply", "replicate", "scatter"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(nn.parallel, name)([], [0])


def test_named_members(torch):
    from torch.nn.utils._named_member_accessor import NamedMemberAccessor as Theirs

    from metatensor.nn.utils._named_member_accessor import NamedMemberAccessor as Ours

    def run(t, accessor):
        net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3))
        a = accessor(net)
        seen = [
            [name for name, _ in a.named_tensors()],
            [name for name, _ in a.named_modules()],
            tuple(a.get_tensor("0.weight").shape),
            [sorted(keys) for keys in a.check_keys(["0.weight", "other"])],
            outcome(a.get_tensor, "0.none"),
            outcome(a.get_tensor, "2.weight"),
            outcome(a.get_tensor, "0.in_features"),
            outcome(a.get_submodule, "0.weight"),
            outcome(a.set_tensors, ["0.weight"], []),
            outcome(a.set_tensor, "0.weight", 3),
            outcome(a.swap_tensor, "0.other", t.zeros(2)),
            outcome(a.swap_tensors_dict, {"0.bias": t.nn.Parameter(t.zeros(3)), "0.other": t.zeros(2)}),
        ]
        seen.append(hasattr(net[0], "other"))
        before = a.swap_tensor("1.running_mean", t.ones(3))
        seen += [before.tolist(), net[1].running_mean.tolist()]
        seen.append(type(a.swap_submodule("0", t.nn.Identity())).__name__)
        a.del_tensor("1.running_var")
        seen.append("running_var" in net[1]._buffers)
        return seen

    assert run(mt, Ours) == run(torch, Theirs)


@pytest.mark.parametrize("name", ["bias", "flex_attention"])
def test_submodules_of_attention(name):
    assert getattr(nn.attention, name).__name__ == f"metatensor.nn.attention.{name}"
    with pytest.raises(AttributeError):
        nn.attention.nothing


def test_gradients_of_convolutions_are_reached_through_functional():
    assert nn.functional.grad is nn.grad and "grad" in dir(nn.functional)
