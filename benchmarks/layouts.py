"""Compare costed layouts of training steps with published measurements: ``python -m benchmarks.layouts``.

Rows are those of ``data/published.json`` whose layouts a plan can cost, and the steps of arXiv:2205.05198 (table 5, full recomputation).
The first table compares memory and time as predicted without any fit. The second one fits efficiencies to the times of one source
(`metatensor.plan.fit_profile`) and tests them on the others. Rows that were compiled are shown apart.
"""

from __future__ import annotations

import json
import re
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
from metatensor.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import llama3

from benchmarks import plan_models

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
    """Measured bytes that were allocated, of the first and last rank."""
    measured_reserved: float | None
    """Measured bytes that the allocator has reserved, of the rank with most."""

    @property
    def errors(self) -> list[float]:
        """Relative errors of the memory."""
        return [a / b - 1 for a, b in zip(self.memory, self.measured_memory, strict=False)]

    @property
    def reserved_errors(self) -> list[float]:
        """Relative error of the memory against what was reserved."""
        return [max(self.memory) / self.measured_reserved - 1] if self.measured_reserved else []

    @property
    def time_errors(self) -> list[float]:
        """Relative error of the time."""
        return [self.seconds / self.measurement.seconds - 1]


def loss(output: Any, samples: int) -> Any:
    """Return the cross entropy of tokens."""
    return F.cross_entropy(output.flatten(0, 1), mt.empty(output.shape[0] * output.shape[1], dtype=mt.int64, device="meta"))


def row_of(
    source: str, kind: str, case: str, model: str, one: Measurement, measured: list[float], reserved: float | None = None
) -> Row:  # fmt: skip
    """Return a row with its prediction."""
    plan = search(one.model, *one.inputs, devices=one.devices, **one.settings)
    layout = plan.best
    assert len(plan.layouts) == 1
    ranks = [float(sum(rank.values())) for rank in layout.memory]
    memory = [ranks[0], ranks[-1]] if measured else [max(ranks)]
    return Row(source, kind, case, model, one, layout.seconds, memory, measured, reserved)


def llama(config: dict[str, Any], layers: int) -> Any:
    """Return a dense model of SimuMax."""
    return llama3.Llama3(llama3.Config(
        layers=layers, heads=config["head_num"], kv_heads=config["kv_head_num"], width=config["hidden_size"],
        hidden=config["intermediate_size"], vocabulary=config["vocab_size"],
    ))  # fmt: skip


def mixture(config: dict[str, Any], layers: int) -> Any:
    """Return a mixture of experts of SimuMax, whose rows have one dense layer."""
    width = config["hidden_size"]
    return plan_models.Decoder(config["vocab_size"], width, [
        plan_models.SparseBlock(
            width, plan_models.LatentAttention(width, config["head_num"], config["q_lora_rank"], config["kv_lora_rank"]),
            plan_models.Mixture(width, config["moe_ffn_hidden_size"], config["expert_num"], config["topk"],
                                config["moe_shared_expert_intermediate_size"]) if i else
            plan_models.Gated(width, config["intermediate_size"])) for i in range(layers)])  # fmt: skip


def simumax(section: dict[str, Any]) -> list[Row]:
    """Return rows of SimuMax's measurements of Megatron-LM on 8 B200 with predictions."""
    found = []
    for row in section["rows"]:
        config = section["model_configs"][row["model"]]
        dense = config["model_type"] == "dense"
        with mt.device("meta"):
            tokens = mt.empty(1, row["sequence"], dtype=mt.int64)
            model = llama(config, row["layers"]) if dense else mixture(config, row["layers"])
        settings = {**PLAIN, "global_batch": row["micro_batches"] * row["dp"], "loss": loss, "tensor": [row["tp"]],
                    "pipeline": [row["pp"]], "context": [row["cp"]], "expert": [row["ep"]],
                    "shard": [1 if row["dp"] * row["cp"] > 1 else 0],
                    "micro_batches": [1], "recompute": ["none"], "sequence": [row["tp"] > 1],
                    "kernels": ["activation", "gather"],
                    "schedules": ["1F1B"], "virtual_stages": [1], "stages": "equal"}  # fmt: skip
        group = (row["model"], row["layers"], row["tp"], row["cp"], row["pp"], row["dp"])
        one = Measurement(row["measured_iteration_ms"] / 1e3, model, (tokens,), "8xB200", settings, row["case"], group)
        kind = ("dense" if dense else "experts") + (", context parallel" if row["cp"] > 1 else "")
        measured = [row["max_allocated_MiB_by_rank"][i] * 2.0**20 for i in (0, -1)]
        found.append(row_of("SimuMax", kind, row["case"], row["model"], one, measured, row["measured_reserved_GiB"] * 2.0**30))
    return found


def float_loss(output: Any, samples: int) -> Any:
    """Return the cross entropy of tokens of logits in float32."""
    return loss(output.float(), samples)


