"""MultiheadAttention compared with PyTorch's, with all kinds of masks and with and without returned attention weights.

The shapes of the results are also checked without a batch.
"""

import itertools

import pytest

import metatensor as mt
from metatensor import nn

N, HEADS, L, S, E = 2, 2, 3, 4, 8


def causal(torch):
    return torch.triu(torch.full((L, S), float("-inf")), 1)


MASKS = {
    "none": lambda torch: {},
    "bool": lambda torch: {"attn_mask": torch.rand(L, S) > 0.6},
    "float": lambda torch: {"attn_mask": torch.randn(L, S)},
    "heads": lambda torch: {"attn_mask": torch.randn(N * HEADS, L, S)},
    "padding": lambda torch: {"key_padding_mask": torch.tensor([[False] * S, [False] * 2 + [True] * (S - 2)])},
    "both": lambda torch: {
        "attn_mask": torch.randn(L, S),
        "key_padding_mask": torch.zeros(N, S).masked_fill(torch.rand(N, S) > 0.7, -5.0),
    },
    "causal": lambda torch: {"attn_mask": causal(torch), "is_causal": True},
}


@pytest.mark.torch
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True, "bias": False}, {"batch_first": True}])
def test_like_torch(mask, options):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(E, HEADS, **options).eval()
    ours = nn.MultiheadAttention(E, HEADS, **options).eval()

    def convert(x):
        return mt.tensor(x.tolist(), dtype=getattr(mt, str(x.dtype)[6:])) if isinstance(x, torch.Tensor) else x

    ours.load_state_dict({k: convert(v) for k, v in theirs.state_dict().items()})
    query, key, value = torch.randn(L, N, E), torch.randn(S, N, E), torch.randn(S, N, E)
    if options.get("batch_first"):
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    for need, average in itertools.product((True, False), repeat=2):
        given = {**MASKS[mask](torch), "need_weights": need, "average_attn_weights": average}
        if mask == "causal" and not need and L != S:
            given.pop("is_causal")
        want = theirs(query, key, value, **given)
        got = ours(*map(convert, (query, key, value)), **{k: convert(v) for k, v in given.items()})
        assert (got[1] is None) == (want[1] is None)
        for g, w in zip(got, want):
            if w is not None:
                torch.testing.assert_close(torch.tensor(g.tolist()), w.detach(), atol=1e-5, rtol=1e-4)


def on_meta(*shape, dtype=None):
    return mt.empty(shape, device="meta", dtype=dtype)


def test_shapes():
    layer = nn.MultiheadAttention(E, HEADS, device="meta")
    output, weights = layer(on_meta(L, E), on_meta(S, E), on_meta(S, E))
    assert output.shape == (L, E) and weights.shape == (L, S)
    output, weights = layer(on_meta(L, N, E), on_meta(S, N, E), on_meta(S, N, E), average_attn_weights=False)
    assert output.shape == (L, N, E) and weights.shape == (N, HEADS, L, S)
    x = on_meta(L, N, E)
    assert layer(x, x, x, attn_mask=on_meta(L, L), is_causal=True, need_weights=False)[1] is None


def test_refusals():
    layer = nn.MultiheadAttention(E, HEADS, device="meta")
    x = on_meta(L, N, E)
    with pytest.raises(RuntimeError, match="attn_mask must be given"):
        layer(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match=r"attn_mask must have shape \[3, 3\], got \[2, 2\]"):
        layer(x, x, x, attn_mask=on_meta(2, 2))
    with pytest.raises(AssertionError, match="key_padding_mask must have shape"):
        layer(x, x, x, key_padding_mask=on_meta(N, L + 1, dtype=mt.bool))
    with pytest.raises(AssertionError, match="2 or 3 dimensions"):
        layer(on_meta(E), x, x)
    for dtype in (mt.int64, mt.complex64):
        mask = on_meta(L, L, dtype=dtype)
        with pytest.raises(AssertionError, match="must be bool or floating-point"):
            layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)


@pytest.mark.torch
@pytest.mark.parametrize("attn, padding", itertools.product([None, (L, L), (N * HEADS, L, L)], [None, (N, L)]))
def test_merged_masks(attn, padding):
    torch = pytest.importorskip("torch")
    masks = [None if shape is None else torch.randn(shape) for shape in (attn, padding)]
    want, kind = torch.nn.MultiheadAttention(E, HEADS).merge_masks(*masks, torch.zeros(N, L, E))
    ours = [None if mask is None else mt.from_numpy(mask.numpy()) for mask in masks]
    got, kind_here = nn.MultiheadAttention(E, HEADS, device="meta").merge_masks(*ours, on_meta(N, L, E))
    assert kind_here == kind and (got is None) == (want is None)
    assert got is None or got.tolist() == want.tolist()


def test_choosing_a_kernel():
    from metatensor.nn.attention import SDPBackend, sdpa_kernel

    x = on_meta(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape
    with pytest.raises(AssertionError, match="got str"), sdpa_kernel("math"):
        pass
    torch = pytest.importorskip("torch")
    assert {b.name: int(b) for b in SDPBackend} == {k: int(v) for k, v in torch.nn.attention.SDPBackend.__members__.items()}
