"""A folder with a config.json as the model of ``metatensor estimate``, built by transformers or diffusers."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 500, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 128, "use_cache": True,
}  # fmt: skip
LLAMA_PARAMETERS = 2 * 500 * 64 + 64 + 3 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160 + 2 * 64)
UNET = {
    "_class_name": "UNet2DModel", "_diffusers_version": "0.30.0", "sample_size": 32, "in_channels": 3, "out_channels": 3,
    "block_out_channels": [32, 64], "layers_per_block": 1, "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"], "attention_head_dim": 8,
}  # fmt: skip


def estimate(folder, config, *arguments):
    (folder / "config.json").write_text(json.dumps(config))
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, "-m", "metatensor", "estimate", str(folder), "--json", *arguments], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    return done


def report(*arguments):
    done = estimate(*arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def needs(library):
    return pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"{library} is not installed")


@needs("transformers")
def test_transformers_inference(tmp_path):
    found = report(tmp_path, LLAMA, "-i", "int64[2,16]")
    assert found["model"] == "LlamaForCausalLM" and found["parameters"] == LLAMA_PARAMETERS
    assert found["parameter_bytes"] == 2 * LLAMA_PARAMETERS  # bfloat16, as the file says


@needs("transformers")
def test_transformers_training(tmp_path):
    step = ("-i", "input_ids=int64[2,16]", "--train", "--precision", "bf16-master")
    found = report(tmp_path, LLAMA, *step, "--recompute", "full")
    assert found["trainable_parameters"] == LLAMA_PARAMETERS and found["without_gradient"] == []
    assert found["optimizer_bytes"] > 12 * LLAMA_PARAMETERS and len(found["recomputed"]) == 3
    tuned = report(tmp_path, LLAMA, *step, "--lora", "4:*.q_proj", "--args", "num_hidden_layers=2")
    assert tuned["trainable_parameters"] == 2 * 4 * (64 + 64)


@needs("transformers")
def test_transformers_without_a_class(tmp_path):
    config = {key: value for key, value in LLAMA.items() if key != "architectures"}
    assert report(tmp_path, config, "-i", "int64[1,8]")["model"] == "LlamaModel"


@needs("transformers")
@pytest.mark.parametrize(("change", "message"), [
    ({"model_type": "no-such-model"}, "does not know the model_type 'no-such-model'"),
    ({"architectures": ["NoSuchModel"]}, "has no model 'NoSuchModel'"),
])  # fmt: skip
def test_what_transformers_does_not_have(tmp_path, change, message):
    done = estimate(tmp_path, {**LLAMA, **change}, "-i", "int64[1,8]")
    assert done.returncode == 2 and message in " ".join(done.stderr.split())


@needs("diffusers")
def test_diffusers(tmp_path):
    found = report(tmp_path, UNET, "-i", "float32[1,3,32,32]", "-i", "10")
    assert found["model"] == "UNet2DModel" and found["flops"] > 0 and found["modules"][0]["output"]
    step = report(tmp_path, UNET, "-i", "float32[1,3,32,32]", "-i", "10", "--train", "--optimizer", "adamw8bit")
    assert step["trainable_parameters"] == found["parameters"]


@needs("diffusers")
def test_what_diffusers_does_not_have(tmp_path):
    done = estimate(tmp_path, {**UNET, "_class_name": "NoSuchModel"}, "-i", "float32[1,3,32,32]")
    assert done.returncode == 2 and "has no model 'NoSuchModel'" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("text", "message"), [
    ("[]", "has neither model_type"), ("{", "cannot be read as JSON"), ("{}", "has neither model_type"),
])  # fmt: skip
def test_other_files(tmp_path, text, message):
    from metatensor.cli.configs import TargetError, config_in, model_of_config

    assert config_in(str(tmp_path)) is None
    (tmp_path / "config.json").write_text(text)
    path = config_in(str(tmp_path))
    assert path == config_in(path)
    with pytest.raises(TargetError, match=message):
        model_of_config(path)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is installed")
def test_a_library_that_is_missing(tmp_path):
    pytest.importorskip("click")
    done = estimate(tmp_path, LLAMA, "-i", "int64[1,8]")
    assert done.returncode == 2 and "transformers is not installed" in " ".join(done.stderr.split())
