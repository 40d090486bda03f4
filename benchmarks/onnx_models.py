"""Export small models of timm, torchvision and transformers to ONNX, run them in onnxruntime, and compare with the cpu device.

    python -m benchmarks.onnx_models [--libraries timm,torchvision,transformers] [--limit N] [--json FILE] [--list FAILURES]

This interpreter needs the libraries, onnx and onnxruntime, and no PyTorch: metatensor is installed in its place. Weights are random.
A model counts as right if its file passes ``onnx.checker`` with shape inference and onnxruntime's outputs are within 1e-4 of the cpu
device's, relative to the greatest magnitude of the output. It is also imported, and compared with the program. timm: the smallest model
of each family; torchvision: models of classification and others that take images or videos; transformers: base classes with
configurations cut down to two layers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

MOST_PARAMETERS = 15_000_000
TOLERANCE = 1e-4


def timm_models() -> Iterator[tuple[str, Any, Any]]:
    """Yield names, functions that build a model, and functions that make its inputs."""
    import timm
    import torch

    for family in timm.list_modules():
        sizes = []
        for name in timm.list_models(module=family)[:12]:
            with contextlib.suppress(Exception), torch.device("meta"):
                sizes.append((sum(p.numel() for p in timm.create_model(name).parameters()), name))
        for count, name in sorted(sizes)[:1]:
            if count <= MOST_PARAMETERS:
                def inputs(model: Any) -> tuple[Any, ...]:
                    return (torch.randn(1, *model.default_cfg["input_size"]),), {}

                yield name, lambda name=name: timm.create_model(name), inputs


def torchvision_models() -> Iterator[tuple[str, Any, Any]]:
    """Yield as `timm_models` does."""
    import inspect

    import torch
    from torchvision import models

    for name in models.list_models():
        if name.startswith("quantized_") or any(part in name for part in ("rcnn", "retinanet", "fcos", "ssd", "raft", "keypoint")):
            continue
        options = {"weights": None}
        parameters = inspect.signature(models.get_model_builder(name)).parameters
        options |= {k: v for k, v in (("weights_backbone", None), ("init_weights", False)) if k in parameters}
        video = any(part in name for part in ("r3d", "mc3", "r2plus1d", "s3d", "mvit", "swin3d"))
        size = 299 if name == "inception_v3" else 224 if name.startswith(("maxvit", "vit_", "mvit", "s3d")) else 112 if video else 96
        shape = (1, 3, 16, size, size) if video else (1, 3, size, size)
        count = MOST_PARAMETERS + 1
        with contextlib.suppress(Exception), torch.device("meta"):
            count = sum(p.numel() for p in models.get_model(name, **options).parameters())
        if count > MOST_PARAMETERS:  # or it can be built with data only
            continue
        yield name, lambda name=name, options=options: models.get_model(name, **options), _image(shape)


def _image(shape: tuple[int, ...]) -> Any:
    import torch

    return lambda model: ((torch.randn(shape),), {})


SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embed_dim": 64, "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2,
    "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128,
    "ffn_dim": 128, "d_ff": 128, "d_kv": 16,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "hidden_dim": 128, "vocab_size": 512, "embedding_size": 64, "image_size": 64,
    "max_position_embeddings": 128, "projection_dim": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
TEXT = """albert bert bert-generation big_bird biogpt bloom camembert codegen convbert ctrl data2vec-text deberta deberta-v2 distilbert
electra ernie esm falcon flaubert fnet funnel gemma gemma2 glm gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite helium ibert layoutlm
llama luke lxmert mbart-text megatron-bert mistral mobilebert mpnet mpt mra nystromformer olmo olmo2 openai-gpt opt persimmon phi phi3
qwen2 qwen3 rembert roberta roberta-prelayernorm roc_bert roformer smollm3 splinter squeezebert stablelm starcoder2 xglm xlm
xlm-roberta xlnet xmod yoso cohere nemotron exaone4 ernie4_5 modernbert""".split()
ENCODER_DECODER = "bart t5 mt5 mbart pegasus blenderbot-small marian m2m_100 longt5 switch_transformers umt5 prophetnet".split()
IMAGE = """vit deit beit data2vec-vision dinov2 swin swinv2 convnext convnextv2 resnet regnet mobilenet_v1 mobilenet_v2 mobilevit
mobilevitv2 segformer poolformer pvt pvt_v2 levit cvt van efficientnet focalnet bit dpt glpn vit_mae vit_msn ijepa hiera siglip_vision_model
clip_vision_model swiftformer textnet donut-swin dinov2_with_registers timesformer videomae vivit""".split()
SPEECH = "wav2vec2 hubert wavlm unispeech unispeech-sat data2vec-audio sew whisper audio-spectrogram-transformer".split()


def transformers_models() -> Iterator[tuple[str, Any, Any]]:
    """Yield as `timm_models` does."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    def configured(kind: str) -> Any:
        plain = CONFIG_MAPPING[kind]()
        options = {}
        for key, value in SMALL.items():
            old = plain.to_dict().get(key)
            if isinstance(old, int) and not isinstance(old, bool) and (key.endswith("_id") or old > value):
                options[key] = value
        if kind in ("swin", "swinv2", "donut-swin"):
            options = {"embed_dim": 24, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 4, 8], "image_size": 224, "window_size": 7}
        if kind == "gpt_neo":
            options |= {"attention_types": [[["global", "local"], 1]], "num_layers": 2}
        if kind == "efficientnet":
            options = {"hidden_dim": 1280, "width_coefficient": 1.0, "depth_coefficient": 0.3}
        if isinstance(plain.to_dict().get("rotary_dim"), int):
            options["rotary_dim"] = 8
        for key in ("depths", "num_hidden_groups"):
            old = plain.to_dict().get(key)
            if isinstance(old, list):
                options[key] = [1] * len(old)
        return CONFIG_MAPPING[kind](**options)

    for kind in [*TEXT, *ENCODER_DECODER, *IMAGE, *SPEECH]:
        if kind not in CONFIG_MAPPING or kind not in MODEL_MAPPING_NAMES:
            continue
        names = MODEL_MAPPING_NAMES[kind]

        def build(kind: str = kind, names: Any = names) -> Any:
            return getattr(transformers, names if isinstance(names, str) else names[0])(configured(kind))

        def inputs(model: Any, kind: str = kind) -> tuple[Any, ...]:
            config = model.config
            ids = torch.randint(3, 500, (2, 16))
            if kind in TEXT:
                return (), {"input_ids": ids}
            if kind in ENCODER_DECODER:
                return (), {"input_ids": ids, "decoder_input_ids": ids[:, :7]}
            if kind == "whisper":
                features = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
                return (), {"input_features": features, "decoder_input_ids": ids[:1, :7]}
            if kind == "audio-spectrogram-transformer":
                return (torch.randn(1, config.max_length, config.num_mel_bins),), {}
            if kind in SPEECH:
                return (torch.randn(1, 4000),), {}
            size = getattr(config, "image_size", 64)
            size = size if isinstance(size, int) else size[0]
            channels = getattr(config, "num_channels", 3)
            if kind in ("timesformer", "videomae", "vivit"):
                return (torch.randn(1, config.num_frames, channels, size, size),), {}
            return (torch.randn(1, channels, size, size),), {}

        yield kind, build, inputs


