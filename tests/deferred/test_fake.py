"""Fake tensors: tensors without data on devices that need not exist."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import weakref

import pytest

import metatensor as mt
from metatensor import FakeTensorMode, nn
from metatensor.deferred.fake import is_fake
from metatensor.nn import functional as F
from metatensor.plugins import device_types

needs_cpu = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


@pytest.fixture
def mode():
    with FakeTensorMode() as mode:
        yield mode


def test_tensors_name_a_device_and_hold_nothing(mode):
    for device in ("cpu", "cuda:0", "cuda:3", "mps:0", "xpu:1", "disk"):
        t = mt.rand(100, 100, device=device)
        assert str(t.device) == device
        assert is_fake(t) and t.untyped_storage().data is None and not t.is_meta
        assert is_fake(t * 2 + 1) and (t * 2).device == t.device


def test_cuda_gets_an_index(mode):
    assert str(mt.rand(2, device="cuda").device) == "cuda:0"
    assert str(mt.rand(2).cuda().device) == "cuda:0"
    assert str(mt.rand(2).cuda(1).device) == "cuda:1"
    assert str(mt.rand(2).to("cuda").device) == "cuda:0"
    assert str(nn.Linear(2, 2, device="cuda:1").weight.device) == "cuda:1"
    with mt.device("cuda:1"):
        assert str(mt.rand(2).device) == "cuda:1"


@pytest.mark.slow
def test_a_plugin_whose_hardware_is_absent_is_not_asked():
    """Run in a new process, because another test may have loaded the plugin."""
    code = """
import metatensor as mt
from metatensor import plugins
from metatensor.devices import DeviceBackend

class Absent(DeviceBackend):
    type = "npu"
    def device_count(self):
        return 0
    def unavailable_reason(self):
        return "it is unplugged"
    def current_index(self):
        raise RuntimeError("asked")
    def allocate(self, nbytes, index):
        self.check_index(index)

plugins.register_backend(Absent())
with mt.FakeTensorMode():
    assert str(mt.rand(2, device="npu").device) == "npu:0"
try:
    mt.empty(2, device="npu")
except RuntimeError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "it is unplugged" in out.stdout and "asked" not in out.stdout


def test_kernels_are_those_of_meta(mode):
    x, w = mt.rand(8, 3, 32, 32, device="cuda"), mt.rand(16, 3, 3, 3, device="cuda")
    y = F.conv2d(x, w, stride=2, padding=1)
    z = F.conv2d(mt.rand(8, 3, 32, 32, device="meta"), mt.rand(16, 3, 3, 3, device="meta"), stride=2, padding=1)
    assert (y.shape, y.stride(), y.dtype) == (z.shape, z.stride(), z.dtype)
    with pytest.raises(RuntimeError, match="matmul|mm"):
        x[0, 0] @ mt.rand(5, 2, device="cuda")


def test_mixing_devices_is_an_error(mode):
    a, b = mt.rand(3, device="cuda"), mt.rand(3)
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        a + b
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        a + a.to("cuda:1")
    with pytest.raises(RuntimeError, match="device"):
        nn.Linear(3, 3)(a)
    assert (a + mt.tensor(2.0)).device == a.device  # a 0-d cpu tensor can be used with any device
    assert (a * 2).device == a.device
    assert a.copy_(b) is a
    assert mt.where(a > 0, a, 0.0).device == a.device


def test_moving(mode):
    t = mt.rand(3, dtype=mt.float64)
    assert str(t.to("cuda", mt.float16).device) == "cuda:0"
    assert t.to("cpu") is t
    assert is_fake(t.cuda().cpu())
    assert t.to("meta").is_meta
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to("cuda")
    assert {str(v.device) for v in model.state_dict().values()} == {"cuda:0"}


def test_meta_works_inside(mode):
    m = mt.rand(3, device="meta")
    assert m.is_meta and (m + 1).is_meta and not is_fake(m)
    with mt.device("meta"):
        assert nn.Linear(2, 2).weight.is_meta
    with pytest.raises(NotImplementedError):
        m.tolist()


