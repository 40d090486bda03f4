"""State dicts: names, strictness, assignment, ties, extra state, and error messages."""

import gc
import sys
import warnings
import weakref
from collections import OrderedDict

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture(autouse=True)
def on_meta():
    mt.set_default_device("meta")


def small():
    net = nn.Sequential(OrderedDict(fc=nn.Linear(2, 3), norm=nn.BatchNorm1d(3), act=nn.ReLU()))
    net.register_buffer("cache", mt.ones(1), persistent=False)
    return net


NAMES = ["fc.weight", "fc.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
NAMES += ["norm.num_batches_tracked"]


def test_names_and_order():
    net = small()
    state = net.state_dict()
    assert list(state) == NAMES and type(state) is OrderedDict
    assert list(net.state_dict(prefix="net.")) == ["net." + name for name in NAMES]
    assert state._metadata[""] == {"version": 1} and state._metadata["norm"] == {"version": 2}
    assert list(state._metadata) == ["", "fc", "norm", "act"]


def test_values_are_detached_and_shared():
    net = nn.Linear(2, 2)
    state = net.state_dict()
    assert type(state["weight"]) is mt.Tensor and not state["weight"].requires_grad
    assert state["weight"].untyped_storage()._cdata == net.weight.untyped_storage()._cdata
    assert net.state_dict(keep_vars=True)["weight"] is net.weight


def test_destination():
    given = OrderedDict(other=1)
    assert nn.Linear(1, 1).state_dict(destination=given, prefix="a.") is given
    assert list(given) == ["other", "a.weight", "a.bias"]
    with pytest.warns(FutureWarning, match="by name"):
        assert list(nn.Linear(1, 1).state_dict({}, "b.")) == ["b.weight", "b.bias"]


def test_round_trip():
    result = small().load_state_dict(small().state_dict())
    assert repr(result) == str(result) == "<All keys matched successfully>"
    assert result.missing_keys == [] and result.unexpected_keys == []


def test_missing_and_unexpected():
    net = small()
    state = net.state_dict()
    del state["fc.bias"], state["norm.running_var"]
    state["extra"] = state["fc.extra"] = state["act.deep.name"] = mt.ones(1)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tUnexpected in the state dict: "extra", "fc.extra", "act.deep.name".\n'
        '\tMissing in the state dict: "fc.bias", "norm.running_var".'
    )
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["fc.bias", "norm.running_var"]
    assert result.unexpected_keys == ["extra", "fc.extra", "act.deep.name"]
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=['fc.bias'")


def test_sizes():
    net = small()
    state = net.state_dict()
    state["fc.weight"] = mt.ones(3, 4)
    state["norm.bias"] = mt.ones(5)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state, strict=False)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        "\tsize mismatch for fc.weight: the state dict has shape [3, 4], the module has [3, 2].\n"
        "\tsize mismatch for norm.bias: the state dict has shape [5], the module has [3]."
    )


def test_what_is_not_a_tensor_or_a_dict():
    with pytest.raises(TypeError, match="expected a dict, got list"):
        small().load_state_dict([])
    with pytest.raises(RuntimeError, match="weight: expected a Tensor in the state dict, got int"):
        nn.Linear(1, 1).load_state_dict({"weight": 3, "bias": mt.ones(1)})


def test_the_given_dict_is_not_changed():
    state = nn.Linear(1, 1).state_dict()
    names = list(state)
    nn.Linear(1, 1).load_state_dict(state)
    assert list(state) == names


def test_one_element_for_a_number():
    net = nn.Module()
    net.scale = nn.Parameter(mt.ones(()))
    net.load_state_dict({"scale": mt.ones(1)})


def test_assign():
    net = small()
    net.fc.bias.requires_grad_(False)
    before = net.fc.weight
    state = OrderedDict((k, mt.ones(v.shape, dtype=mt.float64)) for k, v in net.state_dict().items())
    state["norm.weight"] = nn.Parameter(mt.ones(3), requires_grad=False)
    net.load_state_dict(state, assign=True)
    assert net.fc.weight is not before and isinstance(net.fc.weight, nn.Parameter)
    assert net.fc.weight.dtype == mt.float64 and net.fc.weight.requires_grad and not net.fc.bias.requires_grad
    assert net.norm.weight is state["norm.weight"] and net.norm.weight.requires_grad
    assert net.norm.running_mean is state["norm.running_mean"]


def tied():
    net = nn.Sequential(nn.Embedding(4, 2), nn.Linear(2, 4, bias=False))
    net[1].weight = net[0].weight
    return net


def test_assign_keeps_ties():
    net = tied()
    state = OrderedDict((k, mt.ones(4, 2)) for k in net.state_dict())
    assert list(state) == ["0.weight", "1.weight"]
    net.load_state_dict(state, assign=True)
    assert net[0].weight is net[1].weight
    assert net[0].weight.untyped_storage()._cdata == state["1.weight"].untyped_storage()._cdata
    net = tied()
    result = net.load_state_dict({"0.weight": mt.ones(4, 2)}, assign=True, strict=False)
    assert result.missing_keys == ["1.weight"] and net[0].weight is net[1].weight


