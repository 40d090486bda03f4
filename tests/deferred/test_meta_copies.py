"""`to_meta` keeps everything except the data."""

import collections
import dataclasses
import subprocess
import sys
import threading

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.plugins import device_types

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")


def facts(t):
    return t.shape, t.stride(), t.storage_offset(), t.dtype, t.requires_grad, type(t), t.untyped_storage().nbytes()


LAYOUTS = {
    "plain": lambda: mt.rand(3, 4),
    "transposed": lambda: mt.rand(3, 4).t(),
    "strided": lambda: mt.rand(6, 4)[1::2, 1:],
    "expanded": lambda: mt.rand(3, 1).expand(3, 5),
    "empty": lambda: mt.rand(0, 3),
    "0-d": lambda: mt.tensor(3, dtype=mt.int16),
    "channels last": lambda: mt.rand(2, 3, 4, 4).to(memory_format=mt.channels_last),
    "needs grad": lambda: mt.rand(3, requires_grad=True),
    "a result": lambda: mt.rand(3, requires_grad=True) * 2,
    "parameter": lambda: nn.Parameter(mt.rand(3), requires_grad=False),
    "resized": lambda: mt.rand(9).resize_(2),
    "bits": lambda: mt.rand(4).view(mt.int32),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_metadata_stay(case):
    real = LAYOUTS[case]()
    made = mt.to_meta(real)
    assert made.is_meta and facts(made) == facts(real) and made.is_leaf == real.is_leaf


def test_conjugated_and_negated_stay():
    z = mt.rand(3, dtype=mt.complex64).conj()
    assert mt.to_meta(z).is_conj() and mt.to_meta(z.imag).is_neg()


def test_sharing_stays():
    base = mt.rand(4, 4)
    made = mt.to_meta({"base": base, "view": base[1], "again": base, "other": mt.rand(4), "same": base.detach()})
    assert made["base"] is made["again"] and made["same"] is not made["base"]
    assert made["view"].untyped_storage() is made["base"].untyped_storage() is made["same"].untyped_storage()
    assert made["other"].untyped_storage() is not made["base"].untyped_storage()
    assert made["view"]._base is made["base"] and made["view"].storage_offset() == 4


def test_attributes_and_gradients_stay():
    p = nn.Parameter(mt.rand(3))
    p.sharded, p.others = "by rows", [1, 2]
    p.grad = mt.rand(3)
    made = mt.to_meta(p)
    assert type(made) is nn.Parameter and made.sharded == "by rows" and made.others == [1, 2] and made.others is not p.others
    assert made.grad.is_meta and made.grad.shape == (3,)


def test_subclasses_stay():
    class Special(mt.Tensor):
        pass

    assert type(mt.to_meta(mt.rand(2).as_subclass(Special))) is Special


def test_modules():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5))
    model[1].weight = model[0].weight
    model.register_buffer("part", model[0].weight.detach()[1:], persistent=False)
    model.plain = mt.rand(3)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    made = mt.to_meta(model)
    assert all(t.is_meta for t in (*made.parameters(), *made.buffers(), made.plain))
    assert made[1].weight is made[0].weight and made.part.untyped_storage() is made[0].weight.untyped_storage()
    assert list(made.state_dict()) == list(model.state_dict()) and made.training == model.training
    assert made(mt.zeros(2, dtype=mt.int64, device="meta")).shape == (2, 5) and calls
    assert not model[0].weight.is_meta and made is not model


@dataclasses.dataclass
class Batch:
    x: object
    names: list


Pair = collections.namedtuple("Pair", "a b")


def test_nests():
    x = mt.rand(3)
    made = mt.to_meta([(x, {"x": x}), Batch(x, ["a"]), Pair(x, 3), {1, 2}, "text", None, collections.OrderedDict(k=x)])
    assert made[0][0] is made[0][1]["x"] is made[1].x is made[2].a is made[6]["k"]
    assert made[0][0].is_meta and made[1].names == ["a"] and made[2].b == 3 and made[3] == {1, 2} and made[4:6] == ["text", None]
    assert type(made[2]) is Pair and type(made[6]) is collections.OrderedDict


