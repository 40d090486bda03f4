"""The example models: published numbers of parameters, FLOPs as in PyTorch, and shapes."""

import math

import pytest

import metatensor as mt
from metatensor.analysis import check, estimate

# FLOPs by torch.utils.flop_counter (PyTorch 2.13) for the same code and input shapes.
MODELS = [
    ("gpt2", "gpt2", "int64", (1, 1024), 124_439_808, 291_648_307_200),
    ("gpt2", "gpt2_medium", "int64", (1, 1024), 354_823_168, 826_951_073_792),
    ("gpt2", "gpt2_large", "int64", (1, 1024), 774_030_080, 1_774_570_700_800),
    ("gpt2", "gpt2_xl", "int64", (1, 1024), 1_557_611_200, 3_506_703_564_800),
    ("llama3", "llama3_8b", "int64", (1, 2048), 8_030_261_248, 32_938_104_193_024),
    ("llama3", "llama3_70b", "int64", (1, 2048), 70_553_706_496, 295_674_138_591_232),
    ("llama3", "llama3_405b", "int64", (1, 2048), 405_853_388_800, 1_688_386_003_795_968),
    ("resnet50", "resnet50", "float32", (1, 3, 224, 224), 25_557_032, 8_178_368_512),
    ("resnet50", "resnet101", "float32", (1, 3, 224, 224), 44_549_160, 15_602_810_880),
    ("resnet50", "resnet152", "float32", (1, 3, 224, 224), 60_192_808, 23_027_253_248),
    ("bert", "minilm_l6", "int64", (1, 256), 22_713_216, 6_040_092_672),
    ("bert", "bert_base", "int64", (1, 256), 109_482_240, 45_903_642_624),
    ("bert", "bert_large", "int64", (1, 256), 335_141_888, 161_063_370_752),
]


def build(example, module, factory):
    with mt.device("meta"):
        return getattr(example(module), factory)()


@pytest.mark.parametrize(("module", "factory", "dtype", "shape", "parameters", "flops"), MODELS, ids=[case[1] for case in MODELS])
def test_published_counts(example, module, factory, dtype, shape, parameters, flops):
    model = build(example, module, factory)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert all(p.is_meta for p in model.parameters())
    factory_doc = getattr(example(module), factory).__doc__
    assert f"{parameters:,} parameters" in factory_doc
    report = estimate(model, mt.empty(*shape, dtype=getattr(mt, dtype), device="meta"))
    assert report.parameters == parameters
    assert report.flops == flops
    assert report.gaps == []


def test_resnet50_is_4_09_g_multiply_adds(example):
    report = estimate(build(example, "resnet50", "resnet50"), mt.empty(1, 3, 224, 224, device="meta"))
    assert round(report.flops / 2 / 1e9, 2) == 4.09


@pytest.mark.parametrize(
    ("module", "factory", "inputs", "output"),
    [
        ("gpt2", "gpt2", [(2, 7)], "float32[2,7,50257]"),
        ("llama3", "llama3_8b", [(2, 7)], "float32[2,7,128256]"),
        ("bert", "minilm_l6", [(2, 7)], ["float32[2,7,384]", "float32[2,384]"]),
        ("bert", "minilm_l6", [(2, 7), (2, 7), (2, 7)], ["float32[2,7,384]", "float32[2,384]"]),
    ],
)
def test_shapes(example, module, factory, inputs, output):
    model = build(example, module, factory)
    report = estimate(model, *(mt.empty(*shape, dtype=mt.int64, device="meta") for shape in inputs))
    assert report.output == output


def test_training_mode_runs_too(example):
    for module, factory in (("gpt2", "gpt2"), ("bert", "minilm_l6")):
        model = build(example, module, factory).train()
        model(mt.empty(1, 5, dtype=mt.int64, device="meta"))


def test_gpt2_ties_its_head_to_its_embedding(example):
    report = estimate(build(example, "gpt2", "gpt2"), mt.empty(1, 8, dtype=mt.int64, device="meta"))
    assert [set(group.names) for group in report.shared] == [{"wte.weight", "lm_head.weight"}]


def test_gpt2_refuses_more_than_its_context(example):
    result = check(build(example, "gpt2", "gpt2"), mt.empty(1, 1025, dtype=mt.int64, device="meta"))
    assert isinstance(result.error, ValueError)


def test_llama_names_are_those_of_the_published_files(example):
    names = set(build(example, "llama3", "llama3_8b").state_dict())
    assert len(names) == 291
    for name in (
        "model.embed_tokens.weight",
        "model.layers.31.self_attn.q_proj.weight",
        "model.layers.0.mlp.gate_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight",
        "lm_head.weight",
    ):
        assert name in names


def test_llama_in_bfloat16(example):
    with mt.device("meta"):
        model = example("llama3").llama3_8b().to(mt.bfloat16)
    report = estimate(model, mt.empty(1, 8, dtype=mt.int64, device="meta"))
    assert report.output == "bfloat16[1,8,128256]"
    assert report.parameter_bytes == 2 * 8_030_261_248


def test_rotary_frequencies(example):
    llama3 = example("llama3")
    plain = llama3.inverse_frequencies(llama3.Config())
    assert len(plain) == 64
    assert plain[0] == 1.0
    assert math.isclose(plain[32], 500000.0**-0.5)
    scaled = llama3.inverse_frequencies(llama3.Config(rope_scaling=llama3.RopeScaling()))
    assert scaled[:20] == plain[:20]  # short wavelengths are unchanged
    assert math.isclose(scaled[-1], plain[-1] / 8)  # long wavelengths are stretched
    assert all(1 <= a / b <= 8.000001 for a, b in zip(plain, scaled, strict=True))


def test_bad_sizes_are_refused(example):
    gpt2 = example("gpt2")
    with mt.device("meta"), pytest.raises(ValueError, match="divisible"):
        gpt2.GPT2(gpt2.Config(width=770))


def test_bert_from_a_config(example, tmp_path):
    bert = example("bert")
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 10, "model_type": "bert"}')
    with mt.device("meta"):
        model = bert.from_config(path)
    assert len(model.encoder.layer) == 2
    assert model.embeddings.word_embeddings.weight.shape == (10, 48)
