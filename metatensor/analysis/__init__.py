"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `estimate_training` reports the
cost of a training step. `profile` runs any callable and reports what was in memory, and when. `check` tests whether a
model runs and stays within budgets, and if it fails, shows where. `MemoryTracker` counts the bytes of the storages that
any code creates, and `MemoryLog` also keeps the events. `device_profile` returns the capacity and speed of an
accelerator, `time_of` predicts the time of a model there, and `calibrate` measures a device. `allocator` contains a
model of PyTorch's caching allocator, and `load_snapshot` reads the memory snapshots that PyTorch writes.
"""

from metatensor._core.memory import MemoryLog, MemoryTracker
from metatensor._core.memory_events import MemoryEvent
from metatensor.analysis import allocator as allocator
from metatensor.analysis.allocator import load_snapshot
from metatensor.analysis.calibration import calibrate
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.profiling import Profile, StorageRecord, profile
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup
from metatensor.analysis.step_time import StepTime, time_of
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.devices.profiles import DeviceProfile, device_profile, device_profiles
from metatensor.rules.policies import Kernel, KernelPolicy, policies, policy, register_policy

__all__ = ["CheckResult", "DeviceProfile", "Gap", "MemoryEvent", "MemoryLog", "MemoryTracker", "ModuleRow", "Peak", "Profile", "Report",
           "SharedGroup", "StepTime", "StorageRecord", "TrainingReport", "allocator", "calibrate", "check", "device_profile",
           "device_profiles", "estimate", "estimate_training", "load_snapshot", "policies", "policy", "profile", "register_policy",
           "time_of"]  # fmt: skip
