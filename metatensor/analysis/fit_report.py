"""The results of `fit`: settings that were tried, what each costs, and what a change to it loses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.units import bytes_text, seconds_text

__all__ = ["FitChange", "FitReport", "FitSetting", "FitTrial"]


@dataclass(frozen=True)
class FitSetting:
    """The settings of a run that `fit` may change."""

    batch: int
    """Samples that run at once: a micro-batch."""
    sequence: int | None = None
    """Length of a sample. None if the inputs have no such size."""
    precision: str | None = None
    """A precision of `estimate_training`. None is that of the model."""
    recompute: str = "none"
    grad_accumulation: int = 1
    """Micro-batches of a step. Without training: passes, one after the other."""
    optimizer: Any = "adamw"
    """The name of an optimizer, or a function that creates one. It has no meaning without training."""
    foreach: bool = False

    @property
    def samples(self) -> int:
        """Samples of a step: all micro-batches."""
        return self.batch * self.grad_accumulation

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        name = self.optimizer if isinstance(self.optimizer, str) else getattr(self.optimizer, "__name__", str(self.optimizer))
        return {**vars(self), "optimizer": name, "samples": self.samples}


@dataclass(frozen=True)
class FitTrial:
    """The estimated cost of a setting."""

    setting: FitSetting
    bytes: int | None
    """Peak memory in bytes. None if the model does not run with the setting."""
    seconds: float | None = None
    """Predicted time of a step in seconds. None if it is unknown, or if no device is given."""
    fits: bool = False
    error: str | None = None
    """Why the model does not run with the setting."""

    @property
    def seconds_per_sample(self) -> float | None:
        """Predicted time of a step over its samples, in seconds."""
        return None if self.seconds is None else self.seconds / self.setting.samples

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types: bytes and seconds."""
        return {"setting": self.setting.to_dict(), "fits": self.fits, "bytes": self.bytes, "seconds": self.seconds,
                "seconds_per_sample": self.seconds_per_sample, "error": self.error}  # fmt: skip


@dataclass(frozen=True)
class FitChange:
    """Changes to the requested setting that make it fit, and what they cost."""

    changes: tuple[str, ...]
    """What changes, such as "recompute full"."""
    lost: tuple[str, ...]
    """What is lost besides time. Empty if the result of a step stays the same."""
    rank: int
    """How much is lost: 0 nothing, 1 to 3 precision, 3 the choice of the optimizer, 4 samples or their length."""
    trial: FitTrial

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        return {"changes": list(self.changes), "lost": list(self.lost), "rank": self.rank, **self.trial.to_dict()}


@dataclass
class FitReport:
    """Whether a run fits, the largest batch that does, and changes that make it fit. It is true if it fits. ``str()`` gives a table."""

    model: str
    """Name of the model's class."""
    training: bool
    limit: int
    """The available memory, in bytes."""
    limit_of: str
    """What sets the limit: a device, or "max_memory"."""
    device: str | None
    """The device of predicted times."""
    requested: FitTrial
    largest: FitTrial | None
    """The largest batch that fits with an otherwise unchanged setting. None if no batch fits."""
    above: FitTrial | None
    """The next larger batch, which does not fit. None if the search ended before."""
    changes: list[FitChange] = field(default_factory=list)
    """Changes that make the requested samples fit, the cheapest first. Empty if they fit."""
    remarks: list[str] = field(default_factory=list)
    excluded: tuple[str, ...] = ()
    """What the memory leaves out."""
    estimates: int = 0
    """Number of estimates that the search ran."""

    @property
    def fits(self) -> bool:
        """Whether the requested setting fits."""
        return self.requested.fits

    def __bool__(self) -> bool:
        return self.fits

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types: bytes and seconds."""
        parts = {"requested": self.requested.to_dict(), "largest": None if self.largest is None else self.largest.to_dict(),
                 "above": None if self.above is None else self.above.to_dict(),
                 "changes": [change.to_dict() for change in self.changes]}  # fmt: skip
        return {**vars(self), "fits": self.fits, **parts, "excluded": list(self.excluded)}

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        return self.text()

    def text(self, most: int = 10) -> str:
        """Return the table, with at most `most` changes."""
        what = "one training step" if self.training else "one forward pass"
        setting = self.requested.setting
        head = f"{self.model}: {what} of {_samples(setting.samples)} {'fits' if self.fits else 'does not fit'} in {bytes_text(self.limit)}"
        head += f" ({self.limit_of})"
        rows = [("", "peak memory", "per step", "per sample", ""), self._row("as requested", self.requested, self._state(self.requested))]
        name = "batch" if setting.grad_accumulation == 1 else "micro-batch"
        if self.largest is not None:
            rows.append(self._row(f"largest {name} that fits: {self.largest.setting.batch:,}", self.largest, self._state(self.largest)))
        if self.above is not None:
            rows.append(self._row(f"{name} {self.above.setting.batch:,}", self.above, self._state(self.above)))
        lines = [head, "", *_table(rows)]
        if self.largest is not None and self.above is None:
            lines.append(f"no greater {name} was tried")
        if self.largest is None:
            lines.append(f"no {name} fits with these settings")
        if self.changes:
            shown = self.changes[:most]
            rows = [("", "peak memory", "per step", "per sample", "time per sample", "lost besides time")]
            rows += [(*self._row(" + ".join(change.changes), change.trial, self._slower(change.trial)), "; ".join(change.lost) or "nothing")
                     for change in shown]  # fmt: skip
            lines += ["", f"changes that make {_samples(setting.samples)} fit, the cheapest first:", "", *_table(rows)]
            if len(self.changes) > most:
                lines.append(f"and {len(self.changes) - most} more")
        elif not self.fits:
            lines += ["", "no change that was tried makes it fit"]
        notes = [*self.remarks, f"memory leaves out: {', '.join(self.excluded)}"] if self.excluded else self.remarks
        return "\n".join([*lines, "", *notes, f"estimates that ran: {self.estimates:,}"])

    def _row(self, name: str, trial: FitTrial, last: str) -> tuple[str, ...]:
        size = "unknown" if trial.bytes is None else bytes_text(trial.bytes)
        return name, size, _seconds(trial.seconds), _seconds(trial.seconds_per_sample), last

    def _state(self, trial: FitTrial) -> str:
        if trial.bytes is None:
            return f"does not run: {trial.error}"
        left = bytes_text(abs(self.limit - trial.bytes))
        return f"fits, {left} are left" if trial.fits else f"does not fit, {left} are missing"

    def _slower(self, trial: FitTrial) -> str:
        before, now = self.requested.seconds_per_sample, trial.seconds_per_sample
        return f"{now / before - 1:+.1%}" if before and now is not None else "unknown"


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count:,} samples"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(value)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return lines with aligned columns: the first and the last on the left, the others on the right."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    last = len(widths) - 1
    return ["  ".join(cell if i == last else cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]  # fmt: skip

