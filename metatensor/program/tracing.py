"""`trace`: run a callable once and list what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture, Value
from metatensor._core.memory import MemoryLog
from metatensor._core.tensor import Tensor
from metatensor.nn._following import Follower
from metatensor.nn._referenced import referenced_modules
from metatensor.program._state import State
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped

__all__ = ["trace"]


def trace(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Program:
    """Run ``fn(*args, **kwargs)`` once, and return what it did as a `Program`.

    The calls of operators are captured below Python, so it works for every callable that runs: modules, closures, custom
    operators, a function with a whole training step. Nothing is patched. Values that decide a branch, such as shapes and
    Python numbers, are those of this run: a program does what this run did.

    Parameters
    ----------
    fn : callable
        What to run. Parameters and buffers are those of the modules that it is, calls or refers to.
    *args, **kwargs
        Its arguments. Tensors among them are the inputs of the program; everything else is fixed.

    Returns
    -------
    Program
        A program that returns what `fn` returned, and changes what it changed.

    Raises
    ------
    RuntimeError
        If the seed of a random number generator is changed during the run.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x, y: (x @ y).relu(), mt.empty(2, 3, device="meta"), mt.empty(3, 4, device="meta"))
    >>> [call.op.name for call in program.calls]
    ['matmul', 'relu']
    >>> program(mt.empty(2, 3, device="meta"), mt.empty(3, 4, device="meta")).shape
    metatensor.Size([2, 4])
    """
    state = State([module for _, module in referenced_modules(fn, args, kwargs)])
    capture, log = Capture(), MemoryLog(plain=True)
    with Follower(capture, state.paths), log:
        with capture:
            given = mapped(capture.input, Tensor, (args, kwargs))
            result = fn(*args, **kwargs)
        output = mapped(capture.value, Tensor, result)
        effects = state.effects(capture)
        del result
    held, tensors, kinds, tied = state.held(capture, leaves(Value, given))
    return Program(
        _title(fn), arguments=given, output=output, calls=capture.calls, held=held, kinds=kinds, tied=tied, tensors=tensors,
        effects=effects, releases=capture.releases(log), modules=state.paths.paths, reads=capture.reads,
    )  # fmt: skip


def _title(fn: Any) -> str:
    return type(fn).__name__ if isinstance(fn, mt.nn.Module) else getattr(fn, "__name__", type(fn).__name__)
