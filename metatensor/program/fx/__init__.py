"""Symbolic tracing of modules and functions into graphs, and the interpretation of these graphs."""

from __future__ import annotations

from metatensor._core.absent import function as _function
from metatensor._core.lazy import attributes
from metatensor.program.fx._wrapped import wrap

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer", "Transformer", "has_side_effect",
           "map_arg", "replace_pattern", "symbolic_trace", "wrap"]  # fmt: skip

# Loaded on first access, because most importers use `wrap` alone.
_places = {
    "Graph": "graph", "GraphModule": "graph_module", "Interpreter": "interpreter", "Node": "node", "PH": "_symbolic_trace",
    "Proxy": "proxy", "ProxyableClassMeta": "_symbolic_trace", "Tracer": "_symbolic_trace", "Transformer": "interpreter",
    "has_side_effect": "node", "map_arg": "node", "symbolic_trace": "_symbolic_trace",
}  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__,
    ("_pytree", "_symbolic_trace", "experimental", "graph", "graph_module", "interpreter", "node", "passes", "proxy", "traceback"),
    {name: f"{__name__}.{place}:{name}" for name, place in _places.items()},
)  # fmt: skip

replace_pattern = _function("fx.replace_pattern", "metatensor does not search graphs for patterns; iterate over graph.nodes")
