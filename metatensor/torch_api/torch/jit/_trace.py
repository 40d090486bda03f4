"""`trace`: functions and modules as programs."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from types import MethodType
from typing import Any

import metatensor as mt
from metatensor.program import Program
from metatensor.program import trace as trace_program
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.restoring import restoring
from metatensor.torch_api.torch.jit._programs import Programs, ScriptFunction, ScriptModule, TopLevelTracedModule, checked_result, key_of
from metatensor.utils import _pytree as pytree

__all__ = ["TracerWarning", "is_tracing", "script_if_tracing", "trace", "trace_module"]

_state = threading.local()


class TracerWarning(Warning):
    """The warning that a trace may differ from the function for other arguments."""


def is_tracing() -> bool:
    """Return whether `trace` runs a function in this thread."""
    return getattr(_state, "depth", 0) > 0


@contextmanager
def _tracing() -> Any:
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def script_if_tracing(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_kwarg_inputs: dict[str, Any] | None = None, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Run a function or a module once, and return a function or a module that repeats its calls of operators.

    Branches, Python numbers and the mode of modules (`train`, `eval`) are fixed to those of the example. For arguments of other
    shapes the original is traced again, while it is available: not after `torch.jit.load`. Tracing leaves the buffers of the module
    and the state of random numbers unchanged.

    Parameters
    ----------
    func : callable
        A function or a module.
    example_inputs : tensor or tuple
        Its arguments.
    check_trace : bool
        Whether to run the original again and compare. Default True.
    check_inputs : list of tuple, optional
        Further arguments for the comparison. Default: those of the example.
    check_tolerance : float
        The relative tolerance of the comparison. Default 1e-5.
    strict : bool
        Whether a dict in the result raises RuntimeError. Default True.
    example_kwarg_inputs : dict, optional
        Keyword arguments.
    optimize
        Ignored.

    Returns
    -------
    ScriptFunction or ScriptModule
        A traced module shares the parameters and buffers of the original.

    Raises
    ------
    RuntimeError
        If the result is neither a tensor nor a structure of tensors.

    Warns
    -----
    TracerWarning
        If a number is read from a tensor that depends on arguments, parameters or buffers, or if the comparison fails.

    Examples
    --------
    >>> from metatensor.torch_api import torch
    >>> traced = torch.jit.trace(lambda x, y: (x + y).relu(), (torch.ones(2), torch.ones(2)))
    >>> [call.op.name for call in traced.program.calls]
    ['add', 'relu']
    """
    if isinstance(func, ScriptModule | ScriptFunction) and hasattr(func, "_programs"):
        return func
    if example_inputs is None and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("torch.jit.trace: expected example_inputs, or a dict of example_kwarg_inputs")
    if isinstance(example_inputs, (mt.Tensor, dict)):
        example_inputs = (example_inputs,)
    args, kwargs = tuple(example_inputs or ()), dict(example_kwarg_inputs or {})
    if isinstance(func, MethodType) and isinstance(func.__self__, mt.nn.Module) and not isinstance(func, mt.nn.Module):
        if func.__name__ != "forward":
            raise AttributeError("torch.jit.trace: a method of a module is traced by torch.jit.trace_module")
        func = func.__self__
    checks = [(_positional(one), kwargs) for one in check_inputs or [args]] if check_trace else []
    if isinstance(func, mt.nn.Module):
        return _module(func, {"forward": (args, kwargs)}, {"forward": checks}, check_tolerance, strict)
    programs = _programs(func, None, args, kwargs, checks, check_tolerance, strict)
    return ScriptFunction(programs, getattr(func, "__name__", type(func).__name__))


def _positional(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, mt.Tensor) else tuple(given)


