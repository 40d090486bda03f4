"""Predicted seconds of recorded calls on a device.

A call takes the time measured for its operator (or its kind) on the device, if the profile has one: see
`metatensor.analysis.calibrate`. Otherwise it takes the longer of two times, but no less than a kernel launch: its operations over
the peak rate for its dtype, and its bytes over the peak bandwidth, where each peak is multiplied by the fraction that such kernels reach.
It is the longer, not the sum, because an accelerator computes while it loads data. Measured costs on the CPU are sums, which describe
convolutions better and products equally well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from metatensor.analysis.calls import PHASES, Call
from metatensor.analysis.kinds import kind_of
from metatensor.devices.profiles import DeviceProfile

__all__ = ["EFFICIENCY", "Timing", "predict", "seconds_of"]

EFFICIENCY: dict[str, float] = {
    "product": 0.7, "convolution": 0.5, "attention": 0.5, "recurrence": 0.3, "elementwise": 0.8, "reduction": 0.7, "softmax": 0.7,
    "normalization": 0.7, "pooling": 0.6, "gather": 0.4, "scatter": 0.3, "copy": 0.8, "random": 0.6, "sorting": 0.1, "view": 1.0,
    "other": 0.3,
}  # fmt: skip
"""Assumed fractions of the peak by kind, used if a profile has no measured ones. They are round figures for large calls.

