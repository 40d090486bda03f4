"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `estimate_training` reports the
cost of a training step. `profile` runs any callable and reports what was in memory, and when. `check` tests whether a
model runs and stays within budgets, and if it fails, shows where. Inside `assume`, upper bounds replace sizes
that depend on values. `fit` finds the largest batch that fits into a device's
memory, and changes that make a batch fit. `MemoryTracker` counts the bytes of the storages that
any code creates, and `MemoryLog` also keeps the events. `device_profile` returns the capacity and speed of an
accelerator, `time_of` predicts the time of a model there, and `calibrate` measures a device. `topology` describes many devices
and their links, `collective_time` predicts the time of a collective there, and `profile_ranks` the time and memory of a step on
all ranks. `compare` lists what grew
between two reports, and `within_budget` limits what the code in a block costs. `allocator` contains a model of PyTorch's
caching allocator, and `load_snapshot` reads the memory snapshots that PyTorch writes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metatensor._core.memory import MemoryLog, MemoryTracker
from metatensor._core.memory_events import MemoryEvent
from metatensor.analysis.assumptions import Assumption, assume
from metatensor.analysis.budgets import BudgetExceededError, within_budget
from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.collectives import CollectiveTime, collective_time
from metatensor.analysis.comparison import Comparison, compare
from metatensor.analysis.estimate import estimate
from metatensor.analysis.fit import fit
from metatensor.analysis.fit_report import FitChange, FitReport, FitSetting, FitTrial
from metatensor.analysis.profiling import Profile, StorageRecord, profile
from metatensor.analysis.ranks import RanksProfile, RankStep, profile_ranks
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup
from metatensor.analysis.step_time import StepTime, time_of
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.analysis.workspaces import Workspaces, workspaces
from metatensor.devices.profiles import DeviceProfile, device_profile, device_profiles
from metatensor.devices.topologies import Topology, TopologyError, topologies, topology
from metatensor.rules.policies import Kernel, KernelPolicy, policies, policy, register_policy

if TYPE_CHECKING:
    from metatensor.analysis import allocator as allocator
    from metatensor.analysis.allocator import load_snapshot
    from metatensor.analysis.calibration import calibrate

__all__ = ["Assumption", "BudgetExceededError", "CheckResult", "CollectiveTime", "Comparison", "DeviceProfile", "FitChange",
           "FitReport", "FitSetting", "FitTrial", "Gap", "MemoryEvent", "MemoryLog", "MemoryTracker", "ModuleRow", "Peak",
           "Profile", "RankStep", "RanksProfile", "Report", "SharedGroup", "StepTime", "StorageRecord", "Topology",
           "TopologyError", "TrainingReport", "Workspaces", "allocator", "assume", "calibrate", "check", "collective_time", "compare",
           "device_profile", "device_profiles", "estimate", "estimate_training", "fit", "load_snapshot", "policies",
           "policy", "profile", "profile_ranks", "register_policy", "time_of", "topologies", "topology", "within_budget",
           "workspaces"]  # fmt: skip

# Imported on first use: an estimate does not need them.
_LAZY = {"allocator": ("metatensor.analysis.allocator", ""), "calibrate": ("metatensor.analysis.calibration", "calibrate"),
         "load_snapshot": ("metatensor.analysis.allocator", "load_snapshot")}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path, attribute = _LAZY[name]
    module = import_module(path)
    found = globals()[name] = getattr(module, attribute) if attribute else module
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
