"""Symbolic tracing of modules and functions into graphs, and the interpretation and transformation of these graphs.

A trace affects only the thread that runs it: operators dispatch to the proxies among their arguments, and modules to the tracer
of the calling thread. Nothing that other threads use is replaced.
"""

from __future__ import annotations

from metatensor._core.lazy import attributes
from metatensor.program.fx._wrapped import wrap

__all__ = ["CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "PH", "Proxy", "ProxyableClassMeta", "Tracer", "Transformer",
           "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap"]  # fmt: skip

# Loaded on first access, because most importers use `wrap` alone.
_places = {
    "CodeGen": "codegen", "Graph": "graph", "GraphModule": "graph_module", "Interpreter": "interpreter", "Node": "node",
    "PH": "_symbolic_trace", "Proxy": "proxy", "ProxyableClassMeta": "_symbolic_trace", "Tracer": "_symbolic_trace",
    "Transformer": "interpreter", "has_side_effect": "node", "map_arg": "node", "replace_pattern": "subgraph_rewriter",
    "symbolic_trace": "_symbolic_trace",
}  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__,
    ("_compatibility", "_lazy_graph_module", "_pytree", "_symbolic_trace", "codegen", "experimental", "from_program", "graph",
     "graph_module", "immutable_collections", "interpreter", "node", "operator_schemas", "passes", "proxy", "subgraph_rewriter",
     "traceback"),
    {name: f"{__name__}.{place}:{name}" for name, place in _places.items()},
)  # fmt: skip
