"""The parts of a model as programs of a forward and a backward pass, in which operators can be placed.

A model with repeated blocks has three kinds of parts: what comes before the blocks, each kind of block, and what comes after them, with
the loss. A part gets an activation from the part before it and passes one on. In the backward pass, gradients go the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.func import functional_call
from metatensor.nn.modules.module import Module
from metatensor.plan.blocks import Given, NoBlocks, around, blocks_of, check_blocks, paths_of
from metatensor.program import Program, dead_code, equal, functionalize, trace
from metatensor.program.structure import leaves, mapped

__all__ = ["Part", "parts_of", "whole_part"]


@dataclass
class Part:
    """A part of a model, as one program of its forward and backward pass.

    Attributes
    ----------
    name : str
        ``"before"``, ``"behind"``, ``"model"``, or the path of the first block of a kind.
    paths : list of str
        The paths of the modules that the part stands for: those of all blocks of the kind, else that of the model, ``""``.
    program : Program
        The calls, without writes other than to buffers.
    parameters : dict of Value
        The trainable and frozen parameters by name, relative to the module.
    gradients : dict of Value
        The gradients of the trainable ones. Empty for inference.
    activation : Value or None
        What the part gets from the one before it.
    result : Value or structure of Value
        What it returns: an activation, the loss, or the output of the model.
    result_gradient, activation_gradient : Value or None
        The gradient that the part gets in the backward pass, and the one that it passes back.
    given : list of Value
        The other arguments. Each rank has them as a whole.
    others : dict of list of Value
        What the blocks get besides the activation, by path. The part before the blocks returns it.
    backward : list of bool
        For each call, whether it belongs to the backward pass.
    writes : list of (str, Value)
        Buffers that a run changes, with their new contents.
    """

    name: str
    paths: list[str]
    program: Program
    parameters: dict[str, Value]
    gradients: dict[str, Value]
    activation: Value | None
    result: Any
    activation_gradient: Value | None
    result_gradient: Value | None
    given: list[Value]
    others: dict[str, list[Value]] = field(default_factory=dict)
    backward: list[bool] = field(default_factory=list)
    writes: list[tuple[str, Value]] = field(default_factory=list)

    @property
    def ends(self) -> bool:
        """Whether the result is that of the model."""
        return self.name in ("behind", "model")

    @property
    def count(self) -> int:
        """How often the part runs in a step."""
        return len(self.paths)

    @property
    def buffers(self) -> dict[str, Value]:
        """Buffers and constants by name."""
        return {name: value for name, value in self.program.held.items() if name not in self.parameters}

    def whole_results(self) -> list[Value]:
        """Return the results that each rank needs as a whole: the loss, and what blocks get besides the activation."""
        loss = [self.result] if self.ends and isinstance(self.result, Value) and not self.result.shape else []
        return [*loss, *{value.number: value for found in self.others.values() for value in found}.values()]

    def passed(self) -> list[Value]:
        """Return what the part gets from the part before it, and in the backward pass from the one after it."""
        return [value for value in (self.activation, None if self.ends else self.result_gradient) if value is not None]

    def known(self) -> list[Value]:
        """Return the values that each rank has as a whole: arguments, buffers, the gradient of the loss."""
        seed = [self.result_gradient] if self.ends and self.result_gradient is not None else []
        return [*self.given, *self.buffers.values(), *seed]

    def saved(self) -> Iterator[Value]:
        """Yield the values of the forward pass that the backward pass uses, parameters and buffers excepted."""
        made = {value.number: value for call, late in zip(self.program.calls, self.backward) if not late
                for value in leaves(Value, call.result)}  # fmt: skip
        made |= {value.number: value for value in (self.activation, *self.given) if value is not None}
        used: dict[int, None] = {}
        for call, late in zip(self.program.calls, self.backward):
            if late:
                used.update(dict.fromkeys(value.number for value in leaves(Value, (call.args, call.kwargs))))
        yield from (made[number] for number in used if number in made)


def whole_part(model: Module, given: Given, loss: Callable[..., Any] | None, targets: tuple, training: bool) -> Part:
    """Return a model without repeated blocks as one part."""

    def run(parameters: dict[str, Any], given: Given, targets: tuple, grad: Any) -> Any:
        own = _leaves(parameters, training)
        value = _loss(functional_call(model, own, *given[:2]), loss, targets)
        return value, None, _gradients(value, list(own.values()), grad) if training else [None] * len(own)

    parameters = dict(model.named_parameters())
    program = trace(run, parameters, *_detached(given, targets), _seed(model) if training else None)
    return _part("model", [""], program, list(parameters), given=_values(program, 1, 2), grad=_one(program, 3))


def parts_of(model: Module, outside: Given, loss: Callable[..., Any] | None, targets: tuple, training: bool) -> list[Part]:
    """Return the parts of a model with repeated blocks: what is before them, each kind of block, and what is after them.

    Parameters
    ----------
    model : Module
        The model, on meta.
    outside : Given
        Its arguments.
    loss : callable or None
        Function of the output and the targets.
    targets : tuple
        Further arguments of the loss.
    training : bool
        Whether the parts have a backward pass, which needs a loss.

    Raises
    ------
    NoBlocks
        If the model has no repeated blocks that pass one tensor from each to the next.
    """
    paths = paths_of(*blocks_of(model))
    given = check_blocks(model, paths, outside.args, outside.kwargs)
    if any(one.others for one in given.values()):
        raise NoBlocks("the blocks return several tensors")
    blocks: list[tuple[Program, list[str]]] = []
    for path in paths:  # blocks with equal parameters may have other settings or get other arguments
        program = _block(model.get_submodule(path), given[path], training)
        constants = "constant" in program.kinds.values()  # of which `equal` does not compare the values
        same = None if constants else next((one for known, one in blocks if equal(known, program)), None)
        if same is None:
            blocks.append((program, [path]))
        else:
            same.append(path)
    found = [_part(own[0], own, program, list(program.arguments[0][0]), given=_values(program, 2), activation=_one(program, 1),
                   grad=_one(program, 3)) for program, own in blocks]  # fmt: skip
    before, behind = _around(model, paths, given, outside, loss, targets, training)
    return [before, *found, behind]


def _block(module: Module, given: Given, training: bool) -> Program:
    """Return the forward and backward pass of a block as a program."""
    first = next(tensors_in((given.args, given.kwargs)))

    def run(parameters: dict[str, Any], x: Any, others: list[Any], grad: Any) -> Any:
        own, leaf = _leaves(parameters, training), _leaf(x, training)
        x = leaf.clone()  # which may be changed in place
        rest = iter(others)
        args, kwargs = map_tensors(lambda t: x if t is first else next(rest), (given.args, given.kwargs))
        y = functional_call(module, own, args, kwargs)
        if x._version:
            raise NoBlocks("a block changes its argument in place")
        y = y[0] if given.results else y
        back, *found = _gradients(y, [leaf, *own.values()], grad) if training else [None] * (1 + len(own))
        return y, back, found

    others = [t.detach() for t in tensors_in((given.args, given.kwargs)) if t is not first]
    return trace(run, dict(module.named_parameters()), mt.empty_like(first), others, mt.empty_like(first) if training else None)


def _around(
    model: Module, paths: list[str], blocks: dict[str, Given], outside: Given, loss: Any, targets: tuple, training: bool
) -> tuple[Part, Part]:
    """Return what comes before, and what comes after the blocks."""
    first = next(tensors_in(blocks[paths[0]][:2]))
    state: dict[str, Any] = {}

    def noted(x: Any) -> Any:
        passed = state["passed"]
        if state["count"] and (x is not passed[state["count"] - 1] or x._version != state["version"]):
            raise NoBlocks("something is computed between the blocks")
        state.setdefault("reached", x)
        x = passed[state["count"]]
        state["count"], state["version"] = state["count"] + 1, x._version
        return x

    outer = around(model, blocks, noted)
    others: dict[str, list[Any]] = {}
    for path in paths:
        outer.get_submodule(path).register_forward_pre_hook(_other_arguments(path, others), with_kwargs=True)

    def run(parameters: dict[str, Any], handed: Any, given: Given, targets: tuple, grad: Any, seed: Any, between: list[Any]) -> Any:
        own, leaf = _leaves(parameters, training), _leaf(handed, training)
        state.clear()
        state.update(passed=[*between, leaf.clone()], count=0)
        value, reached = _loss(functional_call(outer, own, *given[:2]), loss, targets), state["reached"]
        none = [None] * len(own)
        if any(t.requires_grad for found in others.values() for t in found):
            raise NoBlocks("the blocks get several tensors with gradients")
        if not training:
            return (reached, dict(others)), none, value, None, none
        early = _gradients(reached, list(own.values()), grad, retain=True) if reached.requires_grad else none
        late = _gradients(value, [leaf, *own.values()], seed)
        return (reached, dict(others)), early, value, late[0], late[1:]

    parameters = dict(outer.named_parameters())
    grads = (mt.empty_like(first), _seed(model)) if training else (None, None)
    between = [mt.empty_like(first) for _ in paths[1:]]
    program = trace(run, parameters, mt.empty_like(first), *_detached(outside, targets), *grads, between)
    reached, early, value, back, late = program.output
    own, names = _values(program, 2, 3), list(parameters)
    before = _own_writes(program.replace(output=(reached, None, early)), False)
    behind = _own_writes(program.replace(output=(value, back, late)), True)
    _check_sides(before, behind)
    return (
        _part("before", [""], before, names, given=own, grad=_one(program, 4)),
        _part("behind", [""], behind, names, given=own, activation=_one(program, 1), grad=_one(program, 5)),
    )


def _own_writes(program: Program, behind: bool) -> Program:
    """Return one side of what is around the blocks, with those writes to buffers whose contents are computed there."""
    program = functionalize(dead_code(program))
    blocks = {value.number for value in _values(program, 1, 6)}
    calls, late = [], set(blocks)
    for call in program.calls:
        after = any(value.number in late for value in leaves(Value, (call.args, call.kwargs)))
        if after:
            late.update(value.number for value in leaves(Value, call.result))
        if not call.writes or after is behind:
            calls.append(call)
    return dead_code(program.replace(calls=calls, releases={}))


def _check_sides(before: Program, behind: Program) -> None:
    """Raise `NoBlocks` if what is around the blocks is more than what is before them and what is behind."""
    used = [{value.number for call in side.calls for value in leaves(Value, (call.args, call.kwargs))}
            | {value.number for value in side.outputs} for side in (before, behind)]  # fmt: skip
    first, *between = (value.number for value in _values(before, 1, 6))
    if used[0] & {first, *between} or used[1] & set(between):
        raise NoBlocks("something else uses what the blocks return, or the blocks get something that depends on it")
    held = {value.number: name for name, value in before.held.items()}
    written = {held.get(value.number) for call in before.calls for value in call.writes}
    if any(name in written and value.number in used[1] for name, value in behind.held.items()):
        raise NoBlocks("a buffer that is changed before the blocks is used behind them")
    drawn = [{ticket.number for call in side.calls for ticket in leaves(Ticket, (call.args, call.kwargs))} for side in (before, behind)]
    if drawn[0] & drawn[1]:
        raise NoBlocks("what depends on random numbers before the blocks is used behind them")


def _other_arguments(path: str, found: dict[str, list[Any]]) -> Callable[..., None]:
    """Return a hook that notes the tensors that a block gets besides the first one."""

    def hook(module: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        found[path] = list(tensors_in((args, kwargs)))[1:]

    return hook


def _loss(output: Any, loss: Any, targets: tuple) -> Any:
    if loss is None:
        return output
    value = loss(output, *targets)
    if not isinstance(value, mt.Tensor) or value.dim():
        got = f"a tensor of shape {list(value.shape)}" if isinstance(value, mt.Tensor) else type(value).__name__
        raise ValueError(f"place_operators: the loss must return a tensor without dimensions, got {got}")
    return value


def _seed(model: Module) -> Any:
    """Return the gradient of a loss."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), mt.get_default_dtype())
    return mt.empty((), dtype=dtype, device="meta")


