"""Compare costed layouts of training steps with published measurements: ``python -m benchmarks.layouts``.

Rows are those of ``data/published.json`` whose layouts a plan can cost: data, tensor, sequence and pipeline parallelism of dense models,
not compiled, without float8. Nothing is fitted to them.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import metatensor as mt
from metatensor.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import llama3

DATA = Path(__file__).parent / "data" / "published.json"


def model_of(config: dict[str, Any], layers: int) -> Any:
    """Return the model of a row on meta."""
    with mt.device("meta"):
        return llama3.Llama3(llama3.Config(
            layers=layers, heads=config["head_num"], kv_heads=config["kv_head_num"], width=config["hidden_size"],
            hidden=config["intermediate_size"], vocabulary=config["vocab_size"],
        ))  # fmt: skip


def loss(output: Any, samples: int) -> Any:
    """Return the cross entropy of tokens."""
    return F.cross_entropy(output.flatten(0, 1), mt.empty(output.shape[0] * output.shape[1], dtype=mt.int64, device="meta"))


def simumax(section: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows of SimuMax's measurements of Megatron-LM on 8 B200 with predictions."""
    found = []
    for row in section["rows"]:
        config = section["setup"] and section["model_configs"][row["model"]]
        if config["model_type"] != "dense" or row["cp"] > 1 or row["ep"] > 1:
            continue
        tokens = mt.empty(1, row["sequence"], dtype=mt.int64, device="meta")
        plan = mt.plan.search(model_of(config, row["layers"]), tokens, devices="8xB200", global_batch=row["micro_batches"] * row["dp"],
                              loss=loss, tensor=[row["tp"]], pipeline=[row["pp"]], shard=[1 if row["dp"] > 1 else 0], micro_batches=[1],
                              recompute=["none"], sequence=[row["tp"] > 1], stages="equal")  # fmt: skip
        layout = plan.layouts[0] if plan.layouts else plan.rejected[0].layout
        assert layout is not None, plan.rejected[0].limit
        first, last = row["max_allocated_MiB_by_rank"][0] * 2**20, row["max_allocated_MiB_by_rank"][-1] * 2**20
        ranks = [sum(rank.values()) for rank in layout.memory]
        found.append({
            "case": row["case"], "model": row["model"], "batch": row["micro_batches"] * row["dp"], "seconds": layout.seconds,
            "measured_seconds": row["measured_iteration_ms"] / 1e3, "memory": [ranks[0], ranks[-1]], "measured_memory": [first, last],
            "layout": layout.to_dict(),
        })  # fmt: skip
    return found


def torchtitan(section: dict[str, Any]) -> dict[str, Any]:
    """Return the row of torchtitan without compilation, Llama 3.1 8B with FSDP on 8 H100, with its prediction."""
    row = next(row for row in section["rows"] if row.get("techniques") == "FSDP")
    with mt.device("meta"):
        model, tokens = llama3.llama3_8b(), mt.empty(1, 8192, dtype=mt.int64)
    plan = mt.plan.search(model, tokens, devices="8xH100", global_batch=16, loss=loss, tensor=[1], pipeline=[1], shard=[3],
                          micro_batches=[2], recompute=["selective"])  # fmt: skip
    layout = plan.layouts[0] if plan.layouts else plan.rejected[0].layout
    assert layout is not None
    return {"case": "torchtitan FSDP 8", "seconds": layout.seconds, "measured_seconds": 2 * 8192 / row["tokens_per_s_per_gpu"],
            "memory": [layout.peak], "measured_memory": [row["memory_GiB"] * 2**30], "layout": layout.to_dict()}  # fmt: skip


def pairs_in_order(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Return how many pairs of layouts of one model and batch are ranked as measured, and how many differ by more than 5%."""
    right = total = 0
    for a, b in combinations(rows, 2):
        if (a["model"], a["batch"]) == (b["model"], b["batch"]) and abs(a["measured_seconds"] / b["measured_seconds"] - 1) > 0.05:
            total += 1
            right += (a["seconds"] < b["seconds"]) == (a["measured_seconds"] < b["measured_seconds"])
    return right, total


def main() -> None:
    """Print the table of errors."""
    sections = json.loads(DATA.read_text())["measured_memory"]["sections"]
    rows = simumax(sections["simumax_b200"])
    right, total = pairs_in_order(rows)
    print("| case | step, s | measured | error | memory of the first and last rank, GiB | measured | errors |")
    print("|---|--:|--:|--:|---|---|---|")
    for row in [*rows, torchtitan(sections["torchtitan"])]:
        errors = [a / b - 1 for a, b in zip(row["memory"], row["measured_memory"], strict=True)]
        error = row["seconds"] / row["measured_seconds"] - 1
        print(f"| {row['case']} | {row['seconds']:.3f} | {row['measured_seconds']:.3f} | {error:+.1%} "
              f"| {', '.join(f'{a / 2**30:.1f}' for a in row['memory'])} | {', '.join(f'{a / 2**30:.1f}' for a in row['measured_memory'])} "
              f"| {', '.join(f'{e:+.1%}' for e in errors)} |")  # fmt: skip
        if "-v" in sys.argv:
            print(json.dumps(row["layout"]))
    ratio = median(row["measured_seconds"] / row["seconds"] for row in rows)
    last = torchtitan(sections["torchtitan"])
    scaled = [abs(ratio * row["seconds"] / row["measured_seconds"] - 1) for row in rows]
    times = [abs(row["seconds"] / row["measured_seconds"] - 1) for row in rows]
    memory = [abs(a / b - 1) for row in rows for a, b in zip(row["memory"], row["measured_memory"], strict=True)]
    print(f"\nSimuMax, {len(rows)} rows: time {median(times):.1%} in the median, {max(times):.1%} in the worst; allocated memory "
          f"{median(memory):.1%} and {max(memory):.1%}; {right} of {total} pairs in the measured order")  # fmt: skip
    print(f"with times multiplied by the median ratio of these rows, {ratio:.2f}: {median(scaled):.1%} and {max(scaled):.1%}; "
          f"torchtitan, which was not used, {ratio * last['seconds'] / last['measured_seconds'] - 1:+.1%}")  # fmt: skip
    print("torchtitan's memory is reserved memory, which the allocator rounds up; the prediction is allocated memory")


if __name__ == "__main__":
    main()
