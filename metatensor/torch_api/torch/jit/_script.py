"""`script`: functions and modules that run as Python code and get their programs by tracing."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.program import Program
from metatensor.program import trace as trace_program
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.restoring import restoring
from metatensor.program.structure import mapped
from metatensor.torch_api.torch.jit import Error
from metatensor.torch_api.torch.jit._archives import ArchivedModule
from metatensor.torch_api.torch.jit._programs import Programs, RecursiveScriptModule, ScriptFunction, ScriptModule

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "freeze", "optimize_for_inference", "script"]


class _Like:
    """The layout of an example tensor, which is not kept."""

    def __init__(self, t: mt.Tensor) -> None:
        self.shape, self.stride, self.requires_grad = tuple(t.shape), t.stride(), t.requires_grad
        self.dtype, self.device = t.dtype, t.device

    def zeros(self) -> mt.Tensor:
        """Return a tensor of zeros with this layout."""
        made = mt.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device).zero_()
        return made.requires_grad_() if self.requires_grad else made


class _First:
    """The program of a callable for the arguments of its first call."""

    def __init__(self, function: Callable[..., Any], module: Any, name: str) -> None:
        self.function, self.module, self.name = function, module, name
        self._arguments: Any = None
        self._program: Program | None = None

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the shapes of the first arguments."""
        if self._arguments is None:
            self._arguments = mapped(_Like, mt.Tensor, (args, kwargs))

    def program(self) -> Program:
        """Return the program. Raise `Error` if there are no arguments yet, or if a branch depends on values."""
        if self._program is None:
            if self._arguments is None:
                raise Error(f"torch.jit.script: {self.name} has no program before its first call; call it, or pass example_inputs")
            args, kwargs = mapped(lambda like: like.zeros(), _Like, self._arguments)
            with restoring(self.module):
                program = trace_program(self.function, *args, **kwargs)
            for read in dependent_reads(program):
                raise Error(
                    f"torch.jit.script: {self.name} cannot become a program, because what it does depends on values: "
                    f"{describe(program, read)}. It can be called, but it has no graph and no code, and cannot be saved"
                )
            self._program = program
        return self._program

    def __deepcopy__(self, memo: Any) -> _First:
        made = _First(copy.deepcopy(self.function, memo), copy.deepcopy(self.module, memo), self.name)
        made._arguments = self._arguments
        return made


class _ScriptedFunction(ScriptFunction):
    """A function that runs as Python code. Its program is that of the first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.qualified_name = getattr(function, "__qualname__", self.name)
        self._function, self._first = function, _First(function, None, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._first.note(args, kwargs)
        return self._function(*args, **kwargs)

    @property
    def program(self) -> Program:
        """The program for the arguments of the first call."""
        return self._first.program()

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> str:
        return self.qualified_name  # found in its module by name, as functions are


class _ScriptedModule(RecursiveScriptModule):
    """A module that runs as Python code, and shares all attributes with the original. Its program is that of the first call."""

    def __init__(self, original: Any) -> None:
        names = {path: type(module).__name__ for path, module in original.named_modules()}
        first = _First(original, original, type(original).__name__)
        mt.nn.Module.__init__(self)
        for name in ("_parameters", "_buffers", "_modules"):
            self.__dict__[name] = original.__dict__[name]
        hidden = original.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__["_non_persistent_buffers_set"] = hidden
        self.__dict__.update(_original=original, _first=first, _names=names, _programs={}, original_name=names[""])
        self.__dict__["training"] = original.training
        self._first.function = original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original."""
        self._first.note(args, kwargs)
        return self._original(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Set the mode of the original."""
        self._original.train(mode)
        self.__dict__["training"] = mode
        self._first._program = None
        return self

    @property
    def program(self) -> Program:
        """The program for the arguments of the first call, with the parameters and buffers that the module has now."""
        from metatensor.torch_api.torch.export._trace import _complete

        program = _complete(self._first.program(), self._original)
        return program.replace(tensors={**program.tensors, **{name: where[last] for name, (where, last) in self._own(program).items()}})

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Save the program to a file. See `torch.jit.save`."""
        self.__dict__["_programs"] = {"forward": Programs(self.program)}
        try:
            super().save(f, _extra_files)
        finally:
            self.__dict__["_programs"] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return mt.nn.Module.__getattr__(self, name)
        except AttributeError:
            original = self.__dict__.get("_original")
            if original is None or name.startswith("__"):
                raise
            return getattr(original, name)


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a function or module that runs `obj` as Python code, and has a program of its first call.

    Calls run `obj` itself, with any branches. The program (`graph`, `code`, `save`, `freeze`) is made when it is first needed: `obj`
    is traced with tensors of zeros in the shapes of the first call. The program contains only the branches that this run takes,
    including those that depend on shapes and on Python numbers.

    Parameters
    ----------
    obj : callable or Module
        The function or module. Classes and other objects are returned unchanged.
    example_inputs : list of tuple, optional
        Arguments for the program, instead of those of the first call. Only the first tuple is used.
    optimize
        Ignored.

    Returns
    -------
    ScriptFunction or RecursiveScriptModule
        A scripted module shares the parameters, buffers, submodules and attributes of the original.

    Raises
    ------
    torch.jit.Error
        When the program is used before the first call, or if a branch depends on values of tensors.
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    made: Any
    if isinstance(obj, mt.nn.Module):
        made = _ScriptedModule(obj)
    elif inspect.isfunction(obj) or inspect.ismethod(obj):
        made = _ScriptedFunction(obj)
    else:
        return obj
    if isinstance(example_inputs, (list, tuple)) and example_inputs:
        made._first.note(tuple(example_inputs[0]), {})
    return made


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return a module that runs the program of `mod`, with its parameters and buffers as constants.

    For a module of an archive that PyTorch wrote, return a copy that does not require gradients.

    Parameters
    ----------
    mod : ScriptModule
        A module in eval mode. Scripted ones must have been called.
    preserved_attrs, optimize_numerics
        Ignored.

    Raises
    ------
    RuntimeError
        If `mod` is neither traced nor scripted, or is in training mode.
    """
    if not isinstance(mod, RecursiveScriptModule):
        raise RuntimeError("torch.jit.freeze: expected a module that torch.jit.script or torch.jit.trace returned")
    if mod.training:
        raise RuntimeError("torch.jit.freeze: the module is in training mode; call eval() first")
    if isinstance(mod, ArchivedModule):
        return copy.deepcopy(mod).requires_grad_(False)
    program = mod.program
    tensors = {name: t.detach().clone() for name, t in program.tensors.items()}
    frozen = program.replace(kinds=dict.fromkeys(program.kinds, "constant"), tensors=tensors)
    return RecursiveScriptModule({"forward": Programs(frozen)}, {"": mod.original_name}, False)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Return the result of `freeze` for a module in eval mode, and `mod` itself otherwise."""
    return freeze(mod) if isinstance(mod, RecursiveScriptModule) and not mod.training else mod