def _detached(given: Given, targets: tuple) -> tuple[Any, Any]:
    return map_tensors(lambda t: t.detach(), ((given.args, given.kwargs), targets))  # type: ignore[no-any-return]


def _leaf(t: Any, training: bool) -> Any:
    return t.detach().requires_grad_(training and (t.is_floating_point() or t.is_complex()))


def _leaves(parameters: dict[str, Any], training: bool) -> dict[str, Any]:
    return {name: t.detach().requires_grad_(training and t.requires_grad) for name, t in parameters.items()}


def _gradients(value: Any, leaves: Sequence[Any], grad: Any = None, retain: bool = False) -> list[Any]:
    """Return the gradients of a value, None where a leaf has none."""
    wanted = [t for t in leaves if t.requires_grad]
    if wanted and not value.requires_grad:
        return [None] * len(leaves)
    grad = grad.to(value.dtype) if grad is not None and grad.dtype is not value.dtype else grad
    found = iter(mt.autograd.grad(value, wanted, grad, retain_graph=retain, allow_unused=True)) if wanted else iter(())
    return [next(found) if t.requires_grad else None for t in leaves]


def _values(program: Program, *positions: int) -> list[Value]:
    return list(leaves(Value, [program.arguments[0][i] for i in positions]))


def _one(program: Program, position: int) -> Value | None:
    return next(iter(_values(program, position)), None)