def test_autograd_flags(mode):
    model = nn.Linear(3, 2, device="cuda")
    y = model(mt.rand(4, 3, device="cuda"))
    assert y.requires_grad and not y.is_leaf
    assert model.weight.is_leaf and not y.detach().requires_grad
    with mt.no_grad():
        assert not model(mt.rand(4, 3, device="cuda")).requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        model.weight.add_(1)


def test_after_the_context_they_stay_fake(mode):
    t = mt.rand(30, 30, device="cuda:0")
    mode.__exit__(None, None, None)
    try:
        assert is_fake(t + 1) and str((t + 1).device) == "cuda:0"
        assert not is_fake(mt.rand(2)) if "cpu" in device_types() else True
        t.add_(1)
    finally:
        mode.__enter__()


def test_a_fake_tensor_says_so(mode):
    assert repr(mt.rand(2, 3, device="cuda")) == "tensor(..., device='cuda:0', size=(2, 3), fake=True)"


# Constants ----------------------------------------------------------------------------------------

CONSTANTS = {
    "item": lambda d: mt.tensor(3.5, device=d).item(),
    "tolist": lambda d: mt.tensor([1, 2, 3], device=d).tolist(),
    "arange": lambda d: mt.arange(5, device=d).sum().item(),
    "linspace": lambda d: [v.item() for v in mt.linspace(0, 1, 3, device=d)],
    "arithmetic": lambda d: ((mt.ones(3, device=d) * 2 + mt.arange(3, device=d)) ** 2).tolist(),
    "views": lambda d: mt.arange(6, device=d).view(2, 3).t()[1].tolist(),
    "in place": lambda d: mt.zeros(3, device=d).add_(1).tolist(),
    "written to": lambda d: _written(d),
    "if": lambda d: "yes" if mt.tensor(1, device=d) > 0 else "no",
    "int": lambda d: int(mt.tensor([7], device=d)),
    "range": lambda d: list(range(mt.tensor(3, device=d))),
    "equal": lambda d: mt.equal(mt.arange(3, device=d), mt.arange(3, device=d)),
    "nonzero": lambda d: mt.tensor([0, 2, 3], device=d).nonzero().tolist(),
    "by mask": lambda d: (lambda t: t[t > 1])(mt.arange(4, device=d)).tolist(),
    "unique": lambda d: mt.unique(mt.tensor([2, 2, 1], device=d)).tolist(),
    "repeat_interleave": lambda d: mt.rand(50, 3, device=d).repeat_interleave(mt.full((50,), 2, device=d), 0).shape,
    "one_hot": lambda d: F.one_hot(mt.tensor([0, 2], device=d)).tolist(),
    "moved": lambda d: mt.arange(3).to(d).tolist(),
    "moved back": lambda d: mt.arange(3, device=d).cpu().tolist(),
    "deepcopy": lambda d: copy.deepcopy(mt.arange(3, device=d)).tolist(),
    "pickle": lambda d: pickle.loads(pickle.dumps(mt.arange(3, device=d))).tolist(),
    "format": lambda d: f"{mt.tensor(2.5, device=d):.2f}",
    "sizes": lambda d: mt.rand(mt.tensor(3, device=d), 2).shape,
}


def _written(device):
    t = mt.zeros(4, device=device)
    t[1:3] = mt.ones(2, device=device)
    t[0] = 5
    return t.tolist()


@needs_cpu
@pytest.mark.parametrize("device", ["cpu", "cuda:0", "mps:0"])
@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_keep_their_values(case, device):
    expected = CONSTANTS[case]("cpu")
    with FakeTensorMode():
        assert CONSTANTS[case](device) == expected


@needs_cpu
def test_results_of_constants_are_on_their_device():
    with FakeTensorMode():
        t = mt.tensor([0, 2, 3], device="cuda:0").nonzero()
        assert is_fake(t) and str(t.device) == "cuda:0" and t.shape == (2, 1)


