"""What a block of a model, and what is around the blocks, costs on one rank: read off runs on meta at local shapes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.recomputation import checkpointed
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor
from metatensor.nn._hooks import register_module_forward_pre_hook
from metatensor.nn.modules.module import Module
from metatensor.plan.arranging import Arranged, local_numel
from metatensor.plan.blocks import Given, around
from metatensor.plan.contexts import attention_over
from metatensor.plan.experts import Experts, divide_experts
from metatensor.plan.kernels import saving_less

__all__ = ["Beside", "PartCost", "measure_around", "measure_block"]


@dataclass
class PartCost:
    """The cost of one micro-batch in a part of a model on one rank, in bytes."""

    parameters: int = 0
    """Elements of its trainable parameters."""
    expert_parameters: int = 0
    """Elements of its trainable parameters that are those of the rank's own experts."""
    frozen: int = 0
    """Elements of its other parameters and buffers."""
    saved: int = 0
    """What the forward pass keeps for the backward pass, including the result."""
    input_bytes: int = 0
    """The tensor that it gets from the part before."""
    forward_peak: int = 0
    """Peak of the other tensors in the forward pass, those that it does not keep."""
    backward_peak: int = 0
    """The same in the backward pass."""
    forward: list[Call] = field(default_factory=list)
    backward: list[Call] = field(default_factory=list)
    forward_communication: list[tuple[str, int]] = field(default_factory=list)
    """Kind and bytes of the collectives among the ranks of tensor parallelism."""
    backward_communication: list[tuple[str, int]] = field(default_factory=list)
    forward_groups: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    """Kind, bytes and ranks of the collectives of other groups, those of context and expert parallelism."""
    backward_groups: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    reduced: int = 0
    """Bytes of gradients that the ranks of tensor parallelism sum once in a step."""
    scattered: int = 0
    """The same of parameters that are cut: each rank needs a part of the sum."""


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
    frozen: bool = False, beside: Beside | None = None, kernels: tuple[str, ...] = (),
) -> tuple[PartCost, Arranged | None]:  # fmt: skip
    """Return the cost of a block, and how its weights are divided over the mesh, if there is one.

    If ``frozen``, its backward pass computes the gradient of its input alone. ``beside`` are the ranks of context and expert parallelism;
    arguments are those of one rank. ``kernels`` are some of `metatensor.plan.kernels.KERNELS`.
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
    forward = inner if recompute == "none" else checkpointed(inner.__call__, recompute == "selective")
    first = next(tensors_in((args, kwargs)))

    def given() -> tuple[tuple, dict[str, Any], Any]:
        made: list[Any] = []

        def one(t: Any) -> Any:
            grad = t is first
            new = arranged.placed(t, grad) if arranged is not None else t.detach().requires_grad_(grad)
            if grad:
                made.append(new)
            return new

        return (*map_tensors(one, (args, kwargs)), made[0])

    def run(cost: PartCost | None) -> None:
        own_args, own_kwargs, x = given()
        with ExitStack() as stack:
            stack.enter_context(attention_over(beside.context))
            stack.enter_context(arranged.running() if arranged is not None else nullcontext())
            log = stack.enter_context(CommunicationLog())
            recorder = stack.enter_context(CallRecorder(inner))
            memory = stack.enter_context(MemoryTracker())
            stack.enter_context(saving_less(kernels, recorder))
            output = forward(*own_args, **own_kwargs)
            y: Any = next(tensors_in(output))
            if arranged is not None:
                y = y.redistribute(placements=[arranged.outside])
                arranged.finished()
            del output
            middle, talked, saved, peak = len(recorder.calls), len(log), memory.current, memory.peak
            memory.reset_peak()
            recorder.phase = "backward"
            y.backward(mt.empty_like(y))
            if isinstance(x.grad, DTensor) and arranged is not None:
                x.grad.redistribute(placements=[arranged.outside])
            if cost is not None:
                cost.saved, cost.forward_peak, cost.backward_peak = saved, peak - saved, memory.peak - saved
                cost.input_bytes = _nbytes(x)
                cost.forward, cost.backward = recorder.calls[:middle], recorder.calls[middle:]
                cost.forward_communication, cost.forward_groups = _by_group(log, 0, talked, tensor_group)
                cost.backward_communication, cost.backward_groups = _by_group(log, talked, len(log), tensor_group)

    cost = PartCost()
    with _frozen(inner) if frozen else nullcontext():
        if not frozen:
            run(None)  # creates gradients, so that the second run adds to them
        run(cost)
    experts = [p for path in (beside.experts.paths if beside.experts else ()) for p in inner.get_submodule(path).parameters()]
    own = {id(p) for p in experts}
    cost.expert_parameters = _elements(experts)
    cost.parameters = _elements(p for p in inner.parameters() if id(p) not in own)
    cost.frozen = _elements([*inner.buffers(), *inner.parameters()], frozen=True)
    cost.reduced, cost.scattered = _partial_bytes(inner.parameters())
    return cost, arranged


def measure_around(
    model: Module, blocks: dict[str, Given], args: tuple, kwargs: dict[str, Any], loss: Callable[[Any], Any], mesh: Any, sequence: bool,
    frozen: bool = False, context: Any = None,
) -> tuple[PartCost, PartCost]:  # fmt: skip
    """Return the costs of what is before the blocks, and of what is after them with the loss. ``frozen`` is that of `measure_block`.

    ``context`` is the mesh over whose ranks attention runs, or None for a single rank.
    """
    state = _Marks(len(blocks))
    outer = around(model, blocks, state.noted)
    arranged = None
    if mesh is not None:
        arranged = Arranged(outer, mesh, args, kwargs, False)
        if sequence:
            from metatensor.distributed.tensor import Shard

            arranged.outside = Shard(1)
        outer = arranged.module
    state.arranged = arranged
    group = _group_of(mesh)

    def run() -> tuple[PartCost, PartCost]:
        before, behind = PartCost(), PartCost()
        with ExitStack() as stack:
            stack.enter_context(attention_over(context))
            stack.enter_context(arranged.running() if arranged is not None else nullcontext())
            state.log = stack.enter_context(CommunicationLog())
            state.recorder = stack.enter_context(CallRecorder(outer))
            state.memory = stack.enter_context(MemoryTracker())
            state.start()
            stack.callback(register_module_forward_pre_hook(state.called).remove)
            given = (args, kwargs) if arranged is None else map_tensors(lambda t: arranged.placed(t, False), (args, kwargs))
            value = loss(outer(*given[0], **given[1]))
            if isinstance(value, DTensor):
                value = value.redistribute(placements=[_replicate()])
            if arranged is not None:
                arranged.finished()
            log, recorder, memory = state.log, state.recorder, state.memory
            saved, peak, middle, talked = memory.current, memory.peak, len(recorder.calls), len(log)
            memory.reset_peak()
            recorder.phase = "backward"
            value.backward()
            del value
            behind.saved, behind.forward_peak, behind.backward_peak = saved - state.saved, peak - saved, memory.peak - saved
            before.saved = state.saved
            before.forward, behind.forward = recorder.calls[: state.calls], recorder.calls[state.calls : middle]
            turn, said = state.turn or (len(recorder.calls), len(log))
            behind.backward, before.backward = recorder.calls[middle:turn], recorder.calls[turn:]
            before.forward_communication, before.forward_groups = _by_group(log, 0, state.talked, group)
            behind.forward_communication, behind.forward_groups = _by_group(log, state.talked, talked, group)
            behind.backward_communication, behind.backward_groups = _by_group(log, talked, said, group)
            before.backward_communication, before.backward_groups = _by_group(log, said, len(log), group)
        return before, behind

    if frozen:
        with _frozen(outer):
            return run()
    run()
    before, behind = run()
    own = {id(m): list(m.parameters(recurse=False)) for m in outer.modules()}
    later = {id(p): p for i in state.behind for p in own.get(i, ())}
    earlier = {id(p): p for m in outer.modules() for p in own[id(m)] if id(p) not in later or id(m) in state.before}
    behind.parameters, behind.frozen = _elements(later.values()), _elements(later.values(), frozen=True)
    before.parameters, before.frozen = _elements(earlier.values()), _elements([*earlier.values(), *outer.buffers()], frozen=True)
    before.reduced, before.scattered = _partial_bytes(earlier.values())
    behind.reduced, behind.scattered = _partial_bytes(later.values())
    return before, behind


@contextmanager
def _frozen(module: Module) -> Iterator[None]:
    """Turn off the gradients of a module's parameters inside the ``with`` block."""
    trained = [p for p in module.parameters() if p.requires_grad]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_(True)