def trace_module(
    mod: Any, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: list[dict[str, Any]] | None = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Trace several methods of a module.

    Parameters
    ----------
    mod : Module
        The module.
    inputs : dict
        The arguments of each method, by its name.
    check_trace, check_tolerance, strict
        See `trace`.
    check_inputs : list of dict, optional
        Arguments to check the trace with, in the form of `inputs`. Default: `inputs`.
    example_inputs_is_kwarg : bool
        Whether the arguments are dicts of keyword arguments. Default False.

    Returns
    -------
    ScriptModule
        A module with these methods.
    """
    if not isinstance(mod, mt.nn.Module):
        raise AttributeError(f"torch.jit.trace_module: expected a module, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError(f"torch.jit.trace_module: expected a dict from names of methods to arguments, got {type(inputs).__name__}")

    def arguments(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ((), dict(given)) if example_inputs_is_kwarg else (_positional(given), {})

    examples = {name: arguments(given) for name, given in inputs.items()}
    checks = {name: [arguments(one[name]) for one in check_inputs or [inputs] if name in one] if check_trace else [] for name in inputs}
    return _module(mod, examples, checks, check_tolerance, strict)


def _module(mod: Any, examples: dict[str, Any], checks: dict[str, list[Any]], tolerance: float, strict: bool) -> Any:
    from metatensor.torch_api.torch.export._trace import _complete

    programs = {}
    for name, (args, kwargs) in examples.items():
        function = mod if name == "forward" else getattr(mod, name)
        programs[name] = _programs(function, mod, args, kwargs, checks[name], tolerance, strict)
        if name == "forward":
            programs[name].first = programs[name].known[key_of(args, kwargs)] = _complete(programs[name].first, mod)
    names = {path: type(module).__name__ for path, module in mod.named_modules()}
    made = TopLevelTracedModule(programs, names, mod.training)
    skipped = {f"{path}.{name}".lstrip(".") for path, module in mod.named_modules() for name in module._non_persistent_buffers_set}
    made._take(dict(mod.named_parameters(remove_duplicate=False)) | dict(mod.named_buffers(remove_duplicate=False)), {}, skipped)
    for path, module in mod.named_modules():
        if path:
            made.get_submodule(path).training = module.training
    return made


def _programs(
    function: Callable[..., Any], mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], checks: list[Any], tolerance: float, strict: bool
) -> Programs:
    modes = [(module, module.training) for module in mod.modules()] if mod is not None else []

    def capture(*args: Any, **kwargs: Any) -> Program:
        now = [module.training for module, _ in modes]
        for module, mode in modes:
            module.training = mode
        try:
            with _tracing(), restoring(mod):
                return trace_program(function, *args, **kwargs)
        finally:
            for (module, _), mode in zip(modes, now):
                module.training = mode

    program = capture(*args, **kwargs)
    checked_result(program.output, strict)
    for read in dependent_reads(program)[:1]:
        warnings.warn(TracerWarning(
            f"torch.jit.trace: {program.name} reads a number from a tensor, {describe(program, read)}; the trace has the number "
            "of the example, and may be wrong for other arguments"), stacklevel=4)  # fmt: skip
    programs = Programs(program, capture, key_of(args, kwargs))
    for given, named in checks:
        _check(function, mod, programs, given, named, tolerance)
    return programs


def _copies(value: Any) -> Any:
    return pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, mt.Tensor) else x, value)


def _check(function: Any, mod: Any, programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any], tolerance: float) -> None:
    """Warn if a function and its program do not return the same."""
    with mt.no_grad(), _tracing():
        with restoring(mod):
            want = pytree.tree_leaves(function(*_copies(args), **_copies(kwargs)))
        program = programs.of(args, kwargs)
        tensors = dict(program.tensors)
        with restoring(mod):
            got = pytree.tree_leaves(program(*_copies(args), **_copies(kwargs)))
        program.tensors.update(tensors)
    for i, (one, other) in enumerate(zip(want, got)):
        if not isinstance(one, mt.Tensor):
            continue
        same = one.shape == other.shape and (one.is_meta or mt.allclose(one, other, rtol=tolerance, atol=1e-5, equal_nan=True))
        if not same:
            warnings.warn(TracerWarning(
                f"torch.jit.trace: output {i} of {programs.first.name} differs from that of its trace; "
                "the function does not do the same in each call"), stacklevel=5)  # fmt: skip
            return