UNKNOWN = [
    lambda: mt.rand(3),
    lambda: mt.empty(3),
    lambda: mt.ones(1000),
    lambda: mt.ones(3) + mt.rand(3),
    lambda: mt.zeros(3).normal_(),
    lambda: mt.zeros(3).copy_(mt.rand(3)),
    lambda: mt.rand(400)[:2].fill_(1),
    lambda: mt.rand(400, dtype=mt.float16)[:2].copy_(mt.ones(2)),
    lambda: mt.add(mt.ones(2), 1, out=mt.rand(400, dtype=mt.float64)[:2]),
]


@pytest.mark.parametrize("make", UNKNOWN)
def test_values_that_are_not_known_are_an_error(mode, make):
    with pytest.raises(mt.DataDependentError):
        make().tolist()


def test_shapes_that_are_in_unknown_values_are_an_error(mode):
    t = mt.rand(9)
    for call in (lambda: t.nonzero(), lambda: t[t > 0.5], lambda: t.unique(), lambda: bool(t.sum() > 0), lambda: mt.equal(t, t)):
        with pytest.raises(mt.DataDependentError):
            call()
    with pytest.raises(mt.DataDependentError):
        mt.where(t > 0.5)
    assert mt.where(t > 0.5, t, 0.0).shape == (9,)
    t[t > 0.5] = 0  # no shape depends on it


@needs_cpu
def test_a_constant_of_a_fake_tensor_is_not_materialised():
    with FakeTensorMode():
        t = mt.arange(3)
    assert not mt.is_deferred(t) and is_fake(t)
    assert is_fake(mt.materialize(t)) and t.tolist() == [0, 1, 2]
    assert (t + 1).tolist() == [1, 2, 3] and is_fake(t + 1)


# Real tensors -------------------------------------------------------------------------------------


