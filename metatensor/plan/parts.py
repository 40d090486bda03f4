"""The parts of a model that is run in a layout (what is before the blocks, the blocks, what is after them), and stages made of them."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable
from typing import Any

import metatensor as mt
from metatensor._core.errors import DeviceMismatchError
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.distributed.tensor import DTensor, Replicate, Shard
from metatensor.nn._hooks import register_module_forward_pre_hook
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged
from metatensor.plan.blocks import Given, Passed, Passing, around
from metatensor.plan.elsewhere import Elsewhere, gets_others, zeros
from metatensor.plan.experts import Experts, divide_experts
from metatensor.plan.recomputing import without
from metatensor.plan.refusals import NotApplied

__all__ = ["Parts", "StageModule", "meta_copy", "parts_of"]


def meta_copy(model: Module, dtype: Any) -> Module:
    """Return a copy of a model on meta, without data. Floating-point tensors get the dtype, if there is one."""

    def empty(t: Any) -> Any:
        return mt.empty(t.shape, dtype=dtype if dtype is not None and t.is_floating_point() else t.dtype, device="meta")

    memo: dict[int, Any] = {id(p): mt.nn.Parameter(empty(p), requires_grad=p.requires_grad) for p in model.parameters()}
    others = (t for module in model.modules() for t in vars(module).values() if isinstance(t, mt.Tensor))
    memo.update({id(t): empty(t) for t in (*model.buffers(), *others)})
    return copy.deepcopy(model, memo)


class Parts:
    """The paths of the blocks, the names of the parameters before and after them, and whether something is computed between them.

    ``tied`` are the names of parameters that are both before and after the blocks, each with one name that both sides have in common.
    """

    def __init__(self, paths: list[str], before: set[str], behind: set[str], between: bool, tied: dict[str, str]) -> None:
        self.paths, self.before, self.behind, self.between, self.tied = paths, before, behind, between, tied

    def around(self, shadow: Module, given: dict[str, Given]) -> Module:
        """Return a copy of a model on meta without the blocks."""
        return around(shadow, given, lambda x: x)


def parts_of(shadow: Module, given: dict[str, Given], paths: list[str], args: tuple, kwargs: dict[str, Any]) -> Parts:
    """Run a model on meta, and return its parts. A module that runs on both sides of the blocks belongs to what is before them."""
    reached = 0
    last: Any = None
    between = False
    before: set[int] = set()
    behind: set[int] = set()

    def noted(x: Any) -> Any:
        nonlocal reached, last, between
        between = between or last is not None and (x is not last[0] or x._version != last[1])
        reached, last = reached + 1, (x, x._version)
        return x

    outer = around(shadow, given, noted)
    hook = register_module_forward_pre_hook(lambda module, _: (behind if paths and reached >= len(paths) else before).add(id(module)))
    try:
        with mt.no_grad():
            without(_checkpoints(given), outer)(*args, **kwargs)
    finally:
        hook.remove()
    names: tuple[dict[str, int], dict[str, int]] = {}, {}
    for path, module in outer.named_modules():
        side = int(id(module) in behind and id(module) not in before)
        names[side].update({f"{path}.{name}".lstrip("."): id(p) for name, p in module._parameters.items() if p is not None})
    both = set(names[0].values()) & set(names[1].values())
    common = {key: name for name, key in names[0].items() if key in both}
    tied = {name: common[key] for side in names for name, key in side.items() if key in both}
    return Parts(paths, set(names[0]), set(names[1]), between, tied)


class _Received:
    """The tensor that a stage has received, and the one that it passes on."""

    def __init__(self) -> None:
        self.x: Any = None


class _StageEnd(Exception):
    """The last block of a stage has run."""

    def __init__(self, output: Any) -> None:
        super().__init__("the stage ends here")
        self.output = output


class StageModule(Module):
    """Some consecutive blocks of a model. The first stage has what is before the blocks as well, and the last what is after them.

    The model's own forward runs. What belongs to other stages has no data and runs on meta, until the first block of this stage
    gets the tensor that the stage has received. If blocks get further tensors, what comes before runs on the arguments of the model,
    and modules with parameters of other stages return zeros. The stage ends after its last block.

    Attributes
    ----------
    calls : deque of tuple
        The arguments of the model for each micro-batch that is still to come, if there are several stages.
    """

    def __init__(self, model: Module, shadow: Module, parts: Parts, given: dict[str, Given], own: list[str], index: int, number: int,
                 call: tuple[tuple, dict[str, Any]], device: Any, copied: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.index, self.first, self.last, self.calls = index, index == 0, index == number - 1, deque[Any]()
        self._own, self._given, self._call, self._parts, self._device = own, given, call, parts, device
        self._runs = gets_others(given[path] for path in own)
        """Whether what comes before the blocks runs with data."""
        self._received, self._mesh = _Received(), None
        self._arranged: dict[str, Arranged] = {}
        self._experts: dict[str, Experts] = {}
        self._outer: Arranged | None = None
        if number > 1:
            self._check(model, parts, given)
            wanted = (parts.before if self.first else set()) | (parts.behind if self.last else set())
            memo: dict[int, Any] = {}
            named, buffers = dict(shadow.named_parameters(remove_duplicate=False)), dict(shadow.named_buffers(remove_duplicate=False))
            inside = tuple(f"{path}." for path in own)
            for name, p in model.named_parameters(remove_duplicate=False):
                if name in wanted or name.startswith(inside):
                    again = copied and name in parts.tied
                    memo[id(p)] = mt.nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad) if again else p
                else:
                    memo.setdefault(id(p), _Absent.of(named[name]))
            for name, b in model.named_buffers(remove_duplicate=False):
                memo[id(b)] = b if self.first or self.last or self._runs or name.startswith(inside) else buffers[name]
            for path in parts.paths:
                block = model.get_submodule(path)
                if path not in own:
                    memo[id(block)] = Passed(shadow.get_submodule(path), given[path].results, lambda x: x)
            model = copy.deepcopy(model, memo)
            if self._runs and not self.first:
                self._replace(model, shadow, wanted)
            self._strip(model, named, wanted, inside)
        self.inner = model
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._run = without(_checkpoints(given), model.__call__)

    @staticmethod
    def _check(model: Module, parts: Parts, given: dict[str, Given]) -> None:
        why = "something is computed between the blocks" if parts.between else ""
        why = "the blocks return several tensors" if any(one.others for one in given.values()) else why
        if why:
            raise NotApplied(f"apply: {why}, which a pipeline does not pass on yet; search with pipeline=[1]",
                             lambda one: one.pipeline == 1)  # fmt: skip
        seen: dict[int, tuple[str, str]] = {}
        for name, p in model.named_parameters(remove_duplicate=False):
            block = next((path for path in parts.paths if name.startswith(f"{path}.")), "")
            first, known = seen.setdefault(id(p), (name, block))
            if known != block:
                raise NotApplied(f"apply: {first} and {name} are one parameter of several blocks, which a pipeline cannot divide yet; "
                                 "search with pipeline=[1]", lambda one: one.pipeline == 1)  # fmt: skip

    def _replace(self, model: Module, shadow: Module, wanted: set[str]) -> None:
        """Replace modules before the blocks that have parameters of the first stage."""
        replaced = ""
        for path, module in list(model.named_modules(remove_duplicate=False)):
            if replaced and path.startswith(f"{replaced}."):
                continue
            names = {name: f"{path}.{name}".lstrip(".") for name, p in module._parameters.items() if p is not None}
            absent = {name: full for name, full in names.items() if full in self._parts.before and full not in wanted}
            if not absent:
                continue
            if path and not any(f"{one}.".startswith(f"{path}.") for one in self._parts.paths):
                model.set_submodule(path, Elsewhere(shadow.get_submodule(path)))
                replaced = path
                continue
            for name in absent:
                p = module._parameters.pop(name)
                object.__setattr__(module, name, zeros(p, self._device))

    def _strip(self, model: Module, shadows: dict[str, Any], wanted: set[str], inside: tuple[str, ...]) -> None:
        """Make the parameters of other stages plain attributes without data, so that they are not parameters of this one."""
        for path, module in model.named_modules():
            for name, p in list(module._parameters.items()):
                full = f"{path}.{name}".lstrip(".")
                if p is not None and full not in wanted and not full.startswith(inside):
                    del module._parameters[name]
                    object.__setattr__(module, name, shadows[full].detach())

    @property
    def blocks(self) -> list[Module]:
        """The blocks of this stage."""
        return [self.inner.get_submodule(path) for path in self._own]

    def around(self) -> list[list[Module]]:
        """Return the modules before the blocks, and those after them, that have parameters of their own."""
        inside = {id(module) for block in self.blocks for module in block.modules()}
        sides: list[list[Module]] = [[], []]
        for path, module in self.inner.named_modules():
            names = [f"{path}.{name}".lstrip(".") for name, p in module._parameters.items() if p is not None]
            if names and id(module) not in inside:
                sides[all(name in self._parts.behind for name in names)].append(module)
        return sides

    def experts(self) -> list[Module]:
        """Return the modules of experts of the blocks."""
        return [block.get_submodule(inner) for path, block in zip(self._own, self.blocks, strict=True) if path in self._experts
                for inner in self._experts[path].paths]  # fmt: skip

    def groups(self) -> list[tuple[list[Any], bool]]:
        """Return the trainable parameters of each part, in the order of the model. Those of experts are apart, with a flag."""
        sides: list[list[Any]] = [[], []]
        tied = self.tied()
        others = {id(p) for p in tied} | {id(p) for block in self.blocks for p in block.parameters()}
        for name, p in self.inner.named_parameters():
            if id(p) not in others and p.requires_grad:
                sides[name in self._parts.behind].append(p)
        routed = {id(p) for module in self.experts() for p in module.parameters()}
        seen: set[int] = set()
        found = [(tied, False), (sides[0], False)]
        for block in self.blocks:  # blocks may share parameters
            trained = [p for p in block.parameters() if p.requires_grad and id(p) not in seen]
            seen.update(map(id, trained))
            found += [([p for p in trained if (id(p) in routed) is flag], flag) for flag in (False, True)]
        return [(group, flag) for group, flag in [*found, (sides[1], False)] if group]

    def tied(self) -> list[Any]:
        """Return the trainable parameters that another stage has too, which are the first of `groups`."""
        if self.first and self.last:
            return []
        tied = self._parts.tied
        found = {tied[name]: p for name, p in self.inner.named_parameters() if name in tied and p.requires_grad}
        return [found[name] for name in sorted(found)]  # both stages need the same order

    def divide_experts(self, experts: dict[str, Experts], mesh: Any, tensor_mesh: Any) -> None:
        """Divide the experts of blocks over a mesh, None if they stay as they are."""
        self._experts = {path: experts[path] for path in self._own if path in experts}
        if mesh is not None:
            for path, found in self._experts.items():
                divide_experts(self.inner.get_submodule(path), found, mesh, tensor_mesh)

    def divide(self, mesh: Any, cuts: dict[str, Any], sequence: bool) -> None:
        """Cut matrices among tensor-parallel ranks, and communicate at the boundaries of regions."""
        self._mesh = mesh
        holders: dict[int, tuple[str, str]] = {}
        for name, p in self.inner.named_parameters(remove_duplicate=False):
            part = next((path for path in self._own if name.startswith(f"{path}.")), "")
            first, known = holders.setdefault(id(p), (name, part))
            if known != part:
                raise NotImplementedError(f"apply: {first} and {name} are one parameter of several parts, which tensor parallelism cannot "
                                          "divide yet; search with tensor=[1]")  # fmt: skip
        apart = {id(inner) for module in self.experts() for inner in module.modules()}
        for path, block in zip(self._own, self.blocks, strict=True):
            given = self._given[path]
            arranged = self._arranged[path] = Arranged.applied(block, mesh, cuts[path], sequence, given.args, given.kwargs, apart)
            block.forward = arranged.finishing(block.forward)  # type: ignore[method-assign]
        outer = cuts[""]
        if outer is not None:
            mine = {name: dim for name, dim in outer.items() if name in self._names.values()}
            inside = {id(m) for block in self.blocks for m in block.modules()}
            self._outer = Arranged.applied(self.inner, mesh, mine, False, *self._call, inside)
            if sequence:
                self._outer.outside = Shard(1)

    def bound(self) -> None:
        """Register hooks that place tensors at the boundaries of blocks."""
        for path, block in zip(self._own, self.blocks, strict=True):
            block.register_forward_pre_hook(self._entered(path), with_kwargs=True, prepend=True)
            if path in self._arranged:
                block.register_forward_hook(self._left(path))

    def finish(self) -> None:
        """Register a hook that ends the stage after its last block."""
        if self._own and not self.last:
            self.blocks[-1].register_forward_hook(self._ended)

    def _entered(self, path: str) -> Any:
        arranged, results = self._arranged.get(path), self._received

        def hook(module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
            first = next(tensors_in((args, kwargs)))

            def one(t: Any) -> Any:
                if t is first and results.x is not None:
                    t, results.x = results.x, None
                if arranged is None:
                    return t
                if not isinstance(t, DTensor):
                    t = DTensor.from_local(t, arranged.mesh, [Replicate()], run_check=False)
                return _Boundary.apply(t.redistribute(placements=[arranged.outside]), arranged.outside) if t.requires_grad else t

            return map_tensors(one, (args, kwargs))

        return hook

    def _left(self, path: str) -> Any:
        arranged = self._arranged[path]

        def hook(module: Any, args: tuple, output: Any) -> Any:
            y: Any = next(tensors_in(output))
            return map_tensors(lambda t: self._plain(t.redistribute(placements=[arranged.outside])) if t is y else t, output)

        return hook

    def _plain(self, y: Any) -> Any:
        return y if self._outer is not None else y.full_tensor()

    def _ended(self, module: Any, args: tuple, output: Any) -> None:
        raise _StageEnd(next(tensors_in(output)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the model, or what the next stage gets. With several stages, the argument is what this one has received."""
        call = args, kwargs
        if not (self.first and self.last):
            call = self.calls.popleft()
        if not self.first:
            arranged, (x,) = self._arranged.get(self._own[0]), args
            if arranged is not None:
                x = DTensor.from_local(x, arranged.mesh, [arranged.outside], run_check=False)
            self._received.x = Passing.apply(x) if self._given[self._own[0]].changes else x
            call = call if self._runs else self._call
        elif self._outer is not None:
            call = map_tensors(lambda t: DTensor.from_local(t, self._mesh, [Replicate()], run_check=False), call)
        args, kwargs = call
        try:
            y = self._run(*args, **kwargs)
        except _StageEnd as end:
            y = end.output
            if isinstance(y, DTensor):
                y = y.to_local()
        except DeviceMismatchError as error:
            if self.first:
                raise
            raise NotImplementedError(
                "apply: a stage uses something of earlier stages besides the result of their last block, which a pipeline "
                f"does not pass on yet; search with pipeline=[1] ({error})"
            ) from error
        if self._outer is not None:
            self._outer.finished()
        return y


def _checkpoints(given: dict[str, Given]) -> frozenset[Hashable]:
    """Return the checkpoints of the model itself that contain blocks."""
    return frozenset().union(*(one.again for one in given.values()))


class _Absent:
    """Makes placeholders for parameters of other stages."""

    @staticmethod
    def of(p: Any) -> Any:
        return mt.nn.Parameter(p.detach(), requires_grad=False)


class _Boundary(mt.autograd.Function):
    """Returns its argument. The gradient is redistributed to the same placement."""

    @staticmethod
    def forward(ctx: Any, x: Any, place: Any) -> Any:
        ctx.place = place
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.redistribute(placements=[ctx.place]), None
