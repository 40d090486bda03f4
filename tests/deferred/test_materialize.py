"""Materialisation: parts, slices, devices, dtypes, executors; and values that would be lost elsewhere."""

import concurrent.futures as futures
import copy
import math
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import metatensor as mt
from deferring import deferred, eager, same
from metatensor import nn
from metatensor.nn.utils import parametrizations, weight_norm
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches

pytest.importorskip("numpy")
pytestmark = [
    pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed"),
    pytest.mark.filterwarnings("ignore:weight_norm is deprecated", "ignore:.*the tensor has no elements"),
]


# Values that would be lost ---------------------------------------------------------------------------


def tied_embedding_and_head():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.head = nn.Linear(8, 20, bias=False)
            self.head.weight = self.embedding.weight
            nn.init.normal_(self.embedding.weight, std=0.02)

    return Model()


def rotary_table():
    class Rotary(nn.Module):
        def __init__(self, width=16, length=10):
            super().__init__()
            frequency = 1.0 / (10000 ** (mt.arange(0, width, 2).float() / width))
            angles = mt.outer(mt.arange(length).float(), frequency)
            self.register_buffer("inv_freq", frequency, persistent=False)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)
            self.original = self.inv_freq

    return Rotary()


def causal_mask_buffer():
    class Attention(nn.Module):
        def __init__(self, n=6):
            super().__init__()
            self.register_buffer("bias", mt.tril(mt.ones(n, n, dtype=mt.bool)).view(1, 1, n, n), persistent=False)
            mask = mt.full((n, n), float("-inf"))
            self.register_buffer("mask", mt.triu(mask, diagonal=1))

    return Attention()


def batch_norm_statistics():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm1d(4, momentum=None))
    nn.init.constant_(model[1].weight, 0.5)
    model[1].running_var.mul_(2)
    return model


def weight_norm_factors():
    return nn.Sequential(weight_norm(nn.Linear(4, 4)), parametrizations.weight_norm(nn.Conv1d(2, 3, 3)))


def spectral_norm_vectors():
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 5)), parametrizations.spectral_norm(nn.Linear(5, 4)))


def relative_position_index():
    class Window(nn.Module):
        def __init__(self, size=4):
            super().__init__()
            self.table = nn.Parameter(mt.zeros((2 * size - 1) ** 2, 3))
            nn.init.trunc_normal_(self.table, std=0.02)
            grid = mt.stack(mt.meshgrid(mt.arange(size), mt.arange(size), indexing="ij")).flatten(1)
            relative = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0).contiguous()
            relative[:, :, 0] += size - 1
            relative[:, :, 1] += size - 1
            relative[:, :, 0] *= 2 * size - 1
            self.register_buffer("index", relative.sum(-1), persistent=False)

    return Window()


def a_parameter_that_is_a_view_of_another():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Parameter(mt.empty(12, 4))
            nn.init.xavier_uniform_(self.qkv)
            self.q, self.k, self.v = (nn.Parameter(part) for part in self.qkv.detach().chunk(3))

    return Model()


def a_module_reused_in_two_places():
    block = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    return nn.ModuleDict({"encoder": block, "decoder": nn.Sequential(block, nn.Linear(4, 2))})


LOST = (tied_embedding_and_head, rotary_table, causal_mask_buffer, batch_norm_statistics, weight_norm_factors,
        spectral_norm_vectors, relative_position_index, a_parameter_that_is_a_view_of_another, a_module_reused_in_two_places)  # fmt: skip


@pytest.mark.parametrize("build", LOST, ids=lambda b: b.__name__)
def test_is_not_lost(build):
    check_deferred_matches(build)


@pytest.mark.parametrize("build", LOST, ids=lambda b: b.__name__)
def test_is_not_lost_on_the_way_to_another_dtype(build):
    same(eager(build).to(mt.bfloat16), mt.materialize(deferred(build).to(mt.bfloat16)))
    one, other = eager(build).double(), mt.materialize(deferred(build), dtype=mt.float64)
    for names in ("named_parameters", "named_buffers"):
        for (name, a), (same_name, b) in zip(getattr(one, names)(), getattr(other, names)(), strict=True):
            assert name == same_name and a.dtype is b.dtype and mt.equal(a, b)
    kept = mt.materialize(deferred(build))  # tensors continue to share their storage
    assert _sharing(kept) == _sharing(other)


def _sharing(model):
    storages = [t.untyped_storage() for t in (*model.parameters(), *model.buffers())]
    return [storages.index(storage) for storage in storages]