@needs_cpu
class TestFromTensor:
    def test_the_same_one_each_time(self):
        real, mode = mt.rand(3, 4), FakeTensorMode()
        fake = mode.from_tensor(real)
        assert fake is mode.from_tensor(real) and fake is not real
        assert mode.from_tensor(fake) is fake
        assert FakeTensorMode().from_tensor(real) is not fake

    def test_layout_and_dtype(self):
        real = mt.rand(4, 6, dtype=mt.float64)[1:, ::2].t()
        fake = FakeTensorMode().from_tensor(real)
        assert is_fake(fake) and fake.device == real.device
        assert (fake.shape, fake.stride(), fake.storage_offset(), fake.dtype) == (
            real.shape, real.stride(), real.storage_offset(), real.dtype)  # fmt: skip
        assert fake.untyped_storage().nbytes() == real.untyped_storage().nbytes()

    def test_aliasing(self):
        real, mode = mt.rand(4, 4), FakeTensorMode()
        one, other, third = mode.from_tensor(real), mode.from_tensor(real[1]), mode.from_tensor(mt.rand(4))
        assert one.untyped_storage() is other.untyped_storage()
        assert third.untyped_storage() is not one.untyped_storage()

    def test_class_attributes_and_gradients(self):
        class Special(mt.Tensor):
            pass

        p = nn.Parameter(mt.rand(3), requires_grad=False)
        p.sharded = True
        p.grad = mt.rand(3)
        mode = FakeTensorMode()
        fake = mode.from_tensor(p)
        assert type(fake) is nn.Parameter and not fake.requires_grad and fake.sharded
        assert is_fake(fake.grad)
        assert type(mode.from_tensor(mt.rand(2).as_subclass(Special))) is Special
        leaf = mt.rand(3, requires_grad=True)
        assert mode.from_tensor(leaf).requires_grad and mode.from_tensor(leaf).is_leaf
        assert mode.from_tensor(leaf * 2).requires_grad and not mode.from_tensor(leaf * 2).is_leaf
        assert "_fake_identity" not in vars(leaf) and not vars(leaf)

    def test_conjugated_and_negated(self):
        z = mt.rand(3, dtype=mt.complex64).conj()
        assert FakeTensorMode().from_tensor(z).is_conj()
        assert FakeTensorMode().from_tensor(z.imag).is_neg()

    def test_neither_is_kept_alive(self):
        mode = FakeTensorMode()
        real = mt.rand(3)
        here, there = weakref.ref(real), weakref.ref(mode.from_tensor(real))
        del real
        gc.collect()
        assert here() is None and there() is None
        for _ in range(20):  # addresses are reused
            a, b = mt.rand(3), mt.rand(3)
            assert mode.from_tensor(a).untyped_storage() is not mode.from_tensor(b).untyped_storage()
            del a, b

    def test_modules(self):
        model = nn.Linear(3, 2)
        mode = FakeTensorMode()
        with mode:
            y = mt.func.functional_call(model, {n: mode.from_tensor(p) for n, p in model.named_parameters()}, (mt.rand(4, 3),)) \
                if hasattr(mt.func, "functional_call") else F.linear(mt.rand(4, 3), mode.from_tensor(model.weight))  # fmt: skip
        assert is_fake(y) and not is_fake(model.weight)

    def test_what_is_no_tensor(self):
        with pytest.raises(TypeError, match="from_tensor"):
            FakeTensorMode().from_tensor([1])

    def test_real_ones_may_take_part(self):
        real = mt.rand(3)
        with FakeTensorMode():
            assert is_fake(real + 1) and is_fake(real + mt.rand(3)) and is_fake(real.clone())
        assert not is_fake(real)

    def test_writing_to_a_real_one_is_an_error(self):
        real = mt.zeros(3)
        with FakeTensorMode():
            for write in (lambda: real.add_(1), lambda: real.copy_(mt.rand(3)), lambda: real.__setitem__(0, 1.0),
                          lambda: mt.add(mt.rand(3), 1, out=real), lambda: real.normal_(), lambda: real[1:].zero_()):  # fmt: skip
                with pytest.raises(RuntimeError, match="from_tensor"):
                    write()
        assert real.tolist() == [0, 0, 0]

    def test_deferred_ones_stay_deferred(self):
        with mt.deferred_init():
            model = nn.Linear(3, 3)
        with FakeTensorMode():
            model.weight.data.mul_(2)
            y = model(mt.rand(2, 3))
        assert is_fake(y) and mt.is_deferred(model.weight)
        mt.materialize(model)


def test_copies(mode):
    model = nn.Sequential(nn.Linear(3, 3, device="cuda"), nn.BatchNorm1d(3, device="cuda"))
    model[0].bias = nn.Parameter(model[0].weight.detach()[0])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert all(is_fake(t) and str(t.device) == "cuda:0" for t in twin.state_dict().values())


def test_whole_models(mode):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).cuda()
    y = model(mt.rand(2, 5, 16, device="cuda"))
    assert y.shape == (2, 5, 16) and str(y.device) == "cuda:0" and is_fake(y)
    lstm = nn.LSTM(4, 4, 2).cuda()
    out, (h, _) = lstm(mt.rand(5, 2, 4, device="cuda"))
    assert str(h.device) == "cuda:0" and out.shape == (5, 2, 4)


def test_nested_modes():
    with FakeTensorMode() as outer:
        a = mt.rand(3)
        with FakeTensorMode():
            b = mt.rand(3)
        with outer:
            assert is_fake(a + b)
        with mt.deferred_init():
            assert mt.is_deferred(mt.rand(3))
        assert is_fake(mt.rand(3))


