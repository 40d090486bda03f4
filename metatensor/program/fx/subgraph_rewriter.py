"""`torch.fx.subgraph_rewriter`, whose functions raise."""

from metatensor._core.absent import function

_WHY = "metatensor finds no patterns in graphs; go over graph.nodes"

replace_pattern = function("fx.subgraph_rewriter.replace_pattern", _WHY)
replace_pattern_with_filters = function("fx.subgraph_rewriter.replace_pattern_with_filters", _WHY)
