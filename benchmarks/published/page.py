"""The page docs/accuracy.md and the bands that estimates print, from the same comparisons."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .compare import DATA, POLICIES, Formula, Row, formulas, measured_rows, published
from .models import FIGURES, RESULTS, recorded

__all__ = ["BANDS", "PAGE", "Comparison", "band_of", "compared", "page"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
BANDS = ROOT / "metatensor" / "analysis" / "accuracy.json"


class Kind(NamedTuple):
    """A kind of prediction."""

    figure: str
    against: str
    text: str
    """What is compared, for the page."""
    leaves_out: str


GRADES = {
    "A": "Read in the named file of that revision.",
    "C": "Transcribed from memory; the table of counts shows how far the figures agree with what is counted.",
}
"""How far the sources can be trusted."""
WORKSPACES = "workspaces of kernels, rounding and caching by the allocator, the device's context and code"
UNCOUNTED = "rounding and caching by the allocator, the device's context and code"
NOT_TIMED = "communication, gaps between kernels, loading data, transfers from the host"
KINDS = {
    "states": Kind(
        "parameters, gradients and optimizer states on a GPU", "bytes that Megatron-LM's tests had allocated between steps",
        "This compares parameters, float32 gradients, float32 copies and Adam's states of one rank with the bytes allocated after a "
        "step. The tests are small models, in which the workspaces of libraries (48 to 224 MiB) are a large part: those of cuBLAS for two "
        "threads and that of Transformer Engine, with the sizes that these libraries document (`metatensor.analysis.workspaces`).",
        f"{UNCOUNTED}, batches that are loaded ahead"),
    "peak": Kind(
        "the peak memory of a training step, with the kernels of the run", "allocated peaks of Megatron-LM on GPUs",
        "The peak of a training step of one rank. The model is written with kernels that save the same tensors as those of the run: fused "
        "attention, norms, dropout, cross entropy in place. Where kernels add to float32 gradients themselves, autograd gets a placeholder "
        "of each gradient, which Transformer Engine keeps by shape. Workspaces of libraries are included. The worst cases are tests in "
        "long-term-support containers: their figures equal those of the same tests with unfused attention, although their settings do "
        "not mention it.", UNCOUNTED),
    "reserved": Kind(
        "the memory that the allocator reserves, with the kernels of the run", "steps of Megatron-LM on eight B200",
        "The requests of two steps of one rank, in order, as the rules of the [caching allocator](allocator.md) serve them, with the "
        "workspaces of libraries. The update creates nothing but Adam's states.", "the device's context and code, buffers of NCCL"),
    "training memory, meta": Kind(
        "the memory of a training step, with operators as on meta", "allocated peaks of Megatron-LM on GPUs",
        "The same runs, with metatensor's own operators, which save what PyTorch saves on meta. This is what `estimate --train` "
        "counts. Attention on meta materializes its scores, so long sequences take far more than with a fused kernel.", WORKSPACES),
    "training memory, cuda": Kind(
        "the memory of a training step, under the kernel policy cuda", "allocated peaks of Megatron-LM on GPUs",
        "The same runs, with metatensor's own operators under the kernel policy `cuda`, as `estimate --train --device` counts them "
        "for a GPU. Rotary positions, gated activations and cross entropy are several operators there, but single kernels in the "
        "measured runs.",
        WORKSPACES),
    "inference memory": Kind(
        "the peak memory of an inference", "PyTorch's meta device, not a GPU",
        "The peak of a forward pass without gradients, against the live bytes that PyTorch counts on its meta device.", WORKSPACES),
    "FLOPs": Kind(
        "the operations of a training step", "FlopCounterMode of PyTorch",
        "The operations of forward and backward, against PyTorch's own counter.",
        "element-wise operators, reductions, normalization, the optimizer"),
    "time": Kind(
        "the time of a training step, with the kernels of the run", "steps of Megatron-LM on A100 and B200",
        "The time of a step is that of the slowest pipeline stage plus the time to fill the pipeline. The efficiencies are those "
        "assumed for all accelerators, and for B200 those of single products and copies that SimuMax measured there. They are not fitted "
        "to these runs.", NOT_TIMED),
    "time, ranks": Kind(
        "the time of a training step on all ranks, with communication", "steps of Megatron-LM on eight B200",
        "The same steps with the kernels of the run, as timelines of all ranks ([many devices](many-devices.md)): tensor and sequence "
        "parallelism, pipelines (1F1B), and a distributed optimizer that reduces gradients and gathers parameters after the passes. "
        "Steps without tensor parallelism hardly communicate and are predicted too fast as well, so most of the error is that of the "
        "operators.",
        "gaps between kernels, loading data, transfers from the host, operators and operations slowing each other down"),
    "time, accelerator": Kind(
        "the time of a training step, with metatensor's operators", "steps of Megatron-LM on A100 and B200",
        "The same steps with metatensor's own operators, as `estimate --train --device` predicts them. They read and write more than "
        "fused kernels, which by coincidence partly makes up for the communication that is left out.", NOT_TIMED),
    "time, cpu": Kind(
        "the time of a pass on a calibrated CPU", "measured passes of ten models with one thread",
        "These are times of a forward pass alone and of forward plus backward, predicted after `metatensor calibrate` on the same "
        "machine (`python -m benchmarks.prediction`).",
        "the optimizer, loading data, threads"),
}  # fmt: skip
"""The kinds in the order of the page."""
if "cuda" not in POLICIES:
    del KINDS["training memory, cuda"]
UNITS = {"states": "MiB", "peak": "MiB", "reserved": "MiB", "training memory, meta": "MiB", "training memory, cuda": "MiB",
         "inference memory": "MiB", "FLOPs": "GFLOP"}  # fmt: skip
SCALES = {"MiB": 2.0**20, "GFLOP": 1e9, "s": 1.0, "ms": 1e-3}


class Comparison(NamedTuple):
    """Everything that the page shows."""

    rows: list[Row]
    out_of_reach: Counter[str]
    formulas: list[Formula]
    models: dict[str, dict[str, Any]]
    """Measured figures by library and model."""


def compared() -> Comparison:
    """Compute all predictions and read what was measured before."""
    rows, out_of_reach = measured_rows()
    models = json.loads(RESULTS.read_text())
    for kind, key, figure in (("inference memory", "estimate_peak", "infer_peak"), ("FLOPs", "train_flops", "train_flops")):
        rows += [Row(kind, f"{library}, {name}", ours[key], theirs[figure]) for library, name, ours, theirs in _pairs(models, figure)]
    times = json.loads((DATA / "measured_times.json").read_text())
    for name, parts in times["predicted"].items():
        rows += [Row("time, cpu", f"{name}, {part}", seconds, times["measured"][name][part]["least"]) for part, seconds in parts.items()]
    return Comparison(rows, out_of_reach, list(formulas()), models)


def _pairs(models: dict[str, Any], figure: str) -> Iterator[tuple[str, str, dict[str, int], dict[str, int]]]:
    for library, cases in recorded().items():
        for name, case in cases.items():
            ours = models[library][name]
            if figure in ours and case["recorded"].get(figure):
                yield library, name, ours, case["recorded"]


def band_of(kind: str, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the band of a kind as JSON types."""
    own = [row for row in rows if row.kind == kind]
    what = KINDS[kind]
    worst = max(own, key=lambda row: abs(row.error))
    middle = median(abs(row.error) for row in own)
    return {
        "figure": what.figure, "against": what.against, "comparisons": len(own), "median": round(middle, 6),
        "lowest": round(min(row.error for row in own), 6), "highest": round(max(row.error for row in own), 6), "worst": worst.case,
        "leaves_out": what.leaves_out,
    }  # fmt: skip