Large products in half precision reach 60 to 75% of the dense peak, fused attention 35 to 75% (Dao et al., FlashAttention-2 and -3),
copies and element-wise kernels 75 to 90% of the bandwidth; the others are assumptions. Small calls reach less.
"""


@dataclass
class Timing:
    """Predicted seconds of calls on a device, by phase and by operator. Unknown figures are None."""

    device: str
    phases: dict[str, float | None]
    """Seconds by phase, None where a call's cost is unknown."""
    by_op: dict[str, float] = field(default_factory=dict)
    """Seconds by operator, the longest first."""
    by_module: dict[str, float] = field(default_factory=dict)
    """Seconds of the forward pass by path of the innermost module."""
    measured: float = 0.0
    """Seconds that are based on measured costs of operators."""
    by_kinds: float = 0.0
    """Seconds that are based on measured costs of kinds of operators, because the operator itself has none."""
    assumed: float = 0.0
    """Seconds that are based on peak rates and efficiencies."""
    unknown: dict[str, int] = field(default_factory=dict)
    """What is missing from the profile, and the number of calls for which it was needed."""

    assumptions: list[str] = field(default_factory=list)
    """Further remarks."""

    @property
    def seconds(self) -> float | None:
        """Seconds of all phases, None if one of them is unknown."""
        return None if None in self.phases.values() else sum(value or 0.0 for value in self.phases.values())

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types, in seconds."""
        return {**vars(self), "seconds": self.seconds}

    def notes(self) -> list[str]:
        """Return how the times were found and what they leave out."""
        total = self.measured + self.by_kinds + self.assumed
        parts = [(self.measured, "from measured operators"), (self.by_kinds, "from measured operators of the same kind"),
                 (self.assumed, "from peak rates times assumed or given efficiencies")]  # fmt: skip
        notes = [f"time on {self.device}: " + ", ".join(f"{value / total:.0%} {how}" for value, how in parts if value)] if total else []
        notes += self.assumptions
        notes += [f"unknown for {count} calls: {what}" for what, count in self.unknown.items()]
        return notes


def predict(calls: Iterable[Call], profile: DeviceProfile, *, tf32: bool = False) -> Timing:
    """Return the predicted time of calls on a device.

    Parameters
    ----------
    calls : iterable of Call
        The calls, as `CallRecorder` records them.
    profile : DeviceProfile
        The device. Its measured costs (`calibrate`) are used if it has any, otherwise its peak rates.
    tf32 : bool
        Whether products of float32 matrices run in TF32. Default False.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.analysis.calls import CallRecorder
    >>> from metatensor.analysis.timing import predict
    >>> x = mt.empty(8192, 8192, dtype=mt.bfloat16, device="meta")
    >>> with CallRecorder() as recorder:
    ...     y = x @ x
    >>> timing = predict(recorder.calls, mt.analysis.device_profile("h100-80gb"))
    >>> round(timing.seconds * 1e3, 2)  # milliseconds: 1.1e12 operations at 70% of 989.4e12 per second
    1.59
    """
    phases: dict[str, float] = {}
    broken: set[str] = set()
    by_op: defaultdict[str, float] = defaultdict(float)
    by_module: defaultdict[str, float] = defaultdict(float)
    unknown: Counter[str] = Counter()
    sources: defaultdict[str, float] = defaultdict(float)
    for call in calls:
        phases.setdefault(call.phase, 0.0)
        seconds, source = seconds_of(call, profile, tf32=tf32)
        if seconds is None:
            unknown[source] += 1
            broken.add(call.phase)
            continue
        overhead = profile.phase_overheads.get(call.phase, 0.0)
        phases[call.phase] += seconds + overhead
        by_op[call.op] += seconds
        sources[source] += seconds + overhead
        if call.phase == "forward":
            by_module[call.module] += seconds + overhead
        if source == "assumed" and call.launches and profile.launch_overhead is None:
            unknown["the overhead of a launch, which is left out"] += 1
    return Timing(profile.name, {phase: None if phase in broken else phases[phase] for phase in PHASES if phase in phases},
                  dict(sorted(by_op.items(), key=lambda item: -item[1])), dict(by_module), sources["measured"],
                  sources["kinds"], sources["assumed"], dict(unknown))  # fmt: skip


def seconds_of(call: Call, profile: DeviceProfile, *, tf32: bool = False) -> tuple[float | None, str]:
    """Return the seconds of one call, and how they were found: "measured", "kinds" or "assumed".

    If they are unknown, return None and what the profile lacks.
    """
    if profile.kind == "cpu" and call.op == "add" and call.phase == "backward" and call.read == 2 * call.written:
        # On meta, gradients are summed into a new tensor; on cpu, in place.
        call = call._replace(op="add_")
    kind = kind_of(call.op) if call.launches else "view"
    operators, kinds = profile.operators, profile.kinds
    source = "measured"
    cost = operators.get(f"{call.op} {call.form}") if call.form else None
    if cost is None:
        cost = operators.get(call.op)
    if cost is None and call.op.endswith("_"):
        cost = operators.get(call.op[:-1])
    if cost is None:
        cost, source = kinds.get(kind), "kinds"
    if cost is not None:
        slower = 1.0
        if call.flops and call.dtype != profile.operator_dtype:
            own, other = profile.rate(profile.operator_dtype), profile.rate(call.dtype)
            slower = own / other if own and other else 1.0
        return cost.time(call.bytes, call.flops, call.repeated, slower), source
    if not call.launches:
        return 0.0, "assumed"
    part = profile.efficiency.get(kind, EFFICIENCY[kind])
    work = 0.0
    if call.flops:
        rate = profile.rate(call.dtype, tf32=tf32)
        if rate is None:
            return None, f"the rate of {call.dtype}"
        work = call.flops / (rate * part)
    if call.bytes:
        if profile.memory_bandwidth is None:
            return None, "the bandwidth of the memory"
        # Products are limited by computation; the bytes that they move are as fast as those of a copy.
        reached = profile.efficiency.get("copy", EFFICIENCY["copy"]) if call.flops else part
        moved = call.bytes / (profile.memory_bandwidth * reached)
        # What is not hidden, such as the first loads and the last stores, counts more in small products.
        work = max(work, moved) + (1 - profile.efficiency.get("overlap", 1.0)) * min(work, moved)
    return max(work, profile.launch_overhead or 0.0), "assumed"