TITAN: dict[int, tuple[str, int, int, str]] = {
    1: ("8b", 1, 1, "selective"), 2: ("8b", 1, 1, "full"), 3: ("8b", 1, 1, "selective"), 4: ("70b", 8, 1, "full"),
    5: ("405b", 8, 8, "full"), 6: ("405b", 8, 8, "full"),
}  # fmt: skip
"""The model, tensor and pipeline degree, and recomputation of the tables of torchtitan's page, as their captions state them."""


def torchtitan(section: dict[str, Any]) -> list[Row]:
    """Return the rows of torchtitan, Llama 3.1 on H100 with FSDP, tensor, context and pipeline parallelism.

    All are predicted in bfloat16 without a compiler. As its code has it, logits are float32, a pipeline has as many micro-batches as
    stages, and in a pipeline parameters stay whole after the forward pass, and gradients until the last micro-batch, which is shard 1.
    """
    found = []
    for row in section["rows"]:
        table = row["table"]
        if not table.startswith("Table "):
            continue  # the recomputation of the rows on H200 is not stated
        name, tensor, pipeline, recompute = TITAN[int(table[6])]
        gpus, samples = (int(part) for part in re.search(r"(\d+) GPUs.* Local batch size (\d+)", table).groups())  # type: ignore[union-attr]
        degrees = {key: int(n) for key, n in (part.split() for part in row.get("parallelism", "").split(", ") if part)}
        context = degrees.get("CP", 1)
        data, length = gpus // (tensor * pipeline * context), row.get("sequence", 8192)
        with mt.device("meta"):
            model, tokens = getattr(llama3, f"llama3_{name}")(), mt.empty(1, length, dtype=mt.int64)
        settings = {**PLAIN, "global_batch": samples * data, "loss": float_loss, "tensor": [tensor], "pipeline": [pipeline],
                    "context": [context],
                    "shard": [1 if pipeline > 1 else 3], "micro_batches": [samples // pipeline], "recompute": [recompute],
                    "sequence": [tensor > 1], "schedules": ["1F1B"], "virtual_stages": [1]}  # fmt: skip
        tokens_per_s = row["tokens_per_s_per_gpu"] * gpus
        seconds = samples * data * length / tokens_per_s
        case = ", ".join(f"{k}{n}" for k, n in (("FSDP", data), ("TP", tensor), ("PP", pipeline), ("CP", context)) if n > 1)
        one = Measurement(seconds, model, (tokens,), f"{gpus}xH100", settings, f"torchtitan {case}")
        text = table + row.get("techniques", "")
        kind = "dense" + (", compiled" if "compile" in text else "") + (", float8" if "Float8" in text else "")
        found.append(row_of("torchtitan", kind, f"{case}, {gpus} H100, {length} tokens", name, one,
                            [], row["memory_GiB"] * 2.0**30))  # fmt: skip
    return found


class Attention(mt.nn.Module):
    """Causal attention whose scores are tensors, as before fused attention. ``again``: the backward pass computes them again."""

    def __init__(self, width: int, heads: int, again: bool) -> None:
        super().__init__()
        self.heads, self.again = width // heads, again
        self.q, self.k, self.v, self.out = (mt.nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = (part(x).view(b, s, -1, self.heads).permute(2, 0, 1, 3) for part in (self.q, self.k, self.v))  # heads are divided
        y = checkpoint(self.core, q, k, v, use_reentrant=False) if self.again else self.core(q, k, v)
        return self.out(y.permute(1, 2, 0, 3).reshape(b, s, -1))

    def core(self, q: Any, k: Any, v: Any) -> Any:
        """Return what the heads look up."""
        return F.dropout(mt.softmax(q @ k.transpose(-1, -2), -1), 0.1) @ v


class Layer(mt.nn.Module):
    """A layer that normalizes first."""

    def __init__(self, width: int, heads: int, again: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = mt.nn.LayerNorm(width), mt.nn.LayerNorm(width)
        self.attention, self.up, self.down = Attention(width, heads, again), mt.nn.Linear(width, 4 * width), mt.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + F.dropout(self.attention(self.norm1(x)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


class Decoder(mt.nn.Module):
    """A language model of such layers."""

    def __init__(self, layers: int, width: int, heads: int, words: int, length: int, again: bool) -> None:
        super().__init__()
        self.words, self.positions = mt.nn.Embedding(words, width), mt.nn.Embedding(length, width)
        self.layers = mt.nn.ModuleList([Layer(width, heads, again) for _ in range(layers)])
        self.norm, self.head = mt.nn.LayerNorm(width), mt.nn.Linear(width, words, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def megatron(rows: list[dict[str, Any]]) -> list[Row]:
    """Return the steps of Megatron-LM on A100 in table 5 of arXiv:2205.05198: full recomputation, and that of the scores of attention with
    sequence parallelism."""
    found = []
    for row, again in ((row, again) for row in rows for again in (False, True)):
        with mt.device("meta"):
            model = Decoder(row["layers"], row["hidden"], row["heads"], row["vocab"], row["sequence"], again)
            tokens = mt.empty(1, row["sequence"], dtype=mt.int64)
        virtual = row["interleaving"]
        settings = {**PLAIN, "global_batch": row["global_batch"], "loss": loss, "tensor": [row["tensor_parallel"]],
                    "pipeline": [row["pipeline_parallel"]], "shard": [0], "micro_batches": [row["micro_batch"]],
                    "recompute": ["none" if again else "full"], "sequence": [again], "kernels": ["gather"],
                    "schedules": ["Interleaved1F1B" if virtual > 1 else "1F1B"], "virtual_stages": [virtual],
                    "stages": "equal"}  # fmt: skip
        seconds = row["table5"]["iteration_s_present" if again else "iteration_s_full_recompute"]
        how = "scores recomputed, sequence parallel" if again else "recomputed"
        one = Measurement(seconds, model, (tokens,), f"{row['gpus']}xA100-SXM-80GB", settings, f"Megatron {row['model']}, {how}")
        kind = f"dense, {how}"
        case = f"{row['model']}, TP{row['tensor_parallel']} PP{row['pipeline_parallel']}, {row['gpus']} A100"
        found.append(row_of("Megatron-LM", kind, case, row["model"], one, []))
    return found


def pairs(rows: list[Row], batch: bool) -> list[tuple[Row, Row, bool]]:
    """Return the pairs of layouts of one model and sequence whose times for a sample differ by more than 5%, and whether they are ranked
    as measured. With ``batch``, only those of one batch."""
    found = []
    for a, b in combinations(rows, 2):
        settings = [row.measurement.settings for row in (a, b)]
        same = (a.source, a.model, a.measurement.inputs[0].shape) == (b.source, b.model, b.measurement.inputs[0].shape)
        if not same or kernels_of(a) != kernels_of(b) or batch and settings[0]["global_batch"] != settings[1]["global_batch"]:
            continue
        sizes = [one["global_batch"] for one in settings]
        measured = a.measurement.seconds / sizes[0] / (b.measurement.seconds / sizes[1])
        if max(measured, 1 / measured) > 1.05:
            found.append((a, b, (a.seconds / sizes[0] < b.seconds / sizes[1]) == (measured < 1)))
    return found


def kernels_of(row: Row) -> str:
    """Return whether a row was compiled or in float8."""
    return row.kind.partition(", ")[2] if row.source == "torchtitan" else ""


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


def errors_text(errors: list[float]) -> str:
    """Return the number of errors, their median and the worst as cells of a table."""
    return f"{len(errors)} | {median(map(abs, errors)):.1%} | {max(errors, key=abs):+.1%}" if errors else "| |"


def main() -> None:
    """Print the tables."""
    published = json.loads(DATA.read_text())
    sections = published["measured_memory"]["sections"]
    rows = [*simumax(sections["simumax_b200"]), *torchtitan(sections["torchtitan"]), *megatron(published["activation_memory"]["rows"])]
    print("| source | kind | case | step, s | measured | error | allocated, GiB | measured | errors | reserved | error |")
    print("|---|---|---|--:|--:|--:|---|---|---|--:|--:|")
    for row in rows:
        texts = [", ".join(f"{value / 2**30:.1f}" for value in values) for values in (row.memory, row.measured_memory)]
        reserved = f"{row.measured_reserved / 2**30:.1f}" if row.measured_reserved else ""
        print(f"| {row.source} | {row.kind} | {row.case} | {row.seconds:.3f} | {row.measurement.seconds:.3f} "
              f"| {row.time_errors[0]:+.1%} | {' | '.join(texts)} | {', '.join(f'{e:+.1%}' for e in row.errors)} "
              f"| {reserved} | {', '.join(f'{e:+.1%}' for e in row.reserved_errors)} |")  # fmt: skip
    print("\n| source | kind | allocated | median | worst | reserved | median | worst | times | median | worst |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for source, kind in dict.fromkeys((row.source, row.kind) for row in rows):
        mine = [row for row in rows if (row.source, row.kind) == (source, kind)]
        every = ([e for row in mine for e in getattr(row, name)] for name in ("errors", "reserved_errors", "time_errors"))
        print(f"| {source} | {kind} | {' | '.join(map(errors_text, every))} |")
    for batch in (True, False):
        found = pairs(rows, batch)
        which = "one batch" if batch else "any batch, by sample"
        print(f"\n{sum(right for *_, right in found)} of {len(found)} pairs of layouts of {which} are ranked as measured")
        for a, b, right in found:
            print(f"    {'as measured' if right else 'WRONG'}: {a.measurement.name} / {b.measurement.name}")
    print("\n| fitted on | tested on | steps | median error of the time | worst |")
    print("|---|---|--:|--:|--:|")
    plain = [row for row in rows if not kernels_of(row)]
    for source, other, errors in crossed(plain):
        print(f"| {source} | {other} | {len(errors)} | {median(map(abs, errors)):.1%} | {max(map(abs, errors)):.1%} |", flush=True)


if __name__ == "__main__":
    main()
