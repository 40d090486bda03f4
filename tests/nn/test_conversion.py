"""Changes of device and dtype of modules: what is converted, which objects stay the same, and what remains shared."""

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def net():
    result = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    result.register_buffer("ids", mt.zeros(3, dtype=mt.int64))
    result.register_buffer("waves", mt.zeros(3, dtype=mt.complex64))
    return result


def dtypes(module):
    return {str(t.dtype).split(".")[1] for t in module.state_dict().values()}


def test_dtypes():
    module = net()
    weight = module[0].weight
    assert module.half() is module and module[0].weight is weight and weight.dtype == mt.float16
    assert dtypes(module) == {"float16", "int64", "complex64"}
    assert dtypes(module.double()) == {"float64", "int64", "complex64"}
    assert dtypes(module.bfloat16()) == {"bfloat16", "int64", "complex64"}
    assert dtypes(module.float()) == {"float32", "int64", "complex64"}
    assert dtypes(net().type(mt.float64)) == {"float64"}
    assert weight.requires_grad and isinstance(weight, nn.Parameter)


@pytest.mark.parametrize(
    "arguments, named, dtype",
    [
        ((mt.float64,), {}, mt.float64),
        (("meta",), {}, mt.float32),
        (("meta", mt.float64), {}, mt.float64),
        (("meta", mt.float64, True), {}, mt.float64),
        ((mt.float64, True), {}, mt.float64),
        ((), {"dtype": mt.float16}, mt.float16),
        ((), {"device": "meta", "dtype": mt.float16}, mt.float16),
        ((None, mt.float16), {}, mt.float16),
        ((), {}, mt.float32),
    ],
)
def test_to(arguments, named, dtype):
    module = net()
    assert module.to(*arguments, **named) is module
    assert module[0].weight.dtype == dtype and module.ids.dtype == mt.int64


def test_to_like_a_tensor():
    assert net().to(mt.ones(1, dtype=mt.float64))[0].weight.dtype == mt.float64
    assert net().to(tensor=mt.ones(1, dtype=mt.float64))[0].weight.dtype == mt.float64


def test_to_memory_format():
    conv = nn.Conv2d(3, 4, 2).to(memory_format=mt.channels_last)
    assert conv.weight.is_contiguous(memory_format=mt.channels_last) and conv.bias.is_contiguous()


def test_to_what_does_not_work():
    with pytest.raises(TypeError, match="floating-point or complex"):
        net().to(mt.int8)
    with pytest.raises(TypeError):
        net().to("meta", mt.float32, True, 4)
    with pytest.raises(TypeError, match="expected a dtype"):
        net().to("meta", 3)
    with pytest.raises(TypeError):
        net().to(nothing=1)


def test_out_of_meta():
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!.*to_empty"):
        net().to("cpu")


def test_complex():
    module = nn.Linear(2, 2).to(mt.complex64)
    assert module.weight.dtype == mt.complex64


def test_ties_and_gradients_follow():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    module[0].weight.grad = mt.ones(2, 2)
    module.double()
    assert module[0].weight is module[1].weight
    assert module[0].weight.grad.dtype == mt.float64
    module.register_buffer("a", mt.ones(2))
    module[0].register_buffer("b", module.a)
    module.half()
    assert module.a is module[0].b


def test_apply():
    seen = []
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    assert module.apply(lambda m: seen.append(type(m).__name__)) is module
    assert seen == ["Linear", "ReLU", "Sequential"]


def test_an_overridden_apply_is_used():
    class Own(nn.Linear):
        def _apply(self, fn, recurse=True):
            result = super()._apply(fn, recurse)
            self.other = fn(self.other)
            return result

    module = nn.Sequential(Own(1, 1))
    module[0].other = mt.ones(1)
    module.double()
    assert module[0].other.dtype == mt.float64


def test_requires_grad_and_zero_grad():
    module = net().requires_grad_(False)
    assert not any(p.requires_grad for p in module.parameters())
    module[0].weight.grad = mt.ones(2, 2)
    module.zero_grad(set_to_none=False)
    assert module[0].weight.grad.shape == (2, 2)
    module.zero_grad()
    assert module[0].weight.grad is None


def storage(tensor):
    return tensor.untyped_storage()._cdata


@pytest.fixture
def shared():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(6, 4)
            self.head = nn.Linear(4, 6, bias=False)
            self.head.weight = self.table.weight
            flat = mt.empty(10)
            self.q = nn.Parameter(flat[:4].view(2, 2))
            self.k = nn.Parameter(flat[4:].view(3, 2).t())
            self.register_buffer("whole", flat)
            self.alone = nn.Parameter(mt.empty(3, 2).t())

    return Shared()


def test_to_empty_keeps_sharing(shared):
    pytest.importorskip("metatensor_cpu")
    q, alone = shared.q, shared.alone
    assert shared.to_empty(device="cpu") is shared
    assert {t.device.type for t in shared.state_dict().values()} == {"cpu"}
    assert shared.table.weight is shared.head.weight
    assert storage(shared.q) == storage(shared.k) == storage(shared.whole)
    assert shared.whole.untyped_storage().nbytes() == 40
    assert shared.q.stride() == (2, 1) and shared.k.stride() == (1, 2) and shared.k.storage_offset() == 4
    assert shared.alone.stride() == (1, 2) and storage(shared.alone) != storage(shared.q)
    assert shared.q is q and shared.alone is alone and all(p.requires_grad for p in shared.parameters())
    shared.whole.fill_(7)
    assert shared.q.tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_to_empty_from_and_to(shared):
    before = storage(shared.q)
    shared.to_empty(device="meta")
    assert storage(shared.q) == storage(shared.whole) != before
    shared.to_empty(device=mt.device("meta"), recurse=False)
    with pytest.raises(TypeError):
        shared.to_empty("meta")


def test_to_empty_without_recursion():
    pytest.importorskip("metatensor_cpu")
    module = nn.Sequential(nn.Linear(1, 1))
    module.p = nn.Parameter(mt.ones(1))
    module.to_empty(device="cpu", recurse=False)
    assert module.p.device.type == "cpu" and module[0].weight.is_meta


def test_to_empty_of_mixed_dtypes_in_one_storage():
    pytest.importorskip("metatensor_cpu")
    module = nn.Module()
    flat = mt.empty(8, dtype=mt.uint8)
    module.register_buffer("bytes", flat)
    module.register_buffer("words", flat.view(mt.int32))
    module.to_empty(device="cpu")
    assert storage(module.bytes) == storage(module.words) and module.words.dtype == mt.int32


def test_values_move(device):
    module = nn.Linear(2, 2, device=device)
    values = module.weight.tolist()
    module.double()
    assert module.weight.tolist() == values and module.weight.device.type == device
    module.to("meta")
    assert module.weight.is_meta


def test_cpu_and_cuda_name_their_device():
    pytest.importorskip("metatensor_cpu")
    assert nn.Linear(1, 1, device="cpu").cpu().weight.device.type == "cpu"
    with pytest.raises((RuntimeError, NotImplementedError)):
        nn.Linear(1, 1).cuda()
