"""What a model costs and whether it works, found by running it on meta: no data, no accelerator, milliseconds.

`estimate` reports parameters, FLOPs, peak memory and shapes, for each module and in total; `check` says whether the
model runs and stays within budgets, and where not, exactly where.
"""

from metatensor.analysis.check import CheckResult, check
from metatensor.analysis.estimate import estimate
from metatensor.analysis.report import Gap, ModuleRow, Peak, Report, SharedGroup

__all__ = ["CheckResult", "Gap", "ModuleRow", "Peak", "Report", "SharedGroup", "check", "estimate"]
