"""Search and comparison of graphs."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(
    __name__, ("common", "fuser_utils", "matcher_utils", "source_matcher_utils"),
    {"compare_graphs": f"{__name__}.common:compare_graphs", "lift_subgraph_as_module": f"{__name__}.common:lift_subgraph_as_module",
     "HolderModule": f"{__name__}.common:HolderModule"},
)  # fmt: skip
