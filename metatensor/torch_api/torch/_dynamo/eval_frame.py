"""Functions and modules that are run by a backend of `torch.compile`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.nn._referenced import referenced_modules
from metatensor.program import Program
from metatensor.program import trace as trace_program
from metatensor.program.fx.lifting import lifted
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.restoring import restoring
from metatensor.program.structure import leaves, mapped
from metatensor.torch_api.torch._dynamo import config
from metatensor.torch_api.torch.compiler import compiling

__all__ = ["OptimizedModule", "compiled", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """Return False."""
    return False


class OptimizedModule(mt.nn.Module):
    """A module that is run by a backend. `torch.compile` returns it if `backend` is a function.

    Parameters
    ----------
    mod : Module
        The original, which is the submodule ``_orig_mod``.
    function : callable
        The function that a call runs.
    """

    def __init__(self, mod: Any, function: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_function"] = function
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the backend."""
        return self._function(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Set the mode of the original."""
        self._orig_mod.train(mode)
        self.__dict__["training"] = mode
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod" or name.startswith("__"):
                raise
            return getattr(self._orig_mod, name)

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        mod = copy.deepcopy(self._orig_mod, memo)
        return OptimizedModule(mod, self._function.again(mod))  # type: ignore[operator]


class _Graph:
    """The function that a backend returned for a program."""

    def __init__(self, program: Program, backend: Callable[..., Any], options: dict[str, Any], given: list[Any]) -> None:
        self.program = program
        module, self.rebuild = lifted(program)
        self.tensors = list(program.tensors.values())
        self.run = backend(module, [*self.tensors, *given], **options)
        if not callable(self.run):
            raise RuntimeError(f"torch.compile: the backend must return a function, got {type(self.run).__name__}")

    def __call__(self, given: list[Any]) -> Any:
        results = self.run(*self.tensors, *given)
        return self.rebuild(*(results if isinstance(results, (tuple, list)) else [results]))


class _Compiled:
    """A function that is captured as graphs, which a backend turns into functions.

    One graph is captured for each set of shapes, dtypes, devices, other values, modes of modules and settings of the thread (grad modes,
    autocast, default dtype and device), up to ``torch._dynamo.config.recompile_limit``. After that the function itself runs.
    """

    def __init__(self, function: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool, options: dict[str, Any]) -> None:
        self.function, self.backend, self.fullgraph, self.options = function, backend, fullgraph, options
        self.graphs: list[tuple[Any, Any, _Graph | None]] = []
        if not isinstance(function, mt.nn.Module):
            functools.update_wrapper(self, function)

    def again(self, function: Callable[..., Any]) -> _Compiled:
        """Return a `_Compiled` of another function with the same settings."""
        return _Compiled(function, self.backend, self.fullgraph, self.options)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        modules = [module for _, module in referenced_modules(self.function, args, kwargs)]
        key = _key((args, kwargs)), _settings()
        parts = [part for module in modules for part in module.modules()]
        state = [id(t) for part in parts for members in (part._parameters, part._buffers) for t in members.values()]
        state += [part.training for part in parts]
        found = next((entry for entry in self.graphs if entry[1] == state and _same(entry[0], key)), None)
        if found is None:
            if len(self.graphs) >= config.recompile_limit:
                return self.function(*args, **kwargs)
            found = key, state, self._captured(modules, args, kwargs)
            self.graphs.append(found)
        graph = found[2]
        if graph is None:
            return self.function(*args, **kwargs)
        return graph(list(leaves(mt.Tensor, (args, kwargs))))

    def _captured(self, modules: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Graph | None:
        """Return the backend's graph for these arguments, or None if the program depends on values."""
        arguments = mapped(_twin, mt.Tensor, (args, kwargs))
        with restoring(mt.nn.ModuleList(modules) if modules else None), compiling():
            program = trace_program(self.function, *arguments[0], **arguments[1])
        for read in dependent_reads(program):
            if self.fullgraph:
                raise RuntimeError(f"torch.compile: {program.name} has no graph, because what it does depends on values: "
                                   f"{describe(program, read)}")  # fmt: skip
            return None
        return _Graph(program, self.backend, self.options, list(leaves(mt.Tensor, (args, kwargs))))


def _twin(t: Any) -> Any:
    """Return a copy of an argument, so that a capture does not change it."""
    made = t.detach().clone()
    return made.requires_grad_() if t.requires_grad else made


def _settings() -> Any:
    """Return the settings of this thread on which the operators of a function depend."""
    return (mt.is_grad_enabled(), mt.is_inference_mode_enabled(), mt.get_default_dtype(), mt.get_default_device(), mt.amp._settings())


def _key(value: Any) -> Any:
    """Return a key for a value: a graph can be used again for values with the same key."""
    if isinstance(value, mt.Tensor):
        return "tensor", tuple(value.shape), value.stride(), value.dtype, value.device, value.requires_grad
    if isinstance(value, dict):
        return type(value), [(key, _key(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [_key(item) for item in value]
    if next(leaves(mt.Tensor, value), None) is not None:
        return type(value), [(key, _key(item)) for key, item in vars(value).items()]
    return type(value), value


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # objects whose comparison fails are compared by identity
        return a is b


def compiled(model: Any, backend: Callable[..., Any], *, fullgraph: bool = False, **options: Any) -> Any:
    """Return a function or module that runs the graph of `model` with `backend`. See `torch.compile`."""
    given = {key: options[key] for key in ("mode", "options") if options.get(key) not in (None, "default")}
    function = _Compiled(model, backend, fullgraph, given)
    return OptimizedModule(model, function) if isinstance(model, mt.nn.Module) else function
