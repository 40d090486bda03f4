"""Symbolic tracing of modules and functions into graphs, and the interpretation of these graphs.

While a trace runs, the functions of metatensor and the classes of the traced modules are replaced by ones that record calls.
This affects the whole process, so other threads should not use the same modules at that time.
"""

from __future__ import annotations

from metatensor._core.absent import function as _function
from metatensor._core.absent import kind as _kind
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
    ("_pytree", "_symbolic_trace", "codegen", "experimental", "from_program", "graph", "graph_module", "immutable_collections",
     "interpreter", "node", "passes", "proxy", "subgraph_rewriter", "traceback"),
    {name: f"{__name__}.{place}:{name}" for name, place in _places.items()},
)  # fmt: skip

replace_pattern = _function("fx.replace_pattern", "metatensor does not search graphs for patterns; iterate over graph.nodes")
CodeGen = _kind("fx.CodeGen", "the form of the code of a graph cannot be changed; Graph.python_code returns it")