def measured(build: Any, inputs: Any) -> dict[str, Any]:
    """Export a model, run it, and return what was found."""
    import onnx
    import torch

    import metatensor as mt
    from metatensor.program.structure import leaves

    torch.manual_seed(0)
    with torch.device("cpu"):
        model = build().eval()
        for name, buffer in model.named_buffers():  # statistics that say something
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
        args, kwargs = inputs(model)
    found: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
    with torch.no_grad():
        program = mt.program.trace(model, *args, **kwargs)
        wanted = list(leaves(mt.Tensor, program(*args, **kwargs)))
        if _spread(wanted) < 1e-9:  # the library's initial weights make the input vanish
            for p in model.parameters():
                if p.dim() > 1:
                    p.normal_(0, 1.5 / p[0].numel() ** 0.5)
            wanted = list(leaves(mt.Tensor, program(*args, **kwargs)))
    found["calls"] = len(program)
    began = time.perf_counter()
    file = io.BytesIO()
    program.to_onnx(file, ignore_writes=True)
    found["export_s"] = round(time.perf_counter() - began, 3)
    data = file.getvalue()
    began = time.perf_counter()
    again = mt.program.from_onnx(io.BytesIO(data))
    found["import_s"] = round(time.perf_counter() - began, 3)
    found["same"] = mt.program.equal(program, again)
    if not found["same"]:
        found["same_without_unused"] = mt.program.equal(mt.program.dead_code(program), again)
        found["differences"] = len(mt.program.diff(program, again))
    checked = onnx.load_from_string(data)
    onnx.checker.check_model(checked, full_check=True)
    found["nodes"] = len(checked.graph.node)
    tensors = {v.number: t for v, t in zip(program.inputs, leaves(mt.Tensor, (args, kwargs)))}
    found["spread"] = _spread(wanted)
    found["error"] = _error(_outputs(data, list(tensors.values()), True), wanted)
    found["right"] = found["error"] <= TOLERANCE and found["spread"] > 1e-12  # equal numbers say nothing
    if found["error"] > TOLERANCE:  # what onnxruntime's optimizations add
        found["error_without_optimizations"] = _error(_outputs(data, list(tensors.values()), False), wanted)
    return found


