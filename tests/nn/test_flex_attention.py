"""flex_attention, its block masks and CausalBias, compared with PyTorch's."""

import numpy as np
import pytest

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn.attention import bias
from metatensor.nn.attention import flex_attention as flex

TENSORS = flex.BlockMask._TENSOR_ATTRS


@pytest.fixture
def theirs():
    """PyTorch's module, without its compiler."""
    pytest.importorskip("torch")
    import torch.nn.attention.flex_attention as module

    before = module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    yield module
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = before


def library(module):
    import sys

    return mt if module is flex else sys.modules["torch"]


def masks(module):
    t = library(module)
    documents = t.tensor([0] * 7 + [1] * 5 + [2] * 8)
    lengths = t.tensor([20, 6])

    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    def window(b, h, q_idx, kv_idx):
        return q_idx - kv_idx < 4

    def document(b, h, q_idx, kv_idx):
        return documents[q_idx] == documents[kv_idx]

    def padded(b, h, q_idx, kv_idx):
        return kv_idx < lengths[b]

    def by_head(b, h, q_idx, kv_idx):
        return (h == 0) | (q_idx >= kv_idx)

    return {
        "causal": causal,
        "window": module.and_masks(causal, window),
        "document": module.and_masks(causal, document),
        "any": module.or_masks(document, window),
        "padded": padded,
        "by head": by_head,
        "all": module.noop_mask,
        "nothing": lambda b, h, q_idx, kv_idx: q_idx < 0,
    }


def scores(module):
    t = library(module)
    slopes = t.tensor([0.5, 0.25, 0.125, 0.1])
    table = t.arange(40, dtype=t.float32) / 10
    return {
        "none": None,
        "relative": lambda score, b, h, q_idx, kv_idx: score + (q_idx - kv_idx),
        "alibi": lambda score, b, h, q_idx, kv_idx: score + slopes[h] * (kv_idx - q_idx),
        "capped": lambda score, b, h, q_idx, kv_idx: 2.0 * t.tanh(score / 2.0),
        "causal": lambda score, b, h, q_idx, kv_idx: t.where(q_idx >= kv_idx, score, -float("inf")),
        "table": lambda score, b, h, q_idx, kv_idx: score * table[q_idx - kv_idx + 20],
    }


def text(value):
    return None if value is None else (tuple(value.shape), tuple(value.stride()), str(value.dtype).split(".")[-1])


def same_blocks(ours, theirs, values):
    for name in TENSORS:
        one, other = getattr(ours, name), getattr(theirs, name)
        assert text(one) == text(other), name
        if values and one is not None:
            assert one.tolist() == other.tolist(), name
    assert ours.shape == tuple(theirs.shape)
    assert ours.numel() == theirs.numel()
    assert ours.BLOCK_SIZE == theirs.BLOCK_SIZE
    assert ours.seq_lengths == theirs.seq_lengths


SIZES = [
    {"B": 2, "H": 3, "Q_LEN": 20, "KV_LEN": 20, "BLOCK_SIZE": 4},
    {"B": None, "H": None, "Q_LEN": 20, "KV_LEN": 17, "BLOCK_SIZE": (4, 8)},
    {"B": 2, "H": None, "Q_LEN": 13, "KV_LEN": 20, "BLOCK_SIZE": 128},
    {"B": 1, "H": 2, "Q_LEN": 20, "KV_LEN": 20, "BLOCK_SIZE": 5, "separate_full_blocks": False},
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", list(masks(flex)))
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_block_mask(theirs, name, sizes):
    made = [module.create_block_mask(masks(module)[name], device="cpu", **sizes) for module in (flex, theirs)]
    same_blocks(*made, values=True)
    ours, real = made
    assert repr(ours) == repr(real).replace("torch.Size", "metatensor.Size")
    assert str(ours).split("...")[0] == str(real).split("...")[0]
    assert ours.to_string(grid_size=(2, 3), limit=9) == real.to_string(grid_size=(2, 3), limit=9)
    assert ours.sparsity() == real.sparsity()
    assert ours.to_dense().tolist() == real.to_dense().tolist()
    assert text(ours.to_dense()) == text(real.to_dense())
    for flatten in (True, False):
        one, other = ours.as_tuple(flatten), real.as_tuple(flatten)
        assert [type(x).__name__ for x in one] == [type(x).__name__ for x in other]
    for index in (0, (0, 0), (slice(0, 1), slice(None), slice(1, None)), -1):
        same_blocks(ours[index], real[index], values=True)
    same_blocks(ours._adjust(9, 10), real._adjust(9, 10), values=True)
    dense = [module.create_mask(masks(module)[name], sizes["B"], sizes["H"], 20, 20, "cpu") for module in (flex, theirs)]
    assert text(dense[0]) == text(dense[1])
    assert dense[0].tolist() == dense[1].tolist()


@pytest.mark.torch
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_block_mask_on_meta(theirs, sizes):
    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    ours, real = (module.create_block_mask(causal, device="meta", **sizes) for module in (flex, theirs))
    same_blocks(ours, real, values=False)
    same_blocks(ours[0], real[0], values=False)
    assert text(ours.to_dense()) == text(real.to_dense())
    assert text(ours.to("meta").kv_indices) == text(real.kv_indices)
    with pytest.raises(RuntimeError):
        repr(ours)


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in scores(flex) if name != "none"])
def test_mask_of_a_score_mod(theirs, name):
    ours, real = (module.create_mask(scores(module)[name], 2, 4, 12, 20, "cpu") for module in (flex, theirs))
    assert ours.tolist() == real.tolist()


