"""Memory and communication of a Llama-3-8B-shaped training step, equal to the formulas of ``llama_steps``.

All sizes are bytes on one rank. Parameters, gradients and Adam's two moments are bfloat16; attention is fused (flash), as is the RMS norm.
"""

from collections import Counter

import pytest

from llama_steps import (
    CONFIG,
    MATRICES,
    NORMS,
    TENSORS,
    L,
    T,
    V,
    activations,
    after,
    d,
    data_parallel,
    h,
    kv,
    saved,
    tensor_parallel,
    train,
)
from metatensor.analysis import profile_ranks


def test_the_sizes_are_those_of_llama_3_8b():
    assert MATRICES + NORMS == 8_030_261_248


@pytest.fixture(scope="module")
def tp8():
    return profile_ranks(train, CONFIG, 1, T, 8, setup=tensor_parallel, topology="8xH100")


@pytest.mark.slow
def test_states_under_tensor_parallelism(tp8):
    assert [one.ranks for one in tp8.classes] == [list(range(8))]
    one, weights = tp8.classes[0], 2 * (MATRICES // 8 + NORMS)
    assert after(one)["parameter"] == after(one)["gradient"] == weights
    assert after(one)["optimizer state"] == 2 * weights + 4 * TENSORS  # and a step counter in float32 for each tensor
    assert after(one)["input"] == 8 * T


def test_activations_under_tensor_parallelism(tp8):
    assert saved(tp8.classes[0])["saved for backward"] == activations(8)
    assert saved(tp8.classes[0])["communication"] == 2 * T * d  # the gathered embeddings, which the first norm saves


def test_communication_under_tensor_parallelism(tp8):
    counts, sizes = Counter(), Counter()
    for each in tp8.classes[0].operations:
        counts[each.entry.kind, each.phase] += 1
        sizes[each.entry.kind, each.phase] += each.entry.bytes
    assert all(each.entry.group == tuple(range(8)) for each in tp8.classes[0].operations)
    # Forward: rows of attention and MLP are summed. Backward: the inputs of q, k, v, gate and up, and of the head.
    assert counts == {("all_reduce", "forward"): 2 * L, ("all_reduce", "backward"): 5 * L + 1, ("all_gather", "forward"): 2}
    assert sizes[("all_reduce", "forward")] == 2 * L * 2 * T * d
    assert sizes[("all_reduce", "backward")] == (5 * L + 1) * 2 * T * d
    assert sizes[("all_gather", "forward")] == 2 * T * d + 2 * T * V  # embeddings and logits


@pytest.fixture(scope="module")
def ddp():
    return profile_ranks(train, CONFIG, 1, T, False, setup=data_parallel, topology="8xH100")


@pytest.mark.slow
def test_data_parallelism(ddp):
    assert [one.ranks for one in ddp.classes] == [list(range(8))]
    one, weights = ddp.classes[0], 2 * (MATRICES + NORMS)
    assert after(one)["parameter"] == after(one)["gradient"] == weights
    assert after(one)["optimizer state"] == 2 * weights + 4 * TENSORS
    # Without tensor parallelism nothing is gathered: the embeddings are the first norm's saved input.
    assert saved(one)["saved for backward"] == activations(1) + 2 * T * d
    reduced = [each for each in one.operations if each.entry.kind == "all_reduce"]
    assert sum(each.entry.bytes for each in reduced) == weights and len(reduced) == len(one.operations)
    assert L < len(reduced) < TENSORS and {each.phase for each in reduced} == {"backward"}
    assert sum(each.exposed for each in reduced) < 0.1 * sum(each.seconds for each in reduced)  # they hide behind the backward pass


@pytest.mark.slow
def test_zero_divides_the_optimizer(ddp):
    zero = profile_ranks(train, CONFIG, 1, T, True, setup=data_parallel, topology="8xH100")
    sizes = [V * d] + L * [d * d, d * kv, d * kv, d * d, d * h, d * h, d * h, d, d] + [d, V * d]
    # The largest tensors first, each to the rank that has least.
    parts = [[] for _ in range(8)]
    for size in sorted(sizes, reverse=True):
        min(parts, key=sum).append(size)
    assert len(zero.classes) > 1  # ranks with other parts
    for rank in range(8):
        one = zero.of(rank)
        assert after(one)["parameter"] == after(ddp.classes[0])["parameter"]
        assert after(one)["optimizer state"] == 2 * 2 * sum(parts[rank]) + 4 * len(parts[rank])
    broadcast = Counter()
    for each in zero.classes[0].operations:
        broadcast[each.entry.kind] += each.entry.bytes
    assert broadcast == {"all_reduce": 2 * (MATRICES + NORMS), "broadcast": 2 * (MATRICES + NORMS)}
