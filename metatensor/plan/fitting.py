"""`fit_profile`: adjust the efficiencies of a device's profile to measured steps.

The predicted time of a step is nearly a sum of parts that depend on one efficiency each: products, attention, memory-bound operators and
the network. Searches with one efficiency changed at a time give these parts. For each part, a factor by which it is slower (or faster)
than predicted is then fitted to the measured times. It is the most probable value under a prior around 1, so it stays near 1 if there are
few measurements or the part hardly matters in them. Errors are reported on measurements that a fit did not use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from metatensor.analysis.timing import EFFICIENCY
from metatensor.devices.profiles import DeviceProfile
from metatensor.devices.topologies import Topology
from metatensor.devices.topologies import topology as topology_of
from metatensor.plan.searching import search

__all__ = ["FittedProfile", "Measurement", "fit_profile"]

GROUPS: dict[str, tuple[str, ...]] = {
    "product": ("product", "convolution", "recurrence"), "attention": ("attention",),
    "memory": ("elementwise", "reduction", "softmax", "normalization", "pooling", "gather", "scatter", "copy", "random", "sorting",
               "other"),
    "network": ("network",),
}  # fmt: skip
"""The parts of a profile's table of efficiencies that are scaled together."""
SPREAD = {"product": 0.3, "attention": 0.4, "memory": 0.4, "network": 0.4, "overlap": 0.3}
"""Standard deviations of the prior: of the logarithm of each factor, and of the part of transfers that products do not hide."""
NOISE = 0.05
"""The standard deviation of a measurement's logarithm, which includes what the prediction leaves out."""
STEP = 0.9
"""By how much an efficiency is changed to find the part of the time that depends on it."""


@dataclass
class Measurement:
    """A measured training step: the arguments of `search`, with one layout, and the time.

    Parameters
    ----------
    seconds : float
        The time of a step.
    model : nn.Module or callable
        The model on meta, or a function without arguments that returns it.
    inputs : tuple
        Its inputs on meta, as for `search`.
    devices : str or Topology
        The devices, as for `search`.
    settings : dict
        Further arguments of `search`, with one value each: ``global_batch``, ``tensor=[2]``, ``loss`` and so on.
    name : str
        Its name in reports.
    group : hashable, optional
        Measurements of one group are held out together. Default: all settings but the batch, so that steps that differ only in the
        number of micro-batches do not predict each other.
    """

    seconds: float
    model: Any
    inputs: tuple
    devices: Any
    settings: dict[str, Any]
    name: str = ""
    group: Any = None
    parts: dict[str, float] = field(default_factory=dict, repr=False)
    """Predicted seconds by part, once they are found."""

    def __post_init__(self) -> None:
        if not (isinstance(self.seconds, (int, float)) and math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"fit_profile: the time of {self.name or 'a measurement'} must be positive seconds, got {self.seconds!r}")
        if self.group is None:
            self.group = str(sorted((key, str(value)) for key, value in self.settings.items() if key != "global_batch")) + str(self.devices)

    def predicted(self, slowness: dict[str, float]) -> float:
        """Return the predicted seconds if each part takes ``slowness`` times as long. Missing parts are predicted as before."""
        return sum(seconds * slowness.get(part, 0.0 if part == "overlap" else 1.0) for part, seconds in self.parts.items())

    def error(self, slowness: dict[str, float]) -> float:
        """Return the relative error of `predicted`."""
        return self.predicted(slowness) / self.seconds - 1


