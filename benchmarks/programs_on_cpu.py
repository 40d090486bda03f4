"""Save programs of small models of libraries, load them where the libraries cannot be imported, and compare bit for bit.

    python -m benchmarks.programs_on_cpu [LIBRARY ...] [--names NAME ...] [--steps 3] [--folder FOLDER]

For each model, this process traces a forward pass on cpu and on meta and, for models in `TRAINED`, a training step: forward,
loss, backward and optimizer. It saves the programs, and what the model itself gives: outputs, or losses, parameters and
buffers after some steps; on meta, the layouts of the outputs, FLOPs and the memory log. A second process, in which no
library can be imported, loads the programs, runs them and compares. It also runs the source of the forward pass
(`Program.code`). The interpreter must have the libraries, and no PyTorch. It takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIBRARIES = ("timm", "torchvision", "transformers", "diffusers")

TIMM = {
    **dict.fromkeys((
        "test_byobnet", "test_coatnet", "test_convnext", "test_convnext2", "test_convnext3", "test_efficientnet", "test_efficientnet_evos",
        "test_efficientnet_gn", "test_efficientnet_ln", "test_mambaout", "test_maxvit", "test_nfnet", "test_resnet", "test_vit",
        "test_vit2", "test_vit3", "test_vit4", "test_vit_relpos",
    ), 160),
    **dict.fromkeys((
        "mobilenetv3_small_050", "resnet10t", "ghostnet_050", "efficientnet_lite0", "efficientnet_b2", "lcnet_035", "tinynet_e",
        "mnasnet_small",
        "mobilenetv2_035", "regnetx_002", "resnet18", "convnext_atto", "dla46_c", "edgenext_xx_small", "repvgg_a0", "semnasnet_050",
    ), 64),
}  # fmt: skip
TORCHVISION = dict.fromkeys((
    "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "squeezenet1_1", "resnet18", "efficientnet_b0",
    "regnet_y_400mf", "quantized_mobilenet_v2",
), 64)  # fmt: skip
SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32, "embedding_size": 32, "num_hidden_layers": 2, "n_layer": 2,
    "num_layers": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "intermediate_size": 64, "ffn_dim": 64, "d_ff": 64, "d_kv": 8, "hidden_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "vocab_size": 99, "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "image_size": 32, "patch_size": 8, "state_size": 8,
    "word_embed_proj_dim": 32, "n_inner": 64, "rotary_dim": 4, "num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 32,
    "pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "window_size": 16, "xpos_scale_base": 512,
}  # fmt: skip
"""Fields of configurations, where a configuration has them."""
TRANSFORMERS = (
    "BertModel", "GPT2LMHeadModel", "RobertaModel", "DistilBertModel", "AlbertModel", "ElectraModel", "T5Model", "BartModel",
    "OPTForCausalLM",
    "GPTNeoXForCausalLM", "GPTJForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
    "GemmaForCausalLM", "PhiForCausalLM", "BloomForCausalLM", "MPNetModel", "CamembertModel", "SqueezeBertModel",
    "MegatronBertModel", "MambaModel",
    "FalconForCausalLM", "ViTModel", "DeiTModel", "StableLmForCausalLM", "OlmoForCausalLM", "GraniteForCausalLM", "ErnieModel",
)  # fmt: skip
_UNET = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
DIFFUSERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "UNet2DModel": ({**_UNET, "sample_size": 16, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8},
                    {"sample": (1, 3, 16, 16), "timestep": 3}),
    "UNet2DConditionModel": ({**_UNET, "sample_size": 16, "cross_attention_dim": 32, "attention_head_dim": 8,
                              "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
                              "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")},
                             {"sample": (1, 4, 16, 16), "timestep": 3, "encoder_hidden_states": (1, 5, 32)}),
    "AutoencoderKL": ({**_UNET, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
                      {"sample": (1, 3, 16, 16)}),
    "VQModel": ({**_UNET, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
                 "num_vq_embeddings": 32}, {"sample": (1, 3, 16, 16)}),
    "Transformer2DModel": ({"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 32, "norm_num_groups": 8},
                           {"hidden_states": (1, 32, 8, 8)}),
    "DiTTransformer2DModel": ({"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "sample_size": 8,
    "num_embeds_ada_norm": 10},
                              {"hidden_states": (1, 4, 8, 8), "timestep": "int:1", "class_labels": "int:1"}),
}  # fmt: skip
TRAINED = {"timm": 18, "torchvision": 6, "transformers": 14, "diffusers": 3}
"""How many of the models of each library are trained too, from the first on."""
OPTIMIZERS: dict[str, dict[str, Any]] = {"SGD": {"lr": 1e-2, "momentum": 0.9}, "AdamW": {"lr": 1e-3}, "RMSprop": {"lr": 1e-3}}
TRAINED_TOO = ("efficientnet_b2",)


# Models ---------------------------------------------------------------------------------------------------


def _seeded(shape: tuple[int, ...], number: int) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(number), device="cpu")


def _tokens(shape: tuple[int, ...]) -> Any:
    import torch

    return (torch.arange(2 * shape[-1] * shape[0], device="cpu").view(shape[0], -1)[:, : shape[-1]] * 7) % 90 + 3


def models(library: str) -> Iterator[tuple[str, Callable[[], Any], dict[str, Any]]]:
    """Yield the name of a model, a function that builds it, and its inputs."""
    if library == "timm":
        import timm

        for name, side in TIMM.items():
            yield name, lambda name=name: timm.create_model(name, pretrained=False), {"x": _seeded((2, 3, side, side), 1)}
    elif library == "torchvision":
        from torchvision.models import get_model

        for name, side in TORCHVISION.items():
            options = {"weights": None, **({"quantize": False} if name.startswith("quantized") else {})}
            yield name, lambda name=name, options=options: get_model(name, **options), {"x": _seeded((2, 3, side, side), 1)}
    elif library == "transformers":
        import transformers

        for name in TRANSFORMERS:
            kind = getattr(transformers, name)
            config = kind.config_class()
            for key, value in SMALL.items():
                with contextlib.suppress(AttributeError):  # it is computed
                    if getattr(config, key, None) is not None:
                        setattr(config, key, value)
            with contextlib.suppress(AttributeError):
                if config.layer_types:
                    config.layer_types = config.layer_types[:2]
            if name.startswith(("ViT", "DeiT")):
                inputs: dict[str, Any] = {"pixel_values": _seeded((2, 3, 32, 32), 1)}
            else:
                inputs = {"input_ids": _tokens((2, 9))}
                if name in ("T5Model", "BartModel"):
                    inputs["decoder_input_ids"] = _tokens((2, 5))
            yield name, lambda kind=kind, config=config: kind(config), inputs
    else:
        import diffusers
        import torch

        for name, (options, shapes) in DIFFUSERS.items():
            given = {key: torch.tensor([int(s[4:])]) if isinstance(s, str) else _seeded(s, 1) if isinstance(s, tuple) else s
                     for key, s in shapes.items()}  # fmt: skip
            yield name, lambda name=name, options=options: getattr(diffusers, name)(**options), given


def _tensors(value: Any) -> list[Any]:
    import metatensor as mt
    from metatensor.program.structure import leaves

    return list(leaves(mt.Tensor, value))


def _layouts(tensors: list[Any]) -> list[Any]:
    return [[str(t.dtype).rpartition(".")[2], list(t.shape), list(t.stride())] for t in tensors]


def watched(run: Callable[[], Any]) -> dict[str, Any]:
    """Return the layouts of the result, the FLOPs and the memory log of a run."""
    import metatensor as mt
    from metatensor.analysis import MemoryLog
    from metatensor.utils.flop_counter import FlopCounterMode

    with mt.deferred.keep_constants(), mt.no_grad(), MemoryLog() as log:
        made = run()
        layouts = _layouts(_tensors(made))
        del made
    with mt.deferred.keep_constants(), mt.no_grad(), FlopCounterMode(display=False) as counter:
        run()
    return {"layouts": layouts, "flops": counter.get_total_flops(), "log": [[str(e.kind), e.change] for e in log.events()]}


# Saving ---------------------------------------------------------------------------------------------------


def save_forward(folder: Path, build: Callable[[], Any], inputs: dict[str, Any]) -> None:
    """Save the programs of a forward pass on cpu and on meta, and what the model gives."""
    import torch

    import metatensor as mt

    torch.manual_seed(0)
    model = build().eval()
    names = list(inputs)

    def on(device: str) -> dict[str, Any]:
        return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}

    def call(module: Any) -> Callable[..., Any]:
        return lambda **given: module(given["x"]) if names == ["x"] else module(**given)

    with torch.no_grad():
        mt.manual_seed(3)
        want = _tensors(call(model)(**on("cpu")))
        program = mt.program.trace(call(model), **on("cpu"))
    program.save(folder / "forward.mtp")
    (folder / "forward.py").write_text(program.code)
    mt.save({"inputs": on("cpu"), "outputs": [t.clone() for t in want], "tensors": {n: t.detach() for n, t in program.tensors.items()}},
            folder / "forward.pt")  # fmt: skip
    with mt.device("meta"):
        model = build().eval().to("meta")
    with torch.no_grad():
        program = mt.program.trace(call(model), **on("meta"))
    program.save(folder / "meta.mtp")
    (folder / "meta.json").write_text(json.dumps(watched(lambda: call(model)(**on("meta")))))


def save_training(folder: Path, build: Callable[[], Any], inputs: dict[str, Any], steps: int, kind: str) -> None:
    """Save the program of a training step, and losses and tensors after some steps of the model itself.

    The program of a step of AdamW is that step, because the number of the step is read from a tensor: it runs once.
    """
    import torch

    import metatensor as mt

    torch.manual_seed(0)
    model = build().train()
    optimizer: Any = getattr(torch.optim, kind)(model.parameters(), **OPTIMIZERS[kind])
    steps = 1 if kind == "AdamW" else steps

    def step(**given: Any) -> Any:
        optimizer.zero_grad()
        made = model(given["x"]) if list(given) == ["x"] else model(**given)
        loss = sum(t.float().square().mean() for t in _tensors(made) if t.is_floating_point() and t.requires_grad)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(**inputs)
    state = [*model.parameters(), *model.buffers(), *(t for s in optimizer.state.values() for t in s.values() if isinstance(t, mt.Tensor))]
    before = [t.detach().clone() for t in state]

    def restore() -> None:
        with torch.no_grad():
            for t, saved in zip(state, before):
                t.copy_(saved)

    program = mt.program.trace(step, **inputs)
    restore()
    program.save(folder / "step.mtp")
    runs = []
    for _ in range(2):  # the model itself must repeat what it does
        restore()
        mt.manual_seed(5)
        losses = [step(**inputs).clone() for _ in range(steps)]
        runs.append((losses, {n: t.detach().clone() for n, t in program.tensors.items()}))
    (losses, tensors), (again, others) = runs
    mt.save({"inputs": inputs, "losses": losses, "tensors": tensors,
             "repeats": all(map(_same, losses, again)) and all(_same(t, others[n]) for n, t in tensors.items())},
             folder / "step.pt")  # fmt: skip


# Comparing ------------------------------------------------------------------------------------------------


class _Blocked:
    """A finder that lets nothing of the libraries be imported."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] in (*LIBRARIES, "torch", "tokenizers", "safetensors", "huggingface_hub"):
            raise ImportError(f"{name} is not there")