def _spread(tensors: list[Any]) -> float:
    """Return the greatest standard deviation of tensors."""
    return max((float(t.double().std()) for t in tensors if t.is_floating_point() and t.numel() > 1), default=0.0)


def _outputs(data: bytes, tensors: list[Any], optimized: bool) -> list[Any]:
    """Return what onnxruntime computes."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in onnx.load_from_string(data).graph.input]
    found: list[Any] = session.run(None, {n: t.detach().contiguous().numpy() for n, t in zip(names, tensors, strict=True)})
    return found


def _error(outputs: list[Any], wanted: list[Any]) -> float:
    """Return the greatest difference, relative to the greatest magnitude of each output."""
    import numpy as np

    assert len(outputs) == len(wanted), f"{len(outputs)} outputs, not {len(wanted)}"
    worst = 0.0
    for got, t in zip(outputs, wanted):
        own = t.detach().contiguous().numpy()
        assert got.shape == own.shape and got.dtype == own.dtype, f"{got.dtype}{got.shape}, not {own.dtype}{own.shape}"
        if own.size and own.dtype.kind == "f":
            assert (np.isfinite(got) == np.isfinite(own)).all(), "other elements are not finite"
            finite = np.isfinite(own)
            scale = float(np.abs(own[finite]).max() or 1.0) if finite.any() else 1.0
            worst = max(worst, float(np.abs(got[finite] - own[finite]).max()) / scale if finite.any() else 0.0)
        elif own.size:
            assert (got == own).all(), "other integers"
    return worst


def main() -> None:
    """Measure models, and print a line for each and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", default="timm,torchvision,transformers")
    parser.add_argument("--limit", type=int, help="most models of each library")
    parser.add_argument("--only", help="names of models, separated by commas")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    warnings.filterwarnings("ignore")
    from metatensor import torch_api

    torch_api.install()
    figures: dict[str, dict[str, Any]] = {}
    for library in options.libraries.split(","):
        cases = globals()[f"{library}_models"]()
        for i, (name, build, inputs) in enumerate(cases):
            if options.limit is not None and i >= options.limit:
                break
            if options.only and name not in options.only.split(","):
                continue
            try:
                found = measured(build, inputs)
            except Exception as error:
                found = {"right": False, "why": f"{type(error).__name__}: {error}"[:600]}
            figures[f"{library}/{name}"] = found
            state = "right" if found["right"] else "WRONG"
            print(f"{state} {library}/{name} " + " ".join(f"{k}={v}" for k, v in found.items() if k != "right"), flush=True)
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(figures, file, indent=1)
    right = Counter(name.partition("/")[0] for name, found in figures.items() if found["right"])
    total = Counter(name.partition("/")[0] for name in figures)
    same = [found["same"] for found in figures.values() if "same" in found]
    print(f"{sum(same)} of {len(same)} are the same program after they are exported and imported")
    print(f"{sum(right.values())} of {len(figures)} right: " + ", ".join(f"{library} {right[library]}/{n}" for library, n in total.items()))


if __name__ == "__main__":
    main()
