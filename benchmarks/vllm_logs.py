"""Compare plans of servers with lines that vLLM printed at its start: tokens of the cache and concurrency.

``python -m benchmarks.vllm_logs`` needs transformers. The lines are in ``data/vllm_logs.json`` with their sources; nothing is fitted to
them. A plan knows neither the CUDA graphs and communication buffers of vLLM ("non-torch memory") nor its kernels.
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor import torch_api

torch_api.install()

import transformers  # noqa: E402

from metatensor.cli.plan import last_logits  # noqa: E402
from metatensor.plan.decoding import token_ids  # noqa: E402
from metatensor.plan.weights import StoredWeights  # noqa: E402

DATA = Path(__file__).parent / "data" / "vllm_logs.json"


def model_of(row: dict[str, Any]) -> Any:
    """Return the model of a row on meta, in bfloat16."""
    config = transformers.AutoConfig.for_model(row["kind"], **row["config"])
    default = mt.get_default_dtype()
    mt.set_default_dtype(mt.bfloat16)
    try:
        with mt.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config).eval()
    finally:
        mt.set_default_dtype(default)


class Quantized(StoredWeights):
    """Weights of which all matrices between the embedding and the logits have one byte for each element."""

    def __init__(self, model: Any, checkpoint: Any = None) -> None:
        super().__init__(model, checkpoint)
        for path, nbytes in self.own.items():
            if "layers." in path and "norm" not in path:
                self.stored[path] = nbytes // 2
                self.nbytes -= nbytes - nbytes // 2


def planned(row: dict[str, Any]) -> Any:
    """Return the plan of a row."""
    from metatensor.plan import serving

    model = model_of(row)
    if row.get("bytes_of_linear") == 1:
        serving.StoredWeights = Quantized
    try:
        return mt.plan.serve(
            model, devices=f"{row['tensor']}x{row['device'] or 'h100'}", tensor=row["tensor"], context=row["max_model_len"], block=16,
            chunk=row.get("chunk") or 8192, utilization=row.get("utilization") or 0.9, batches=[],
            max_memory=None if row.get("total_gib") is None else int(row["total_gib"] * 2**30 * row["utilization"]),
            arguments=last_logits(model, token_ids),
        )  # fmt: skip
    finally:
        serving.StoredWeights = StoredWeights


def main() -> None:
    """Print a row for each log."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    ratios, rows = [], json.loads(DATA.read_text())["rows"]
    print(f"{'model':<44}{'device':<12}{'len':>7}{'tokens':>11}{'planned':>11}{'ratio':>7}{'concurrency':>12}{'planned':>9}"
          "  weights GiB   left out, GiB")
    for row in rows:
        plan = planned(row)
        name, device = row["model"].rpartition("/")[2][:43], f"{row['tensor']}x{row['device']}"
        if row["tokens"] is None:
            print(f"{name:<44}{'any':<12}{row['max_model_len']:>7,} state of a sequence {row['state_gib']} GiB, planned "
                  f"{plan.state_per_sequence / 2**30:.3f}")  # fmt: skip
            continue
        fixed = plan.weight_bytes + plan.buffer_bytes + plan.shared_state + plan.working_bytes
        tokens = max(0, plan.memory - fixed) // plan.state_per_token
        ratios.append(tokens / row["tokens"])
        shown = "" if row["concurrency"] is None else f"{row['concurrency']:.2f}x"
        weights = f"{plan.weight_bytes / 2**30:.2f}" + (f" ({row['weights_gib']:.2f})" if row["weights_gib"] else "")
        print(f"{name:<44}{device:<12}{row['max_model_len']:>7,}{row['tokens']:>11,}{tokens:>11,}{ratios[-1]:>7.3f}{shown:>12}"
              f"{tokens / row['max_model_len']:>8.2f}x  {weights:<14}"
              f"{(tokens - row['tokens']) * plan.state_per_token / 2**30:>9.2f}", flush=True)  # fmt: skip
    print(f"median ratio {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}, of {len(ratios)} rows")


if __name__ == "__main__":
    sys.exit(main())
