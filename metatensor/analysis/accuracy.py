"""The errors of predicted figures, compared with published measurements.

The bands are read from ``accuracy.json``, which ``python -m benchmarks.published --write`` writes together with the page
docs/accuracy.md.
"""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Band", "band", "bands", "training_bands"]


class Band(NamedTuple):
    """The errors of one kind of prediction. Errors are relative: 0.1 is a prediction that was 10% too high."""

    kind: str
    figure: str
    """What is predicted."""
    against: str
    """What it was compared with."""
    comparisons: int
    median: float
    """The median of the absolute errors."""
    lowest: float
    """The lowest error: that of the prediction that was too low by the most."""
    highest: float
    """The highest error: that of the prediction that was too high by the most."""
    worst: str
    """The case with the largest error."""
    leaves_out: str
    """What the prediction leaves out."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return self._asdict()

    def __str__(self) -> str:
        errors = f"{self.median:.1%} in the median, {self.lowest:+.0%} to {self.highest:+.0%}"
        if max(-self.lowest, self.highest) < 1e-4:
            errors = "less than 0.01%"
        return f"observed error of {self.figure}: {errors}; {self.comparisons} comparisons with {self.against} (docs/accuracy.md)"


@functools.cache
def bands() -> dict[str, Band]:
    """Return all bands by kind."""
    found = json.loads(files("metatensor.analysis").joinpath("accuracy.json").read_text("utf-8"))
    return {kind: Band(kind, **fields) for kind, fields in found["bands"].items()}


def band(kind: str) -> Band:
    """Return the band of a kind of prediction.

    Parameters
    ----------
    kind : str
        "training memory, meta", "inference memory", "FLOPs", "time, accelerator" or "time, cpu".

    Examples
    --------
    >>> from metatensor.analysis.accuracy import band
    >>> found = band("training memory, meta")
    >>> found.lowest < 0 < found.median < found.highest
    True
    """
    return bands()[kind]


def training_bands(policy: str) -> list[Band]:
    """Return the bands of the memory and the operations of a training step under a kernel policy."""
    known = bands()
    return [known.get(f"training memory, {policy}", known["training memory, meta"]), known["FLOPs"]]
