"""Predicted figures beside published ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis import MemoryTracker, estimate_training
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.workspaces import workspaces

from .kernels import as_on_meta
from .megatron import GPT2_WORDS, layout_of_paper, layout_of_simumax, layout_of_test, workspaces_of_test
from .rank import Layout, Stage
from .ranks import seconds_on_ranks
from .step import Bytes, memory_of, reserved_of, seconds_of_step

__all__ = ["DATA", "POLICIES", "Formula", "Row", "formulas", "measured_rows", "published", "saved_by_layer"]

DATA = Path(__file__).parents[1] / "data"


class Row(NamedTuple):
    """A prediction beside what was measured."""

    kind: str
    case: str
    predicted: float
    measured: float
    """In bytes or seconds, as `predicted`."""

    @property
    def error(self) -> float:
        """The relative error; positive if the prediction is too high."""
        return self.predicted / self.measured - 1


class Formula(NamedTuple):
    """A count beside a formula or a rounded figure of a paper."""

    what: str
    source: str
    case: str
    counted: float
    expected: float


def published() -> dict[str, Any]:
    """Return the published figures with their sources."""
    return json.loads((DATA / "published.json").read_text())  # type: ignore[no-any-return]


def measured_rows() -> tuple[list[Row], Counter[str]]:
    """Return all rows that can be predicted from one rank, and for the others each reason with the number of its rows."""
    sections = published()["measured_memory"]["sections"]
    rows: list[Row] = []
    out_of_reach: Counter[str] = Counter()
    rows.extend(_functional_tests(sections["megatron_functional_tests"], out_of_reach))
    rows.extend(_simumax(sections["simumax_b200"], out_of_reach))
    rows.extend(_paper(published()["activation_memory"]["rows"]))
    count = len(sections["torchtitan"]["rows"])
    out_of_reach["torchtitan: fully sharded parameters, compiled or float8 kernels, and reserved rather than allocated memory"] += count
    return rows, out_of_reach


POLICIES = ("meta", "cuda") if hasattr(mt.analysis, "policy") else ("meta",)
"""Kernel policies under which metatensor's own operators run."""


@contextmanager
def _kernels(policy: str | None) -> Iterator[None]:
    """Use metatensor's own operators under a kernel policy inside the block; None: the kernels of the run."""
    if policy is None:
        yield
        return
    with as_on_meta(), mt.analysis.policy(policy) if policy != "meta" else nullcontext():
        yield


class _Memory:
    """The bytes of layouts, each computed once with the same kernels."""

    def __init__(self) -> None:
        self.found: dict[tuple[Layout, int | None, str | None], Bytes] = {}

    def __call__(self, layout: Layout, rank: int | None = None, policy: str | None = None) -> Bytes:
        key = layout, rank, policy
        if key not in self.found:
            with _kernels(policy):
                self.found[key] = memory_of(layout, rank)
        return self.found[key]

    def rows(self, name: str, layout: Layout, rank: int | None, measured: float, kept: int) -> Iterator[Row]:
        """Yield the predicted peaks; ``kept`` are the bytes of workspaces."""
        yield Row("peak", name, self(layout, rank).peak + kept, measured)
        for policy in POLICIES:
            yield Row(f"training memory, {policy}", name, self(layout, rank, policy).peak, measured)


def _functional_tests(section: dict[str, Any], out_of_reach: Counter[str]) -> Iterator[Row]:
    memory = _Memory()
    for case, platform, _, allocated, _, peak in section["rows"]:
        layout = layout_of_test(case, platform, section["configs"][case])
        if isinstance(layout, str):
            out_of_reach[f"Megatron-LM: {layout}"] += 1
            continue
        name = f"{case}, {platform}"
        kept = workspaces_of_test(case, platform, section["configs"][case])
        yield Row("states", name, memory(layout).resident + kept, allocated)
        if layout.experts:
            out_of_reach["Megatron-LM: peaks of mixtures of experts depend on the routing (their states are compared)"] += 1
            continue
        yield from memory.rows(name, layout, None, peak, kept)


def _simumax(section: dict[str, Any], out_of_reach: Counter[str]) -> Iterator[Row]:
    memory, kept = _Memory(), workspaces("b200", transformer_engine=True).total
    for row in section["rows"]:
        layout = layout_of_simumax(row, section["model_configs"][row["model"]])
        if isinstance(layout, str):
            out_of_reach[f"SimuMax: {layout}"] += 1
            continue
        for rank in sorted({0, layout.pipeline - 1}):
            name = f"{row['case']}, B200" + (f", stage {rank}" if layout.pipeline > 1 else "")
            measured = row["max_allocated_MiB_by_rank"][0 if rank == 0 else -1] * 2**20
            yield from memory.rows(name, layout, rank, measured, kept)
        most = max(reserved_of(layout, rank) for rank in {0, layout.pipeline - 1}) + kept
        yield Row("reserved", f"{row['case']}, B200", most, row["measured_reserved_GiB"] * 2**30)
        measured, times = row["measured_iteration_ms"] / 1e3, row["micro_batches"]
        yield from _times(f"{row['case']}, B200", layout, "b200-180gb", times, measured)
        seconds = seconds_on_ranks(layout, "b200-180gb", times)
        if seconds is None:
            out_of_reach["SimuMax: the time with communication of context parallelism"] += 1
        else:
            yield Row("time, ranks", f"{row['case']}, B200", seconds, measured)


