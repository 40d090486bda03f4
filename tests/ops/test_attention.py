"""Scaled dot-product attention: values and metadata compared with PyTorch, the definition on every device, errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

attention = mt.nn.functional.scaled_dot_product_attention


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@st.composite
def operands(draw):
    lead = draw(st.sampled_from([(), (3,), (2, 4), (2, 2, 2)]))
    length, keys, width, out = (draw(st.integers(1, 6)) for _ in range(4))
    broadcast = lead and draw(st.booleans())
    key_lead = (1, *lead[1:]) if broadcast else lead
    mask = draw(st.sampled_from([None, (length, keys), (*lead, length, keys), (keys,), (1, keys), (length + 1, keys + 1)]))
    if mask is not None and len(mask) == 1 and not lead:
        mask = None
    kind = draw(st.sampled_from(["float32", "bool"]))
    options = {"is_causal": draw(st.booleans()) if mask is None else False, "scale": draw(st.sampled_from([None, 0.3]))}
    return (*lead, length, width), (*key_lead, keys, width), (*key_lead, keys, out), mask, kind, options


@pytest.mark.torch
@given(operands(), st.integers(0, 3))
@settings(max_examples=150)
def test_against_torch(case, seed):
    query, key, value, mask, kind, options = case
    arguments = tensors_of(seed, query, key, value)
    if mask is None:
        agree(lambda lib, *t: lib.nn.functional.scaled_dot_product_attention(*t, **options), *arguments, tolerance=1e-5)
        return
    (given_mask,) = tensors_of(seed + 1, mask)
    given_mask = given_mask > 0 if kind == "bool" else given_mask
    if len(mask) == 1:
        given_mask = given_mask[None]  # PyTorch's CPU accepts no 1-d mask
    agree(lambda lib, *t: lib.nn.functional.scaled_dot_product_attention(*t, **options), *arguments, given_mask, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", ["plain", "by head"])
def test_grouped_queries(causal, layout):
    if layout == "plain":
        arguments = tensors_of(0, (2, 8, 5, 4), (2, 2, 7, 4), (2, 4, 7, 4))
    else:
        arguments = [t.transpose(1, 2) for t in tensors_of(0, (2, 5, 8, 4), (2, 7, 2, 4), (2, 7, 2, 4))]
    call = lambda lib, *t: lib.nn.functional.scaled_dot_product_attention(*t, is_causal=causal, enable_gqa=True)
    agree(call, *arguments, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("bfloat16", 3e-2), ("float16", 3e-3)])
def test_dtypes(dtype, tolerance):
    arguments = tensors_of(0, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), dtype=dtype)
    agree(lambda lib, *t: lib.nn.functional.scaled_dot_product_attention(*t), *arguments, tolerance=tolerance)


@pytest.mark.torch
@pytest.mark.parametrize(
    "shapes",
    [
        ((4,), (4,), (4,)),
        ((3, 4), (5, 6), (5, 4)),
        ((2, 3, 4), (3, 5, 4), (3, 5, 4)),
        ((0, 3, 5, 4), (0, 3, 7, 4), (0, 3, 7, 4)),
        ((2, 3, 0, 4), (2, 3, 7, 4), (2, 3, 7, 4)),
        ((2, 3, 5, 4), (2, 3, 0, 4), (2, 3, 0, 4)),
        ((2, 3, 5, 0), (2, 3, 4, 0), (2, 3, 4, 2)),
    ],
)
def test_edges(shapes):
    agree(lambda lib, *t: lib.nn.functional.scaled_dot_product_attention(*t), *tensors_of(0, *shapes))


def test_definition(device, monkeypatch):
    from metatensor.devices.array_kit import attention as kernels

    monkeypatch.setattr(kernels, "HOST_BLOCK", 40)  # so that there are several blocks
    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal(s) for s in ((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 2)))
    tensors = [mt.from_numpy(a).to(device) for a in (q, k, v)]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(4)
    np.testing.assert_allclose(values(attention(*tensors)), softmax(scores) @ v, rtol=1e-10)
    scores = np.where(np.tril(np.ones((5, 6), bool)), scores, -np.inf)
    np.testing.assert_allclose(values(attention(*tensors, is_causal=True)), softmax(scores) @ v, rtol=1e-10)


def test_nothing_to_attend_to(device):
    t = mt.from_numpy(np.ones((1, 2, 3, 4), "float32")).to(device)
    mask = mt.from_numpy(np.array([[True] * 3, [False] * 3, [True, False, False]])).to(device)
    assert values(attention(t, t, t, mask))[0, 0, :, 0].tolist() == [1, 0, 1]


def test_dropout(device):
    """Weights are dropped with probability p and the others scaled. The same ticket drops the same weights."""
    t = mt.from_numpy(np.ones((2, 2, 64, 8), "float32")).to(device)
    mt.manual_seed(1)
    first = values(attention(t, t, t, dropout_p=0.25))
    mt.manual_seed(1)
    np.testing.assert_array_equal(first, values(attention(t, t, t, dropout_p=0.25)))
    assert abs(first.mean() - 1) < 0.02
    assert first.std() > 0.01
    assert values(attention(t, t, t, dropout_p=1.0)).max() == 0


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"dropout_p": 1.5}, RuntimeError, r"dropout_p.*\[0, 1\]"),
        ({"attn_mask": mt.empty(5, 7, device="meta"), "is_causal": True}, RuntimeError, "exclude each other"),
        ({"attn_mask": mt.empty(5, 6, device="meta")}, RuntimeError, r"\[5, 6\] does not expand to \[2, 4, 5, 7\]"),
        ({"attn_mask": mt.empty(5, 7, device="meta", dtype=mt.int64)}, RuntimeError, "bool, float32"),
        ({"enable_gqa": True, "key": mt.empty(2, 3, 7, 8, device="meta")}, RuntimeError, "multiple of those of key and value"),
        ({"key": mt.empty(2, 4, 7, 9, device="meta")}, RuntimeError, r"same last size.*\[2, 4, 7, 9\]"),
        ({"value": mt.empty(2, 4, 6, 8, device="meta")}, RuntimeError, "same length"),
        ({"value": mt.empty(2, 4, 7, 8, device="meta", dtype=mt.float16)}, RuntimeError, "the same dtype"),
        ({"key": mt.empty(8, device="meta")}, RuntimeError, "at least 2 dimensions"),
        ({"scale": "1"}, TypeError, "scale"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {
        "query": mt.empty(2, 4, 5, 8, device="meta"),
        "key": mt.empty(2, 4, 7, 8, device="meta"),
        "value": mt.empty(2, 4, 7, 8, device="meta"),
    }
    with pytest.raises(error, match=message) as caught:
        attention(**(arguments | change))
    assert "scaled_dot_product_attention" in str(caught.value)


def test_a_mask_and_is_causal_both_hold_in_the_fused_kernel():
    q, k, v = (mt.randn(1, 2, 3, 4) for _ in range(3))
    mask = mt.tensor([[True, True, True], [False, True, True], [True, False, True]])
    attend = mt.nn.functional.scaled_dot_product_attention
    found = attend(q, k, v, attn_mask=mask, is_causal=True)
    assert mt.allclose(found, attend(q, k, v, attn_mask=mask.tril()), atol=1e-6)
    for x in (q[0], q.to("meta")):
        with pytest.raises(RuntimeError, match="exclude"):
            attend(x, x, x, attn_mask=mask.to(x.device), is_causal=True)