@dataclass
class FittedProfile:
    """Fitted efficiencies of a device. ``str()`` gives a report."""

    profile: DeviceProfile
    """The profile with the fitted efficiencies."""
    base: DeviceProfile
    """The profile before the fit."""
    slowness: dict[str, float]
    """How many times longer each part takes than before; for ``"overlap"``, the part of transfers that products do not hide."""
    names: list[str]
    before: list[float]
    """The relative error of each measurement before the fit."""
    after: list[float]
    """The relative error of each measurement after a fit that did not use it, nor others of its group."""
    within: list[float]
    """The relative error of each measurement after the fit to all of them."""

    def carried(self, other: DeviceProfile) -> DeviceProfile:
        """Apply the fit to the profile of another device, and return that.

        Efficiencies that the other profile states are kept. Each of the others is multiplied by the ratio of the fitted efficiency to the
        usual one. For products, both are relative to the highest published rate of the device. The profile of a device of another
        architecture is returned as it is: published steps do not show that one architecture's ratios are those of another.
        """
        if other.architecture != self.base.architecture:
            return other
        efficiency = dict(other.efficiency)
        for group, kinds in GROUPS.items():
            for kind in kinds:
                if kind in other.efficiency:
                    continue
                factor = self.profile.efficiency[kind] / (1.0 if kind == "network" else EFFICIENCY[kind])
                if group == "product":
                    factor *= _reached(other) / _reached(self.base)
                efficiency[kind] = min(1.0, _prior(other, kind) * factor)
        if "overlap" not in other.efficiency:
            efficiency["overlap"] = self.profile.efficiency["overlap"]
        return replace(other, efficiency=efficiency)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {"device": self.base.name, "slowness": self.slowness, "efficiency": dict(self.profile.efficiency),
                "measurements": [{"name": name, "error_before": before, "error_held_out": after, "error_fitted": within}
                                 for name, before, after, within in zip(self.names, self.before, self.after, self.within, strict=True)]}

    def toml(self, name: str = "") -> str:
        """Return the profile as TOML, to be written to a file."""
        from metatensor.plan.measurements import profile_text

        return profile_text(self, name)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"efficiencies of {self.base.name}, fitted to {len(self.names)} measured steps", ""]
        for part, factor in self.slowness.items():
            what = f"products do not hide {factor:.0%} of the shorter of computation and transfer" if part == "overlap" else \
                f"{part} takes {factor:.2f} times as long"  # fmt: skip
            lines.append(f"  {what}")
        lines += ["", f"{'measurement':<{width}}  {'before':>8}  {'held out':>8}  {'fitted':>8}"]
        rows = zip(self.names, self.before, self.after, self.within, strict=True)
        lines += [f"{name:<{width}}  {before:>+8.1%}  {after:>+8.1%}  {within:>+8.1%}" for name, before, after, within in rows]
        for word, of in (("median", median), ("worst", max)):
            found = [of(map(abs, errors)) for errors in (self.before, self.after, self.within)]
            lines.append(f"{word:<{width}}  " + "  ".join(f"{value:>8.1%}" for value in found))
        return "\n".join([*lines, "", "held out: the fit did not use the measurement, nor others of the same layout"])


def fit_profile(measurements: Sequence[Measurement], device: DeviceProfile | None = None) -> FittedProfile:
    """Fit the efficiencies of a device to measured training steps.

    Parameters
    ----------
    measurements : sequence of Measurement
        Steps on devices of one kind.
    device : DeviceProfile, optional
        The profile to adjust. Default: that of the first measurement's devices.

    Raises
    ------
    ValueError
        If there are fewer than two measurements, the devices are of several kinds, or a layout cannot be costed.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.plan import Measurement, fit_profile
    >>> with mt.device("meta"):
    ...     model, x = mt.nn.Sequential(mt.nn.Linear(4096, 4096), mt.nn.Linear(4096, 4096)), mt.empty(1, 4096)
    >>> def settings(batch):
    ...     return {"global_batch": batch, "micro_batches": [batch], "tensor": [1], "shard": [0]}
    >>> times = {4096: 2e-3, 8192: 4e-3, 16384: 8e-3}
    >>> rows = [Measurement(seconds, model, (x,), "1xH100", settings(batch)) for batch, seconds in times.items()]
    >>> fitted = fit_profile(rows)
    >>> fitted.profile.name, len(fitted.after), max(map(abs, fitted.within)) < max(map(abs, fitted.before))
    ('h100-sxm-80gb', 3, True)
    """
    rows = list(measurements)
    if len(rows) < 2:
        raise ValueError(f"fit_profile: at least two measurements are needed, got {len(rows)}")
    places = [topology_of(one.devices) for one in rows]
    base = device or places[0].device
    for place in places:
        if place.device.name != places[0].device.name:
            raise ValueError(f"fit_profile: the measurements are of several devices, {places[0].device.name} and {place.device.name}; "
                             "fit each on its own")  # fmt: skip
    for one, place in zip(rows, places, strict=True):
        if not one.parts:
            one.parts = parts_of(one, replace(place, device=base))
    slowness = fitted(rows)
    groups = list(dict.fromkeys(one.group for one in rows))
    after: dict[int, float] = {}
    for group in groups:
        rest = [one for one in rows if one.group != group]
        found = fitted(rest) if rest else {}
        after.update({id(one): one.error(found) for one in rows if one.group == group})
    return FittedProfile(_scaled(base, slowness), base, slowness,
                         [one.name or f"step {i}" for i, one in enumerate(rows)],
                         [one.error({}) for one in rows], [after[id(one)] for one in rows],
                         [one.error(slowness) for one in rows])  # fmt: skip


