"""Read names of models from stdin and write their facts to stdout, in a process where metatensor replaces PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import warnings


def short(dtype):
    return str(dtype).rpartition(".")[2]


def describe(value):
    """Return an output as JSON: tensors as ``dtype[shape]``, and runs of equal entries once with their number."""
    import torch

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return "float"
    if isinstance(value, torch.Tensor):
        return f"{short(value.dtype)}[{','.join(map(str, value.shape))}]"
    if hasattr(value, "items") and hasattr(value, "keys"):
        return {"__cls__": type(value).__name__, **{str(k): describe(v) for k, v in value.items()}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"__cls__": type(value).__name__, **{name: describe(getattr(value, name)) for name in value._fields}}
    if isinstance(value, (list, tuple)):
        return shorten([describe(item) for item in value])
    if dataclasses.is_dataclass(value):
        fields = {f.name: describe(getattr(value, f.name, None)) for f in dataclasses.fields(value)}
        return {"__cls__": type(value).__name__, **fields}
    if hasattr(value, "layers") and "Cache" in type(value).__name__:
        names = ("keys", "values", "conv_states", "recurrent_states", "ssm_states")
        layers = [{n: describe(t) for n in names if isinstance(t := getattr(layer, n, None), torch.Tensor)} for layer in value.layers]
        return {"__cls__": type(value).__name__, "layers": shorten(runs(layers))}
    return f"<{type(value).__name__}>"


def runs(items):
    found = []
    for item in items:
        if found and found[-1][1] == item:
            found[-1][0] += 1
        else:
            found.append([1, item])
    return found


def shorten(items):
    if len(items) > 4 and len(runs(items)) <= len(items) // 2:
        return {"__rle__": runs(items)}
    return items


def make(spec):
    """Return the input that ``spec`` describes: a tensor, a value, or a list, tuple or dict of these."""
    import torch

    kind, given = next((k, spec[k]) for k in ("t", "v", "l", "tup", "m") if k in spec)
    if kind == "t":
        return torch.empty(tuple(given), dtype=getattr(torch, spec.get("d", "float32")), device=spec.get("dev", "meta"))
    if kind == "m":
        return {name: make(item) for name, item in given.items()}
    return given if kind == "v" else (tuple if kind == "tup" else list)(map(make, given))


def build_timm(name):
    import timm

    return timm.create_model(name, pretrained=False)


def build_torchvision(name):
    import inspect

    from torchvision import models

    options = {"weights": None}
    parameters = inspect.signature(models.get_model_builder(name)).parameters
    options |= {k: v for k, v in (("weights_backbone", None), ("init_weights", False)) if k in parameters}
    if name.startswith("quantized_"):
        options["quantize"] = False
    return models.get_model(name, **options)


def build_transformers(name):
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind, class_name = name.split("/")
    return getattr(transformers, class_name)(CONFIG_MAPPING[kind]())


DIFFUSERS = {
    "sd15-unet": ("UNet2DConditionModel", {"sample_size": 64, "cross_attention_dim": 768, "attention_head_dim": 8}),
    "sdxl-unet": ("UNet2DConditionModel", {
        "sample_size": 128, "cross_attention_dim": 2048, "attention_head_dim": [5, 10, 20], "use_linear_projection": True,
        "block_out_channels": (320, 640, 1280), "transformer_layers_per_block": [1, 2, 10],
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    }),
    "dit-xl-2": ("DiTTransformer2DModel", {
        "num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4, "out_channels": 8, "num_layers": 28,
        "sample_size": 32, "patch_size": 2, "norm_type": "ada_norm_zero", "num_embeds_ada_norm": 1000,
    }),
    "pixart-alpha": ("PixArtTransformer2DModel", {"sample_size": 64}),
    "flux-dev": ("FluxTransformer2DModel", {"guidance_embeds": True}),
}  # fmt: skip


def build_diffusers(name):
    import diffusers

    class_name, options = DIFFUSERS.get(name, (name, {}))
    return getattr(diffusers, class_name)(**options)


def measure(build, name, record):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = build(name)
    model = model.to("meta").eval()
    state = sorted(f"{key}:{list(value.shape)}:{short(value.dtype)}" for key, value in model.state_dict().items())
    facts = {
        "n_params": sum(p.numel() for p in model.parameters()),
        "n_buffers": sum(b.numel() for b in model.buffers()),
        "n_state": len(state),
        "state_sha1": hashlib.sha1("\n".join(state).encode()).hexdigest(),
    }

    def forward():
        args = [make(spec) for spec in record["inputs"].get("args", [])]
        kwargs = {key: make(spec) for key, spec in record["inputs"].get("kwargs", {}).items()}
        with torch.no_grad(), torch.device("meta") if record.get("forward_ctx") else contextlib.nullcontext():
            return model(*args, **kwargs)

    facts["output"] = describe(forward())
    with FlopCounterMode(display=False) as counter:
        forward()
    facts["flops"] = counter.get_total_flops()
    return facts


def main(library):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    warnings.filterwarnings("ignore")
    from metatensor import torch_api

    torch_api.install()
    build = globals()[f"build_{library}"]
    for line in sys.stdin:
        name, record = json.loads(line)
        try:
            facts = measure(build, name, record)
        except Exception as error:
            facts = {"error": f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}"}
        print(json.dumps(facts), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