def _same(a: Any, b: Any) -> bool:
    """Return whether two tensors have the same dtype, shape and bits."""
    import metatensor as mt

    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    a, b = (t.detach().contiguous().reshape(-1) for t in (a, b))
    return bool(mt.equal(a.view(mt.uint8), b.view(mt.uint8)))


def _difference(a: Any, b: Any) -> str:
    if a.dtype is not b.dtype or a.shape != b.shape:
        return f"{a} is not {b}"
    return f"differs by {(a.double() - b.double()).abs().max().item():.3g}"


def compared(folder: Path) -> dict[str, str]:
    """Return for each kind of run "equal" or what differs."""
    import metatensor as mt

    found: dict[str, str] = {}

    def note(kind: str, check: Callable[[], str]) -> None:
        try:
            found[kind] = check()
        except Exception as error:
            found[kind] = f"{type(error).__name__}: {error}"[:300]

    def on_meta() -> str:
        program = mt.program.load(folder / "meta.mtp")
        want = json.loads((folder / "meta.json").read_text())
        forward = mt.load(folder / "forward.pt", weights_only=False)["inputs"]
        got = watched(lambda: program(**{k: v.to("meta") if isinstance(v, mt.Tensor) else v for k, v in forward.items()}))
        different = [key for key in want if want[key] != got[key]]
        return f"other {', '.join(different)}" if different else "equal"

    def values(run: Callable[..., Any]) -> str:
        kept = mt.load(folder / "forward.pt", weights_only=False)
        mt.manual_seed(3)
        with mt.no_grad():
            got = _tensors(run(kept))
        want = kept["outputs"]
        if len(got) != len(want):
            return f"{len(got)} outputs, not {len(want)}"
        wrong = [_difference(a, b) for a, b in zip(want, got) if not _same(a, b)]
        return wrong[0] if wrong else "equal"

    def source(kept: dict[str, Any]) -> Any:
        scope: dict[str, Any] = {}
        exec((folder / "forward.py").read_text(), scope)
        return scope["forward"](kept["tensors"], *_tensors(kept["inputs"]))

    def trained() -> str:
        kept = mt.load(folder / "step.pt", weights_only=False)
        program = mt.program.load(folder / "step.mtp")
        mt.manual_seed(5)
        losses = [program(**kept["inputs"]).clone() for _ in kept["losses"]]
        notes = [] if kept["repeats"] else ["the model itself gives other values the second time"]
        notes += [f"loss {i} {_difference(a, b)}" for i, (a, b) in enumerate(zip(kept["losses"], losses)) if not _same(a, b)][:1]
        wrong = [f"{n} {_difference(t, program.tensors[n])}" for n, t in kept["tensors"].items() if not _same(t, program.tensors[n])]
        return "; ".join([*notes, *wrong[:1], *([f"{len(wrong)} tensors"] if wrong else [])]) or "equal"

    note("meta", on_meta)
    note("forward", lambda: values(lambda kept: mt.program.load(folder / "forward.mtp")(**kept["inputs"])))
    note("on cpu from meta", lambda: values(lambda kept: _bound(folder, kept)(**kept["inputs"])))
    note("source", lambda: values(source))
    if (folder / "step.mtp").exists():
        note("training", trained)
    return found