@pytest.mark.slow
def test_no_device_plugin_is_needed():
    code = (
        "import metatensor as mt, sys\n"
        "with mt.FakeTensorMode():\n"
        "    x = mt.randn(8, 512, device='cuda:0') @ mt.randn(512, 4, device='cuda:0')\n"
        "    y = mt.nn.Linear(4, 2)(mt.randn(3, 4))\n"
        "    z = mt.arange(3, device='cuda') + mt.tensor([1, 2, 3]).to('cuda')\n"
        "with mt.deferred_init():\n"
        "    model = mt.nn.Linear(4, 2)\n"
        "print(x.device, tuple(x.shape), y.device, z.device, mt.is_deferred(model.weight), 'numpy' in sys.modules)\n"
        "try:\n"
        "    mt.materialize(model)\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    env = {**os.environ, "METATENSOR_BLOCK_PLUGINS": "cpu,cuda,disk", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    first, second = done.stdout.strip().splitlines()
    assert first == "cuda:0 (8, 4) cpu cuda:0 True False" and ("no cpu device" in second or "blocked" in second)


# Under PyTorch's names ----------------------------------------------------------------------------


def test_torch_api_offers_them():
    from metatensor.torch_api.torch._subclasses import FakeTensor
    from metatensor.torch_api.torch._subclasses import FakeTensorMode as Mode
    from metatensor.torch_api.torch._subclasses.meta_utils import MetaConverter

    with Mode(allow_non_fake_inputs=True) as mode:
        x = mt.rand(3, device="cuda")
        assert isinstance(x, FakeTensor) and not isinstance(x.to("meta"), FakeTensor)
        assert mode.from_tensor(x) is x
    t = mt.empty(3, device="meta", requires_grad=True)
    convert = MetaConverter()
    assert convert(t) is convert(t) and convert(t).is_meta and convert(t).requires_grad
    with pytest.raises(TypeError):
        FakeTensor()


@pytest.mark.torch
@pytest.mark.parametrize("build", [
    lambda t: t.rand(3, 4) @ t.rand(4, 2), lambda t: t.rand(4, 6)[1:, ::2].t(), lambda t: t.arange(6).view(2, 3).float().mean(0),
    lambda t: t.rand(2, 3, 4).permute(2, 0, 1).contiguous(), lambda t: t.nn.Conv2d(3, 4, 3)(t.rand(1, 3, 8, 8)),
    lambda t: t.rand(3).cpu().double(), lambda t: t.rand(3, 4).max(1).indices, lambda t: t.tensor(3) + t.rand(2),
])  # fmt: skip
def test_metadata_is_pytorchs(build):
    torch = pytest.importorskip("torch")
    from torch._subclasses import FakeTensorMode as Theirs

    with Theirs():
        wanted = build(torch)
    with FakeTensorMode():
        got = build(mt)
    assert tuple(got.shape) == tuple(wanted.shape) and got.stride() == wanted.stride()
    assert str(got.dtype).rpartition(".")[2] == str(wanted.dtype).rpartition(".")[2]
    assert str(got.device) == str(wanted.device) and got.storage_offset() == wanted.storage_offset()
    assert got.requires_grad == wanted.requires_grad


class TestWhatHasChanged:
    """`from_tensor` of a tensor whose data or layout has been replaced since the first call."""

    @needs_cpu
    def test_other_data(self):
        mode, p = FakeTensorMode(), nn.Parameter(mt.rand(3))
        before = mode.from_tensor(p)
        p.data = mt.rand(5, 2)
        after = mode.from_tensor(p)
        assert before.shape == (3,) and after.shape == (5, 2) and mode.from_tensor(p) is after
        t = mt.rand(4)
        view = mode.from_tensor(t[1:])
        t.resize_(9)
        assert mode.from_tensor(t).shape == (9,) and view.shape == (3,)

    def test_no_shape(self):
        lazy = nn.LazyLinear(3, device="meta").weight
        mode = FakeTensorMode()
        assert type(mode.from_tensor(lazy)) is nn.UninitializedParameter and mode.from_tensor(lazy) is mode.from_tensor(lazy)

    @needs_cpu
    def test_many_views_of_one(self):
        mode, base = FakeTensorMode(), mt.rand(10)
        fake = mode.from_tensor(base)
        for i in range(3000):
            assert mode.from_tensor(base[i % 10]).untyped_storage() is fake.untyped_storage()
        (shared,) = mode._storages.values()
        assert len(shared.members) < 50
