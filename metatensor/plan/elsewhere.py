"""Modules of other stages that a stage must run to compute the arguments of its own blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.distributed.tensor import DTensor, Replicate
from metatensor.nn.modules.module import Module
from metatensor.plan.blocks import Given, StandIn
from metatensor.plan.refusals import NotApplied
from metatensor.utils._python_dispatch import TorchDispatchMode

__all__ = ["UNIFORM", "Derived", "Elsewhere", "check_passed", "gets_others", "name_of", "zeros"]

UNIFORM = frozenset("empty empty_like full full_like new_empty new_full new_ones new_zeros ones ones_like zeros zeros_like".split())
"""Operators whose results have the same value everywhere, whatever values their arguments have."""


def zeros(t: Any, device: Any) -> Any:
    """Return zeros with the shape and dtype of a tensor, in the memory of one element."""
    return mt.zeros((), dtype=t.dtype, device=device).expand(t.shape)


class Elsewhere(StandIn):
    """Stands for a module on meta whose parameters another stage has: returns zeros like its results."""

    def __init__(self, module: Module) -> None:
        memo = {id(p): mt.nn.Parameter(zeros(p, "meta"), requires_grad=False) for p in module.parameters()}
        super().__init__(copy.deepcopy(module, memo))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = list(tensors_in((args, kwargs)))
        device = given[0].device if given else None
        mesh = next((t.device_mesh for t in given if isinstance(t, DTensor)), None)
        args, kwargs = map_tensors(lambda t: mt.empty(t.shape, dtype=t.dtype, device="meta"), (args, kwargs))
        with mt.device("meta"), mt.no_grad():
            output = self._stands_for(*args, **kwargs)

        def made(t: Any) -> Any:
            found = zeros(t, device)
            return found if mesh is None else DTensor.from_local(found, mesh, [Replicate()] * mesh.ndim, run_check=False)

        return map_tensors(made, output)


def gets_others(given: Iterable[Given]) -> bool:
    """Return whether blocks get tensors besides the one that they pass on, such as masks or tables of positions."""
    return any(sum(1 for _ in tensors_in((one.args, one.kwargs))) > 1 for one in given)


class Derived(TorchDispatchMode):
    """Notes which tensors depend on the values of given ones."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        super().__init__()
        self._found = {id(t): t for t in tensors}

    def __contains__(self, t: Any) -> bool:
        return id(t) in self._found

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if name_of(func) not in UNIFORM and any(t in self for t in tensors_in((args, kwargs))):
            self._found.update((id(t), t) for t in tensors_in(output))
        return output


def name_of(func: Any) -> str:
    """Return the name of an operator without that of the overload."""
    return str(func.__name__).partition(".")[0]


def check_passed(model: Module, paths: Iterable[str], args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise `NotApplied` if a block gets another tensor that depends on parameters, or on what other blocks return.

    Parameters
    ----------
    model : Module
        The model, on meta.
    paths : iterable of str
        The paths of its blocks.
    args, kwargs
        The arguments of the model.
    """

    derived = Derived(model.parameters())

    def before(path: str) -> Any:
        def hook(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
            if any(t in derived for t in list(tensors_in((args, kwargs)))[1:]):
                raise NotApplied(f"apply: {path} gets a further tensor that depends on what other stages compute, which a pipeline does "
                                 "not pass on yet; search with pipeline=[1]", lambda one: one.pipeline == 1)  # fmt: skip

        return hook

    hooks = [model.get_submodule(path).register_forward_pre_hook(before(path), with_kwargs=True) for path in paths]
    try:
        with mt.no_grad(), derived:
            model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