class _Marks:
    """Where a run of what is around the blocks reaches the first block, forward and backward."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arranged: Arranged | None = None
        self.log: Any = None
        self.recorder: Any = None
        self.memory: Any = None
        self.before: set[int] = set()
        self.behind: set[int] = set()
        self.start()

    def start(self) -> None:
        self.reached, self.saved, self.calls, self.talked = 0, 0, 0, 0
        self.turn: tuple[int, int] | None = None

    def called(self, module: Any, args: tuple) -> None:
        """Note a module whose forward starts."""
        (self.behind if self.reached >= self.count else self.before).add(id(module))

    def noted(self, x: Any) -> Any:
        """Note that a block is reached, and return the tensor that it passes on."""
        if isinstance(x, DTensor) and self.arranged is not None:
            x = x.redistribute(placements=[self.arranged.outside])
        if not self.reached and not x.requires_grad and x.is_floating_point():
            x = x.detach().requires_grad_()  # the blocks have parameters, so what follows them has a gradient
        self.reached += 1
        if self.reached == 1 and self.recorder is not None:
            self.saved, self.calls, self.talked = self.memory.current, len(self.recorder.calls), len(self.log)
            if x.requires_grad:
                x.register_hook(self.turned)
        return x

    def turned(self, grad: Any) -> None:
        """Note that the backward pass has reached what is before the blocks."""
        self.turn = len(self.recorder.calls), len(self.log)


def _replicate() -> Any:
    from metatensor.distributed.tensor import Replicate

    return Replicate()


def _nbytes(t: Any) -> int:
    local = t._local_tensor if isinstance(t, DTensor) else t
    return int(local.numel() * local.element_size())


def _elements(tensors: Any, frozen: bool = False) -> int:
    """Return the elements of the distinct trainable, or frozen, tensors on this rank."""
    found = {id(t): t for t in tensors if t.requires_grad is not frozen}
    return sum(map(local_numel, found.values()))


def _partial_bytes(parameters: Any) -> tuple[int, int]:
    """Return the bytes of gradients that are partial sums, of whole parameters and of those that are cut."""
    found = [0, 0]
    for p in parameters:
        if isinstance(p.grad, DTensor) and any(place.is_partial() for place in p.grad.placements):
            found[isinstance(p.data, DTensor) and not all(place.is_replicate() for place in p.data.placements)] += _nbytes(p.grad)
    return found[0], found[1]


def _group_of(mesh: Any) -> tuple[int, ...]:
    return tuple(mesh.get_group().ranks) if mesh is not None else ()


def _by_group(
    log: CommunicationLog, start: int, end: int, own: tuple[int, ...]
) -> tuple[list[tuple[str, int]], list[tuple[str, int, tuple[int, ...]]]]:  # fmt: skip
    """Return the communication of the group of tensor parallelism, and that of other groups."""
    entries = [entry for entry in log.entries[start:end] if entry.bytes and len(entry.group) > 1]
    return ([(entry.kind, entry.bytes) for entry in entries if entry.group == own],
            [(entry.kind, entry.bytes, entry.group) for entry in entries if entry.group != own])  # fmt: skip