@pytest.mark.parametrize("build", [b for b in LOST if b is not weight_norm_factors], ids=lambda b: b.__name__)
def test_is_not_lost_in_a_copy(build):
    same(copy.deepcopy(eager(build)), mt.materialize(copy.deepcopy(deferred(build))))


# More of nn ---------------------------------------------------------------------------------------

MODULES = {
    "LSTM": lambda: nn.LSTM(4, 5, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(4, 5, batch_first=True),
    "Transformer": lambda: nn.Transformer(8, 2, 1, 1, 16),
    "MultiheadAttention": lambda: nn.MultiheadAttention(8, 2, kdim=4, vdim=4),
    "ConvTranspose": lambda: nn.ConvTranspose2d(3, 4, 3),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "Embedding with padding": lambda: nn.Embedding(9, 4, padding_idx=2),
    "EmbeddingBag": lambda: nn.EmbeddingBag(9, 4),
    "from_pretrained": lambda: nn.Embedding.from_pretrained(mt.rand(4, 3)),
    "Bilinear": lambda: nn.Bilinear(3, 4, 5),
    "PReLU": lambda: nn.PReLU(3),
    "AdaptiveLogSoftmax": lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
    "InstanceNorm": lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 4)),
    "half": lambda: nn.Linear(4, 4, dtype=mt.float16).half(),
    "converted inside": lambda: nn.Linear(4, 4).double().to(mt.bfloat16),
    "frozen": lambda: nn.Linear(4, 4).requires_grad_(False),
    "channels last": lambda: nn.Conv2d(3, 4, 3).to(memory_format=mt.channels_last),
}
INITS = {
    name: lambda name=name, args=args, shape=shape: _init(name, args, shape)
    for name, args, shape in (
        ("uniform_", (), (4, 4)), ("normal_", (1, 2), (4, 4)), ("trunc_normal_", (), (4, 4)), ("constant_", (3,), (4, 4)),
        ("ones_", (), (4, 4)), ("zeros_", (), (4, 4)), ("eye_", (), (4, 4)), ("dirac_", (), (4, 4, 3)),
        ("xavier_uniform_", (), (4, 5)), ("xavier_normal_", (), (4, 5)), ("kaiming_uniform_", (math.sqrt(5),), (4, 5)),
        ("kaiming_normal_", (), (4, 5)), ("orthogonal_", (), (4, 6)), ("sparse_", (0.5,), (6, 4)),
    )
}  # fmt: skip


def _init(name, args, shape):
    layer = nn.ParameterList([mt.empty(shape)])
    getattr(nn.init, name)(layer[0], *args)
    return layer


@pytest.mark.parametrize("name", [*MODULES, *INITS])
def test_modules_and_initialisers(name):
    check_deferred_matches({**MODULES, **INITS}[name])


def test_what_is_no_parameter():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(mt.rand(3))
            self.weight.sharded = {"by": mt.rand(2)}
            self.alias = self.weight
            self.tables = {"a": mt.arange(3), "more": [mt.rand(2), (mt.ones(1),)]}
            self.plain = mt.rand(3)
            self.weight.grad = mt.rand(3)
            self.none = None
            self.register_buffer("missing", None)
            self.rates = [x.item() for x in mt.linspace(0, 0.3, 4)]

    model = check_deferred_matches(Model)
    assert model.alias is model.weight and model.rates[1] == pytest.approx(0.1)
    assert not mt.is_deferred(model.tables["more"][1][0])


def test_hooks_stay():
    calls = []
    model = deferred(lambda: nn.Linear(3, 3))
    model.register_forward_hook(lambda *_: calls.append("forward"))
    model.register_load_state_dict_post_hook(lambda *_: calls.append("load"))
    mt.materialize(model)
    model(mt.rand(2, 3))
    assert calls == ["forward"]


def test_every_reference_sees_it():
    model = deferred(lambda: nn.Linear(3, 3))
    group = list(model.parameters())
    kept, view = model.weight, model.weight.detach()[1]
    state = model.state_dict()
    mt.materialize(model)
    assert kept is model.weight and group[0] is kept
    assert mt.equal(view, model.weight[1]) and mt.equal(state["weight"], kept)
    with mt.no_grad():
        kept.zero_()
    assert view.tolist() == [0, 0, 0]


