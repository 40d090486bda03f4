"""Train a model that writes character by character, on the documentation that ships with Python.

    pip install metatensor-device metatensor-cpu
    python examples/characters.py

It takes less than a minute on one core. First the same step runs on meta, which says what it needs without computing.
"""

from __future__ import annotations

import math
import sys
import time

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

CONTEXT, WIDTH, LAYERS, BATCH = 32, 64, 2, 32


def text() -> str:
    """Return Python's help on its language: the topics of ``help()``, about 450,000 characters."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


class Writer(nn.Module):
    """A transformer that predicts the next of `letters` kinds of characters at each place."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        for table in (self.letter, self.place):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, tokens: mt.Tensor) -> mt.Tensor:
        length = tokens.shape[1]
        states = self.letter(tokens) + self.place(mt.arange(length, device=tokens.device))
        future = mt.full((length, length), -math.inf, device=tokens.device).triu(1)
        return F.linear(self.norm(self.blocks(states, mask=future, is_causal=True)), self.letter.weight)


def step(model: nn.Module, optimizer: mt.optim.Optimizer, tokens: mt.Tensor) -> mt.Tensor:
    """Train on a batch, (batch, length + 1). Return the loss: the mean surprise at the next character, in nats."""
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def batch(data: mt.Tensor) -> mt.Tensor:
    """Return random pieces of the text."""
    starts = mt.randint(len(data) - CONTEXT - 1, (BATCH, 1))
    return data[starts + mt.arange(CONTEXT + 1)]


@mt.no_grad()
def write(model: nn.Module, tokens: list[int], length: int) -> list[int]:
    """Continue a text."""
    model.eval()
    tokens = list(tokens)
    for _ in range(length):
        logits = model(mt.tensor([tokens[-CONTEXT:]]))[0, -1]
        tokens.append(int(mt.multinomial(F.softmax(logits / 0.7, -1), 1)))
    return tokens


def on_meta(letters: int) -> None:
    """Run one step on meta and print what it needs."""
    with mt.device("meta"):
        model = Writer(letters)
        optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
        step(model, optimizer, mt.empty(BATCH, CONTEXT + 1, dtype=mt.int64))
    count = sum(p.numel() for p in model.parameters())
    held = [t for p in model.parameters() for t in (p, p.grad, *optimizer.state[p].values()) if isinstance(t, mt.Tensor)]
    print(f"{count:,} parameters; with gradients and AdamW's state {sum(t.nbytes for t in held) / 2**20:.1f} MiB\n")


def bar(done: int, total: int, loss: float, seconds: float) -> None:
    """Draw the progress over the last line."""
    full = 40 * done // total
    print(f"\r[{'#' * full}{'.' * (40 - full)}] {done}/{total}  loss {loss:.3f}  {seconds:.0f} s", end="", file=sys.stderr, flush=True)


def main(steps: int = 500) -> list[float]:
    """Train, and print a text that the model writes. Return the losses."""
    mt.manual_seed(0)
    source = text()
    letters = sorted(set(source))
    number = {letter: i for i, letter in enumerate(letters)}
    data = mt.tensor([number[letter] for letter in source])
    print(f"{len(source):,} characters of {len(letters)} kinds; guessing costs {math.log(len(letters)):.2f} nats each")
    on_meta(len(letters))

    model = Writer(len(letters)).to("cpu")
    optimizer = mt.optim.AdamW(model.parameters(), lr=3e-3)
    rate = mt.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=steps)
    losses: list[float] = []
    start = time.perf_counter()
    for done in range(1, steps + 1):
        losses.append(step(model, optimizer, batch(data)).item())
        rate.step()
        recent = losses[-20:]
        bar(done, steps, sum(recent) / len(recent), time.perf_counter() - start)
    print(file=sys.stderr)
    first, last = losses[0], sum(losses[-20:]) / len(losses[-20:])
    print(f"The loss fell from {first:.2f} to {last:.2f} in {time.perf_counter() - start:.0f} s. The model writes:\n")
    print("".join(letters[i] for i in write(model, [number[letter] for letter in "The "], 300)))
    return losses


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
