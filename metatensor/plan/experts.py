"""Expert parallelism of blocks: modules of experts, and how they are divided."""

from __future__ import annotations

import copy
from typing import Any

import metatensor as mt
from metatensor.distributed.device_mesh import DeviceMesh
from metatensor.distributed.tensor import DTensor, Replicate
from metatensor.distributed.tensor.parallel import ExpertParallel, ExpertTensorParallel, parallelize_module
from metatensor.nn.modules.module import Module

__all__ = ["Experts", "divide_experts", "expert_mesh", "experts_of"]


class Experts:
    """The modules of experts in a block.

    Attributes
    ----------
    paths : list of str
        Their paths in the block.
    mixtures : list of str
        The smallest modules around them that return a tensor like their first argument.
    number : int
        Number of experts of each module.
    """

    def __init__(self, paths: list[str], mixtures: list[str], number: int) -> None:
        self.paths, self.mixtures, self.number = paths, mixtures, number


def experts_of(block: Module, args: tuple, kwargs: dict[str, Any]) -> Experts | None:
    """Return the modules of experts of a block, None if it has none.

    They are called as `ExpertParallel` calls them: with tokens (N, D) in the order of their experts, and the number of tokens of each
    expert (E,). The first dimension of each of their parameters is that of the experts.
    """
    found: dict[str, int] = {}
    alike: set[str] = set()
    hooks = []

    def called(path: str) -> Any:
        def hook(module: Any, inputs: tuple, output: Any) -> None:
            first = inputs[0] if inputs else None
            if isinstance(output, mt.Tensor) and isinstance(first, mt.Tensor) and first.shape == output.shape:
                alike.add(path)
            own = [p for p in module._parameters.values() if p is not None]
            if len(inputs) < 2 or not own or not all(isinstance(t, mt.Tensor) for t in inputs[:2]):
                return
            tokens, counts = inputs[:2]
            if tokens.dim() == 2 and counts.dim() == 1 and not counts.is_floating_point() and all(p.dim() for p in own):
                if {p.shape[0] for p in own} == {counts.shape[0]}:
                    found[path] = int(counts.shape[0])

        return hook

    inner = copy.deepcopy(block)
    for path, module in inner.named_modules():
        if path:
            hooks.append(module.register_forward_hook(called(path)))
    with mt.no_grad():
        inner(*args, **kwargs)
    if not found:
        return None
    around = [next((path[:i] for i in range(len(path), 0, -1) if (i < len(path) and path[i] == ".") and path[:i] in alike), path)
              for path in found]  # fmt: skip
    return Experts(list(found), around, min(found.values()))


def expert_mesh(expert: int, tensor: int) -> Any:
    """Return a simulated mesh of ranks that divide experts, and in a second dimension each expert if ``tensor`` is not 1."""
    rows = [list(range(i, i + tensor)) for i in range(0, expert * tensor, tensor)]
    return DeviceMesh("meta", rows if tensor > 1 else list(range(expert)))


def divide_experts(block: Module, experts: Experts, mesh: Any, tensor_mesh: Any) -> None:
    """Divide the experts of a block over the last dimension of a mesh, or the last two with tensor parallelism."""
    style = ExpertParallel() if tensor_mesh is None else ExpertTensorParallel()
    for path in experts.paths:
        module = block.get_submodule(path)
        if tensor_mesh is not None:
            module.register_forward_pre_hook(_to_local)
        parallelize_module(module, mesh, style)
        if tensor_mesh is not None:
            module.register_forward_hook(_to_distributed(tensor_mesh))


def _to_local(_: Any, inputs: tuple) -> tuple:
    return tuple(t.redistribute(placements=[Replicate()]).to_local() if isinstance(t, DTensor) else t for t in inputs)


def _to_distributed(mesh: Any) -> Any:
    return lambda _, inputs, output: DTensor.from_local(output, mesh, [Replicate()])
