"""Many devices: the time of a step and the memory of all ranks of a simulated program.

`profile_ranks` runs a function on simulated ranks and returns a `RanksProfile`. ``recording`` records what each rank does,
``scheduling`` puts it on an axis of seconds, ``results`` has the figures, and ``trace`` writes them for Perfetto.
"""

from metatensor.analysis.ranks.profiling import profile_ranks
from metatensor.analysis.ranks.results import RanksProfile, RankStep
from metatensor.analysis.ranks.scheduling import Operation

__all__ = ["Operation", "RankStep", "RanksProfile", "profile_ranks"]
