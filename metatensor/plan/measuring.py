"""The cost on one rank of a block, and of what is around the blocks, measured by runs on meta at local shapes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import metatensor as mt
from metatensor._core.engine import gradient_edge, run_backward, run_deferred
from metatensor._core.memory import MemoryTracker
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.recomputation import checkpointed
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Replicate, Shard
from metatensor.nn._hooks import register_module_forward_pre_hook
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged, local_numel
from metatensor.plan.blocks import Given, Passing, around
from metatensor.plan.contexts import attention_over
from metatensor.plan.costs import PartCost, Split, Work
from metatensor.plan.experts import Experts, divide_experts
from metatensor.plan.kernels import saving_less
from metatensor.plan.peaks import Gradients, Peaks, nbytes
from metatensor.plan.recomputing import without

__all__ = ["Beside", "measure_around", "measure_block"]


@dataclass
class Beside:
    """The ranks of context and expert parallelism."""

    context: Any = None
    """The mesh over whose ranks attention runs. None for a single rank."""
    experts: Experts | None = None
    expert_mesh: Any = None
    """The mesh whose last dimension divides experts, or the last two with tensor parallelism. None if experts are not divided."""

    def divide(self, module: Module, mesh: Any) -> None:
        """Divide the experts of a block."""
        if self.experts is not None and self.expert_mesh is not None:
            divide_experts(module, self.experts, self.expert_mesh, mesh)

    def arranged(self, module: Module, mesh: Any, args: tuple, kwargs: dict[str, Any], sequence: bool) -> Arranged:
        """Return a block whose matrices are divided over a mesh. The arguments are those of one rank."""
        with attention_over(self.context):
            return Arranged(module, mesh, args, kwargs, sequence, self.experts.paths if self.experts else (),
                            lambda copied: self.divide(copied, mesh))  # fmt: skip


def measure_block(
    module: Module, args: tuple, kwargs: dict[str, Any], mesh: Any, sequence: bool, recompute: str, known: Arranged | None = None,
    beside: Beside | None = None, kernels: tuple[str, ...] = (), split: bool = False, checkpoints: frozenset[Hashable] = frozenset(),
    changes: bool = False,
) -> tuple[PartCost, Arranged | None]:  # fmt: skip
    """Return the cost of a block, and how its weights are divided over the mesh, if there is one.

    If ``split``, its backward pass computes gradients of parameters later, and `PartCost.split` is set instead of the pass as a whole.
    ``beside`` are the ranks of context and expert parallelism; arguments are those of one rank. ``kernels`` are some of
    `metatensor.plan.kernels.KERNELS`. ``checkpoints`` are those of the model itself that are left out. ``changes`` says whether the block
    changes its first tensor in place.
    """
    arranged = None
    beside = beside or Beside()
    if mesh is not None:
        arranged = known or beside.arranged(module, mesh, args, kwargs, sequence)
        if sequence and known is None and not arranged.divides and beside.expert_mesh is None:
            raise ValueError("no matrix of the block can be cut")
        inner = arranged.module
    else:
        inner = copy.deepcopy(module)
        beside.divide(inner, None)
    tensor_group = _group_of(mesh)
    forward = without(checkpoints, inner.__call__)
    if arranged is not None:
        forward = arranged.finishing(forward)
    if recompute != "none":
        forward = checkpointed(forward, recompute == "selective")
    first = next(tensors_in((args, kwargs)))

    def given(split: bool) -> tuple[tuple, dict[str, Any], Any]:
        made: list[Any] = []

        def one(t: Any) -> Any:
            grad = t is first
            new = arranged.placed(t, grad) if arranged is not None else t.detach().requires_grad_(grad)
            if grad and split:
                new = mt.empty_like(new).requires_grad_()
            if grad:
                made.append(new)
            return Passing.apply(new) if grad and changes else new

        return (*map_tensors(one, (args, kwargs)), made[0])

    def run(cost: PartCost, gradients: Gradients, split: bool = False) -> None:
        """Run both passes. If ``split``, gradients of parameters are computed after that of the input, and only `PartCost.split` is set."""
        with ExitStack() as stack:
            stack.enter_context(attention_over(beside.context))
            stack.enter_context(arranged.running() if arranged is not None else nullcontext())
            memory = stack.enter_context(MemoryTracker())
            own_args, own_kwargs, x = given(split)
            start, own = memory.current, nbytes(x)
            memory.reset_peak()
            work = _Working(stack, inner, tensor_group)
            stack.enter_context(saving_less(kernels, work.recorder))
            output = forward(*own_args, **own_kwargs)
            del own_args, own_kwargs
            y: Any = next(tensors_in(output))
            if arranged is not None:
                y = y.redistribute(placements=[arranged.outside])
            del output
            cost.forward, saved, peak = work.done(), memory.current - start, memory.peak - start
            work.recorder.phase = "backward"
            roots, grads, result = [gradient_edge(y)], [mt.empty_like(y)], nbytes(y)
            del y
            released = saved + result - (memory.current - start)
            gradients.start(memory)
            if split:
                leaves = [x]
                del x
                cost.split = _run_split(roots, grads, leaves, 0, gradients, memory, work, arranged)
                return
            run_backward(roots, grads, False, False, release=True)
            if isinstance(x.grad, DTensor) and arranged is not None:
                x.grad.redistribute(placements=[arranged.outside])
            cost.saved, cost.released, cost.forward_peak = saved, released, peak
            cost.backward_peaks = gradients.finish(start)
            cost.input_bytes, cost.result_bytes, cost.backward = own, result, work.done()

    cost = PartCost()
    run(cost, Gradients(()))  # makes gradients, to which the next run adds
    gradients = Gradients(inner.parameters())
    try:
        run(cost, gradients, split)
    finally:
        gradients.remove()
    experts = [p for path in (beside.experts.paths if beside.experts else ()) for p in inner.get_submodule(path).parameters()]
    own = {id(p) for p in experts}
    cost.expert_parameters = _elements(experts)
    cost.parameters = _elements(p for p in inner.parameters() if id(p) not in own)
    cost.frozen = _elements([*inner.buffers(), *inner.parameters()], frozen=True)
    cost.tensors = len(gradients)
    cost.reduced, cost.scattered = gradients.reduced, gradients.scattered
    return cost, arranged


class _Working:
    """Records what is done, and returns it pass by pass.

    Parameters
    ----------
    stack : ExitStack
        Recording ends with it.
    module : Module
        What runs.
    group : tuple of int
        The ranks of tensor parallelism.
    """

    def __init__(self, stack: ExitStack, module: Module, group: tuple[int, ...]) -> None:
        self._log = stack.enter_context(CommunicationLog())
        self.recorder = stack.enter_context(CallRecorder(module))
        self._group, self._calls, self._entries = group, 0, 0

    def done(self) -> Work:
        """Return what was done since the last call."""
        calls, entries = self.recorder.calls[self._calls :], self._log.entries[self._entries :]
        self._calls, self._entries = len(self.recorder.calls), len(self._log)
        talk = [entry for entry in entries if entry.bytes and len(entry.group) > 1]
        return Work(calls, [(entry.kind, entry.bytes) for entry in talk if entry.group == self._group],
                    [(entry.kind, entry.bytes, entry.group) for entry in talk if entry.group != self._group])  # fmt: skip


def _run_split(
    roots: list[Any], grads: list[Any], leaves: list[Any], base: int, gradients: Gradients, memory: MemoryTracker, work: _Working,
    arranged: Arranged | None,
) -> Split:  # fmt: skip
    """Run a backward pass that computes gradients of parameters later. Its memory is counted above ``base``, the bytes before the input.

    ``leaves`` has the input. The lists are emptied, so that what they refer to can be freed.
    """
    own = nbytes(leaves[0])
    deferred: list[Any] = []
    found = run_backward(roots, grads, False, False, [gradient_edge(leaves[0])], deferred=deferred, release=True)
    if isinstance(found[0], DTensor) and arranged is not None:
        found[0].redistribute(placements=[arranged.outside])
    peak = memory.peak - base - own
    for one in (roots, leaves, found):
        one.clear()
    of_inputs, kept = work.done(), memory.current - base
    gradients.start(memory)
    run_deferred(deferred)
    return Split(of_inputs, work.done(), peak, kept, gradients.finish(base))


def measure_around(
    model: Module, blocks: dict[str, Given], args: tuple, kwargs: dict[str, Any], loss: Callable[[Any], Any], mesh: Any, sequence: bool,
    context: Any = None, split: bool = False, kernels: tuple[str, ...] = (), checkpoints: frozenset[Hashable] = frozenset(),
    apart: bool = False,
) -> tuple[PartCost, PartCost]:  # fmt: skip
    """Return the costs of what is before the blocks, and of what is after them with the loss.

    ``split``, ``kernels`` and ``checkpoints`` are those of `measure_block`. ``context`` is the mesh over whose ranks attention runs, or
    None for a single rank. ``apart`` says that what is before and what is after the blocks are different stages, each of which has tied
    parameters of its own.
    """
    marks = _Marks(len(blocks))
    outer = around(model, blocks, marks.noted)
    arranged = None
    if mesh is not None:
        arranged = Arranged(outer, mesh, args, kwargs, False)
        if sequence:
            arranged.outside = Shard(1)
        outer = arranged.module
    marks.arranged = arranged

    def run(gradients: tuple[Gradients, Gradients], split: bool = False) -> tuple[PartCost, PartCost]:
        before, behind = PartCost(), PartCost()
        with ExitStack() as stack:
            stack.enter_context(attention_over(context))
            stack.enter_context(arranged.running() if arranged is not None else nullcontext())
            work = _Working(stack, outer, _group_of(mesh))
            stack.enter_context(saving_less(kernels, work.recorder))
            memory = stack.enter_context(MemoryTracker())
            marks.start(memory, work, gradients, split)
            stack.callback(register_module_forward_pre_hook(marks.called).remove)
            given = (args, kwargs) if arranged is None else map_tensors(lambda t: arranged.placed(t, False), (args, kwargs))
            forward = without(checkpoints, outer.__call__)
            if arranged is not None:
                forward = arranged.finishing(forward)
            value = loss(forward(*given[0], **given[1]))
            if isinstance(value, DTensor):
                value = value.redistribute(placements=[Replicate()])
            saved, peak, base, behind.forward, result = memory.current, memory.peak, marks.saved, work.done(), nbytes(value)
            work.recorder.phase = "backward"
            roots, grads = [gradient_edge(value)], [mt.ones_like(value)]
            gradients[1].start(memory)
            if split:
                leaves, marks.leaf, value = [marks.leaf], None, None
                behind.split = _run_split(roots, grads, leaves, marks.base, gradients[1], memory, work, arranged)
                return before, behind
            run_backward(roots, grads, False, False, release=True)
            before.saved, before.passing, before.forward_peak, before.result_bytes = base, marks.passing, marks.peak, marks.result_bytes
            behind.saved, behind.forward_peak, behind.result_bytes = saved - base, peak - base, result
            before.forward = marks.forward
            if marks.peaks is None:  # nothing comes before the blocks
                behind.backward, behind.backward_peaks = work.done(), gradients[1].finish(base)
            else:
                behind.backward, behind.backward_peaks = marks.backward, marks.peaks
                before.backward, before.backward_peaks = work.done(), gradients[0].finish()
        return before, behind

    nothing = Gradients(()), Gradients(())
    run(nothing)
    tied = _tied(outer, marks)
    if apart and tied:
        for module, name, p in tied:
            module._parameters[name] = mt.nn.Parameter(mt.empty_like(p), requires_grad=p.requires_grad)
        run(nothing)
    own = {id(m): list(m.parameters(recurse=False)) for m in outer.modules()}
    last = {id(p): p for i in marks.behind for p in own.get(i, ())}
    first = {id(p): p for m in outer.modules() for p in own[id(m)] if id(p) not in last or id(m) in marks.before}
    last = {i: p for i, p in last.items() if i not in first}
    gradients = Gradients(first.values()), Gradients(last.values())
    try:
        before, behind = run(gradients, split)
    finally:
        for one in gradients:
            one.remove()
    behind.parameters, behind.frozen = _elements(last.values()), _elements(last.values(), frozen=True)
    before.parameters, before.frozen = _elements(first.values()), _elements([*first.values(), *outer.buffers()], frozen=True)
    for cost, one in zip((before, behind), gradients):
        cost.reduced, cost.scattered, cost.tensors = one.reduced, one.scattered, len(one)
    inside = [f"{path}." for path in blocks]
    outside = [m for name, m in outer.named_modules() if not name or any(path.startswith(f"{name}.") for path in inside)] if blocks else []
    before.outer = _elements(p for m in outside for p in m._parameters.values() if p is not None)
    if apart:
        before.tied = behind.tied = _elements(p for _, _, p in tied)
        before.parameters, behind.parameters = before.parameters - before.tied, behind.parameters - behind.tied
    else:
        before.joined = behind.parameters if tied else 0
        behind.joined = -before.joined
        behind.carried = sum(nbytes(p) for p in {id(p): p for _, _, p in tied if p.requires_grad}.values())
    return before, behind


def _tied(outer: Module, marks: _Marks) -> list[tuple[Module, str, Any]]:
    """Return the parameters shared by modules before and after the blocks, with the later modules and the names."""
    first = {id(p) for m in outer.modules() if id(m) not in marks.behind or id(m) in marks.before for p in m.parameters(recurse=False)}
    return [(m, name, p) for m in outer.modules() if id(m) in marks.behind and id(m) not in marks.before
            for name, p in m._parameters.items() if p is not None and id(p) in first]  # fmt: skip


class _Marks:
    """Where a run of what is around the blocks reaches the first block, forward and backward."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arranged: Arranged | None = None
        self.memory: Any = None
        self.before: set[int] = set()
        self.behind: set[int] = set()
        self.reached = 0
        self.split = False

    def start(self, memory: MemoryTracker, work: _Working, gradients: tuple[Gradients, Gradients], split: bool) -> None:
        """Begin to watch a run. If ``split``, what is after the blocks gets a tensor of its own, `leaf`, above `base` bytes."""
        self.memory, self.work, self.gradients, self.split = memory, work, gradients, split
        self.reached = self.saved = self.passing = self.peak = self.result_bytes = self.base = 0
        self.forward = self.backward = Work([], [], [])
        """`forward` is the work before the blocks, `backward` that of the backward pass before it reaches them."""
        self.peaks: Peaks | None = None
        """The backward pass of what is after the blocks."""
        self.leaf: Any = None
        self.passed: Any = None
        """The tensor that the leaf stands for. It is included in the bytes below."""
        self._entered = False

    def called(self, module: Any, args: tuple) -> None:
        """Note a module whose forward starts."""
        (self.behind if self.reached >= self.count else self.before).add(id(module))
        if self.reached == 1 and not self._entered:  # what the caller of the first block held until it returned is free now
            self._entered = True
            self.passing, self.saved = self.saved - self.memory.current, self.memory.current
            self.memory.reset_peak()

    def noted(self, x: Any) -> Any:
        """Note that a block is reached, and return the tensor that it passes on."""
        if isinstance(x, DTensor) and self.arranged is not None:
            x = x.redistribute(placements=[self.arranged.outside])
        if not self.reached and not x.requires_grad and x.is_floating_point():
            x = x.detach().requires_grad_()  # the blocks have parameters, so what follows them has a gradient
        self.reached += 1
        if self.memory is None:
            return x
        if self.reached == 1:
            self.saved, self.peak, self.result_bytes = self.memory.current, self.memory.peak, nbytes(x)
            self.forward = self.work.done()
            self.memory.reset_peak()
            if x.requires_grad:
                x.register_hook(self.turned)
        if self.split and self.reached == self.count:
            self.base, self.passed = self.memory.current, x
            self.leaf = x = mt.empty_like(x).requires_grad_()
        return x

    def turned(self, grad: Any) -> None:
        """Note that the backward pass has reached what is before the blocks."""
        self.backward, self.peaks = self.work.done(), self.gradients[1].finish(self.saved)
        self.gradients[0].start(self.memory)


def _elements(tensors: Any, frozen: bool = False) -> int:
    """Return the elements of the distinct trainable, or frozen, tensors on this rank."""
    found = {id(t): t for t in tensors if t.requires_grad is not frozen}
    return sum(map(local_numel, found.values()))


def _group_of(mesh: Any) -> tuple[int, ...]:
    return tuple(mesh.get_group().ranks) if mesh is not None else ()
