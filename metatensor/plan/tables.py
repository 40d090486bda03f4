"""Plans as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metatensor._core.units import bytes_text, seconds_text

if TYPE_CHECKING:
    from metatensor.plan.placing import DeviceMapPlan
    from metatensor.plan.serving import ServingPlan

__all__ = ["device_map_text", "serving_text"]


def serving_text(plan: ServingPlan) -> str:
    """Return the table of a `ServingPlan`."""
    rows = [
        ("weights", bytes_text(plan.weight_bytes)),
        ("buffers", bytes_text(plan.buffer_bytes)),
        (f"state of a sequence of {plan.context:,} tokens", bytes_text(plan.state_per_sequence)),
        ("growth with each further token", f"{plan.state_per_token:,} bytes"),
        *([("state shared by all sequences", bytes_text(plan.shared_state))] if plan.shared_state else []),
        (f"created while {plan.chunk:,} tokens are processed", bytes_text(plan.working_bytes)),
        ("longest context of one sequence", "no limit" if plan.longest_context is None else f"{plan.longest_context:,} tokens"),
        (f"sequences of {plan.context:,} tokens",
         f"{plan.users:,}" + _each(plan)),
        ("time to process such a prompt", _seconds(plan.prefill_seconds)),
    ]
    lines = [f"{plan.model} on {plan.device}, with {bytes_text(plan.memory)} of its memory", ""]
    if plan.tensor > 1:
        lines[1:1] = [f"{plan.tensor} devices serve a copy of the model together; memory is that of each of them"]
    width = max(len(name) for name, _ in rows) + 2
    lines += [f"{name:<{width}}{text:>16}" for name, text in rows]
    lines += ["", "state"] + [f"    {group}  {bytes_text(group.nbytes)}  ({group.example})" for group in plan.state]
    if plan.limit_reason:
        lines += ["", f"does not fit: {plan.limit_reason}"]
    lines += ["", f"{'sequences':>10}{'memory':>12}{'step':>12}{'tokens/s':>12}{'each':>10}"]
    for row in plan.decode:
        rate = row.tokens_per_second
        lines.append(f"{row.batch:>10,}{bytes_text(row.bytes):>12}{_seconds(row.seconds):>12}"
                     + (f"{rate:>12,.0f}{rate / row.batch:>10,.1f}" if rate else f"{'unknown':>12}{'':>10}")
                     + ("" if row.fits else "  does not fit"))  # fmt: skip
    last = next((row for row in reversed(plan.decode) if row.fits), None)
    if last is not None and (known := plan.rates.text(last.seconds, plan.tensor, last.batch)):
        lines += ["", f"a step of {last.batch:,} sequences: {known}"]
    return "\n".join([*lines, *(["", *plan.remarks] if plan.remarks else [])])


def _each(plan: ServingPlan) -> str:
    """Return the words after a number of sequences that say on which devices each copy of the model serves so many."""
    if plan.replicas == 1:
        return ""
    return f" on each of {plan.replicas} " + (f"groups of {plan.tensor} devices" if plan.tensor > 1 else "devices")


def device_map_text(plan: DeviceMapPlan) -> str:
    """Return the table of a `DeviceMapPlan`."""
    sequences = f"{plan.batch:,} sequence{'' if plan.batch == 1 else 's'} of {plan.context:,} tokens"
    if not plan.fits:
        return f"{plan.model} with {sequences} does not fit: {bytes_text(plan.missing)} are missing; {plan.advice}"
    lines = [f"{plan.model} with {sequences}", "",
             f"{'place':<24}{'memory':>10}{'weights':>10}{'state':>10}{'reserve':>10}{'parts':>7}{'time of a step':>16}"]  # fmt: skip
    for use in plan.places:
        memory = "" if use.memory is None else bytes_text(use.memory)
        lines.append(f"{use.title:<24}{memory:>10}{bytes_text(use.weight_bytes):>10}{bytes_text(use.state_bytes):>10}"
                     f"{bytes_text(use.reserved_bytes):>10}{use.parts:>7}{_seconds(use.seconds):>16}")  # fmt: skip
    rate = plan.tokens_per_second
    rated = f": {rate:,.3g} tokens per second" if rate else ""
    lines += ["", f"a {'training' if plan.training else 'decode'} step takes {_seconds(plan.seconds)}{rated}"]
    if plan.transfer_seconds:
        lines.append(f"transfers of activations between devices take {_seconds(plan.transfer_seconds)} of it")
    if known := plan.rates.text(plan.seconds, 1, plan.batch * (plan.context if plan.training else 1)):
        lines.append(f"energy and price of a step: {known}")
    lines += ["", "device_map"]
    lines += [f"    {path!r}: {place!r}" for path, place in plan.device_map.items()]
    return "\n".join([*lines, *(["", *plan.remarks] if plan.remarks else [])])


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(value)