def test_state_dicts():
    build = lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    other = eager(build, 1)
    loaded = deferred(build)
    loaded.load_state_dict(other.state_dict())
    same(other, mt.materialize(loaded))
    assigned = deferred(build)
    assigned.load_state_dict(other.state_dict(), assign=True)
    assert not assigned.unresolved()
    partly = deferred(build)
    partly.load_state_dict({"0.weight": other[0].weight.detach().clone()}, strict=False, assign=True)
    assert [item.name for item in partly.unresolved()] == ["0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
                                                            "1.num_batches_tracked"]  # fmt: skip
    mt.materialize(partly)
    assert mt.equal(partly[0].weight, other[0].weight) and mt.equal(partly[0].bias, eager(build)[0].bias)
    mt.materialize(twin := deferred(build))
    twin.load_state_dict(deferred(build, 1).state_dict())  # deferred tensors are written as values
    same(other, twin)


# Parts --------------------------------------------------------------------------------------------


def transformer():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)


def test_parts_in_any_order():
    expected = eager(transformer)
    for order in (lambda names: names, lambda names: names[::-1], lambda names: sorted(names, key=hash)):
        model = deferred(transformer)
        for name in order(list(model.state_dict())):
            part = model.get_parameter(name)
            assert mt.is_deferred(part)
            assert mt.materialize(part) is part and not mt.is_deferred(part)
        same(expected, model)


def test_one_layer_alone():
    model = deferred(transformer)
    mt.materialize(model.layers[1])
    assert all(mt.is_deferred(p) for p in model.layers[0].parameters())
    same(eager(transformer).layers[1], model.layers[1])


def test_twice_changes_nothing():
    model = mt.materialize(deferred(transformer))
    with mt.no_grad():
        next(model.parameters()).zero_()
    mt.materialize(model)
    assert not next(model.parameters()).any()


def test_containers():
    made = deferred(lambda: {"a": mt.rand(2), "b": [mt.rand(2), (mt.rand(2),)], "c": 3, "d": nn.Linear(2, 2)})
    assert mt.materialize(made) is made
    same(eager(lambda: {"a": mt.rand(2), "b": [mt.rand(2), (mt.rand(2),)], "c": 3, "d": nn.Linear(2, 2)}), made)


@pytest.mark.parametrize("index", [slice(2, 5), (slice(None), slice(0, 3)), 1, [3, 0], (slice(None, None, 2), 1), ...], ids=str)
def test_slices(index):
    model, expected = deferred(lambda: nn.Linear(8, 8)), eager(lambda: nn.Linear(8, 8))
    part = mt.materialize_slice(model.weight, index)
    assert mt.equal(part, expected.weight[index]) and part.untyped_storage().nbytes() == part.numel() * 4
    assert mt.is_deferred(model.weight) and not part.requires_grad
    assert mt.equal(mt.materialize_slice(model.weight, index, dtype=mt.bfloat16), expected.weight[index].to(mt.bfloat16))


def test_a_slice_of_what_is_not_deferred():
    with pytest.raises(RuntimeError, match="expected a deferred tensor"):
        mt.materialize_slice(mt.rand(3), 0)
    with pytest.raises(RuntimeError, match="holds no data"):
        mt.materialize_slice(mt.rand(3, device="meta"), 0)


def run_python(code, *args, env=None):
    """Return the output of a new process."""
    path = [p for p in sys.path if p]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


EIGHTH = """
import pickle, sys, metatensor as mt
sys.path.insert(0, {here!r})
from test_materialize import deferred, transformer
rank = int(sys.argv[1])
model = deferred(transformer)
parts = {{}}
for name, p in model.named_parameters():
    rows = -(-p.shape[0] // 8)
    parts[name] = mt.materialize_slice(p, slice(rank * rows, (rank + 1) * rows))
assert all(mt.is_deferred(p) for p in model.parameters())
pickle.dump(parts, open(sys.argv[2], "wb"))
"""


@pytest.mark.slow
def test_eight_processes_each_with_an_eighth(tmp_path):
    code = EIGHTH.format(here=str(Path(__file__).parent))
    for rank in range(8):
        run_python(code, str(rank), str(tmp_path / f"{rank}"))
    shards = [pickle.loads((tmp_path / f"{rank}").read_bytes()) for rank in range(8)]
    expected = eager(transformer)
    for name, p in expected.named_parameters():
        assert mt.equal(mt.cat([shard[name] for shard in shards]), p)


# Dematerialisation --------------------------------------------------------------------------------


