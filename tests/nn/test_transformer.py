"""Transformers with all kinds of masks, compared with PyTorch's."""

import copy

import pytest

import metatensor as mt
from metatensor import nn
from nn.test_layers import ours_of

N, S, T, E = 2, 4, 3, 8
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested", "ignore:Support for mismatched")


def masks(torch, name):
    """Return the masks for a call of `Transformer`."""
    causal = torch.nn.Transformer.generate_square_subsequent_mask
    if name == "causal":
        return {"src_mask": causal(S), "tgt_mask": causal(T), "src_is_causal": True, "tgt_is_causal": True}
    if name == "found causal":
        return {"src_mask": causal(S), "tgt_mask": causal(T)}
    if name == "bool":
        return {"src_mask": torch.eye(S) == 0, "tgt_mask": torch.triu(torch.ones(T, T), 1) > 0, "memory_mask": torch.rand(T, S) > 0.9}
    padding = torch.zeros(N, S, dtype=torch.bool)
    padding[1, -1] = True
    if name == "padding":
        return {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    return {
        "src_mask": torch.randn(N * 2, S, S),
        "tgt_mask": torch.randn(T, T),
        "memory_mask": torch.randn(T, S),
        "src_key_padding_mask": torch.randn(N, S),
        "tgt_key_padding_mask": torch.randn(N, T),
        "memory_key_padding_mask": torch.randn(N, S),
    }


@pytest.mark.torch
@pytest.mark.parametrize("mask", ["causal", "found causal", "bool", "padding", "numbers"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_masks(mask, norm_first):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    torch.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    theirs, ours = (lib.nn.Transformer(E, 2, 2, 1, 16, **options) for lib in (torch, mt))
    ours.load_state_dict({k: ours_of(v) for k, v in theirs.state_dict().items()})
    given = masks(torch, mask)
    source, target = torch.randn(N, S, E), torch.randn(N, T, E)
    want = theirs(source, target, **given)
    got = ours(ours_of(source), ours_of(target), **{k: ours_of(v) if torch.is_tensor(v) else v for k, v in given.items()})
    torch.testing.assert_close(torch.tensor(got.tolist()), want.detach(), atol=1e-5, rtol=1e-4)
    assert got.stride() == want.stride()
    on_meta = {k: ours_of(v).to("meta") if torch.is_tensor(v) else v for k, v in given.items()}
    made = ours.to("meta")(mt.empty(N, S, E, device="meta"), mt.empty(N, T, E, device="meta"), **on_meta)
    assert made.shape == got.shape and made.stride() == got.stride()


@pytest.mark.torch
def test_the_mask_of_the_past():
    torch = pytest.importorskip("torch")
    want = torch.nn.Transformer.generate_square_subsequent_mask(3)
    got = nn.Transformer.generate_square_subsequent_mask(3, device="cpu")
    assert got.tolist() == want.tolist() and got.stride() == want.stride()
    assert nn.Transformer.generate_square_subsequent_mask(2, "meta", mt.float16).dtype == mt.float16


def test_layers_are_copies():
    mt.set_default_device("meta")
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    encoder = nn.TransformerEncoder(layer, 2)
    assert encoder.layers[0] is not layer and encoder.layers[0].linear1.weight is not encoder.layers[1].linear1.weight
    assert layer.activation_relu_or_gelu == 1 and nn.TransformerEncoderLayer(4, 2, activation=nn.GELU()).activation_relu_or_gelu == 2
    assert copy.deepcopy(encoder)(mt.empty(5, 1, 4)).shape == (5, 1, 4)


def test_a_state_without_an_activation():
    layer = nn.TransformerDecoderLayer(4, 2, 8, device="meta")
    state = {k: v for k, v in layer.__getstate__().items() if k != "activation"}
    other = nn.TransformerDecoderLayer.__new__(nn.TransformerDecoderLayer)
    other.__setstate__(state)
    assert other.activation is nn.functional.relu


def test_adaptive_softmax_by_all_ways(device):
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, device=device)
    x = mt.randn(6, 8, device=device)
    full = layer.log_prob(x)
    target = mt.tensor([0, 2, 3, 5, 6, 9], device=device)
    output, loss = layer(x, target)
    assert mt.allclose(output.cpu(), full.cpu().gather(1, target.cpu().unsqueeze(1)).squeeze(1), atol=1e-5)
    assert mt.allclose(loss.cpu(), -output.cpu().mean())
    assert mt.allclose(full.cpu().exp().sum(1), mt.ones(6, device="cpu"), atol=1e-4)
    assert layer.predict(x).tolist() == full.cpu().argmax(1).tolist()
    with pytest.raises(RuntimeError, match="got values from 0 to 10"):
        layer(x, mt.tensor([0, 2, 3, 5, 6, 10], device=device))
    meta = layer.to("meta")
    assert meta.log_prob(mt.empty(6, 8, device="meta")).shape == (6, 10)
    assert meta.predict(mt.empty(6, 8, device="meta")).shape == (6,) and meta.reset_parameters() is None


def test_the_blocks_of_layers_can_be_called_and_replaced():
    class Scaled(mt.nn.TransformerEncoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            return 0 * super()._sa_block(x, attn_mask, key_padding_mask, is_causal)

        def _ff_block(self, x):
            return 0 * super()._ff_block(x)

    x = mt.randn(3, 2, 8)
    assert (Scaled(8, 2, norm_first=True).eval()(x) == x).all()
    layer = mt.nn.TransformerDecoderLayer(8, 2).to("meta")
    y = x.to("meta")
    assert layer._mha_block(y, y, None, None).shape == layer._sa_block(y, None, None).shape == layer._ff_block(y).shape == y.shape