def _part(
    name: str, paths: list[str], program: Program, names: list[str], *, given: list[Value], activation: Value | None = None,
    grad: Value | None = None,
) -> Part:  # fmt: skip
    """Return the part of a program whose output is the result, the gradient of the activation, and those of the parameters."""
    program = _without_copies(dead_code(functionalize(dead_code(program))))
    declared = program.arguments[0]
    parameters = {one: declared[0][one] for one in names}
    result, back, grads = program.output
    others: dict[str, list[Value]] = {}
    if name == "before":
        result, others = result
    part = Part(name, paths, program, parameters, {one: g for one, g in zip(names, grads) if g is not None}, activation, result, back,
                grad, given, others)  # fmt: skip
    _split_writes(part)
    _mark_backward(part)
    _drop_unused(part)
    return part


def _without_copies(program: Program) -> Program:
    """Replace the results of ``detach`` and ``clone`` by their arguments: these are the same values, and nothing writes to them.

    Copies of buffers, which are written to at the end, stay.
    """
    held = {value.number for value in program.held.values()}
    same: dict[int, Value] = {}
    own = lambda value: same.get(value.number, value)
    calls = []
    for call in program.calls:
        args, kwargs = mapped(own, Value, (tuple(call.args), dict(call.kwargs)))
        if call.op.name == "detach" or call.op.name == "clone" and args[0].stride == call.result.stride and args[0].number not in held:
            same[call.result.number] = args[0]
        else:
            calls.append(call.replace(args=args, kwargs=kwargs))
    return program.replace(calls=calls, output=mapped(own, Value, program.output), releases={})


