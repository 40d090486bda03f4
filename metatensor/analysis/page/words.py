"""The text and the tables of the page. They are plain HTML, so they can be read and printed without scripts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from typing import Any

from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.describe import spec_text
from metatensor.analysis.page import rank_words
from metatensor.analysis.page.tables import seconds_text, table
from metatensor.analysis.timeline import DEFAULT_LOSS
from metatensor.analysis.utilization import CONVENTIONS

__all__ = ["facts", "headline", "heading", "notes", "peak_tables", "subtitle"]

TITLES = {"inference": "one forward pass", "training": "one training step", "profile": "memory of a run"}
PASSES = {"forward": "in the forward pass", "backward": "in the backward pass", "optimizer": "in the optimizer's step"}
MODULE_NOTES = (
    "Modules, in the treemap and in their table: figures include submodules. In the tables of the peak they do not.",
    "At peak: what the calls of a module, and the gradients of its operators, had made and was in use at the peak. Parameters, inputs and "
    "optimizer state that existed before the run are not in it.",
    "Made: the sum of all storages that they made during the run, of which most were freed before its end; so it can exceed the peak.",
)
CAPTIONS = {
    "module": "By module, each without its submodules",
    "line": "By line of code that made it",
    "operator": "By operator that made it",
}
CODE_LINES = {
    "forward": "This line of code was running:",
    "backward": "It was computing the gradient of this line of code:",
    "optimizer": "This line of code was running:",
}
TITLES_OF_FACTS = {
    "saved for backward": "what the forward pass leaves alive for the backward pass",
    "predicted time": "operators one after the other; the notes at the end say what is left out",
}
_ROWS = 12


def heading(data: dict[str, Any]) -> str:
    """Return the title of the page."""
    if data["kind"] == "ranks":
        return f"One step on {data['world_size']:,} devices"
    return f"{data.get('model') or 'Profile'}: {TITLES[data['kind']]}"


def subtitle(data: dict[str, Any]) -> str:
    """Return the settings of the run in one line."""
    if data["kind"] == "ranks":
        return rank_words.subtitle(data)
    if data["kind"] == "training":
        times = data["grad_accumulation"]
        parts = [f"optimizer {data['optimizer']}", f"precision {data['precision']}", f"recompute {data['recompute']}",
                 *([f"{times} micro-batches, of which the timeline shows two"] if times > 1 else [])]  # fmt: skip
    elif data["kind"] == "inference":
        parts = [f"input {', '.join(map(spec_text, data['inputs']))}", f"output {spec_text(data['output'])}"]
    else:
        parts = [f"{data['events']:,} memory events"]
    return escape("; ".join(parts))


def profile_of(data: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part of a report's JSON form that has the timeline, or None if it was not recorded."""
    return data if data["kind"] == "profile" else data.get("profile")


def _short(line: str, directory: str) -> str:
    return line.removeprefix(directory + os.sep)


def _source(line: str, profile: dict[str, Any]) -> str:
    text = profile["source"].get(line, "(the file cannot be read)")
    return (f'<pre class="source"><span class="where">{escape(_short(line, profile["directory"]))}</span>\n'
            f"{escape(text)}</pre>")  # fmt: skip


def headline(data: dict[str, Any]) -> str:
    """Describe the peak and where it was reached."""
    profile = profile_of(data)
    if data["kind"] == "ranks":
        first = rank_words.headline(data)
        return first if profile is None else f"{first}<p>{rank_words.worst(data)} most memory:</p>{_peak(profile)}"
    return _headline_without_timeline(data) if profile is None else _peak(profile)


def _peak(profile: dict[str, Any]) -> str:
    """Describe the peak of one device and where it was reached."""
    if profile["peak_phase"] is None:
        return f'<p class="peak"><strong>{bytes_text(profile["peak"])}</strong> all the time: the run made no tensors.</p>'
    operator, module, line, phase = (profile[f"peak_{name}"] for name in ("operator", "module", "line", "phase"))
    where = _where(operator, module, line)
    made = [f'<p class="peak"><strong>{bytes_text(profile["peak"])}</strong> at the peak of memory, '
            f"{PASSES[phase]}, while {where} ran.</p>"]  # fmt: skip
    if line is None or line == DEFAULT_LOSS:
        made.append(_without_line(profile))
    else:
        made.append(f"<p>{CODE_LINES[phase]}</p>{_source(line, profile)}")
    by_line = [(key, size) for key, size in profile["peak_by_line"].items() if key and key != DEFAULT_LOSS]
    if by_line:
        top, size = by_line[0]
        holds = f"{bytes_text(size)}, {size / profile['peak']:.0%} of what was in use at the peak"
        if top == line:
            made.append(f"<p>It is also the line of your code that holds most, {holds}.</p>")
        else:
            made.append(f"<p>The line of your code that holds most, {holds}:</p>{_source(top, profile)}")
    return "".join(made) + _near_peaks(profile["chart"])


