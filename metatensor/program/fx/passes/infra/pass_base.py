"""The base class of passes, and the type of their results."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """A module, and whether a pass modified it."""

    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """A pass over the graph of a module. Subclasses define `call`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> from metatensor.program.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Rename(PassBase):
    ...     def call(self, graph_module):
    ...         for node in graph_module.graph.find_nodes(op="call_function", target=mt.relu):
    ...             node.target = mt.sigmoid
    ...         graph_module.recompile()
    ...         return PassResult(graph_module, True)
    >>> Rename()(fx.symbolic_trace(lambda x: mt.relu(x))).modified
    True
    """

    def __call__(self, graph_module: Any) -> PassResult | None:
        """Run `requires`, `call` and `ensures`, and return the result of `call`."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module if result is None else result.graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: Any) -> PassResult | None:
        """Run the pass, and return the module that results."""

    def requires(self, graph_module: Any) -> None:  # noqa: B027
        """Check what must hold before the pass. Does nothing by default."""

    def ensures(self, graph_module: Any) -> None:  # noqa: B027
        """Check what must hold after the pass. Does nothing by default."""
