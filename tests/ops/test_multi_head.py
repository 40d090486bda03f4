"""multi_head_attention_forward: values, metadata and errors compared with PyTorch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, attempt, raises_alike, tensors_of

L, S, N, E, HEADS = 3, 5, 2, 4, 2
LEARNED = ("in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj_weight", "out_proj_bias")


@st.composite
def calls(draw):
    """Draw (names and shapes of tensors, options)."""
    pick = lambda *values: draw(st.sampled_from(values))
    batched, separate, biased = pick(True, False), pick(True, False), pick(True, False)
    batch, n = ((N,), N) if batched else ((), 1)
    kdim, vdim = (pick(E, 3), pick(E, 6)) if separate else (E, E)
    length = pick(L, 1)
    shapes = {
        "query": (length, *batch, E), "key": (S, *batch, kdim), "value": (S, *batch, vdim),
        "in_proj_weight": (3 * E, E), "in_proj_bias": (3 * E,), "bias_k": (1, 1, E), "bias_v": (1, 1, E),
        "out_proj_weight": (E, E), "out_proj_bias": (E,), "q_proj_weight": (E, E), "k_proj_weight": (E, kdim),
        "v_proj_weight": (E, vdim), "attn_mask": pick((length, S), (n * HEADS, length, S)), "key_padding_mask": (*batch, S),
    }  # fmt: skip
    extra = pick((), ("bias_k", "bias_v"), ("static_k", "static_v"))
    if "static_k" in extra:
        shapes["static_k"] = shapes["static_v"] = (n * HEADS, S, E // HEADS)
    unused = {"in_proj_weight"} if separate else {"q_proj_weight", "k_proj_weight", "v_proj_weight"}
    unused |= {"bias_k", "bias_v"} - set(extra)
    unused |= set() if biased else {"in_proj_bias", "out_proj_bias"}
    unused |= {name for name in ("attn_mask", "key_padding_mask") if pick(True, False)}
    if pick(*[False] * 4, True):
        wrong = pick(*sorted(set(shapes) - unused))
        shapes[wrong] = pick((*shapes[wrong][:-1], 7), shapes[wrong][1:], (2, *shapes[wrong]))
    options = {
        "use_separate_proj_weight": separate, "need_weights": pick(True, False),
        "average_attn_weights": pick(True, False), "is_causal": pick(False, False, True),
        "add_zero_attn": pick(True, False), "embed_dim_to_check": pick(*[E] * 6, 5), "num_heads": pick(*[HEADS] * 6, 3),
    }  # fmt: skip
    return {name: shape for name, shape in shapes.items() if name not in unused}, options, pick("bool", "float32")


def run(lib, names, tensors, options):
    given = dict.fromkeys(LEARNED) | {"dropout_p": 0.0} | options | dict(zip(names, tensors))
    output, weights = lib.nn.functional.multi_head_attention_forward(**given)
    return output if weights is None else (output, weights)


@pytest.mark.torch
@settings(max_examples=300)
@given(calls(), st.integers(0, 3))
def test_against_torch(case, seed):
    shapes, options, mask = case
    tensors = dict(zip(shapes, tensors_of(seed, *shapes.values())))
    for name in ("attn_mask", "key_padding_mask"):
        if name in tensors and mask == "bool":
            tensors[name] = tensors[name] > 0.8
    agree(lambda lib, *t: run(lib, list(tensors), t, options), *tensors.values(), tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    "change",
    [
        {"num_heads": 0}, {"in_proj_weight": None}, {"use_separate_proj_weight": True}, {"bias_k": (1, 1, E)},
        {"is_causal": True}, {"attn_mask": (L, L), "dtype": "int64"}, {"key_padding_mask": (N, L), "dtype": "int64"},
        {"in_proj_weight": (2 * E, E)}, {"in_proj_weight": (3 * E, E + 1)}, {"out_proj_weight": (2, E)},
        {"num_heads": "2"}, {"dropout_p": 0.5, "training": False},
    ],
)  # fmt: skip
def test_arguments(change):
    import torch

    shapes = {"query": (L, N, E), "key": (L, N, E), "value": (L, N, E), "in_proj_weight": (3 * E, E), "out_proj_weight": (E, E)}
    dtype = change.pop("dtype", "float32") if "dtype" in change else "float32"
    options = {"embed_dim_to_check": E, "num_heads": HEADS, "add_zero_attn": False}

    def call(lib, device):
        def tensor(shape, dtype="float32"):
            return lib.ones(shape, dtype=getattr(lib, dtype), device=device) if isinstance(shape, tuple) else shape

        given = {k: tensor(v) for k, v in shapes.items()} | {k: tensor(v, dtype) for k, v in change.items()}
        return run(lib, list(given), given.values(), options)

    there = attempt(lambda lib: call(lib, "cpu"), torch, [])
    for device in ("cpu", "meta"):
        here = attempt(lambda lib, d=device: call(lib, d), mt, [])
        if isinstance(there, Exception):
            assert raises_alike(here, there), (here, there)
        else:
            assert [tuple(t.shape) for t in here] == [tuple(t.shape) for t in there]


def test_a_weight_that_is_not_used_may_be_on_another_device():
    """Models with separate projections pass an empty weight, which they create without naming a device."""
    x = mt.empty(4, 2, 8, device="meta")
    square, bias = mt.empty(8, 8, device="meta"), mt.empty(24, device="meta")
    out, _ = mt.nn.functional.multi_head_attention_forward(
        x, x, x, 8, 2, mt.empty(0, device="cpu"), bias, None, None, False, 0.0, square, bias[:8],
        use_separate_proj_weight=True, q_proj_weight=square, k_proj_weight=square, v_proj_weight=square,
    )  # fmt: skip
    assert out.shape == (4, 2, 8) and out.is_meta
