"""The repeated blocks of a model, and what is around them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.recomputation import repeated_layers
from metatensor.nn.modules.module import Module
from metatensor.plan.recomputing import Checkpoints
from metatensor.utils.checkpoint import watching

__all__ = ["Block", "Given", "NoBlocks", "StandIn", "Passing", "around", "blocks_of", "check_blocks", "paths_of"]


class NoBlocks(ValueError):
    """Raised if a model has no repeated blocks that pass one tensor from each to the next. The message says what is missing."""


@dataclass
class Block:
    """A kind of repeated block."""

    path: str
    """The path of the first block of this kind."""
    module: Module
    paths: list[str]
    """All blocks of this kind."""

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.paths)


def blocks_of(model: Module) -> tuple[list[Block], list[int]]:
    """Return the kinds of repeated blocks, and the kind of each block in the order of the model.

    Blocks are of one kind if they have the same class and the same parameters. The list of layers with the most parameters is
    used; layers in other lists belong to what is around the blocks.
    """
    found = repeated_layers(model)
    if not found:
        raise NoBlocks("the model has no list of at least two layers of one class, which could be divided among devices")
    lists: dict[str, list[tuple[str, Module]]] = {}
    for path, module in found:
        lists.setdefault(path.rpartition(".")[0], []).append((path, module))
    chosen = max(lists.values(), key=lambda members: sum(p.numel() for _, module in members for p in module.parameters()))
    kinds: dict[Any, Block] = {}
    order = []
    for path, module in chosen:
        key = type(module), tuple((name, tuple(p.shape), p.dtype, p.requires_grad) for name, p in module.named_parameters())
        block = kinds.setdefault(key, Block(path, module, []))
        block.paths.append(path)
        order.append(list(kinds).index(key))
    return list(kinds.values()), order


def paths_of(kinds: list[Block], order: list[int]) -> list[str]:
    """Return the paths of the blocks in the order of the model, for what `blocks_of` returned."""
    left = [iter(kind.paths) for kind in kinds]
    return [next(left[kind]) for kind in order]


class Given(NamedTuple):
    """The arguments of a block."""

    args: tuple
    kwargs: dict[str, Any]
    results: int = 0
    """Length of the tuple that it returns, 0 for a tensor."""
    others: bool = False
    """Whether this tuple has further tensors."""
    changes: bool = False
    """Whether the block changes its first tensor in place."""
    again: frozenset[Hashable] = frozenset()
    """The checkpoints of the model itself that compute the block again in the backward pass."""


class StandIn(Module):
    """Stands for a module, which is not one of its children. Attributes that it lacks are those of the module.

    A deep copy has the same module and fields.
    """

    def __init__(self, module: Module, **fields: Any) -> None:
        super().__init__()
        self.__dict__.update(_stands_for=module, **fields)
        self.__dict__["_fields"] = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_stands_for"], name)

    def __deepcopy__(self, memo: Any) -> StandIn:
        made = type(self).__new__(type(self))
        StandIn.__init__(made, self._stands_for, **self._fields)
        return made


class Passed(StandIn):
    """Stands for a block: returns the first tensor that it gets, as the first of a tuple of length ``results`` if that is not 0."""

    def __init__(self, block: Module, results: int, noted: Callable[[Any], Any]) -> None:
        super().__init__(block, _results=results, _noted=noted)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        x = self._noted(next(tensors_in((args, kwargs))))
        return (x, *[None] * (self._results - 1)) if self._results else x


class Passing(mt.autograd.Function):
    """Returns its argument as a part of a model gets it from the one before: a leaf must not be changed in place, but this may."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def around(model: Module, given: dict[str, Given], noted: Callable[[Any], Any]) -> Module:
    """Return a copy of a model in which each block is replaced by the function ``noted`` of the first tensor that it gets."""
    blocks = {path: model.get_submodule(path) for path in given}
    copies = {id(block): Passed(block, given[path].results, noted) for path, block in blocks.items()}
    return copy.deepcopy(model, dict(copies))


def check_blocks(model: Module, order: list[str], args: tuple, kwargs: dict[str, Any]) -> dict[str, Given]:
    """Run the model once, and return the arguments that each block got, and the form of its result.

    Raise `NoBlocks` if a block does not return a tensor like its first argument, alone or as the first of a tuple, or if the blocks are
    not called once each in this order.
    """
    given: dict[str, Given] = {}
    versions: dict[str, int] = {}
    checkpoints = Checkpoints()
    called: list[str] = []
    wrong: list[str] = []
    hooks = []

    def before(path: str) -> Callable[..., None]:
        def hook(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
            called.append(path)
            detached = map_tensors(lambda t: t.detach(), (args, kwargs))
            given[path] = Given(detached[0], detached[1], again=checkpoints.entered)
            versions[path] = next((t._version for t in tensors_in((args, kwargs))), 0)

        return hook

    def after(path: str) -> Callable[..., None]:
        def hook(module: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
            x = next(tensors_in((args, kwargs)), None)
            y = output if isinstance(output, mt.Tensor) else output[0] if isinstance(output, tuple) and output else None
            if x is not None and x._version != versions[path]:
                given[path] = given[path]._replace(changes=True)
            if isinstance(output, tuple):
                given[path] = given[path]._replace(results=len(output), others=any(True for _ in tensors_in(output[1:])))
            if x is None or not isinstance(y, mt.Tensor) or y.shape != x.shape:
                wrong.append(f"{path} turns {'nothing' if x is None else list(x.shape)} into "
                             f"{list(y.shape) if isinstance(y, mt.Tensor) else type(output).__name__}")  # fmt: skip
            elif not x.is_floating_point():
                wrong.append(f"the first tensor that {path} gets is {x.dtype}, which has no gradient")

        return hook

    try:
        for path in order:
            module = model.get_submodule(path)
            hooks.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
            hooks.append(module.register_forward_hook(after(path), with_kwargs=True))
        with mt.no_grad(), watching(checkpoints):
            model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    wrong += [f"{path} is not called" for path in order if path not in given]
    wrong += [f"{path} is called {called.count(path)} times" for path in order if called.count(path) > 1]
    if not wrong and called != order:
        wrong.append("they are called in another order than that of their list")
    if wrong:
        raise NoBlocks(f"the repeated layers cannot be divided among stages: {wrong[0]}")
    return given