def test_deferred_and_fake_and_meta_ones():
    with mt.deferred_init():
        model = nn.Linear(3, 3)
    with mt.FakeTensorMode():
        fake = mt.rand(3, 4, device="cuda").t()
    made = mt.to_meta([model, fake, mt.rand(3, device="meta")])
    assert made[0].weight.is_meta and mt.is_deferred(model.weight)
    assert made[1].is_meta and made[1].stride() == (1, 4) and made[2].is_meta


class TestArrays:
    def test_numpys(self):
        x = np.zeros((3, 4))
        made = mt.to_meta({"x": x, "part": x[1:, ::2], "turned": x.T, "other": np.zeros(3, np.int16)})
        assert (made["part"].shape, made["part"].stride(), made["part"].storage_offset()) == ((2, 2), (4, 2), 4)
        assert made["turned"].stride() == (1, 4) and made["other"].dtype is mt.int16
        assert made["x"].untyped_storage() is made["part"].untyped_storage() is made["turned"].untyped_storage()
        assert made["other"].untyped_storage() is not made["x"].untyped_storage()

    def test_backwards(self):
        assert mt.to_meta(np.zeros((3, 4))[::-1]).shape == (3, 4)

    def test_without_counterpart(self):
        with pytest.raises(TypeError, match="no dtype like"):
            mt.to_meta(np.array(["a", "b"]))

    @pytest.mark.torch
    def test_pytorchs(self):
        torch = pytest.importorskip("torch")
        t = torch.zeros(4, 6)
        made = mt.to_meta([t, t[1:, ::2], t.t(), torch.nn.Parameter(t), torch.zeros(3, dtype=torch.bfloat16, requires_grad=True)])
        assert [m.stride() for m in made[:3]] == [(6, 1), (6, 2), (1, 6)] and made[1].storage_offset() == 6
        assert made[0].untyped_storage() is made[1].untyped_storage() is made[3].untyped_storage()
        assert type(made[3]) is nn.Parameter and made[4].dtype is mt.bfloat16 and made[4].requires_grad

    def test_others_by_their_manners(self):
        class Array:  # like an array of JAX: no strides and no accessible memory
            shape, ndim, dtype = (2, 3), 2, np.dtype("float32")

            def __dlpack__(self):
                raise AssertionError("the data must not be copied")

        made = mt.to_meta({"a": Array()})["a"]
        assert made.is_meta and made.shape == (2, 3) and made.dtype is mt.float32


@pytest.mark.slow
def test_no_library_is_imported():
    code = (
        "import sys, metatensor as mt\n"
        "mt.to_meta({'a': mt.empty(3, device='meta'), 'm': mt.nn.Linear(2, 2, device='meta')})\n"
        "print(sorted({'numpy', 'torch', 'jax', 'cupy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_under_modes():
    real = mt.rand(3)
    with mt.FakeTensorMode():
        assert mt.to_meta(real).is_meta
    with mt.deferred_init():
        assert mt.to_meta({"a": real})["a"].is_meta


def test_views_of_what_requires_grad():
    leaf = mt.rand(3, requires_grad=True)
    with mt.no_grad():
        unrecorded = leaf[1:]
    for view, requires_grad in ((leaf[1:], True), (unrecorded, False)):
        for number, nest in enumerate(([leaf, view], [view, leaf])):
            copies = mt.to_meta(nest)
            base, copy = copies[number], copies[1 - number]
            assert copy._base is base and copy.requires_grad == requires_grad and copy.is_leaf == view.is_leaf
            assert base.is_leaf and base.requires_grad


def test_tensors_in_attributes():
    p = nn.Parameter(mt.rand(3))
    p.itself, p.parts, p.lock = p, [mt.rand(2), {"again": p}], threading.Lock()
    copy = mt.to_meta(p)
    assert copy.itself is copy and copy.parts[1]["again"] is copy and copy.parts[0].is_meta and copy.lock is p.lock


def test_parameters_of_no_shape():
    module = nn.Sequential(nn.LazyLinear(3))
    copy = mt.to_meta(module)
    assert copy[0].weight.is_meta and isinstance(copy[0].weight, nn.UninitializedParameter)
    assert not module[0].weight.is_meta and copy(mt.empty(2, 5, device="meta")).shape == (2, 3)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_ones_of_pytorch():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="layout torch.sparse_coo"):
        mt.to_meta(torch.sparse_coo_tensor([[0]], [1.0], (3,)))
