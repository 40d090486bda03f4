"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `estimate_training` reports the
cost of a training step. `check` tests whether a model runs and stays within budgets, and if it fails, shows where.
`MemoryTracker` counts the bytes of the storages that any code creates. `device_profile` returns the capacity and speed
of an accelerator. `allocator` contains a model of PyTorch's caching allocator, and `load_snapshot` reads the memory
snapshots that PyTorch writes.
"""

from metatensor._core.memory import MemoryTracker
from metatensor.analysis import allocator as allocator
from metatensor.analysis.allocator import load_snapshot
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.devices.profiles import DeviceProfile, device_profile, device_profiles

__all__ = ["CheckResult", "DeviceProfile", "Gap", "MemoryTracker", "ModuleRow", "Peak", "Report", "SharedGroup", "TrainingReport",
           "allocator", "check", "device_profile", "device_profiles", "estimate", "estimate_training", "load_snapshot"]  # fmt: skip