def _near_peaks(chart: dict[str, Any]) -> str:
    """Describe where the highest of the other peaks within 1% was reached."""
    near = chart["near_peaks"]
    if not near:
        return ""
    start = "A second peak is within 1%" if len(near) == 1 else "Other peaks are within 1%. The highest of them"
    i = near[0]
    operator, module, line = chart["places"][chart["place"][i]]
    again = " again" if chart["phase"][i] == chart["phase"][chart["peak"]] else ""
    return (f"<p>{start}: {bytes_text(chart['total'][i])}, {PASSES[chart['phases'][chart['phase'][i]]]}{again}, "
            f"while {_where(operator, module, line)} ran.</p>")  # fmt: skip


def _where(operator: str, module: str, line: str | None) -> str:
    of = f" of module <code>{escape(module)}</code>" if module else f" of {DEFAULT_LOSS}" if line == DEFAULT_LOSS else ""
    return f"<code>{escape(operator or 'an unknown operator')}</code>{of}"


def _without_line(profile: dict[str, Any]) -> str:
    """Describe what caused a peak without a line of code, and the last line of code before it."""
    if profile["peak_line"] == DEFAULT_LOSS:
        made = f"<p>It belongs to {DEFAULT_LOSS}, the mean of the output, which the estimate computes because no loss was given."
    elif profile["peak_phase"] == "optimizer":
        made = "<p>It belongs to the optimizer, so it has no line of the model's code."
    else:
        made = "<p>No line of the model's own code called the operator."
    since = profile["peak_since"]
    if since is None:
        return made + "</p>"
    of = f" of {DEFAULT_LOSS}" if since["line"] == DEFAULT_LOSS else ""
    return (f"{made} What made the spike: <code>{escape(since['operator'])}</code>{of}, {bytes_text(since['bytes'])}. "
            f"The last line of your code before it:</p>{_source(since['after'], profile)}")  # fmt: skip


def _headline_without_timeline(data: dict[str, Any]) -> str:
    peak = data["peak_activation" if data["kind"] == "inference" else "peak"]
    made = [f'<p class="peak"><strong>{bytes_text(data["total_bytes"])}</strong> of memory in all.</p>']
    if peak["op"]:
        where = f"<code>{escape(peak['op'])}</code>" + (f" of module <code>{escape(peak['module'])}</code>" if peak["module"] else "")
        made.append(f"<p>The activations, {bytes_text(peak['bytes'])}, are at their peak while {where} runs.</p>")
    if peak["location"]:
        made.append(f'<pre class="source"><span class="where">{escape(peak["location"])}</span></pre>')
    return "".join(made) + "<p>The timeline was not recorded: <code>estimate(..., timeline=True)</code> does so.</p>"


# Figures ---------------------------------------------------------------------------------------------------


