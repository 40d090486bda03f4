"""What the transforms that differentiate functions share: checks of arguments and results, and the recorded call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import metatensor as mt
from metatensor._core import duals
from metatensor._core.engine import gradient_edge, run_backward
from metatensor._core.tensor import Tensor
from metatensor.func import _tree
from metatensor.func._batched import Batched, Level, current_levels, peel, wrap


def _tensors(where: str, tree: Any, what: str = "argument") -> list[Any]:
    """Return the leaves of nested containers, which must be floating-point or complex tensors."""
    leaves = _tree.flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"{where}: expected the {what} to hold Tensors only, got {type(leaf).__name__}")
    return leaves


def _outputs(where: str, tree: Any) -> list[Any]:
    leaves = _tree.flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{where}: the function must return Tensors, or nested containers of them, not {type(leaf).__name__}")
    return leaves


def _real(where: str, tensors: list[Any], what: str) -> None:
    for i, x in enumerate(tensors):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(f"{where}: {what} must be real, but number {i} is complex; use vjp or jvp")


def _with_aux(where: str, returned: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(f"{where}: with has_aux=True the function must return a tuple of its output and aux")
    return returned


def _positions(where: str, argnums: Any, count: int) -> list[int]:
    """Return the positions of the arguments to differentiate with respect to."""
    if not isinstance(argnums, (int, tuple)) or isinstance(argnums, bool):
        raise RuntimeError(f"{where}: argnums must be an int or a tuple of ints, got {argnums!r}")
    given = (argnums,) if isinstance(argnums, int) else argnums
    if not given:
        raise RuntimeError(f"{where}: argnums is empty")
    found = []
    for i in given:
        if not isinstance(i, int):
            raise RuntimeError(f"{where}: argnums must be ints, got {i!r}")
        if not -count <= i < count:
            raise RuntimeError(f"{where}: there is no argument {i}; the function was called with {count}")
        found.append(i % count)
    if len(set(found)) < len(found):
        raise RuntimeError(f"{where}: argnums {argnums!r} names an argument twice")
    return found


def _named(func: Callable[..., Any], transformed: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(func)(transformed) if hasattr(func, "__name__") else transformed


def _whole(x: Any, levels: list[Level]) -> Any:
    """Return all members of a tensor along first dimensions, those of the outermost level first."""
    for level in reversed(levels):
        x = peel(x, level)
    return x


def _own_memory(whole: Any) -> Any:
    """Return all members, each with its own memory, so that gradients of views are not shared between members."""
    x = _innermost(whole)
    expanded = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))
    return whole.clone(memory_format=mt.contiguous_format) if expanded else whole


def _members(x: Any, levels: list[Level]) -> Any:
    """Undo `_whole`."""
    for level in levels:
        x = wrap(x, level)
    return x


class _Recorded:
    """A call of a function whose gradients can be computed.

    Parameters
    ----------
    func : callable
        Function of the leaves in `leaves`, which returns the output and aux.
    leaves : list of Tensor
        The tensors to differentiate with respect to.
    """

    def __init__(self, where: str, func: Callable[..., Any], leaves: list[Any]) -> None:
        for leaf in leaves:
            if not (leaf.is_floating_point() or leaf.is_complex()):
                raise RuntimeError(f"{where}: only floating-point and complex tensors have gradients, got {leaf.dtype}")
        self.where, self.leaves = where, leaves
        self.outer = mt.is_grad_enabled()
        active = current_levels()
        # If only tangents are batched at a level, the members of the batch compute the same values.
        self.levels = [level for level in active if not level.for_tangents or any(_has_batch(x, level) for x in leaves)]
        self.output, self.aux = self.run(func)
        left_out = [level for level in active if level not in self.levels]
        if any(_has_batch(y, level) for level in left_out for y in self.outputs):
            self.levels = active
            self.output, self.aux = self.run(func)

    def run(self, func: Callable[..., Any]) -> tuple[Any, Any]:
        aliases, self.nodes = [], []
        for leaf in self.leaves:
            whole = _whole(leaf, self.levels)
            made, node = duals.fresh(_own_memory(whole) if self.levels else whole, self.outer)
            aliases.append(_members(made, self.levels))
            self.nodes.append(node)
        try:
            with mt.enable_grad():
                output, aux = func(aliases)
        finally:
            for node in self.nodes:
                node.active = False
        self.outputs = _outputs(self.where, output)
        self.wholes = [_whole(y, self.levels) for y in self.outputs]
        # Whether gradients are to be differentiated further.
        self.nested = self.outer and duals.reaches_others([_innermost(y) for y in self.wholes], self.nodes)
        return output, aux

    def visible(self, tree: Any) -> Any:
        """Return outputs as the caller sees them: without history, unless it leads outside."""

        def one(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.requires_grad:
                return x
            if self.outer and duals.reaches_others([_innermost(x)], self.nodes):
                return x
            return without_history(x)

        return _tree.tree_map(one, tree)

    def gradients(self, cotangents: list[Any], keep: bool, create: bool | None = None) -> list[Any]:
        """Return the gradients of the leaves; zeros for those that the outputs do not depend on."""
        create = self.nested if create is None else create
        roots, given = [], []
        for whole, cotangent in zip(self.wholes, cotangents, strict=True):
            if _innermost(whole).requires_grad:
                roots.append(gradient_edge(whole))
                given.append(_whole(cotangent, self.levels))
        inputs = [(node, 0) for node in self.nodes]
        found = run_backward(roots, given, keep, create, inputs) if roots else [None] * len(inputs)
        results = []
        for leaf, g in zip(self.leaves, found, strict=True):
            if g is None:
                results.append(mt.zeros_like(leaf, requires_grad=False) if not isinstance(leaf, Batched) else mt.zeros_like(leaf))
                continue
            results.append(_members(g if create or not _innermost(g).requires_grad else without_history(g), self.levels))
        return results


def _has_batch(x: Any, level: Level) -> bool:
    """Return whether a tensor itself, not only its tangents, is batched at a level."""
    while isinstance(x, Batched):
        if x.level is level:
            return True
        x = x.value
    return False


def _innermost(x: Any) -> Any:
    while isinstance(x, Batched):
        x = x.value
    return x


def without_history(x: Any) -> Any:
    """Return a tensor without its node, but with its tangents."""
    if isinstance(x, Batched):
        return wrap(without_history(x.value), x.level)
    return duals.without_history(x)