def _split_writes(part: Part) -> None:
    """Take the final writes to buffers out of the calls."""
    held = {value.number: name for name, value in part.program.held.items()}
    kept: list[ProgramCall] = []
    for call in part.program.calls:
        if call.writes:
            target = call.args[0] if call.args else None
            if call.op.name != "copy_" or not isinstance(target, Value) or target.number not in held:
                raise ValueError(f"place_operators: {call.op.name} writes to its arguments and has no form that returns new values")
            part.writes.append((held[target.number], call.args[1]))
            continue
        kept.append(call)
    part.program = part.program.replace(calls=kept, releases={})


def _mark_backward(part: Part) -> None:
    """Find the calls of the backward pass: those that autograd made, and what follows from them."""
    late: set[int] = {part.result_gradient.number} if part.result_gradient is not None else set()
    for call in part.program.calls:
        backward = call.backward or any(value.number in late for value in leaves(Value, (call.args, call.kwargs)))
        part.backward.append(backward)
        if backward:
            late.update(value.number for value in leaves(Value, call.result))


def _drop_unused(part: Part) -> None:
    """Remove parameters and arguments that the part does not use. Another part of the model uses them."""
    used = {value.number for call in part.program.calls for value in leaves(Value, (call.args, call.kwargs))}
    used |= {value.number for value in leaves(Value, (part.program.output, part.others))} | {value.number for _, value in part.writes}
    part.parameters = {name: value for name, value in part.parameters.items() if value.number in used}
    part.given = [value for value in part.given if value.number in used]
    if part.result_gradient is not None and part.result_gradient.number not in used:
        part.result_gradient = None
