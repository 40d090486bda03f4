"""`trace`: run a callable once and list what it does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture, Ticket, Value
from metatensor._core.constants import keep_constants
from metatensor._core.custom_functions import drop_marks
from metatensor._core.memory import MemoryLog
from metatensor._core.tensor import Tensor
from metatensor.nn._following import Follower
from metatensor.nn._referenced import referenced_modules
from metatensor.program._state import State
from metatensor.program.argument_names import parameters_of
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["trace"]


def trace(fn: Callable[..., Any], /, *args: Any, sizes: Any = None, **kwargs: Any) -> Program:
    """Run ``fn(*args, **kwargs)`` once, and return what it did as a `Program`.

    The calls of operators are captured below Python, so it works for every callable that runs: modules, closures, custom
    operators, a whole training step. Nothing is patched. Values that decide a branch, such as shapes and Python numbers, are
    fixed: the program repeats what this run did. Small tensors on meta that are computed from constants keep their values
    during the run.

    Parameters
    ----------
    fn : callable
        The callable to run. The program's parameters and buffers are those of `fn`, if it is a module, and of the modules that it
        calls or refers to.
    *args, **kwargs
        Its arguments. Tensors among them are the inputs of the program; everything else is fixed.
    sizes : dict, optional
        Names of sizes, each with its least and greatest value, or a range. The run is then repeated at several
        sizes, and the result is a `SizedProgram`, which runs at all of them. An additional argument, `dims`, says which sizes of
        which arguments have these names, such as ``dims={"x": ["batch", None]}``. See docs/sizes.md.

    Returns
    -------
    Program
        A program that returns what `fn` returned, and has the same side effects.

    Raises
    ------
    RuntimeError
        If the seed of a random number generator is changed during the run. With `sizes`, also if no
        expression of the sizes is found for a number, or if the calls differ at nearly every size.
    TypeError, ValueError
        If `sizes` and `dims` do not fit the arguments.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x, y: (x @ y).relu(), mt.empty(2, 3, device="meta"), mt.empty(3, 4, device="meta"))
    >>> [call.op.name for call in program.calls]
    ['matmul', 'relu']
    >>> program(mt.empty(2, 3, device="meta"), mt.empty(3, 4, device="meta")).shape
    metatensor.Size([2, 4])
    """
    if sizes is None:
        return _run(fn, args, kwargs, None)
    from metatensor.program.sizes.capturing import trace_sizes

    return trace_sizes(_run, fn, args, kwargs, sizes, kwargs.pop("dims", None))


def _run(fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any], observing: Callable[[Capture], Any] | None) -> Program:
    """Trace a callable once. ``observing(capture)`` returns a context for its run."""
    state = State([module for _, module in referenced_modules(fn, args, kwargs)])
    batched = sys.modules.get("metatensor.func._batched")  # not loaded before vmap is used
    if batched is not None and any(isinstance(t, batched.Batched) for t in leaves(Tensor, (args, kwargs))):
        raise RuntimeError("trace: an argument is batched by vmap; trace outside of vmap, and run the program inside")
    capture, log = Capture(), MemoryLog(plain=True)
    with keep_constants(), Follower(capture, state.paths), log:
        with capture:
            given = mapped(capture.input, Tensor, (args, kwargs))
            with nullcontext() if observing is None else observing(capture):
                result = fn(*args, **kwargs)
        drop_marks(capture)
        output = mapped(capture.value, Tensor, result)
        effects = state.effects(capture)
        capture.check_generators()
        capture.drop_unused_copies(leaves(Value, (output, [effect.value for effect in effects])))
        del result
    held, tensors, kinds, tied = state.held(capture, leaves(Value, given))
    replaced = {effect.name: effect.value.number for effect in effects if effect.kind == "replaced"}
    for name, first in tied.items():
        if replaced.get(name) != replaced.get(first):
            raise RuntimeError(f"trace: {first!r} and {name!r} were one tensor before the run, and are two after it, which a program "
                               "cannot repeat; make them two before the trace")  # fmt: skip
    if observing is None:  # otherwise the caller restores the modules
        tensors.update(state.replaced(held))
    return Program(
        _title(fn), arguments=given, output=output, calls=capture.calls, held=held, kinds=kinds, tied=tied, tensors=tensors,
        effects=effects, releases=capture.releases(log), modules=state.paths.paths, reads=_dependent(capture),
        default_dtype=capture.default_dtype, names=parameters_of(fn)[: len(args)],
    )  # fmt: skip


def _title(fn: Any) -> str:
    return type(fn).__name__ if isinstance(fn, mt.nn.Module) else getattr(fn, "__name__", type(fn).__name__)


def _dependent(capture: Capture) -> list[tuple[int, str, Value]]:
    """Return the reads of numbers that may differ between runs: they depend on tensors that existed before, or are random."""
    if not capture.reads:
        return []
    dependent, found, at = {value.storage for value, _ in capture.leaves}, [], 0
    for read in capture.reads:
        for call in capture.calls[at : read[0]]:
            given = (call.args, call.kwargs)
            if any(v.storage in dependent for v in leaves(Value, given)) or next(leaves(Ticket, given), None) is not None:
                dependent.update(v.storage for v in leaves(Value, (call.result, call.writes)))
        at = read[0]
        if read[2].storage in dependent:
            found.append(read)
    return found
