"""Compare the state of transformers models that a plan reports with the caches that a run with values has.

``python -m benchmarks.states [KIND ...]`` needs transformers and the cpu device. Each model is small and random. The plan runs a
prompt and one step on meta. The comparison feeds one token after the other with values and adds up the storages of the returned
cache itself.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings

import metatensor as mt
from metatensor import torch_api

torch_api.install()

import transformers  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

from metatensor.plan.decoding import Decoder  # noqa: E402

SMALL = {
    "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 99,
    "head_dim": 16, "n_embd": 64, "n_layer": 4, "n_head": 4, "d_model": 64, "ffn_dim": 96, "decoder_layers": 4,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 96, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "n_positions": 64, "n_ctx": 64,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sliding_window": 6, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "q_lora_rank": 24,
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1, "state_size": 8, "mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2,
    "mamba_n_groups": 1, "attn_layer_indices": [1, 3], "num_heads": 8, "n_groups": 1, "max_seq_len": 64, "max_source_positions": 64,
    "word_embed_proj_dim": 64, "dim": 64, "n_layers": 4, "n_heads": 4, "lru_width": 64, "attention_window_size": 6, "rotary_dim": 8,
    "attn_layer_period": 2, "attn_layer_offset": 1, "conv_kernel": 4,
}  # fmt: skip
"""Entries for all configurations. Entries that a configuration does not have mean nothing to it."""
LARGEST = 10_000_000
"""Models with more parameters than this are left out. They are models that have parts whose sizes the entries above do not set."""
LENGTHS = (5, 12, 13)


def model_of(kind: str, **changes: object) -> object:
    """Return a small random causal language model of a kind, with values."""
    plain = transformers.AutoConfig.for_model(kind)
    known = {name: value for name, value in SMALL.items() if hasattr(plain, name) or name in getattr(plain, "attribute_map", {})}
    if getattr(plain, "pad_token_id", None) is None:
        known.pop("pad_token_id", None)
    if "qk_rope_head_dim" in known:  # keys are compressed, and its heads have sizes of their own
        known |= {"num_key_value_heads": 4, "head_dim": known["qk_rope_head_dim"]}
    config = transformers.AutoConfig.for_model(kind, **{**known, **changes})
    with mt.device("meta"):
        parameters = transformers.AutoModelForCausalLM.from_config(config).num_parameters()
    if parameters > LARGEST:
        raise ValueError(f"{parameters:,} parameters")
    with mt.device("cpu"):
        return transformers.AutoModelForCausalLM.from_config(config).eval()


def cache_bytes(state: object, seen: set[object]) -> int:
    """Return the bytes of the tensors of a cache: entries of lists, and attributes of its layers."""
    if isinstance(state, mt.Tensor):
        storage = state.untyped_storage()  # a window may be a view of a longer tensor, which stays allocated
        known = storage in seen
        seen.add(storage)
        return 0 if known else storage.nbytes()
    if isinstance(state, dict):
        return sum(cache_bytes(value, seen) for value in state.values())
    if isinstance(state, (list, tuple)):
        return sum(cache_bytes(value, seen) for value in state)
    if type(state).__module__.startswith("transformers.") and not isinstance(state, (mt.nn.Module, transformers.PreTrainedConfig)):
        return cache_bytes(vars(state), seen)
    return 0


def measured(model: object, length: int) -> int:
    """Return the bytes of the caches after ``length`` single tokens with values."""
    state: dict[str, object] = {}
    with mt.no_grad():
        for i in range(length):
            token = mt.tensor([[3 + i]], device="cpu")
            output = model(token, use_cache=True, **state)
            state = {name: output[name] for name in ("past_key_values", "cache_params", "state") if output.get(name) is not None}
    return cache_bytes(state, set())


def compare(kind: str) -> tuple[list[int], list[int]]:
    """Return the bytes by the plan and by the run with values at `LENGTHS`."""
    model = model_of(kind)
    found = [measured(model, n) for n in LENGTHS]
    decoder = Decoder(model.to("meta"))
    return [decoder.state_bytes(1, n) for n in LENGTHS], found


def main() -> int:
    """Print a row for each kind. Return the number of differences."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    equal, different, failed = 0, 0, []
    for kind in sys.argv[1:] or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        start = time.monotonic()
        try:
            planned, found = compare(kind)
        except Exception as error:
            failed.append(f"{kind}: {type(error).__name__}: {str(error)[:150]!r}")
            continue
        if not any(found):
            failed.append(f"{kind}: has no cache")
            continue
        same = planned == found
        equal, different = equal + same, different + (not same)
        print(f"{kind:28}{'' if same else 'DIFFERENT ':10} {planned} {'' if same else found} {planned[2] - planned[1]:6} bytes/token"
              f" {time.monotonic() - start:.1f} s", flush=True)  # fmt: skip
    print(f"{equal} equal, {different} different, {len(failed)} not run")
    print("\n".join(failed))
    return different


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
