"""Determine what a model costs and whether it runs, by running it on meta, without data or an accelerator.

`estimate` reports parameters, FLOPs, peak memory and shapes, per module and in total. `check` tells whether a model
runs and stays within budgets, and if it fails, where.
"""

from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup

__all__ = ["CheckResult", "Gap", "ModuleRow", "Peak", "Report", "SharedGroup", "check", "estimate"]