def test_back_to_the_recipe():
    model = mt.materialize(deferred(transformer))
    kept = next(model.parameters())
    with mt.no_grad():
        kept.zero_()
    assert mt.dematerialize(model) is model
    assert all(mt.is_deferred(p) for p in model.parameters()) and next(model.parameters()) is kept
    same(eager(transformer), mt.materialize(model))


def test_back_from_another_dtype():
    model = mt.materialize(deferred(lambda: nn.Linear(3, 3)), dtype=mt.float16)
    mt.dematerialize(model)
    assert model.weight.dtype is mt.float16
    same(eager(lambda: nn.Linear(3, 3)).half(), mt.materialize(model))


def test_tensors_without_a_recipe_keep_their_data():
    t = mt.ones(3)
    assert mt.dematerialize(t) is t and t.tolist() == [1, 1, 1]


# Other devices and processes ----------------------------------------------------------------------


@pytest.mark.skipif("disk" not in device_types(), reason="the disk plugin is not installed")
def test_on_another_device():
    def build():
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        model.register_buffer("table", mt.from_numpy(__import__("numpy").arange(3.0)))
        model.register_buffer("picked", mt.tensor([0, 1, 1]).nonzero())
        return model

    model = mt.materialize(deferred(build), device="disk", dtype=mt.float64)
    assert {t.device.type for t in model.state_dict().values()} == {"disk"}
    same(eager(build).double(), model.to("cpu"))


@pytest.mark.skipif("disk" not in device_types(), reason="the disk plugin is not installed")
def test_moved_before():
    build = lambda: nn.Linear(3, 3)
    model = deferred(build).to("disk").to(mt.float64)
    assert model.weight.device.type == "disk" and mt.is_deferred(model.weight)
    mt.materialize(model)
    same(eager(build).double(), model.cpu())
    back = deferred(build).to("disk").to("cpu")
    same(eager(build), mt.materialize(back))


def test_a_device_that_is_not_there():
    with mt.deferred_init(), mt.device("xpu"):
        model = nn.Linear(3, 3)
    assert str(model.weight.device) == "xpu:0"
    with pytest.raises(RuntimeError, match="xpu"):
        mt.materialize(model)
    assert mt.is_deferred(model.weight)
    assert mt.materialize(model, device="cpu").weight.device.type == "cpu"


def test_integers_keep_their_dtype():
    model = mt.materialize(deferred(lambda: nn.BatchNorm1d(3)), dtype=mt.float16)
    assert model.num_batches_tracked.dtype is mt.int64 and model.weight.dtype is mt.float16


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"dtype": mt.int64}, TypeError, "floating-point or complex"), ({"dtype": "float32"}, TypeError, "expected a dtype"),
    ({"device": "meta"}, RuntimeError, "the meta device holds no data"), ({"device": "nothing"}, RuntimeError, "nothing"),
])  # fmt: skip
def test_what_cannot_be_meant(arguments, error, message):
    model = deferred(lambda: nn.BatchNorm1d(3))
    with pytest.raises(error, match=message):
        mt.materialize(model, **arguments)
    assert all(mt.is_deferred(t) for t in model.state_dict().values()) and model.weight.dtype is mt.float32


@pytest.mark.parametrize("value", [None, 3, "weight", nn.Linear, object()])
def test_what_has_no_tensors(value):
    for function in (mt.materialize, mt.dematerialize):
        with pytest.raises(TypeError, match="expected a tensor, a module or a container"):
            function(value)


def test_iterators_become_lists():
    model = deferred(lambda: nn.Linear(3, 3))
    found = mt.materialize(model.parameters())
    assert found[0] is model.weight and not any(mt.is_deferred(p) for p in found)
    assert mt.is_deferred(mt.dematerialize(p for p in found)[0])


# Executors ----------------------------------------------------------------------------------------


def _with_everything():
    model = nn.ModuleList([tied_embedding_and_head(), spectral_norm_vectors(), relative_position_index(), nn.LSTM(3, 3)])
    model.register_buffer("real", mt.zeros(3) + mt.from_numpy(__import__("numpy").ones(3, "float32")))
    return model


@pytest.fixture(params=["threads", *(pytest.param(name, marks=pytest.mark.slow) for name in ("processes", "dask"))])
def executor(request):
    if request.param == "threads":
        with futures.ThreadPoolExecutor(3) as pool:
            yield pool
    elif request.param == "processes":
        with futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
    else:
        distributed = pytest.importorskip("dask.distributed", reason="Dask's distributed is not installed")
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor()