def arrays(dtype="float32", *, batch=2, keys=2, length=20, source=20, width=8):
    rng = np.random.default_rng(0)
    shapes = (2, length, 4, width), (batch, keys, source, width), (batch, keys, source, width // 2)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def inputs(module, dtype="float32", **options):
    t = library(module)
    q, k, v = (t.from_numpy(array.copy()) for array in arrays(**options))
    return [x.to(getattr(t, dtype)) for x in (q.transpose(1, 2), k, v)]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("score", list(scores(flex)))
@pytest.mark.parametrize("mask", ["none", *masks(flex)])
def test_attention(theirs, score, mask, dtype):
    results = []
    for module in (flex, theirs):
        block_mask = None
        if mask != "none":
            block_mask = module.create_block_mask(masks(module)[mask], 2, 4, 20, 20, device="cpu", BLOCK_SIZE=4)
        results.append(
            module.flex_attention(
                *inputs(module, dtype), scores(module)[score], block_mask, enable_gqa=True, return_aux=module.AuxRequest(lse=True)
            )
        )
    (ours, ours_aux), (real, real_aux) = results
    assert text(ours) == text(real)
    assert text(ours_aux.lse) == text(real_aux.lse)
    assert ours_aux.max_scores is real_aux.max_scores is None
    tolerance = {"bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10}[dtype]
    np.testing.assert_allclose(ours.double().numpy(), real.double().numpy(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(ours_aux.lse.numpy(), real_aux.lse.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:return_lse")
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"return_lse": True}, {"kernel_options": {"BLOCK_M": 16}}], ids=str)
def test_options(theirs, options):
    shapes = {"keys": 4, "source": 9}
    ours, real = (module.flex_attention(*inputs(module, **shapes), **options) for module in (flex, theirs))
    ours, real = (x if isinstance(x, tuple) else (x,) for x in (ours, real))
    assert [text(x) for x in ours] == [text(x) for x in real]
    for x, y in zip(ours, real, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("mask", ["causal", "document", "padded"])
def test_on_meta(mask):
    with mt.device("meta"):
        functions = masks(flex)
        block_mask = flex.create_block_mask(functions[mask], 2, 4, 20, 20, device="meta", BLOCK_SIZE=4)
        q, k, v = (x.to("meta") for x in inputs(flex))
        out, aux = flex.flex_attention(q, k, v, None, block_mask, enable_gqa=True, return_aux=flex.AuxRequest(True, True))
    assert out.shape == (2, 4, 20, 4)
    assert out.stride() == (320, 4, 16, 1)
    assert aux.lse.shape == aux.max_scores.shape == (2, 4, 20)
    assert out.device.type == "meta"


ERRORS = {
    "heads": lambda m, t: m.flex_attention(t.zeros(1, 4, 5, 8), t.zeros(1, 2, 5, 8), t.zeros(1, 2, 5, 8)),
    "heads that do not divide": lambda m, t: m.flex_attention(
        t.zeros(1, 4, 5, 8), t.zeros(1, 3, 5, 8), t.zeros(1, 3, 5, 8), enable_gqa=True
    ),
    "widths": lambda m, t: m.flex_attention(t.zeros(1, 4, 5, 8), t.zeros(1, 4, 5, 4), t.zeros(1, 4, 5, 8)),
    "batches": lambda m, t: m.flex_attention(t.zeros(2, 4, 5, 8), t.zeros(1, 4, 5, 8), t.zeros(1, 4, 5, 8)),
    "three dimensions": lambda m, t: m.flex_attention(t.zeros(4, 5, 8), t.zeros(4, 5, 8), t.zeros(4, 5, 8)),
    "one dimension": lambda m, t: m.flex_attention(t.zeros(8), t.zeros(8), t.zeros(8)),
    "devices": lambda m, t: m.flex_attention(t.zeros(1, 4, 5, 8), t.zeros(1, 4, 5, 8, device="meta"), t.zeros(1, 4, 5, 8)),
    "gradients": lambda m, t: m.flex_attention(*[t.zeros(1, 4, 5, 8, requires_grad=True)] * 3),
    "a longer mask": lambda m, t: m.flex_attention(
        *[t.zeros(1, 4, 5, 8)] * 3, block_mask=m.create_block_mask(m.noop_mask, 1, 1, 9, 9, device="cpu")
    ),
    "a shorter mask": lambda m, t: m.flex_attention(
        *[t.zeros(1, 4, 5, 8)] * 3, block_mask=m.create_block_mask(m.noop_mask, 1, 1, 4, 4, device="cpu")
    ),
    "a mask elsewhere": lambda m, t: m.flex_attention(
        *[t.zeros(1, 4, 5, 8)] * 3, block_mask=m.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 5, 5, device="meta")
    ),
    "a part of a mask": lambda m, t: m.flex_attention(
        *[t.zeros(1, 4, 5, 8)] * 3, block_mask=m.create_block_mask(lambda b, h, q, k: q >= k, 2, 1, 5, 5, device="cpu")[0]
    ),
    "a backend": lambda m, t: m.flex_attention(*[t.zeros(1, 4, 5, 8)] * 3, kernel_options={"BACKEND": "SOME"}),
    "max_scores": lambda m, t: m.flex_attention(*[t.zeros(1, 4, 5, 8)] * 3, return_aux=m.AuxRequest(max_scores=True)),
    "both returns": lambda m, t: m.flex_attention(*[t.zeros(1, 4, 5, 8)] * 3, return_lse=True, return_aux=m.AuxRequest()),
    "a score_mod for a mask": lambda m, t: m.create_block_mask(lambda s, b, h, q, k: s, 1, 1, 4, 4, device="cpu"),
    "a mask of 3": lambda m, t: m.create_block_mask(lambda b, h, q: q, 1, 1, 4, 4, device="cpu"),
    "a mask of numbers": lambda m, t: m.create_block_mask(lambda b, h, q, k: q - k, 1, 1, 4, 4, device="cpu"),
    "and of no function": lambda m, t: m.and_masks(m.noop_mask, 3),
    "or of no function": lambda m, t: m.or_masks(None),
    "an if": lambda m, t: m.create_mask(lambda b, h, q, k: q >= k if q > 2 else q < k, 1, 1, 4, 4, "cpu"),
    "one dimension of blocks": lambda m, t: m.BlockMask.from_kv_blocks(t.zeros(()), t.zeros(2)),
    "full blocks by half": lambda m, t: m.BlockMask.from_kv_blocks(t.zeros(1), t.zeros(1, 1), t.zeros(1)),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors(theirs, name):
    raised = []
    for module in (flex, theirs):
        try:
            ERRORS[name](module, library(module))
            raised.append(None)
        except Exception as error:
            raised.append(type(error))
    assert raised[0] is raised[1]
    assert raised[0] is not None


def test_defaults():
    mask = flex.BlockMask.from_kv_blocks(mt.ones(1, 1, 2, dtype=mt.int32), mt.zeros(1, 1, 2, 3, dtype=mt.int32))
    assert mask.shape == (1, 1, 256, 384)
    assert mask.mask_mod is flex.noop_mask
    assert flex.BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, compute_q_blocks=False).q_indices is None
    with pytest.raises(NotImplementedError):
        flex.create_nested_block_mask(flex.noop_mask, 1, 1, None)


def test_the_counter_counts_two_products():
    from metatensor.utils.flop_counter import FlopCounterMode

    q, k, v = (x.to("meta") for x in inputs(flex))
    with FlopCounterMode(display=False) as counter:
        flex.flex_attention(q, k, v, enable_gqa=True)
    assert counter.get_total_flops() == 2 * 2 * 4 * 20 * 20 * (8 + 4)


# Biases ----------------------------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("lengths", [(4, 4), (3, 5)])
def test_causal_bias(name, lengths):
    torch = pytest.importorskip("torch")
    import torch.nn.attention.bias as their_bias

    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 3, lengths[0], 8)), rng.standard_normal((2, 3, lengths[1], 8))
    results = []
    for t, f, module in ((mt, F, bias), (torch, torch.nn.functional, their_bias)):
        made = getattr(module, name)(*lengths)
        out = f.scaled_dot_product_attention(t.from_numpy(q), t.from_numpy(k), t.from_numpy(k), attn_mask=made)
        results.append((repr(made), tuple(made.shape), made.variant.name, made.seq_len_q, made.seq_len_kv, tuple(out.shape), out.numpy()))
    assert results[0][:-1] == results[1][:-1]
    np.testing.assert_allclose(results[0][-1], results[1][-1], rtol=1e-9)


def test_causal_bias_errors():
    q = mt.zeros(1, 2, 3, 8)
    with pytest.raises(ValueError, match="is_causal"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=bias.causal_upper_left(3, 3), is_causal=True)
    with pytest.raises(AssertionError):
        bias.causal_upper_left(3)
    with pytest.raises(AssertionError):
        bias.causal_lower_right(3, 3, 3)
    with pytest.raises(AssertionError):
        bias.CausalBias(1, 3, 3)
    with pytest.warns(UserWarning, match="NaN"):
        bias.causal_lower_right(5, 3)
    assert int(bias.CausalVariant.UPPER_LEFT) == 1