def facts(data: dict[str, Any]) -> str:
    """Return the main figures as a list of labels and values."""
    rows: list[tuple[str, str, str]] = []
    if data["kind"] == "training":
        trainable, frozen = data["trainable_parameters"], data["frozen_parameters"]
        note = f"; {count_text(frozen)} are frozen" if frozen else ""
        rows.append(("parameters", count_text(trainable + frozen), bytes_text(data["parameter_bytes"]) + note))
        rows.append(("gradients", bytes_text(data["gradient_bytes"]), ""))
        rows.append(("optimizer state", bytes_text(data["optimizer_bytes"]), ""))
        rows.append(("saved for backward", bytes_text(data["saved_bytes"]), "at the end of the forward pass"))
        rows.append(("FLOPs of a step", _flops(data), f"backward {count_text(data['backward_flops'])}"))
    elif data["kind"] == "inference":
        rows.append(("parameters", count_text(data["parameters"]), bytes_text(data["parameter_bytes"])))
        rows.append(("activations", bytes_text(data["peak_activation"]["bytes"]), "at their peak"))
        rows.append(("FLOPs", _flops(data), f"{len(data['flops_gaps'])} operators without a rule" if data["flops_gaps"] else ""))
    elif data["kind"] == "ranks":
        rows += rank_words.facts(data)
    else:
        rows.append(("made by the run", bytes_text(data["made_peak"]), "at the peak"))
        rows.append(("existed before", bytes_text(sum(data["resident"].values())), ""))
    time = data.get("time")
    if time is not None:
        rows.append(("predicted time", seconds_text(time["seconds"]), f"on {time['device']}"))
        mfu = "unknown" if time["mfu"] is None else f"{time['mfu']:.1%}" if time["mfu"] >= 0.0005 else "<0.1%"
        rows.append(("MFU", mfu, f"convention {time['convention']}"))
    device = data.get("device")
    if device is not None and data["total_bytes"] is not None:
        memory, needed = device["memory"], data["total_bytes"]
        text = "unknown" if memory is None else "yes" if memory >= needed else "no"
        note = "its memory is unknown" if memory is None else _difference(memory, needed)
        rows.append((f"fits {device['name']}", text, note))
    return "".join(f"<div{_title(a, c)}><dt>{escape(a)}</dt><dd>{escape(b)}<small>{escape(c)}</small></dd></div>" for a, b, c in rows)