def test_spread_over_an_executor(executor):
    model = deferred(_with_everything)
    assert mt.materialize(model, executor=executor) is model
    same(eager(_with_everything), model)
    half = mt.materialize(deferred(_with_everything), executor=executor, dtype=mt.float16)
    same(mt.materialize(deferred(_with_everything), dtype=mt.float16), half)


def test_an_error_of_a_worker_is_raised():
    model = deferred(lambda: nn.Linear(3, 3, device="xpu:0"))
    with futures.ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="xpu"):
        mt.materialize(model, executor=pool)
    assert mt.is_deferred(model.weight)


# Memory -------------------------------------------------------------------------------------------

PEAK = r"""
import re, sys
import metatensor as mt
from metatensor import nn
def peak():
    return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) * 1024
with mt.deferred_init():
    model = nn.Sequential(*[nn.Linear(1024, 4096, bias=False) for _ in range(16)])     # 16 MiB each
mt.materialize(nn.Linear(8, 8))
before = peak()
if sys.argv[1] == "slices":
    parts = [mt.materialize_slice(p, slice(0, 512)) for p in model.parameters()]
elif sys.argv[1] == "whole":
    mt.materialize(model)
print((peak() - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as on Linux")
@pytest.mark.parametrize(("what", "least", "most"), [("nothing", 0, 1), ("slices", 32, 32 + 5), ("whole", 256, 256 + 10)])
def test_peak_memory(what, least, most):
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}  # large blocks are returned to the system, so memory in use is measured
    assert least <= float(run_python(PEAK, what, env=env)) <= most


def test_copies_need_no_second_memory(monkeypatch):
    from metatensor.deferred import materializing as module

    names = []
    real = module.replay
    monkeypatch.setattr(module, "replay", lambda step, *rest: (names.append(step.name), real(step, *rest)))
    build = lambda: nn.ModuleList(copy.deepcopy(nn.Linear(3, 3)) for _ in range(2))
    model = deferred(build)
    mt.materialize(model)
    assert names == ["uniform_"] * 4
    same(eager(build), model)


# Checks ------------------------------------------------------------------------------------------


def test_materialising_can_be_forbidden():
    model = deferred(lambda: nn.Linear(3, 3))
    with mt.assert_no_materialization(), pytest.raises(RuntimeError, match="assert_no_materialization"):
        mt.materialize(model)


def test_a_check_for_models():
    with pytest.raises(AssertionError, match="the values differ"):
        check_deferred_matches(iter([{"a": mt.zeros(2)}, {"a": mt.ones(2)}]).__next__)
    with pytest.raises(AssertionError, match="share a storage"):
        shared = mt.ones(2)
        check_deferred_matches(iter([[shared, shared[:]], [mt.ones(2), mt.ones(2)]]).__next__)
    with pytest.raises(AssertionError, match="the generators differ"):
        check_deferred_matches(_uneven())
    assert check_deferred_matches(lambda: mt.empty(3)).shape == (3,)  # both have arbitrary values


def _uneven():
    draws = iter([1, 2])
    return lambda: [mt.rand(2) for _ in range(next(draws))]


def test_no_executor():
    model = deferred(lambda: nn.Linear(3, 3))
    with pytest.raises(TypeError, match="expected an executor"):
        mt.materialize(model, executor=3)
    assert mt.is_deferred(model.weight)


def test_several_threads_materialise_one_model():
    def build():
        return nn.Sequential(*[nn.Linear(30, 30) for _ in range(10)])

    for _ in range(10):
        model = deferred(build)
        with futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(mt.materialize, [model] * 4))
        same(eager(build), model)


@pytest.mark.parametrize("what", ["module", "tensor", "list"])
def test_what_is_on_meta_and_not_deferred_is_refused_with_advice(what):
    with mt.device("meta"):
        model = nn.Linear(2, 3)
    obj = {"module": model, "tensor": model.weight, "list": [model.weight, mt.ones(1, device="cpu")]}[what]
    with pytest.raises(RuntimeError, match=r"are on meta and have no recorded values.*deferred_init.*to_empty.*load_into"):
        mt.materialize(obj)
    with mt.deferred_init(), mt.device("cpu"):
        deferred_one = mt.ones(2)
    mt.materialize([deferred_one, model.weight])  # ignored, as it is in a list with deferred tensors
    assert deferred_one.tolist() == [1, 1] and model.weight.is_meta
    mt.materialize(mt.ones(2, device="cpu"))