def _bound(folder: Path, kept: dict[str, Any]) -> Any:
    """Return the program that was traced on meta, with the parameters and buffers of the one on cpu. It has its own constants."""
    import metatensor as mt

    program = mt.program.load(folder / "meta.mtp")
    return program.bind({name: t for name, t in kept["tensors"].items() if program.kinds.get(name, "constant") != "constant"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"default: {' '.join(LIBRARIES)}")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", help="where the programs are kept. Default: a temporary folder")
    parser.add_argument("--compare", action="store_true", help="only compare what is in the folder")
    options = parser.parse_args()
    if options.compare:
        sys.meta_path.insert(0, _Blocked())  # type: ignore[arg-type]
        for folder in sorted(Path(options.folder).iterdir()):
            print(json.dumps([folder.name, compared(folder)]), flush=True)
        return
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    warnings.filterwarnings("ignore")
    from metatensor import torch_api

    torch_api.install()
    start = time.perf_counter()
    counts: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as made:
        root = Path(options.folder or made)
        for library in options.libraries or LIBRARIES:
            for i, (name, build, inputs) in enumerate(models(library)):
                if options.names and name not in options.names:
                    continue
                folder = root / f"{library}-{name}"
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    save_forward(folder, build, inputs)
                    if i < TRAINED[library] or name in TRAINED_TOO:
                        save_training(folder, build, inputs, options.steps, list(OPTIMIZERS)[i % 3])
                except Exception as error:
                    print(f"{folder.name}: not traced: {type(error).__name__}: {error}"[:400], flush=True)
        print(f"traced and saved in {time.perf_counter() - start:.0f} s", flush=True)
        command = [sys.executable, "-m", "benchmarks.programs_on_cpu", "--compare", "--folder", str(root)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout or ():
            name, found = json.loads(line)
            print(f"{name}: " + ", ".join(f"{kind} {result}" for kind, result in found.items()), flush=True)
            for kind, result in found.items():
                equal = counts.setdefault(kind, [0, 0])
                equal[0] += result == "equal"
                equal[1] += 1
        process.wait()
    for kind, (equal, total) in counts.items():
        print(f"{kind}: {equal} of {total} equal")
    print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(process.returncode or any(equal != total for equal, total in counts.values()))


if __name__ == "__main__":
    main()
