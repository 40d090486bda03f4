"""Pruning, compared with PyTorch's where it is not random."""

import copy
import pickle

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn.utils import prune
from nn.test_layers import ours_of


@pytest.fixture
def torch():
    pytest.importorskip("metatensor_cpu")
    pytest.importorskip("torch.nn.utils.prune")
    return pytest.importorskip("torch")


def pair(torch, call="Linear(5, 4)"):
    torch.manual_seed(0)
    theirs, ours = eval(f"torch.nn.{call}"), eval(f"nn.{call}")
    ours.load_state_dict({k: ours_of(v) for k, v in theirs.state_dict().items()})
    return theirs, ours


def same_state(ours, theirs):
    import torch

    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(torch.tensor(ours.state_dict()[key].tolist()), value)


@pytest.mark.torch
@pytest.mark.parametrize("amount", [0, 3, 0.3, 1.0, 20])
def test_single_elements(torch, amount):
    theirs, ours = pair(torch)
    torch.nn.utils.prune.l1_unstructured(theirs, "weight", amount)
    assert prune.l1_unstructured(ours, "weight", amount) is ours
    same_state(ours, theirs)
    x = torch.randn(2, 5)
    torch.testing.assert_close(torch.tensor(ours(ours_of(x)).tolist()), theirs(x).detach())
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    torch.nn.utils.prune.remove(theirs, "weight")
    assert prune.is_pruned(ours) and prune.remove(ours, "weight") is ours and not prune.is_pruned(ours)
    same_state(ours, theirs)
    assert type(ours.weight) is nn.Parameter


@pytest.mark.torch
@pytest.mark.parametrize("amount, n, dim", [(1, 2, 0), (0.5, 1, 1), (2, float("inf"), -1), (0, 2, 0)])
def test_slices(torch, amount, n, dim):
    theirs, ours = pair(torch, "Conv2d(4, 4, (2, 3))")
    torch.nn.utils.prune.ln_structured(theirs, "weight", amount, n, dim)
    prune.ln_structured(ours, "weight", amount, n, dim)
    same_state(ours, theirs)


@pytest.mark.torch
def test_one_after_the_other(torch):
    theirs, ours = pair(torch, "Conv2d(4, 4, 2)")
    mask = torch.randint(0, 2, (4, 4, 2, 2))
    scores = torch.rand(4, 4, 2, 2)
    for lib, layer, given, importance in (
        (torch.nn.utils.prune, theirs, mask, scores),
        (prune, ours, ours_of(mask), ours_of(scores)),
    ):
        lib.l1_unstructured(layer, "weight", 0.2, importance)
        lib.ln_structured(layer, "weight", 1, 2, 0)
        lib.l1_unstructured(layer, "weight", 5)
        lib.custom_from_mask(layer, "weight", given)
        lib.identity(layer, "bias")
    same_state(ours, theirs)
    hook = [h for h in ours._forward_pre_hooks.values() if h._tensor_name == "weight"]
    assert len(hook) == 1 and len(hook[0]) == 4 and [type(m).__name__ for m in hook[0]][0] == "L1Unstructured"
    assert isinstance(hook[0][-1], prune.CustomFromMask)
    twin = pickle.loads(pickle.dumps(ours.requires_grad_(False)))
    assert prune.is_pruned(twin) and list(twin.state_dict()) == list(ours.state_dict())


@pytest.mark.torch
def test_all_parameters_together(torch):
    theirs, ours = (nn_.Sequential(nn_.Linear(3, 4), nn_.Linear(4, 2)) for nn_ in (torch.nn, nn))
    ours.load_state_dict({k: ours_of(v) for k, v in theirs.state_dict().items()})
    for lib, net in ((torch.nn.utils.prune, theirs), (prune, ours)):
        lib.global_unstructured([(net[0], "weight"), (net[1], "weight")], lib.L1Unstructured, amount=7)
    same_state(ours, theirs)


def test_at_random(device):
    layer = nn.Linear(10, 8, device=device)
    prune.random_unstructured(layer, "weight", 30)
    assert layer.weight_mask.sum().item() == 50
    other = prune.random_structured(nn.Linear(10, 8, device=device), "weight", 3, 1)
    rows = other.weight_mask.sum(0).tolist()
    assert sorted(rows) == [0.0] * 3 + [8.0] * 7


def test_without_a_module(device):
    t = mt.tensor([3.0, -1.0, 2.0, 0.5], device=device)
    assert prune.L1Unstructured(2).prune(t).tolist() == [3.0, 0.0, 2.0, 0.0]
    assert prune.L1Unstructured(1).prune(t, importance_scores=mt.tensor([0.1, 9, 9, 9], device=device)).tolist() == [0.0, -1.0, 2.0, 0.5]


def test_shapes_on_meta():
    layer = prune.l1_unstructured(nn.Linear(5, 4, device="meta"), "weight", 3)
    assert layer(mt.empty(2, 5, device="meta")).shape == (2, 4) and layer.weight_mask.shape == (4, 5)
    prune.remove(prune.ln_structured(nn.Linear(5, 4, device="meta"), "weight", 1, 2, 0), "weight")
    copy.deepcopy(prune.remove(layer, "weight"))


def linear():
    return nn.Linear(3, 2, device="meta")


@pytest.mark.parametrize(
    "error, words, call",
    [
        (TypeError, "amount must be a number", lambda: prune.L1Unstructured("all")),
        (ValueError, "a count of units or a fraction", lambda: prune.L1Unstructured(1.5)),
        (ValueError, "a count of units or a fraction", lambda: prune.RandomStructured(-1)),
        (ValueError, "more than the number of units, 6", lambda: prune.l1_unstructured(linear(), "weight", 7)),
        (ValueError, "at least 2 dimensions", lambda: prune.random_structured(linear(), "bias", 1, 0)),
        (IndexError, "dim=2 is out of range", lambda: prune.random_structured(linear(), "weight", 1, 2)),
        (AssertionError, "must have the tensor's shape", lambda: prune.l1_unstructured(linear(), "weight", 1, mt.empty(2))),
        (AssertionError, "the mask must have shape", lambda: prune.custom_from_mask(linear(), "weight", mt.empty(2))),
        (ValueError, "is not pruned", lambda: prune.remove(linear(), "weight")),
        (TypeError, "expected pairs", lambda: prune.global_unstructured(3, prune.L1Unstructured)),
        (TypeError, "must be a dict", lambda: prune.global_unstructured([], prune.L1Unstructured, [1])),
        (TypeError, "not unstructured", lambda: prune.global_unstructured([(linear(), "weight")], prune.LnStructured, amount=1, n=2)),
        (TypeError, "expected a pruning method", lambda: prune.PruningContainer().add_pruning_method(3)),
    ],
)
def test_refusals(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_a_failure_leaves_the_module():
    layer = linear()
    before = layer.weight
    with pytest.raises(ValueError):
        prune.l1_unstructured(layer, "weight", 100)
    assert layer.weight is before and {*layer.state_dict()} == {"weight", "bias"} and not prune.is_pruned(layer)
