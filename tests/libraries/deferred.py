"""Build models of timm and transformers eagerly and deferred from the same seed, and compare them bit for bit.

    python tests/libraries/deferred.py timm --models 200 [--every 1] [--largest 30e6] [--only NAME]
    python tests/libraries/deferred.py transformers --models 60

PyTorch is not needed. The program prints a line for each model that differs or fails, and the counts.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
import warnings


def timm_models():
    """Yield name and builder of each model, in ascending order of size."""
    import timm
    import torch

    sizes = {}
    for name in timm.list_models():
        with torch.device("meta"):
            try:
                sizes[name] = sum(p.numel() for p in timm.create_model(name, pretrained=False).parameters())
            except Exception as error:
                print(f"{name}: not even on meta: {type(error).__name__}: {error}")
    for name in sorted(sizes, key=sizes.__getitem__):
        yield name, sizes[name], lambda name=name: timm.create_model(name, pretrained=False)


SMALL = {
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_encoder_layers": 2, "vocab_size": 320, "hidden_size": 64, "d_model": 64, "n_embd": 64,
    "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "n_head": 4, "head_dim": 16, "d_kv": 16,
    "d_ff": 96, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96, "dim": 64, "embedding_size": 64, "n_inner": 96, "pad_token_id": 1, "max_position_embeddings": 128,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
}  # fmt: skip


def shrink(config, keys):
    """Reduce the sizes in a configuration and its nested configurations to at most those in ``keys``."""
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value, keys)
        elif name in keys and type(value) is int and value > keys[name]:
            setattr(config, name, keys[name])
        elif name == "layer_types" and isinstance(value, list) and "num_hidden_layers" in keys:
            setattr(config, name, value[: keys["num_hidden_layers"]])
    return config


def transformers_models(largest):
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    layers = {k: v for k, v in SMALL.items() if "layer" in k or k == "vocab_size"}
    for kind, classes in MODEL_MAPPING_NAMES.items():
        name = classes[0] if isinstance(classes, tuple) else classes
        for keys in (SMALL, layers):

            def build(kind=kind, name=name, keys=keys):
                config = shrink(CONFIG_MAPPING[kind](), keys)
                return getattr(transformers, name)(config)

            try:
                with torch.device("meta"):
                    size = sum(p.numel() for p in build().parameters())
            except Exception:
                continue
            if size <= largest:
                yield f"{kind}/{name}", size, build
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("timm", "transformers"))
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--largest", type=float, default=40e6, help="maximum number of parameters")
    parser.add_argument("--every", type=int, default=1, help="only every n-th model")
    parser.add_argument("--only", help="only models whose name contains this")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    from metatensor import torch_api

    torch_api.install()
    import metatensor as mt
    from metatensor.testing.deferral import check_deferred_matches, never_written, places

    found = timm_models() if options.library == "timm" else transformers_models(options.largest)
    right = wrong = tensors = unwritten = 0
    parameters = 0
    start = time.time()
    for i, (name, size, build) in enumerate(found):
        if size > options.largest or right + wrong >= options.models:
            break
        if i % options.every or (options.only and options.only not in name):
            continue
        random.seed(0)
        try:
            model = check_deferred_matches(build)
        except Exception as error:
            wrong += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            continue
        right += 1
        parameters += size
        all_of = list(places(model))
        bare = [place for place, t in all_of if not t.is_meta and never_written(t)]
        tensors += len(all_of)
        unwritten += len(bare)
        if bare:
            print(f"{name}: never written to, with or without: {len(bare)}: {', '.join(bare[:4])}", flush=True)
        del model
        gc.collect()
    print(f"{options.library}: {right} equal, {wrong} not; {tensors} tensors, {parameters / 1e6:.0f} million parameters, "
          f"{unwritten} tensors never written to; {time.time() - start:.0f} s")  # fmt: skip
    del mt
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
