"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `estimate_training` reports what a
training step costs. `check` tells whether a model runs and stays within budgets, and if it fails, where. `MemoryTracker`
counts the bytes of the storages that any code makes. `device_profile` returns what an accelerator can hold and how fast it is,
`time_of` predicts how long a model takes there, and `calibrate` measures a device. `allocator` has a model of PyTorch's
caching allocator, and `load_snapshot` reads the snapshots that it writes.
"""

from metatensor._core.memory import MemoryTracker
from metatensor.analysis import allocator as allocator
from metatensor.analysis.allocator import load_snapshot
from metatensor.analysis.calibration import calibrate
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup
from metatensor.analysis.step_time import StepTime, time_of
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.devices.profiles import DeviceProfile, device_profile, device_profiles

__all__ = ["CheckResult", "DeviceProfile", "Gap", "MemoryTracker", "ModuleRow", "Peak", "Report", "SharedGroup", "StepTime",
    "TrainingReport",
           "allocator", "calibrate", "check", "device_profile", "device_profiles", "estimate", "estimate_training",
           "load_snapshot", "time_of"]  # fmt: skip
