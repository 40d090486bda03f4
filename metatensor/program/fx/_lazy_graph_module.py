"""The module of ``torch.fx`` for lazy code generation. Here code is generated immediately."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from metatensor.program.fx.graph_module import GraphModule

__all__ = ["_LazyGraphModule", "_make_graph_module", "_use_lazy_graph_module"]

_LazyGraphModule = GraphModule


def _make_graph_module(*args: Any, graph_module_cls: Any = None, **kwargs: Any) -> GraphModule:
    """Return a `GraphModule`, or an instance of `graph_module_cls`, built from the arguments."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Any:
    """Return a context manager that does nothing."""
    yield