def page(found: Comparison) -> str:
    """Return the page as Markdown."""
    blocks = [*_head(found), *_kinds(found), *_formulas(found.formulas), *_models(found.models), *_reach(found), *_sources()]
    return "\n".join(map(_wrapped, blocks)) + "\n"


def _wrapped(block: str) -> str:
    """Return a block with paragraphs and items of lists wrapped. Tables and headings stay as they are."""
    if block.startswith(("|", "#")) or len(block) < 120:
        return block
    end = "\n" if block.endswith("\n") else ""
    return textwrap.fill(block, 120, subsequent_indent="  " if block.startswith("- ") else "", break_on_hyphens=False) + end


def _head(found: Comparison) -> Iterator[str]:
    yield "# How far off predictions are\n"
    yield ("This page compares predicted with measured figures. The command `python -m benchmarks.published --write` generates this "
           "page and the error bands printed by `estimate`. Its sources are: published measurements (`benchmarks/data/published.json`), "
           "figures recorded with PyTorch (`recorded_models.json`) and times measured on one machine (`measured_times.json`). "
           "No constant was fitted to them. An error of +10% is a prediction that is 10% too high.\n")  # fmt: skip
    yield "| kind | comparisons | error, median | from | to |\n|---|--:|--:|--:|--:|"
    for kind, what in KINDS.items():
        band = band_of(kind, found.rows)
        yield f"| {what.figure} | {band['comparisons']} | {band['median']:.2%} | {band['lowest']:+.1%} | {band['highest']:+.1%} |"
    yield ""


def _kinds(found: Comparison) -> Iterator[str]:
    for kind, what in KINDS.items():
        own = [row for row in found.rows if row.kind == kind]
        yield f"## {what.figure[0].upper()}{what.figure[1:]}\n"
        yield f"{what.text} Left out: {what.leaves_out}.\n"
        shares = {limit: sum(abs(row.error) <= limit for row in own) / len(own) for limit in (0.01, 0.1, 0.25, 0.5)}
        near = ", ".join(f"{share:.0%} within {limit:.0%}" for limit, share in shares.items())
        yield f"{len(own)} comparisons with {what.against}: {near}.\n"
        short = [row for row in own if not round(row.error, 4)]
        if len(short) == len(own):
            yield "All are equal.\n"
            continue
        unit = UNITS.get(kind, "ms" if kind == "time, cpu" else "s")
        title = "all" if len(own) <= 20 else "the worst"
        yield f"| {title} | predicted, {unit} | measured, {unit} | error |\n|---|--:|--:|--:|"
        for row in _worst(own):
            scale = SCALES[unit]
            yield f"| {row.case} | {row.predicted / scale:,.4g} | {row.measured / scale:,.4g} | {row.error:+.1%} |"
        yield ""
        yield from _groups(kind, own)


