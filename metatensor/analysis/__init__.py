"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `check` tells whether a model
runs and stays within budgets, and if it fails, where. `MemoryTracker` counts the bytes of storages that any code makes.
"""

from metatensor._core.memory import MemoryTracker
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup

__all__ = ["CheckResult", "Gap", "MemoryTracker", "ModuleRow", "Peak", "Report", "SharedGroup", "check", "estimate"]