def _paper(rows: list[dict[str, Any]]) -> Iterator[Row]:
    """Yield the times of table 5 of arXiv:2205.05198."""
    for row in rows:
        times = row["global_batch"] // row["micro_batch"]
        for key, recompute, sharded in (("iteration_s_full_recompute", "full", False), ("iteration_s_present", "attention", True)):
            layout = layout_of_paper(row, recompute, sharded)
            name = f"{row['model']}, {'full recomputation' if recompute == 'full' else 'selective recomputation'}, A100"
            yield from _times(name, layout, "a100-sxm-80gb", times, row["table5"][key])


def _times(name: str, layout: Layout, device: str, times: int, measured: float) -> Iterator[Row]:
    for kind, policy in (("time", None), ("time, accelerator", POLICIES[-1])):
        with _kernels(policy):
            seconds = seconds_of_step(layout, device, times)
        if seconds is not None:
            yield Row(kind, name, seconds, measured)


SAVED = {
    "no_parallelism": ("", False, 1), "tp": ("", False, 0), "tp_sp": ("", True, 0), "tp_selective": ("attention", False, 0),
    "tp_sp_selective": ("attention", True, 0), "full_recompute": ("full", False, 0),
}  # fmt: skip
"""Settings of the formulas of arXiv:2205.05198: recomputation, sequence parallelism, tensor-parallel size (0: as in the row)."""


def saved_by_layer(row: dict[str, Any], setting: str) -> tuple[int, int]:
    """Return the bytes that a layer saves for backward in a setting, and how many of them the paper's formulas leave out: the
    mean and reciprocal deviation, in float32, of each row of two norms, and the random state of a checkpoint."""
    recompute, sharded, tensor = SAVED[setting]
    layout = layout_of_paper({**row, "tensor_parallel": tensor or row["tensor_parallel"]}, recompute, sharded)
    rows = layout.tokens // layout.shards * layout.micro_batch
    with mt.device("meta"):
        stage = Stage(layout, 1, False, False).to(mt.bfloat16)
        x = mt.empty(layout.tokens // layout.shards, layout.micro_batch, layout.hidden, dtype=mt.bfloat16, requires_grad=True)
        with MemoryTracker() as memory:
            y = stage(x)  # counts in place of its input, which is the output of the layer before
            saved = memory.current
            del y
    random_state = 16 if recompute else 0
    return saved, random_state + (0 if recompute == "full" else rows * 2 * 2 * 4)


def formulas() -> Iterator[Formula]:
    """Yield counts beside formulas and rounded figures of papers."""
    found = published()
    activations, flops = found["activation_memory"], found["flops_and_mfu"]["sections"]
    for row in activations["rows"]:
        for setting in SAVED:
            saved, left_out = saved_by_layer(row, setting)
            case = f"{row['model']}, {setting.replace('_', ' ')}"
            expected = row["per_layer_bytes_formula"][setting]
            yield Formula("bytes saved by a layer", "arXiv:2205.05198, table 2", case, saved - left_out, expected)
    for row in flops["megatron_weak_scaling"]["rows"]:
        layout = _decoder(row, 51200, recompute="full")
        case, source = f"{row['params_B']} billion parameters", "arXiv:2104.04473"
        final_norm = 2 * layout.hidden  # which the formula leaves out
        yield Formula("parameters", source, case, _elements(layout) - final_norm, row["params_formula"])
        yield Formula("operations of a step", source, case, _operations(layout) * row["global_batch"], row["flops_per_iteration_formula"])
    for row in flops["gpt3_training"]["rows"]:
        layout = _decoder(row, GPT2_WORDS, head_width=row["head_dim"])
        source = "arXiv:2005.14165, table D.1 (rounded)"
        yield Formula("parameters", source, row["name"], _elements(layout), row["params_M_tableD1"] * 1e6)
        states, elements = _states(layout)
        yield Formula("bytes of model states", "arXiv:1910.02054, 3.1", row["name"], states, 16 * elements)
    for row in flops["palm_architectures"]["rows"]:
        layout = _decoder(row, 256_000, head_width=256, groups=1, activation="swiglu", norm="rms", bias=False, positions="rope")
        yield Formula("parameters", "arXiv:2204.02311, table 1 (rounded)", row["model"], _elements(layout), row["params_B"] * 1e9)


def _decoder(row: dict[str, Any], words: int, **options: Any) -> Layout:
    """Return a decoder on one device."""
    return Layout(layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=4 * row["hidden"], vocabulary=words, sequence=2048,
                  micro_batch=1, fused=False, **options)  # fmt: skip


def _elements(layout: Layout) -> int:
    with mt.device("meta"):
        return sum(p.numel() for p in Stage(layout, layout.layers, True, True).parameters())


def _states(layout: Layout) -> tuple[int, int]:
    """Return the bytes of parameters, gradients and Adam's states in mixed precision, as `estimate` counts them, and the elements.

    The step counters, 4 bytes for each tensor, are left out.
    """
    with mt.device("meta"):
        stage = Stage(layout, layout.layers, True, True)
        report = estimate_training(stage, mt.empty(1, layout.tokens, dtype=mt.int64), precision="fp16-master", optimizer="adam")
    counters = 4 * len(list(stage.parameters()))
    return report.parameter_bytes + report.gradient_bytes + report.optimizer_bytes - counters, report.trainable_parameters


def _operations(layout: Layout) -> int:
    """Return the floating-point operations of a step with one micro-batch."""
    with mt.device("meta"):
        stage = Stage(layout, layout.layers, True, True).to(mt.bfloat16)
        with CallRecorder() as recorder:
            stage(mt.empty(layout.micro_batch, layout.tokens, dtype=mt.int64)).backward()
    return sum(call.flops for call in recorder.calls)