def _worst(rows: list[Row]) -> list[Row]:
    """Return all rows if they are few, else the worst with different errors."""
    if len(rows) <= 20:
        return rows
    seen: set[float] = set()
    chosen: list[Row] = []
    for row in sorted(rows, key=lambda row: -abs(row.error)):
        if round(row.error, 3) not in seen and len(chosen) < 8:
            seen.add(round(row.error, 3))
            chosen.append(row)
    return chosen


def _groups(kind: str, rows: list[Row]) -> Iterator[str]:
    """Yield the errors of groups of runs, where there are several."""
    if not kind.startswith(("states", "peak", "training memory")):
        return
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    yield "| runs | comparisons | error, median | measured - predicted, median |\n|---|--:|--:|--:|"
    for name, own in groups.items():
        gap = median((row.measured - row.predicted) / 2**20 for row in own)
        yield f"| {name} | {len(own)} | {median(abs(row.error) for row in own):.1%} | {gap:+,.0f} MiB |"
    yield ""


def _group(row: Row) -> str:
    case, _, platform = row.case.partition(", ")
    if platform.startswith("B200"):
        return "SimuMax, Llama 3 on B200 (35 to 121 GiB)"
    kind = "mixtures of experts" if case.startswith("moe/") else "dense models"
    if not case.startswith("moe/") and platform.startswith("lts"):
        kind += ", long-term-support containers"
    return f"Megatron-LM, {kind}"


def _formulas(found: list[Formula]) -> Iterator[str]:
    yield "## Counts and formulas\n"
    yield ("This table compares counts from a run on meta with formulas and rounded figures in papers. Three formulas are "
           "incomplete:\n")  # fmt: skip
    yield "- The one for saved activations leaves out the statistics of norms (16 bytes for each token and layer) and random states."
    yield "- The one for parameters leaves out the last norm."
    yield "- The one for model states leaves out the optimizer's step counters.\n"
    yield ("The missing terms are subtracted from the counts before comparing. The sizes printed for GPT-3 XL and 13B do not result in "
           "the printed numbers of parameters.\n")  # fmt: skip
    yield "| count | source | cases | equal | largest difference |\n|---|---|--:|--:|---|"
    groups: dict[tuple[str, str], list[Formula]] = {}
    for each in found:
        groups.setdefault((each.what, each.source), []).append(each)
    for (what, source), own in groups.items():
        equal = sum(abs(each.counted / each.expected - 1) < 1e-12 for each in own)
        worst = max(own, key=lambda each: abs(each.counted / each.expected - 1))
        off = worst.counted / worst.expected - 1
        yield f"| {what} | {source} | {len(own)} | {equal} | {'none' if equal == len(own) else f'{off:+.2%} ({worst.case})'} |"
    yield ""


def _models(models: dict[str, Any]) -> Iterator[str]:
    yield "## Models of libraries, against PyTorch's meta device\n"
    count = sum(len(cases) for cases in recorded().values())
    yield (f"The figures of {count} models, recorded with PyTorch 2.13 and measured with metatensor in its place "
           "(`python -m benchmarks.published.models`). SeamlessM4T and Nemotron leave out layers at random in training, so no two runs of "
           "them are alike.\n")  # fmt: skip
    yield "| figure | models | equal | within 1% | worst |\n|---|--:|--:|--:|---|"
    for figure in FIGURES:
        pairs = [(name, ours[figure], theirs[figure]) for _, name, ours, theirs in _pairs(models, figure)]
        equal = sum(a == b for _, a, b in pairs)
        near = sum(abs(a / b - 1) <= 0.01 for _, a, b in pairs)
        name, a, b = max(pairs, key=lambda pair: abs(pair[1] / pair[2] - 1))
        yield f"| {figure.replace('_', ' ')} | {len(pairs)} | {equal} | {near} | {'' if a == b else f'{a / b - 1:+.1%} ({name})'} |"
    yield ""


def _reach(found: Comparison) -> Iterator[str]:
    yield "## Published rows that are not predicted\n"
    yield "A prediction for one rank knows only its own layers, shards and copies, not other ranks or settings that are not stated.\n"
    yield "| rows | reason |\n|--:|---|"
    for reason, count in found.out_of_reach.most_common():
        yield f"| {count} | {reason} |"
    yield ""


def _sources() -> Iterator[str]:
    yield "## Sources\n"
    data = published()
    sections = [*data["measured_memory"]["sections"].values(), data["activation_memory"], data["zero_model_states"],
                *data["flops_and_mfu"]["sections"].values()]  # fmt: skip
    for section in sections:
        revision = f", revision {section['revision'][:12]}" if "revision" in section else ""
        yield f"- {section['source']}{revision}. {GRADES[section['verification'][0]]}" + (
            " Its formulas are transcribed from memory." if "formulas are C" in section["verification"] else "")