def parts_of(one: Measurement, where: Topology) -> dict[str, float]:
    """Return the predicted seconds of a measurement by the efficiency that they depend on, and the rest.

    ``"overlap"`` are the seconds that would be added if products hid nothing.
    """
    model = one.model() if callable(one.model) and not hasattr(one.model, "parameters") else one.model
    base = where.device

    def seconds(profile: DeviceProfile) -> float:
        plan = search(model, *one.inputs, devices=replace(where, device=profile), **one.settings)
        layout = plan.layouts[0] if plan.layouts else next((found for r in plan.rejected if (found := r.layout) is not None), None)
        if layout is None:
            raise ValueError(f"fit_profile: {one.name or 'a measurement'} cannot be costed: {plan.advice()}")
        return float(layout.seconds)

    whole = seconds(base)
    parts: dict[str, float] = {}
    for group in GROUPS:
        changed = {kind: _prior(base, kind) * STEP for kind in GROUPS[group]}
        slower = seconds(replace(base, efficiency={**base.efficiency, **changed}))
        parts[group] = max(0.0, (slower - whole) / (1 / STEP - 1))
    shown = base.efficiency.get("overlap", 1.0) - 0.1
    parts["overlap"] = max(0.0, (seconds(replace(base, efficiency={**base.efficiency, "overlap": shown})) - whole) / 0.1)
    known = sum(seconds for part, seconds in parts.items() if part != "overlap")
    return {**parts, "rest": max(0.0, whole - known)}


def _prior(profile: DeviceProfile, kind: str) -> float:
    return profile.efficiency.get(kind, 1.0 if kind == "network" else EFFICIENCY[kind])


def fitted(rows: Sequence[Measurement]) -> dict[str, float]:
    """Return the most probable slownesses: Gauss-Newton on logarithms of times, with damping where a step makes it worse."""
    names = [*GROUPS, "overlap"]
    at = [0.0] * len(names)  # logarithms, except of the last

    def slownesses(point: list[float]) -> dict[str, float]:
        return {name: value if name == "overlap" else math.exp(value) for name, value in zip(names, point, strict=True)}

    def cost(point: list[float]) -> float:
        found = slownesses(point)
        return (sum((math.log(one.predicted(found) / one.seconds) / NOISE) ** 2 for one in rows)
                + sum((value / SPREAD[name]) ** 2 for name, value in zip(names, point, strict=True)))  # fmt: skip

    best = cost(at)
    for _ in range(50):
        found = slownesses(at)
        matrix = [[(1 / SPREAD[a] ** 2 if a == b else 0.0) for b in names] for a in names]
        right = [-value / SPREAD[name] ** 2 for name, value in zip(names, at, strict=True)]
        for one in rows:
            whole = one.predicted(found)
            slope = [one.parts[name] * (1.0 if name == "overlap" else found[name]) / whole for name in names]
            miss = math.log(whole / one.seconds)
            for i, a in enumerate(slope):
                right[i] -= a * miss / NOISE**2
                for j, b in enumerate(slope):
                    matrix[i][j] += a * b / NOISE**2
        move, share = _solved(matrix, right), 1.0
        while share > 1e-4:
            point = [value + share * step for value, step in zip(at, move, strict=True)]
            point[-1] = min(1.0, max(0.0, point[-1]))
            if cost(point) < best:
                break
            share /= 2
        else:
            break
        if best - cost(point) < 1e-12 * best:
            break
        at, best = point, cost(point)
    return slownesses(at)


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a system with a symmetric, positive definite matrix by elimination."""
    n, a = len(right), [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(n):
        for k in range(i + 1, n):
            factor = a[k][i] / a[i][i]
            for j in range(i, n + 1):
                a[k][j] -= factor * a[i][j]
    found = [0.0] * n
    for i in reversed(range(n)):
        found[i] = (a[i][n] - sum(a[i][j] * found[j] for j in range(i + 1, n))) / a[i][i]
    return found


def _scaled(profile: DeviceProfile, slowness: dict[str, float]) -> DeviceProfile:
    """Return a profile in which each part takes ``slowness`` times as long."""
    efficiency = dict(profile.efficiency)
    for group, kinds in GROUPS.items():
        efficiency.update({kind: min(1.0, _prior(profile, kind) / slowness[group]) for kind in kinds})
    efficiency["overlap"] = min(1.0, max(1e-3, efficiency.get("overlap", 1.0) - slowness["overlap"]))
    return replace(profile, efficiency=efficiency)


def _reached(profile: DeviceProfile) -> float:
    """Return the part of the peak that the fastest published product reaches, 0.8 if none is published."""
    for dtype, rate in profile.achieved.items():
        return rate / profile.rates[dtype]
    return 0.8
