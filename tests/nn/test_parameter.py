"""Parameter and Buffer: shared memory, types, repr, copies and pickles."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def test_a_parameter_shares_its_tensors_storage():
    data = mt.ones(2, 3)
    p = nn.Parameter(data)
    assert type(p) is nn.Parameter and isinstance(p, mt.Tensor) and p.requires_grad and p.is_leaf
    assert p.untyped_storage()._cdata == data.untyped_storage()._cdata and p.shape == (2, 3)
    assert not nn.Parameter(data, False).requires_grad
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert not nn.Parameter(data=data, requires_grad=False).requires_grad


def test_other_arguments():
    assert nn.Parameter().shape == (0,)
    with pytest.raises(TypeError, match="Parameter: expected a Tensor, got list"):
        nn.Parameter([1.0])
    with pytest.raises(TypeError):
        nn.Parameter(mt.ones(1), True, 3)
    with pytest.raises(TypeError):
        nn.Parameter(mt.ones(1), nothing=3)
    with pytest.raises(RuntimeError, match="floating point|floating-point"):
        nn.Parameter(mt.ones(1, dtype=mt.int64))
    assert nn.Parameter(mt.ones(1, dtype=mt.int64), requires_grad=False).dtype == mt.int64


def test_of_a_result_and_without_grad_mode():
    p = nn.Parameter(nn.Parameter(mt.ones(2)) * 2)
    assert p.is_leaf and p.grad_fn is None and p.requires_grad
    with mt.no_grad():
        assert nn.Parameter(mt.ones(1)).requires_grad


def test_operations_give_plain_tensors():
    p = nn.Parameter(mt.ones(2))
    assert type(p + 1) is mt.Tensor and type(p.detach()) is mt.Tensor and type(p.data) is mt.Tensor
    assert (p + 1).requires_grad


def test_repr():
    assert repr(nn.Parameter(mt.ones(2, 3))) == (
        "Parameter containing:\ntensor(..., device='meta', size=(2, 3), requires_grad=True)"
    )


def test_isinstance():
    class Own(mt.Tensor):
        pass

    class Sub(nn.Parameter):
        pass

    sub = Sub(mt.ones(1))
    assert type(sub) is Sub and isinstance(sub, nn.Parameter)
    own = mt.ones(1).as_subclass(Own)
    marked = nn.Parameter(own)
    assert type(marked) is Own and isinstance(marked, nn.Parameter) and marked.requires_grad
    assert not isinstance(marked, Sub) and not isinstance(own, nn.Parameter)
    assert not isinstance(3, nn.Parameter) and not isinstance(mt.ones(1), nn.Parameter)
    net = nn.Module()
    net.own, net.sub = marked, sub
    assert list(net._parameters) == ["own", "sub"]


def test_copies():
    p = nn.Parameter(mt.ones(2), requires_grad=False)
    twice = copy.deepcopy([p, p])
    assert twice[0] is twice[1] is not p and type(twice[0]) is nn.Parameter and not twice[0].requires_grad
    assert twice[0].untyped_storage()._cdata != p.untyped_storage()._cdata


def test_pickles():
    p = nn.Parameter(mt.ones(2), requires_grad=False)
    p.tag = "mine"
    back = pickle.loads(pickle.dumps(p))
    assert type(back) is nn.Parameter and back.shape == (2,) and not back.requires_grad and back.tag == "mine"


def test_values(device):
    p = nn.Parameter(mt.ones(2, device=device))
    assert p.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="leaf"):
        p.add_(1)
    with mt.no_grad():
        p.add_(1)
    assert p.tolist() == [2.0, 2.0]
    assert copy.deepcopy(p).tolist() == [2.0, 2.0]
    assert pickle.loads(pickle.dumps(p)).tolist() == [2.0, 2.0]


def test_buffers():
    data = mt.ones(2)
    b = nn.Buffer(data, persistent=False)
    assert type(b) is mt.Tensor and isinstance(b, nn.Buffer) and not b.persistent
    assert not isinstance(data, nn.Buffer) and not isinstance(b, nn.Parameter)
    assert nn.Buffer().shape == (0,) and nn.Buffer(data).persistent
    with pytest.raises(TypeError, match="Buffer: expected a Tensor, got int"):
        nn.Buffer(3)
