"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `estimate_training` reports what a
training step costs. `profile` runs any callable and tells what lived in memory when. `check` tells whether a model runs and
stays within budgets, and if it fails, where. `MemoryTracker` counts the bytes of the storages that any code makes, and
`MemoryLog` also keeps the events.
"""

from metatensor._core.memory import MemoryLog, MemoryTracker
from metatensor._core.memory_events import MemoryEvent
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.profiling import Profile, StorageRecord, profile
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup
from metatensor.analysis.training import TrainingReport, estimate_training

__all__ = ["CheckResult", "Gap", "MemoryEvent", "MemoryLog", "MemoryTracker", "ModuleRow", "Peak", "Profile", "Report", "SharedGroup",
           "StorageRecord", "TrainingReport", "check", "estimate", "estimate_training", "profile"]  # fmt: skip