def test_real_values_into_meta_are_lost_with_a_warning():
    pytest.importorskip("metatensor_cpu")
    net = nn.Linear(1, 1)
    values = {"weight": mt.ones(1, 1, device="cpu"), "bias": mt.ones(1, device="cpu")}
    with pytest.warns(UserWarning) as caught:
        net.load_state_dict(values)
    assert [str(w.message).split(":")[0] for w in caught] == ["weight", "bias"]
    assert "values are loaded into a meta tensor" in str(caught[0].message) and "assign=True" in str(caught[0].message)
    assert net.weight.is_meta
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.load_state_dict(values, assign=True)
        nn.Linear(1, 1).load_state_dict(nn.Linear(1, 1).state_dict())
    assert net.weight.device.type == "cpu" and net.weight.tolist() == [[1.0]]


def test_the_warning_about_lost_values_names_the_line_of_the_call():
    pytest.importorskip("metatensor_cpu")

    class Overriding(nn.Linear):
        def _load_from_state_dict(self, *args):
            super()._load_from_state_dict(*args)

    class Top(nn.Sequential):
        def load_state_dict(self, state):
            return super().load_state_dict(state)  # this calls ours

    for net in (nn.Linear(1, 1), nn.Sequential(nn.Sequential(nn.Linear(1, 1))), nn.Sequential(Overriding(1, 1))):
        values = {name: mt.ones(t.shape, device="cpu") for name, t in net.state_dict().items()}
        with pytest.warns(UserWarning, match="into a meta tensor") as caught:
            line = sys._getframe().f_lineno + 1
            net.load_state_dict(values)
        assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)] * 2
    with pytest.warns(UserWarning, match="into a meta tensor") as caught:
        Top(nn.Linear(1, 1)).load_state_dict({"0.weight": mt.ones(1, 1, device="cpu"), "0.bias": mt.ones(1, device="cpu")})
    assert {(w.filename, w.lineno) for w in caught} == {(__file__, Top.load_state_dict.__code__.co_firstlineno + 1)}


def test_meta_into_real_values():
    pytest.importorskip("metatensor_cpu")
    net = nn.Linear(1, 1, device="cpu")
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(nn.Linear(1, 1).state_dict())
    assert "weight (shape [1, 1]): NoDataError: Cannot copy out of meta tensor; no data!" in str(caught.value)


def test_values_are_copied():
    pytest.importorskip("metatensor_cpu")
    net = nn.Linear(2, 1, device="cpu")
    storage = net.weight.untyped_storage()._cdata
    net.load_state_dict({"weight": mt.tensor([[1, 2]], device="cpu"), "bias": mt.tensor([3.0], device="cpu")})
    assert net.weight.tolist() == [[1.0, 2.0]] and net.weight.dtype == mt.float32
    assert net.weight.untyped_storage()._cdata == storage and net.weight.requires_grad


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.extra = None

    def get_extra_state(self):
        return {"answer": 42}

    def set_extra_state(self, state):
        self.extra = state


def test_extra_state():
    net = nn.Sequential(Stateful())
    state = net.state_dict()
    assert state == {"0._extra_state": {"answer": 42}}
    net.load_state_dict(state)
    assert net[0].extra == {"answer": 42}
    with pytest.raises(RuntimeError, match='Missing in the state dict: "0._extra_state"'):
        net.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected"):
        nn.Sequential(nn.ReLU()).load_state_dict(state)
    for call in (nn.ReLU().get_extra_state, lambda: nn.ReLU().set_extra_state(1)):
        with pytest.raises(RuntimeError, match="does not override"):
            call()


def test_old_batch_norms_have_no_count():
    net = nn.BatchNorm1d(2)
    state = {k: v for k, v in net.state_dict().items() if k != "num_batches_tracked"}
    net.load_state_dict(state)
    versioned = net.state_dict()
    del versioned["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        net.load_state_dict(versioned)


def test_overridden_loading():
    class Renaming(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    net = nn.Sequential(Renaming(1, 1))
    net.load_state_dict({"0.w": mt.ones(1, 1), "0.bias": mt.ones(1)})


def test_a_module_in_two_places():
    layer = nn.Linear(1, 1)
    net = nn.Sequential(layer, layer)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    net.load_state_dict(net.state_dict())
    net.load_state_dict(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)).state_dict(), assign=True)
    assert net[0].weight is net[1].weight


@pytest.mark.torch
def test_results_like_torch():
    torch = pytest.importorskip("torch")

    def both(change):
        results = []
        for lib in (mt, torch):
            net = lib.nn.Sequential(
                lib.nn.Linear(2, 3, device="meta"),
                lib.nn.Sequential(lib.nn.BatchNorm1d(3, device="meta"), lib.nn.Linear(3, 3, device="meta")),
            )
            state = net.state_dict()
            change(state)
            results.append(tuple(net.load_state_dict(state, strict=False)))
        assert results[0] == results[1]

    both(lambda state: state.clear())
    both(lambda state: state.pop("1.0.weight"))
    both(lambda state: [state.__setitem__(k, state["0.weight"]) for k in ("x", "1.x", "1.0.x", "1.0.x.y", "2.x", "0")])


def test_loading_leaves_no_cycles():
    class Counted(dict):
        pass

    net = small()
    state = Counted(net.state_dict())
    gone = weakref.ref(state)
    gc.collect()
    gc.disable()
    try:
        net.load_state_dict(state)
        del state
        assert gone() is None
        found = net.state_dict()
        kept = weakref.ref(found)
        net.load_state_dict(found, strict=False)
        del found
        assert kept() is None and gc.collect() == 0
    finally:
        gc.enable()
