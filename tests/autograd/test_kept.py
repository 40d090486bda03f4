"""What a recorded call keeps: the bytes left after it are those of its outputs and of what the saved-tensor hooks show."""

import itertools
import warnings
import weakref

import pytest

import metatensor as mt
from gradient_cases import calls, operators, tensors, written_operators

OPERATORS = operators()


def distinct(items, known=()):
    """Return the storages of tensors, each once, without those of `known`."""
    known = [t.untyped_storage() for t in known]
    found = []
    for t in items:
        storage = t.untyped_storage()
        if not any(storage == other for other in (*known, *found)):
            found.append(storage)
    return found


class Handle:
    """What a hook makes of a saved tensor. It dies with the node that saved it."""

    def __init__(self, t):
        self.tensor = t


def left(call):
    """Return the bytes that a call leaves in use, and the bytes of its outputs and saved tensors together."""
    given = [*call.inputs, *tensors(list(call.arguments.values()))]
    with mt.analysis.MemoryTracker() as live:
        result = call(*call.inputs)
        current = live.current
    handles = weakref.WeakSet()

    def pack(t):
        handle = Handle(t.detach())
        handles.add(handle)
        return handle

    with mt.autograd.graph.saved_tensors_hooks(pack, lambda handle: handle.tensor):
        result = call(*call.inputs)
    saved = [handle.tensor for handle in handles]
    return current, sum(s.nbytes() for s in distinct([*tensors(result), *saved], given))


def check(op, overload, device):
    found = list(itertools.islice(calls(op, overload, device=device, largest=10_000), 3))
    for call in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            current, expected = left(call)
        assert current == expected, f"{call.sample}: {current} bytes are left, outputs and saved tensors have {expected}"
    return found


# Backward operators for which no arguments are generated, and operators that need values.
WITHOUT = {
    "native_batch_norm", "_native_batch_norm_legit", "convolution_backward", "multi_margin_loss_backward",
    "multilabel_margin_loss_backward", "native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
    "_batch_norm_forward", "nn.functional._batch_norm_train", "nn.functional._instance_norm_train", "_repeat_interleave_by",
    "_upsample_backward", "embedding_dense_backward", "_grid_sampler_backward",
    "_index", "narrow", "tensor_split", "float_power_", "_grouped_mm", "_pdist_backward", "_cdist_backward", "_embedding_bag_backward",
    "_embedding_bag_weights_backward", "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
}  # fmt: skip
NEED_VALUES = {"nn.functional.ctc_loss", "masked_select"}
OTHERS = WITHOUT | {"_ctc_loss", "_embedding_bag", "_masked_select", "_nll_loss_forward", "nll_loss_backward"}  # take no generated values
EVERY = {**OPERATORS, **written_operators()}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in WITHOUT | NEED_VALUES])
def test_nothing_is_kept_past_the_hooks_on_meta(name):
    assert check(*EVERY[name], "meta")


@pytest.mark.parametrize("name", [*[name for name in OPERATORS if name not in OTHERS][::6], *sorted(NEED_VALUES)])
def test_nothing_is_kept_past_the_hooks_on_cpu(name):
    assert check(*EVERY[name], "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_what_is_left_out_has_no_generated_calls(device):
    names = (WITHOUT | NEED_VALUES if device == "meta" else OTHERS) & EVERY.keys()
    assert not [name for name in names if next(calls(*EVERY[name], device=device, largest=10_000), None) is not None]


GIVEN = {
    "narrow": lambda x: x.narrow(0, mt.tensor(1, device="cpu"), 2),
    "index": lambda x: x[mt.zeros(5, dtype=mt.int64, device="meta"), :],
    "repeat": lambda x: x.repeat(2, 1) * x.repeat_interleave(2, 0),
    "batch_norm": lambda x: mt.nn.functional.batch_norm(x, None, None, training=True),
    "layer_norm": lambda x: mt.nn.functional.layer_norm(x, (4,)),
    "relu": lambda x: mt.nn.functional.relu(x * 2).exp(),
    "matmul": lambda x: (x @ x.t()).softmax(-1) @ x,
    "views": lambda x: x.t().reshape(-1).sin().view(2, -1).cos(),
    "discarded": lambda x: (x.exp() + 1).detach() + x,
}


@pytest.mark.parametrize("name", GIVEN)
def test_nothing_is_kept_past_the_hooks_in_given_calls(name):
    class Given:
        inputs = (mt.ones(4, 4, device="meta", requires_grad=True),)
        arguments = {}

        def __call__(self, x):
            return GIVEN[name](x)

    current, expected = left(Given())
    assert current == expected


def test_a_tensor_that_is_kept_past_the_hooks_is_noticed():
    kept = []

    class Given:
        inputs = (mt.ones(4, 4, device="meta", requires_grad=True),)
        arguments = {}

        def __call__(self, x):
            kept.append(mt.zeros(4, 4, device="meta"))
            return x * 2

    current, expected = left(Given())
    assert current == expected + 64
