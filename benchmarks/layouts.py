"""Compare costed layouts of training steps with published measurements: ``python -m benchmarks.layouts``.

Rows are those of ``data/published.json`` whose layouts a plan can cost, and the steps of arXiv:2205.05198 (table 5, full recomputation).
The first table compares memory and time as predicted without any fit. The second one fits efficiencies to the times of one source
(`metatensor.plan.fit_profile`) and tests them on the others. Rows that were compiled are shown apart.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import metatensor as mt
from metatensor.devices.topologies import topology
from metatensor.nn import functional as F
from metatensor.plan import Measurement, fit_profile
from metatensor.plan.searching import search

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import llama3

DATA = Path(__file__).parent / "data" / "published.json"
PLAIN: dict[str, Any] = {"context": [1], "expert": [1], "offload": ["none"], "max_memory": 1 << 50}
"""Settings of all rows: one layout, whatever memory it needs."""


@dataclass
class Row:
    """A measured step with its prediction."""

    source: str
    kind: str
    case: str
    model: str
    measurement: Measurement
    seconds: float
    memory: list[float]
    """Predicted bytes of the ranks that were measured."""
    measured_memory: list[float]
    reserved: bool = False
    """Whether the measured memory is what the allocator has reserved."""

    @property
    def errors(self) -> list[float]:
        """Relative errors of the memory."""
        return [a / b - 1 for a, b in zip(self.memory, self.measured_memory, strict=True)]


def loss(output: Any, samples: int) -> Any:
    """Return the cross entropy of tokens."""
    return F.cross_entropy(output.flatten(0, 1), mt.empty(output.shape[0] * output.shape[1], dtype=mt.int64, device="meta"))


def row_of(source: str, kind: str, case: str, model: str, one: Measurement, measured: list[float], reserved: bool = False) -> Row:
    """Return a row with its prediction."""
    plan = search(one.model, *one.inputs, devices=one.devices, **one.settings)
    layout = plan.best
    assert len(plan.layouts) == 1
    ranks = [float(sum(rank.values())) for rank in layout.memory]
    memory = [ranks[0], ranks[-1]][: len(measured)] if len(measured) > 1 else [max(ranks)]
    return Row(source, kind, case, model, one, layout.seconds, memory if measured else [], measured, reserved)


def simumax(section: dict[str, Any]) -> list[Row]:
    """Return rows of SimuMax's measurements of Megatron-LM on 8 B200 with predictions."""
    found = []
    for row in section["rows"]:
        config = section["model_configs"][row["model"]]
        if config["model_type"] != "dense":
            continue
        with mt.device("meta"):
            tokens = mt.empty(1, row["sequence"], dtype=mt.int64)
            model = llama3.Llama3(llama3.Config(
                layers=row["layers"], heads=config["head_num"], kv_heads=config["kv_head_num"], width=config["hidden_size"],
                hidden=config["intermediate_size"], vocabulary=config["vocab_size"],
            ))  # fmt: skip
        settings = {**PLAIN, "global_batch": row["micro_batches"] * row["dp"], "loss": loss, "tensor": [row["tp"]],
                    "pipeline": [row["pp"]], "context": [row["cp"]], "shard": [1 if row["dp"] * row["cp"] > 1 else 0],
                    "micro_batches": [1], "recompute": ["none"], "sequence": [row["tp"] > 1],
                    "kernels": ["activation", "gather"],
                    "schedules": ["1F1B"], "virtual_stages": [1], "stages": "equal"}  # fmt: skip
        group = (row["model"], row["layers"], row["tp"], row["cp"], row["pp"], row["dp"])
        one = Measurement(row["measured_iteration_ms"] / 1e3, model, (tokens,), "8xB200", settings, row["case"], group)
        kind = "dense, " + " ".join(f"{name.upper()}{row[name]}" for name in ("tp", "cp", "pp", "dp") if row[name] > 1)
        measured = [row["max_allocated_MiB_by_rank"][i] * 2.0**20 for i in (0, -1)]
        found.append(row_of("SimuMax", kind, row["case"], row["model"], one, measured))
    return found


def torchtitan(section: dict[str, Any]) -> list[Row]:
    """Return the rows of torchtitan in bfloat16, Llama 3.1 8B with FSDP on 8 and 128 H100. The second was compiled."""
    found = []
    for row in section["rows"]:
        if row.get("techniques") not in ("FSDP", "FSDP + torch.compile"):
            continue
        gpus = int(row["table"].partition(" GPUs")[0].rpartition(" ")[2])
        with mt.device("meta"):
            model, tokens = llama3.llama3_8b(), mt.empty(1, 8192, dtype=mt.int64)
        settings = {**PLAIN, "global_batch": 2 * gpus, "loss": loss, "tensor": [1], "pipeline": [1], "shard": [3], "micro_batches": [2],
                    "recompute": ["selective"]}  # fmt: skip
        one = Measurement(2 * 8192 / row["tokens_per_s_per_gpu"], model, (tokens,), f"{gpus}xH100", settings, f"torchtitan {gpus}")
        kind = "FSDP, compiled" if "compile" in row["techniques"] else "FSDP"
        found.append(row_of("torchtitan", kind, f"FSDP, {gpus} H100", "8b", one, [row["memory_GiB"] * 2.0**30], True))
    return found