def facts_per_row(data: dict[str, Any]) -> str:
    """Return the number of main figures in a row of a wide page, chosen so that rows have similar lengths."""
    count = facts(data).count("<dt>")
    lines = -(-count // 6) or 1
    return str(-(-count // lines))


def _convention(name: str) -> str:
    """Describe what a convention of MFU counts."""
    counts = f"{CONVENTIONS[name].formula} ({CONVENTIONS[name].source})" if name in CONVENTIONS else "unknown"
    return f"the model's FLOPs over what the device could do in the predicted time. FLOPs count {counts}"


def _difference(memory: int, needed: int) -> str:
    sign = "left" if memory >= needed else "missing"
    return f"{bytes_text(memory)} − {bytes_text(needed)}: {bytes_text(abs(memory - needed))} {sign}"


def _title(label: str, note: str) -> str:
    text = TITLES_OF_FACTS.get(label, "")
    if label == "MFU":
        text = f"model FLOPs utilization: {_convention(note.removeprefix('convention '))}"
    if label.startswith("fits "):
        text = "the device's memory minus the total at the peak"
    return f' title="{escape(text)}"' if text else ""


def _flops(data: dict[str, Any]) -> str:
    return ("at least " if data.get("flops_gaps") else "") + count_text(data["flops"])


# Tables of the peak ----------------------------------------------------------------------------------------


def peak_tables(data: dict[str, Any]) -> str:
    """Return what was alive at the peak by category, line, module and operator, and the largest storages."""
    profile = profile_of(data)
    if profile is None:
        return ""
    total = profile["peak"]
    made = []
    for by in ("category", "line", "module", "operator"):
        found = profile[f"peak_by_{by}"]
        rest = total - sum(found.values())
        rows = [(_name(key, by, profile), size) for key, size in found.items()]
        rows.sort(key=lambda row: -row[1])
        shown, others = rows[:_ROWS], rows[_ROWS:]
        if others:
            shown.append((f"{len(others)} others", sum(size for _, size in others)))
        if rest:
            shown.append(("existed before the run", rest))
        made.append(_bars(CAPTIONS.get(by, f"By {by}"), by, shown, total))
    made = [f'<div class="columns">{"".join(made)}</div>']
    alive, more = profile["alive_at_peak"], profile["alive_at_peak_others"]["count"]
    if alive:
        title = f"The largest of {len(alive) + more:,} storages that the run had made, equal ones in one row"
        made.append(table(title, ("size", "storages", "category", "operator", "module", "line"), _groups(alive, profile["directory"])))
    return "".join(made)


def _groups(alive: list[dict[str, Any]], directory: str) -> list[tuple[str, ...]]:
    """Return the largest groups of storages of the same size, category, operator and line as rows of a table."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in alive:
        groups.setdefault((row["bytes"], row["category"], row["operator"], row["line"]), []).append(row["module"])
    found = sorted(groups.items(), key=lambda item: -item[0][0] * len(item[1]))[:_ROWS]
    rows: list[tuple[str, ...]] = []
    for (size, category, operator, line), modules in found:
        names = list(dict.fromkeys(name or "–" for name in modules))
        where = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" if len(names) > 2 else ", ".join(names)
        count = f"{len(modules)} of {bytes_text(size)}" if len(modules) > 1 else "1"
        place = "unknown" if line is None else _short(line, directory)
        rows.append((bytes_text(size * len(modules)), count, category, operator, where, place))
    return rows


def _name(key: str, by: str, profile: dict[str, Any]) -> str:
    if by == "line":
        if not key:
            return "line unknown"
        text = profile["source"].get(key)
        return _short(key, profile["directory"]) + (f"\n{text}" if text else "")
    return key or ("outside of all modules" if by == "module" else "unknown")


def _bars(title: str, label: str, rows: Iterable[tuple[str, int]], total: int) -> str:
    cells = []
    for name, size in rows:
        first, _, code = name.partition("\n")
        code = f"<code>{escape(code)}</code>" if code else ""
        share = size / total if total else 0.0
        percent = f"{share:.1%}" if share >= 0.0005 or not size else "&lt;0.1%"
        cells.append(f'<tr><th scope="row">{escape(first)}{code}</th><td>{bytes_text(size)}</td>'
                     f'<td class="bar" style="--share:{share:.4f}">{percent}</td></tr>')  # fmt: skip
    return (f'<table class="bars"><caption>{escape(title)}</caption><thead><tr><th scope="col">{label}</th>'
            f'<th scope="col">size</th><th scope="col">of {bytes_text(total)}</th></tr></thead>'
            f"<tbody>{''.join(cells)}</tbody></table>")  # fmt: skip


def time_table(data: dict[str, Any]) -> str:
    """Return the predicted time by operator."""
    time = data.get("time")
    if time is None:
        return ""
    phases = [(name, time[name]) for name in ("forward", "backward", "recompute", "optimizer") if name == "forward" or time["training"]]
    rows = [(f"phase: {name}", seconds_text(value)) for name, value in phases if name != "recompute" or value != 0]
    found = list(time["by_op"].items())
    rows += [(name, seconds_text(value)) for name, value in found[:_ROWS] if value]
    if found[_ROWS:]:
        rows.append((f"{len(found[_ROWS:])} other operators", seconds_text(sum(value for _, value in found[_ROWS:]))))
    return table(f"Predicted time on {time['device']}", ("phase or operator", "time"), rows)


def notes(data: dict[str, Any]) -> str:
    """Return what the figures leave out and how they were found."""
    profile = profile_of(data)
    found = ["Sizes are in powers of 1000: 1 GB is 1,000,000,000 bytes."]
    if data.get("modules") and profile is not None:
        found += MODULE_NOTES
    if "flops_convention" in data:
        found.append(f"FLOPs: {data['flops_convention']}.")
    for gap in data.get("flops_gaps", ()):
        found.append(f"FLOPs of {gap['op']} are unknown; it was called {gap['calls']} times.")
    left_out = dict.fromkeys([*data.get("excluded", ()), *(() if "excluded" in data or profile is None else profile["excluded"])])
    if left_out:
        found.append(f"Memory leaves out: {', '.join(left_out)}.")
    time = data.get("time")
    if time is not None:
        found.append(f"MFU (model FLOPs utilization), convention {time['convention']}: {_convention(time['convention'])}.")
        found += [f"{remark[:1].upper()}{remark[1:]}." for remark in time["remarks"]]
        found.append(f"Time leaves out: {', '.join(time['excluded'])}.")
        unknown = time["spans"].get("unknown_calls") if time["spans"] else 0
        if unknown:
            found.append(f"The time of {unknown} calls is unknown; the chart leaves them out.")
    if data["kind"] == "ranks":
        found += [f"{note[:1].upper()}{note[1:]}." for note in data["notes"]]
    if data.get("without_gradient"):
        found.append(f"No gradient: {', '.join(data['without_gradient'][:20])}.")
    return "".join(f"<li>{escape(text)}</li>" for text in found)
