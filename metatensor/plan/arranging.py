"""Tensor parallelism of a block, found by trying: which weights are cut along which dimension, and where the parts communicate.

The block runs once on distributed tensors. Each module with a matrix of its own is tried with the matrix cut along each of its
dimensions, by the sharding rules of the operators. The cut with the least communication is chosen, and among equal ones the one with the
least computation. As a result, a matrix is cut along its outputs if its input is whole, and along its inputs if its input is cut. Partial
results are summed after the module, as in Megatron-LM and PyTorch's ``parallelize_module``.

A *region* begins at a module with a cut matrix and a whole input, and ends where partial results are summed. Activations inside are cut.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.calls import CallRecorder
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from metatensor.distributed.tensor.experimental import implicit_replication
from metatensor.nn.modules.module import Module
from metatensor.plan.distributing import distribute_parameters

__all__ = ["Arranged", "local_numel"]

_Score = tuple[int, ...]


class _SummedGradient(mt.autograd.Function):
    """Returns its argument. If the gradient is partial, it is summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.redistribute(placements=[Replicate()])


class Arranged:
    """A copy of a module whose weights are distributed over a mesh of one dimension.

    Parameters
    ----------
    module : Module
        The module, on meta. It is not changed.
    mesh : DeviceMesh
        The ranks of tensor parallelism.
    args, kwargs
        Arguments of a call, as plain tensors.
    sequence : bool
        Whether activations outside of regions are cut along the sequence, the last dimension but one, instead of replicated.
    apart : sequence of str
        Paths of submodules that are left alone.
    prepare : callable, optional
        Called with the copy, before anything is tried.
    """

    def __init__(
        self, module: Module, mesh: Any, args: tuple, kwargs: dict[str, Any], sequence: bool = False, apart: Sequence[str] = (),
        prepare: Callable[[Module], None] | None = None,
    ) -> None:  # fmt: skip
        self.module, self.mesh = copy.deepcopy(module), mesh
        self.outside: Any = Replicate()
        """The placement of activations outside of regions."""
        self.cut: dict[str, int] = {}
        """The dimension that is cut, by name of the parameter."""
        self._shared: dict[int, tuple[Any, Any]] = {}
        left = {id(inner) for path in apart for inner in self.module.get_submodule(path).modules()}
        self._left = left
        self._holders = _holders(self.module)
        self._distribute(self.module, {})
        if prepare is not None:
            prepare(self.module)
        self.matrices = [m for m in self.module.modules() if id(m) not in left and any(p.dim() > 1 for p in m.parameters(recurse=False))]
        self._chosen: set[int] = set()
        self._scores: dict[Any, dict[Any, _Score]] = {}
        """What the calls of modules with a tied parameter cost together, by its placement."""
        with ExitStack() as stack:
            for m in self.matrices:
                stack.callback(m.register_forward_pre_hook(self._gathered, with_kwargs=True).remove)
                stack.callback(m.register_forward_pre_hook(self._choose, with_kwargs=True).remove)
            stack.callback(self._regions(gathering=False).remove)
            with mt.no_grad(), implicit_replication():
                self.call(args, kwargs)
        if sequence:
            self.outside = Shard(_sequence_dim(args, kwargs, mesh.size()))

    @classmethod
    def applied(
        cls, module: Module, mesh: Any, cut: dict[str, int], sequence: bool, args: tuple, kwargs: dict[str, Any], left: Iterable[int] = (),
    ) -> Arranged:  # fmt: skip
        """Cut a module itself, with its data. From then on, its calls communicate at the boundaries of regions.

        ``cut`` holds the dimensions that were found for a copy, by name of the parameter, and ``left`` the ids of submodules that are
        left alone.
        """
        self = cls.__new__(cls)
        self.module, self.mesh, self.cut, self._shared, self._left = module, mesh, dict(cut), {}, set(left)
        self.outside = Shard(_sequence_dim(args, kwargs, mesh.size())) if sequence else Replicate()
        self._chosen = set()
        distribute_parameters(module, mesh, {name: [Shard(dim)] for name, dim in cut.items()})
        self.matrices = [m for m in module.modules() if id(m) not in self._left and any(p.dim() > 1 for p in m.parameters(recurse=False))]
        self._regions()
        return self

    @property
    def divides(self) -> bool:
        """Whether at least one matrix is cut."""
        return bool(self.cut)

    def _distribute(self, module: Module, placed: dict[str, Any]) -> None:
        """Replace the parameters of a module and its children by distributed ones, placed as in ``placed`` by name, else replicated."""
        for path, child in module.named_modules():
            for name, p in list(child._parameters.items()):
                if p is None or id(child) in self._left:
                    continue
                place = placed.get(f"{path}.{name}".lstrip("."), Replicate())
                whole = p.data._local_tensor if isinstance(p.data, DTensor) else p.data
                shape = p.shape
                if whole.shape != shape:
                    whole = mt.empty(shape, dtype=p.dtype, device="meta")
                made = mt.nn.Parameter(distribute_tensor(whole, self.mesh, [place]), requires_grad=p.requires_grad)
                for owner, other in self._holders.get((id(child), name), [(child, name)]):
                    owner._parameters[other] = made

    def _choose(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """Place the parameters of a module by trying each dimension of its matrices.

        For a tied parameter, the costs of all modules that have it are added, so the last of them may change what others chose.
        """
        if id(module) in self._chosen:
            return
        self._chosen.add(id(module))
        named = {name: p for name, p in module._parameters.items() if p is not None}
        tied = {name: id(self._holders[id(module), name]) for name in named if (id(module), name) in self._holders}
        totals: dict[tuple[Any, ...], _Score] = {}
        for places in product(*map(self._options, named.values())):
            placed = dict(zip(named, places, strict=True))
            self._distribute(module, placed)
            scores = [self._score(module, args, kwargs)]
            scores += [self._scores[key].get(placed[name]) for name, key in tied.items() if key in self._scores]
            known = [score for score in scores if score is not None]
            if len(known) == len(scores):
                totals[places] = tuple(map(sum, zip(*known, strict=True)))
        places = min(totals, key=totals.__getitem__) if totals else (Replicate(),) * len(named)
        for i, name in enumerate(named):
            if name in tied:
                best = self._scores[tied[name]] = {}
                for option, score in totals.items():
                    best[option[i]] = min(score, best.get(option[i], score))
        self._distribute(module, dict(zip(named, places, strict=True)))
        paths = {id(m): path for path, m in self.module.named_modules()}
        for name, place in zip(named, places, strict=True):
            for owner, other in self._holders.get((id(module), name), [(module, name)]):
                full = f"{paths[id(owner)]}.{other}".lstrip(".")
                if isinstance(place, Shard):
                    self.cut[full] = place.dim
                else:
                    self.cut.pop(full, None)

    def _options(self, p: Any) -> list[Any]:
        n = self.mesh.size()
        return [Replicate(), *(Shard(dim) for dim, size in enumerate(p.shape) if size % n == 0 and size >= n)]

    def _score(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> _Score | None:
        """Return what a call costs; less is better: bytes of communication, operations, elements of partial results, elements kept.

        Return None if the call fails.
        """
        try:
            with CommunicationLog() as log, CallRecorder() as recorder:
                output = type(module).forward(module, *args, **kwargs)
        except Exception:
            return None
        partial = sum(local_numel(t) for t in tensors_in(output) if any(place.is_partial() for place in placements_of(t)))
        flops = sum(call.flops for call in recorder.calls)
        kept = sum(local_numel(p) for p in module.parameters(recurse=False))
        return sum(entry.bytes for entry in log), flops, partial, kept

    def _gathered(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Replicate arguments, except those that are cut along their last dimension or placed like activations outside of regions."""

        def gathered(x: Any) -> Any:
            if not isinstance(x, DTensor) or x.placements in ((self.outside,), (Replicate(),), (Shard(x.dim() - 1),)):
                return x
            return x.redistribute(placements=[Replicate()])

        return map_tensors(gathered, (args, kwargs))

    def _regions(self, gathering: bool = True) -> Any:
        """Register hooks at the boundaries of regions. Return an object whose ``remove()`` removes them."""
        stack = ExitStack()
        for m in self.matrices:
            if gathering:
                stack.callback(m.register_forward_pre_hook(self._gathered, with_kwargs=True).remove)
            stack.callback(m.register_forward_pre_hook(self._enter, with_kwargs=True).remove)
            stack.callback(m.register_forward_hook(self._leave).remove)
        stack.remove = stack.close  # type: ignore[attr-defined]
        return stack

    def _enter(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not any(isinstance(place, Shard) for p in module.parameters(recurse=False) for place in placements_of(p)):
            return None

        def whole(x: Any) -> Any:
            if not isinstance(x, DTensor) or not x.is_floating_point():
                return x
            if x.placements == (self.outside,):
                known = self._shared.get(id(x))
                if known is None:
                    y = _SummedGradient.apply(x) if self.outside == Replicate() else x.redistribute(placements=[Replicate()])
                    self._shared = {id(x): (x, y)}  # modules with the same argument follow each other
                    return y
                return known[1]
            return x

        return map_tensors(whole, (args, kwargs))

    def _leave(self, module: Module, args: tuple, output: Any) -> Any:
        def outside(x: Any) -> Any:
            partial = isinstance(x, DTensor) and any(place.is_partial() for place in x.placements)
            return x.redistribute(placements=[self.outside]) if partial else x

        return map_tensors(outside, output)

    def placed(self, x: Any, requires_grad: bool) -> Any:
        """Return a plain tensor as a distributed one: replicated, or if it is an activation, placed as those outside of regions."""
        place = self.outside if x.is_floating_point() and requires_grad else Replicate()
        made = distribute_tensor(x.detach(), self.mesh, [place], src_data_rank=None)  # each rank has it
        return made.requires_grad_(requires_grad)

    def call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the module on tensors that are replicated, and return its result."""
        return self.module(*map_tensors(lambda t: self.placed(t, False), args), **map_tensors(lambda t: self.placed(t, False), kwargs))

    def finished(self) -> None:
        """Forget what modules shared in a forward pass. Call it at the end of each."""
        self._shared.clear()

    def finishing(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``forward`` and then `finished`, also where the forward pass is computed again."""

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return forward(*args, **kwargs)
            finally:
                self.finished()

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """Communicate at the boundaries of regions inside the block."""
        hooks = self._regions()
        try:
            with implicit_replication():
                yield
        finally:
            self._shared.clear()
            hooks.remove()


def _holders(module: Module) -> dict[tuple[int, str], list[tuple[Module, str]]]:
    """Return the modules that have a tied parameter, and its name in each, by the id of such a module and the name."""
    found: dict[int, list[tuple[Module, str]]] = {}
    for child in module.modules():
        for name, p in child._parameters.items():
            if p is not None:
                found.setdefault(id(p), []).append((child, name))
    return {(id(child), name): holders for holders in found.values() if len(holders) > 1 for child, name in holders}


def local_numel(t: Any) -> int:
    """Return the number of elements of a tensor on one rank."""
    return int((t._local_tensor if isinstance(t, DTensor) else t).numel())


def placements_of(t: Any) -> tuple[Any, ...]:
    """Return the placements of a tensor, none for a plain one."""
    return t.placements if isinstance(t, DTensor) else ()


def _sequence_dim(args: tuple, kwargs: dict[str, Any], n: int) -> int:
    x = next(tensors_in((args, kwargs)))
    dim = x.dim() - 2
    if dim < 0 or x.shape[dim] % n:
        raise ValueError(f"the sequence of {list(x.shape)} cannot be cut into {n} equal parts")
    return dim