class Attention(mt.nn.Module):
    """Causal attention whose scores are tensors, as before fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = width // heads
        self.q, self.k, self.v, self.out = (mt.nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = (part(x).view(b, s, -1, self.heads).permute(2, 0, 1, 3) for part in (self.q, self.k, self.v))  # heads are divided
        weights = F.dropout(mt.softmax(q @ k.transpose(-1, -2), -1), 0.1)
        return self.out((weights @ v).permute(1, 2, 0, 3).reshape(b, s, -1))


class Layer(mt.nn.Module):
    """A layer that normalizes first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = mt.nn.LayerNorm(width), mt.nn.LayerNorm(width)
        self.attention, self.up, self.down = Attention(width, heads), mt.nn.Linear(width, 4 * width), mt.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + F.dropout(self.attention(self.norm1(x)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


class Decoder(mt.nn.Module):
    """A language model of such layers."""

    def __init__(self, layers: int, width: int, heads: int, words: int, length: int) -> None:
        super().__init__()
        self.words, self.positions = mt.nn.Embedding(words, width), mt.nn.Embedding(length, width)
        self.layers = mt.nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = mt.nn.LayerNorm(width), mt.nn.Linear(width, words, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def megatron(rows: list[dict[str, Any]]) -> list[Row]:
    """Return the steps with full recomputation of Megatron-LM on A100 in table 5 of arXiv:2205.05198."""
    found = []
    for row in rows:
        with mt.device("meta"):
            model = Decoder(row["layers"], row["hidden"], row["heads"], row["vocab"], row["sequence"])
            tokens = mt.empty(1, row["sequence"], dtype=mt.int64)
        virtual = row["interleaving"]
        settings = {**PLAIN, "global_batch": row["global_batch"], "loss": loss, "tensor": [row["tensor_parallel"]],
                    "pipeline": [row["pipeline_parallel"]], "shard": [0], "micro_batches": [row["micro_batch"]], "recompute": ["full"],
                    "sequence": [False], "schedules": ["Interleaved1F1B" if virtual > 1 else "1F1B"], "virtual_stages": [virtual],
                    "stages": "equal"}  # fmt: skip
        one = Measurement(row["table5"]["iteration_s_full_recompute"], model, (tokens,), f"{row['gpus']}xA100-SXM-80GB", settings,
                          f"Megatron {row['model']}")  # fmt: skip
        kind = f"dense, TP{row['tensor_parallel']} PP{row['pipeline_parallel']}, recomputed"
        found.append(row_of("Megatron-LM", kind, f"{row['model']}, {row['gpus']} A100", row["model"], one, []))
    return found


def pairs_in_order(rows: list[Row]) -> tuple[int, int]:
    """Return how many pairs of layouts of one model and batch are ranked as measured, and how many differ by more than 5%."""
    right = total = 0
    for a, b in combinations(rows, 2):
        same = (a.source, a.model, a.measurement.settings["global_batch"]) == (b.source, b.model, b.measurement.settings["global_batch"])
        if same and abs(a.measurement.seconds / b.measurement.seconds - 1) > 0.05:
            total += 1
            right += (a.seconds < b.seconds) == (a.measurement.seconds < b.measurement.seconds)
    return right, total


def crossed(rows: list[Row]) -> list[tuple[str, str, list[float]]]:
    """Return the errors of times on each source with efficiencies fitted to another one."""
    found = []
    sources = list(dict.fromkeys(row.source for row in rows))
    for source in sources:
        own = [row.measurement for row in rows if row.source == source]
        profile = fit_profile(own if len(own) > 1 else own * 2)
        if len(own) > 1:
            found.append((source, f"{source}, held out", profile.after))
        for other in sources:
            errors = []
            for row in rows:
                if row.source == other != source:
                    where = topology(row.measurement.devices)
                    plan = search(row.measurement.model, *row.measurement.inputs, **row.measurement.settings,
                                  devices=replace(where, device=profile.carried(where.device)))  # fmt: skip
                    errors.append(plan.best.seconds / row.measurement.seconds - 1)
            if errors:
                found.append((source, other, errors))
        every = [error for from_, to, errors in found if from_ == source and "held out" not in to for error in errors]
        found.append((source, "all others", every))
    return found


def main() -> None:
    """Print the tables."""
    published = json.loads(DATA.read_text())
    sections = published["measured_memory"]["sections"]
    rows = [*simumax(sections["simumax_b200"]), *torchtitan(sections["torchtitan"]), *megatron(published["activation_memory"]["rows"])]
    print("| source | kind | case | step, s | measured | error | memory, GiB | measured | errors |")
    print("|---|---|---|--:|--:|--:|---|---|---|")
    for row in rows:
        texts = [", ".join(f"{value / 2**30:.1f}" for value in values) for values in (row.memory, row.measured_memory)]
        print(f"| {row.source} | {row.kind} | {row.case} | {row.seconds:.3f} | {row.measurement.seconds:.3f} "
              f"| {row.seconds / row.measurement.seconds - 1:+.1%} | {' | '.join(texts)}{' (reserved)' if row.reserved else ''} "
              f"| {', '.join(f'{e:+.1%}' for e in row.errors)} |")  # fmt: skip
    memory = [abs(e) for row in rows for e in row.errors if not row.reserved]
    times = [abs(row.seconds / row.measurement.seconds - 1) for row in rows if "compiled" not in row.kind]
    right, total = pairs_in_order(rows)
    print(f"\nallocated memory: {median(memory):.1%} in the median, {max(memory):.1%} in the worst; time without a fit: "
          f"{median(times):.1%} and {max(times):.1%}; {right} of {total} pairs in the measured order\n")  # fmt: skip
    print("| fitted on | tested on | steps | median error of the time | worst |")
    print("|---|---|--:|--:|--:|")
    plain = [row for row in rows if "compiled" not in row.kind]
    for source, other, errors in crossed(plain):
        print(f"| {source} | {other} | {len(errors)} | {median(map(abs, errors)):.1%} | {max(map(abs, errors)):.1%} |")


if __name__ == "__main__":
    main()
