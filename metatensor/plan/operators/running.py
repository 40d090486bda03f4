"""Running a model whose operators are placed: each rank runs the calls on its parts, and communicates where placements change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.sharded import quietly, wrap
from metatensor._core.tensor import Tensor
from metatensor.distributed.tensor import DTensor
from metatensor.distributed.tensor._communicating import run_inside
from metatensor.distributed.tensor._moving import moved
from metatensor.distributed.tensor._random import run_random
from metatensor.distributed.tensor.placement_types import interned
from metatensor.nn.modules.module import Module
from metatensor.plan.operators.choosing import PlacedPart
from metatensor.plan.operators.strategies import Placements, Strategy, call_on_mesh, inside_dims, local_arguments, run_by_slots
from metatensor.program.running import as_traced
from metatensor.program.structure import leaves, mapped
from metatensor.program.tickets import Tickets

__all__ = ["Runner", "make_forward"]


class _Step:
    """A call as each rank runs it."""

    def __init__(self, call: ProgramCall, strategy: Strategy, mesh: Any) -> None:
        self.call, self.strategy = call, strategy
        self.results = list(leaves(Value, call.result))
        self.on_mesh, self.values = call_on_mesh(call, mesh)
        self.numbers: dict[str, Any] = {}
        self.inside: dict[str, list[int]] = {}
        if self.on_mesh is not None and strategy.ways:
            self.numbers = quietly(local_arguments, self.on_mesh, strategy.ways)
            self.inside = inside_dims(strategy.ways)
        self.alone = not self.values

    def run(self, parts: list[Any], device: Any, tickets: Tickets, mesh: Any) -> list[Any]:
        """Run the call on the parts of its arguments, and return the parts of its results."""
        given = lambda one: tickets(one.number, one.generator) if isinstance(one, Ticket) else one
        if self.alone:
            args, kwargs = mapped(given, Ticket, (tuple(self.call.args), dict(self.call.kwargs)))
            return list(leaves(Tensor, self.call.op(*_there(args, device), **_there(kwargs, device))))
        call = self.on_mesh
        assert call is not None
        arguments = mapped(given, Ticket, _there(dict(call.arguments), device))
        for (name, item), part in zip(call.tensors, parts, strict=True):
            arguments[name] = part if item < 0 else [*arguments[name][:item], part, *arguments[name][item + 1 :]]
        if call.is_random:
            values = [_wrapped(one, call.tensors[name, -1], mesh, self._target(name)) if isinstance(one, Tensor) else one
                      for name, one in arguments.items()]  # fmt: skip
            return [one._local_tensor for one in leaves(Tensor, run_random(call, values, None))]
        arguments |= self.numbers
        if self.inside:
            targets = {key: self.strategy.inputs[i] for i, key in enumerate(call.tensors)}
            return call.outputs(run_inside(call, arguments, targets, self.inside), arguments)
        if call.functional.name == "view":  # parts may be laid out otherwise than whole tensors
            return [arguments["input"].reshape(arguments["size"])]
        return call.outputs(run_by_slots(call, arguments), arguments)

    def _target(self, name: str) -> Placements:
        assert self.on_mesh is not None
        return self.strategy.inputs[list(self.on_mesh.tensors).index((name, -1))]


def _there(value: Any, device: Any) -> Any:
    """Return arguments with another device in place of meta."""
    if isinstance(value, mt.device):
        return device if value.type == "meta" else value
    if type(value) in (tuple, list):
        return type(value)(_there(one, device) for one in value)
    return {key: _there(one, device) for key, one in value.items()} if type(value) is dict else value


def _wrapped(local: Any, whole: Any, mesh: Any, placements: Placements) -> Any:
    return wrap(local, interned(mesh, placements, whole.shape, whole.stride(), local.dtype))


class _Pass:
    """The forward or the backward pass of a part, in one run."""

    def __init__(self, runner: Runner, late: bool, parts: dict[int, Any], placed: dict[int, Placements]) -> None:
        self.runner, self.late, self.parts, self.placed = runner, late, parts, placed
        self.changed: dict[tuple[int, Placements], Any] = {}

    def get(self, value: Value, target: Placements) -> Any:
        """Return the part of a value with other placements. A change is made once."""
        source = self.placed.get(value.number) or self.runner.placed.placements[value.number]
        local = self.parts[value.number]
        if source == target:
            return local
        key = value.number, target
        if key not in self.changed:
            self.changed[key] = moved(local, self.runner.mesh, value.shape, source, target)
        return self.changed[key]

    def run(self, tickets: Tickets, device: Any) -> None:
        """Run the calls."""
        runner = self.runner
        for i, step in runner.steps[self.late]:
            got = [self.get(value, target) for value, target in zip(step.values, step.strategy.inputs, strict=True)]
            results = step.run(got, device, tickets, runner.mesh)
            del got
            for value, part in zip(step.results, results, strict=True):
                self.parts[value.number] = part
            for number in runner.last[self.late].get(i, ()):
                self.parts.pop(number, None)
                for key in [key for key in self.changed if key[0] == number]:
                    del self.changed[key]


class Runner:
    """Runs a placed part on a mesh. There is one for each kind of part.

    Parameters
    ----------
    placed : PlacedPart
        The part and its placements.
    mesh : DeviceMesh
        The mesh.
    """

    def __init__(self, placed: PlacedPart, mesh: Any) -> None:
        self.placed, self.part, self.mesh = placed, placed.part, mesh
        self.default_dtype = self.part.program.default_dtype
        self.names = list(self.part.parameters)
        self.steps: dict[bool, list[tuple[int, _Step]]] = {False: [], True: []}
        for i, (call, strategy, late) in enumerate(zip(self.part.program.calls, placed.strategies, self.part.backward, strict=True)):
            self.steps[late].append((i, _Step(call, strategy, mesh)))
        self.results = list({v.number: v for v in leaves(Value, (self.part.result, self.part.others))}.values())
        self.own = {value.number for value in (*self.part.parameters.values(), *self.part.buffers.values())}
        used = {value.number for _, step in self.steps[True] for value in step.values} | {value.number for value in self.ends(True)}
        self.own_saved = sorted(self.own & used)
        self.saved = [value for value in self._saved() if value.number not in self.own]
        self.plain = {value.number for value in self.part.whole_results()}
        self.last = {late: self._last(late) for late in (False, True)}

    def _saved(self) -> list[Value]:
        found = {value.number: value for value in self.part.saved()}
        late = {value.number for value in (self.part.activation_gradient, *self.part.gradients.values()) if value is not None}
        early = {value.number: value for _, step in self.steps[False] for value in step.results}
        found |= {number: early[number] for number in late if number in early}
        return list(found.values())

    def _last(self, late: bool) -> dict[int, list[int]]:
        """Return the values that are not needed after each call."""
        keep = set() if late else {value.number for value in self.saved}
        keep |= {value.number for value in self.ends(late)} | self.own
        last: dict[int, int] = {}
        for i, step in self.steps[late]:
            for value in (*step.values, *step.results):
                last[value.number] = i
        found: dict[int, list[int]] = defaultdict(list)
        for number, i in last.items():
            if number not in keep:
                found[i].append(number)
        return found

    def ends(self, late: bool) -> Iterable[Value]:
        """Return the values that a pass returns or writes."""
        if late:
            return [value for value in (self.part.activation_gradient, *self.part.gradients.values()) if value is not None]
        return [*self.results, *(value for _, value in self.part.writes)]

    def __call__(self, module: Module, x: Any, given: Sequence[Any]) -> Any:
        """Run the part for one module.

        Parameters
        ----------
        module : Module
            The module, whose parameters are distributed.
        x : DTensor or None
            The activation from the part before.
        given : sequence of Tensor
            The other arguments: whole tensors, or distributed ones.
        """
        parameters = [module.get_parameter(name) for name in self.names]
        flat = _Flat(self, module, given)
        outputs = _Run.apply(flat, *([x] if x is not None else []), *parameters)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = {value.number: one for value, one in zip(self.results, outputs, strict=True)}
        return mapped(lambda value: found[value.number], Value, (self.part.result, self.part.others))


class _Flat:
    """The inputs of a run that autograd does not handle."""

    def __init__(self, runner: Runner, module: Module, given: Sequence[Any]) -> None:
        self.runner, self.module, self.given = runner, module, given


class _Run(mt.autograd.Function):
    """A part as one node of the graph. Its backward pass runs the calls that were placed for it."""

    @staticmethod
    def forward(ctx: Any, flat: Any, *tensors: Any) -> Any:
        runner = flat.runner
        part, mesh = runner.part, runner.mesh
        parts: dict[int, Any] = {}
        placed: dict[int, Placements] = {}
        passed = list(tensors)
        device = None
        if part.activation is not None:
            x = passed.pop(0)
            parts[part.activation.number], placed[part.activation.number] = x._local_tensor, tuple(x.placements)
        for name, p in zip(runner.names, passed, strict=True):
            parts[part.parameters[name].number] = p._local_tensor if isinstance(p, DTensor) else p
        for value, one in zip(part.given, flat.given, strict=True):
            if isinstance(one, DTensor):
                parts[value.number], placed[value.number] = one._local_tensor, tuple(one.placements)
            else:
                parts[value.number] = one
        for name, value in part.buffers.items():
            parts[value.number] = _held(flat.module, part, name)
        device = next((one.device for one in parts.values()), mt.device("meta"))
        tickets = Tickets()
        early = _Pass(runner, False, parts, placed)
        with as_traced(runner.default_dtype):
            early.run(tickets, device)
            results = []
            for value in runner.results:
                target = runner.placed.wanted.get(value.number) or runner.placed.placements[value.number]
                local = early.get(value, target)
                if value.number in runner.plain:
                    results.append(local)
                else:
                    results.append(wrap(local, interned(mesh, target, value.shape, value.stride, value.dtype)))
            for name, value in part.writes:
                target = runner.placed.wanted[value.number]
                _held(flat.module, part, name).copy_(early.get(value, target))
        tickets.finish()
        saved = [parts[value.number] for value in runner.saved]
        ctx.save_for_backward(*saved, *(parts[number] for number in runner.own_saved))
        ctx.runner, ctx.placed, ctx.device, ctx.count = runner, placed, device, len(tensors)
        return tuple(results) if len(results) != 1 else results[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        runner = ctx.runner
        part, mesh = runner.part, runner.mesh
        numbers = [value.number for value in runner.saved] + runner.own_saved
        parts = dict(zip(numbers, ctx.saved_tensors, strict=True))
        placed = dict(ctx.placed)
        if part.result_gradient is not None:
            grad, number = grads[0], part.result_gradient.number
            if isinstance(grad, DTensor):
                parts[number], placed[number] = grad._local_tensor, tuple(grad.placements)
            else:
                parts[number] = grad.to(part.result_gradient.dtype)
        late = _Pass(runner, True, parts, placed)
        tickets = Tickets()
        found: list[Any] = [None]
        with as_traced(runner.default_dtype), mt.no_grad():
            late.run(tickets, ctx.device)
            ends = [*([part.activation_gradient] if part.activation is not None else []),
                    *(part.gradients.get(name) for name in runner.names)]  # fmt: skip
            for value in ends:
                if value is None:
                    found.append(None)
                    continue
                target = runner.placed.wanted[value.number]
                local = late.get(value, target).contiguous()  # a gradient with another layout than its leaf would be copied
                found.append(wrap(local, interned(mesh, target, value.shape, _row_major(value.shape), value.dtype)))
        tickets.finish()
        return tuple(found)


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape)))


def _held(module: Module, part: Any, name: str) -> Any:
    """Return a buffer of the module that runs, or a constant of the program."""
    return module.get_buffer(name) if part.program.kinds[name] == "buffer" else part.program.tensors[name]


def make_forward(model: Module, runners: Sequence[Runner], order: Sequence[str], arguments: Any) -> Any:
    """Return the forward function of a model whose parts are placed.

    Parameters
    ----------
    model : Module
        The model.
    runners : sequence of Runner
        Those of the parts.
    order : sequence of str
        The paths of the blocks, in the order of their calls.
    arguments : callable
        Checks the arguments of a call, and returns the tensors among them in the order of the trace.
    """
    by_path = {path: runner for runner in runners for path in runner.part.paths if path}
    ends = {runner.part.name: runner for runner in runners if runner.part.name in ("before", "behind", "model")}

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = arguments(args, kwargs)
        select = lambda runner: [given[value.number] for value in runner.part.given]
        if "model" in ends:
            return ends["model"](model, None, select(ends["model"]))[0]
        x, others = ends["before"](model, None, select(ends["before"]))
        for path in order:
            x, _ = by_path[path](model.get_submodule(path), x, others[path])
        return ends["behind"](model, x, select(ends["behind"]))[0]

    return forward
