"""`trace`: run a callable once and list what it does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture, Value
from metatensor._core.memory import MemoryLog
from metatensor._core.tensor import Tensor
from metatensor.nn._hooks import follow_modules
from metatensor.nn._referenced import referenced_modules
from metatensor.program.program import Effect, Program
from metatensor.program.structure import leaves, mapped

__all__ = ["trace"]


def trace(fn: Callable[..., Any], /, *args: Any, sizes: Any = None, **kwargs: Any) -> Program:
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
    sizes : dict, optional
        Names of sizes, and for each of them the least and the greatest value, or a range. The run is then repeated at several
        sizes, and the result is a `SizedProgram`, which runs at all of them. The further argument `dims` says which sizes of
        which arguments have these names, such as ``dims={"x": ["batch", None]}``. See docs/sizes.md.

    Returns
    -------
    Program
        A program that returns what `fn` returned, and changes what it changed.

    Raises
    ------
    RuntimeError
        If the seed of a random number generator is changed during the run. With `sizes`, also if the numbers are no
        expressions of the sizes, or the calls are others at nearly every size.
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
    modules = [module for _, module in referenced_modules(fn, args, kwargs)]
    paths = _Paths(modules)
    names = dict(_names(modules))
    before = {name: tensor.grad for name, tensor in names.items()}
    capture, log = Capture(), MemoryLog(plain=True)
    with follow_modules(capture, paths.numbers, paths.meet), log:
        with capture:
            given = mapped(capture.input, Tensor, (args, kwargs))
            with nullcontext() if observing is None else observing(capture):
                result = fn(*args, **kwargs)
        output = mapped(capture.value, Tensor, result)
        once = {id(tensor): name for name, tensor in reversed(names.items())}  # the first name of each
        effects = [Effect("grad", name, capture.value(tensor.grad)) for name, tensor in names.items()
                   if tensor.grad is not None and tensor.grad is not before[name] and once[id(tensor)] == name]  # fmt: skip
        effects += list(_replaced(modules, names, capture))
        del result
    inputs = list(leaves(Value, given))
    known = {value.number for value in inputs}
    held: dict[str, tuple[Value, Tensor]] = {}
    tied: dict[str, str] = {}
    constants: dict[str, Value] = {}
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in names.items():
        by_tensor.setdefault(id(tensor), []).append(name)
    for value, tensor in capture.leaves:
        if value.number in known:
            continue
        found = by_tensor.get(id(tensor))
        name = found[0] if found else f"constant{len(constants)}"
        if not found:
            constants[name] = value
        held[name] = value, tensor
        tied.update(dict.fromkeys((found or [])[1:], name))
    kinds = {name: "constant" if name in constants else "parameter" if isinstance(t, mt.nn.Parameter) else "buffer"
             for name, (_, t) in held.items()}  # fmt: skip
    return Program(
        _title(fn), arguments=given, output=output, calls=capture.calls,
        held={name: value for name, (value, _) in held.items()}, kinds=kinds, tied=tied, tensors={name: t for name, (_, t) in held.items()},
        effects=effects, releases=_releases(capture, log), modules=paths.names, reads=capture.reads,
    )  # fmt: skip


def _title(fn: Any) -> str:
    return type(fn).__name__ if isinstance(fn, mt.nn.Module) else getattr(fn, "__name__", type(fn).__name__)


def _releases(capture: Capture, log: MemoryLog) -> dict[int, tuple[int, ...]]:
    """Return the storages that the run released after each call, by the index of the call."""
    index = {number: i for i, number in enumerate(capture.storages) if number}
    starts = [call.first for call in capture.calls]
    found: dict[int, list[int]] = {}
    for storage, operator in log.deaths():
        if storage in index:
            at = bisect_left(starts, operator) - 1
            found.setdefault(max(at, 0), []).append(index[storage])
    return {at: tuple(storages) for at, storages in found.items()}


# Modules ----------------------------------------------------------------------------------------------


def _names(modules: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters and buffers of modules with their names, which begin with the class if there are several modules."""
    for number, root in enumerate(modules):
        prefix = "" if len(modules) == 1 else f"{type(root).__name__}{number}."
        for path, module in root.named_modules(prefix=prefix[:-1], remove_duplicate=False):
            start = f"{path}." if path else ""
            for members in (module._parameters, module._buffers):
                for name, tensor in members.items():
                    if tensor is not None:
                        yield start + name, tensor


def _replaced(modules: list[Any], names: dict[str, Any], capture: Capture) -> Iterator[Effect]:
    """Yield the buffers and parameters that the run replaced by other tensors."""
    for name, tensor in _names(modules):
        if name in names and tensor is not names[name]:
            yield Effect("replaced", name, capture.value(tensor))


class _Paths:
    """Numbers modules, and has their paths by number."""

    def __init__(self, modules: list[Any]) -> None:
        self.names = [""]
        self.numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        for module in modules:
            self.meet(module)

    def meet(self, root: Any) -> None:
        """Number a module and its submodules, except those that have a number."""
        for path, module in root.named_modules():
            if id(module) not in self.numbers:
                self.numbers[id(module)] = len(self.names)
                self._alive.append(module)
                self.names.append(path or type(module).__name__)
