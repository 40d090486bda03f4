"""Functions and modules that `torch.jit.trace` and `torch.jit.load` return. They run programs."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.checkpoint import CheckpointError
from metatensor.program import Program, saving
from metatensor.program.structure import mapped

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule", "load_program"]

_HEAD = "torch.jit.json"


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a key for arguments: equal keys mean the same program.

    The key consists of the arguments' structure, shapes, dtypes and devices.
    """

    def one(t: Any) -> Any:
        return mt.Tensor, tuple(t.shape), t.dtype, t.device

    return repr(mapped(one, mt.Tensor, (args, kwargs)))


class Programs:
    """The programs of a callable, one for each set of shapes.

    Parameters
    ----------
    first : Program
        The program that is saved and printed.
    again : callable, optional
        A function that captures a program for other arguments. Without it only the first one can be run.
    """

    def __init__(self, first: Program, again: Callable[..., Program] | None = None, key: Any = None) -> None:
        self.first, self.again, self.known = first, again, {} if key is None else {key: first}

    def __deepcopy__(self, memo: Any) -> Programs:
        made = Programs(self.first.replace(tensors=copy.deepcopy(self.first.tensors, memo)), self.again)
        made.known = {key: made.first for key, program in self.known.items() if program is self.first}
        return made

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        """Return the program for the shapes of some arguments."""
        if self.again is None:
            return self.first
        key = key_of(args, kwargs)
        if key not in self.known:
            self.known[key] = self.again(*args, **kwargs)
        return self.known[key]


def _save(program: Program, f: Any, extra: dict[str, Any] | None, head: dict[str, Any]) -> None:
    saving.save(program, f, extra={**(extra or {}), _HEAD: json.dumps(head)})


class _Shown:
    """Attributes and methods derived from `program` and `save`."""

    save: Callable[..., None]

    @property
    def program(self) -> Program:
        """The program that is saved and printed."""
        raise NotImplementedError

    @property
    def code(self) -> str:
        """The program as Python source."""
        return self.program.code

    @property
    def graph(self) -> str:
        """The program as a listing."""
        return str(self.program)

    inlined_graph = graph

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the bytes of the file that `save` would write."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


class ScriptFunction(_Shown):
    """A function that runs a program. `torch.jit.trace` and `torch.jit.load` return it."""

    def __init__(self, programs: Programs, name: str = "") -> None:
        self._programs = programs
        self.name = self.__name__ = self.qualified_name = name or programs.first.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._programs.of(args, kwargs)(*args, **kwargs)

    @property
    def program(self) -> Program:
        """The program that is saved and printed."""
        return self._programs.first

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Save the program to a file. See `torch.jit.save`."""
        _save(self.program, f, _extra_files, {"kind": "function", "name": self.name})


class ScriptModule(mt.nn.Module):
    """The base class of modules that run programs. In a user-defined subclass, methods run as ordinary Python."""


class RecursiveScriptModule(_Shown, ScriptModule):
    """A module that `torch.jit.script`, `load` or `freeze` returns.

    Its parameters, buffers and submodules have the same names as in the original module.
    """

    def __init__(self, programs: Any = None, names: dict[str, str] | None = None, training: bool = True) -> None:
        if programs is None:
            raise RuntimeError(f"torch.jit.{type(self).__name__}: it cannot be created; use torch.jit.trace or script")
        super().__init__()
        self.__dict__["_programs"] = programs
        self.__dict__["original_name"] = (names or {}).get("", next(iter(programs.values())).first.name)
        self.__dict__["_names"] = names or {}
        self.training = training
        for path in names or ():
            if path:
                self._part(path)

    def _part(self, path: str) -> Any:
        """Return the submodule with a dotted name, and create it if there is none."""
        module: Any = self
        reached = ""
        for part in path.split(".") if path else ():
            reached = f"{reached}.{part}".lstrip(".")
            if part not in module._modules:
                module.add_module(part, _Part(self._names.get(reached, "Module"), self.training))
            module = module._modules[part]
        return module

    def _take(self, tensors: dict[str, Any], tied: dict[str, str], skipped: Any = ()) -> None:
        """Register parameters and buffers in this module and its submodules."""
        for name, tensor in [*tensors.items(), *((name, tensors[own]) for name, own in tied.items() if own in tensors)]:
            above, _, last = name.rpartition(".")
            module = self._part(above)
            if isinstance(tensor, mt.nn.Parameter):
                module.register_parameter(last, tensor)
            else:
                module.register_buffer(last, tensor, persistent=name not in skipped)

    def _own(self, program: Program) -> dict[str, Any]:
        """Return the tensors of the module that a program uses: parameters and buffers."""
        found = {}
        for name, kind in program.kinds.items():
            above, _, last = name.rpartition(".")
            if kind == "constant":
                continue
            module = self.get_submodule(above)
            where = module._parameters if kind == "parameter" else module._buffers
            if last in where:
                found[name] = where, last
        return found

    def _run(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        program = self._programs[method].of(args, kwargs)
        own = self._own(program)
        for name, (where, last) in own.items():
            program.tensors[name] = where[last]
        result = program(*args, **kwargs)
        for effect in program.effects:
            if effect.kind == "replaced" and effect.name in own:
                where, last = own[effect.name]
                where[last] = program.tensors[effect.name]
        return result

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return self._run("forward", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        programs = self.__dict__.get("_programs") or {}
        if name in programs:
            return lambda *args, **kwargs: self._run(name, args, kwargs)
        return super().__getattr__(name)

    @property
    def program(self) -> Program:
        """The program of ``forward``, with the parameters and buffers that the module has now."""
        program = self._programs["forward"].first
        return program.replace(tensors={**program.tensors, **{name: where[last] for name, (where, last) in self._own(program).items()}})

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Save the program to a file. See `torch.jit.save`."""
        others = [name for name in self._programs if name != "forward"]
        if others:
            raise NotImplementedError("torch.jit.save: only one program can be saved, but the module has several methods: "
                                      f"{', '.join(['forward', *others])}")  # fmt: skip
        program = self.program
        skipped = [f"{path}.{name}".lstrip(".") for path, module in self.named_modules() for name in module._non_persistent_buffers_set]
        names = {path: getattr(module, "original_name", type(module).__name__) for path, module in self.named_modules()}
        _save(program, f, _extra_files, {"kind": "module", "names": names, "training": self.training, "skipped": skipped})

    def _get_name(self) -> str:
        return self.original_name

    def extra_repr(self) -> str:
        """Return the name of the class of the original."""
        return f"original_name={self.original_name}"


class TracedModule(RecursiveScriptModule):
    """A module that `torch.jit.trace` returns."""


class TopLevelTracedModule(TracedModule):
    """The outermost module that `torch.jit.trace` returns.

    Its program is fixed: `train` and `eval` set the attribute ``training``, but do not change its calls.
    """


class _Part(ScriptModule):
    """A submodule, which only holds parameters and buffers. It cannot be called: only its parent can."""

    def __init__(self, name: str, training: bool) -> None:
        super().__init__()
        self.original_name, self.training = name, training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: a program is called as a whole."""
        raise NotImplementedError(f"{self.original_name}: a part of a traced module cannot be called by itself")

    def _get_name(self) -> str:
        return self.original_name

    def extra_repr(self) -> str:
        """Return the name of the class of the original."""
        return f"original_name={self.original_name}"


def load_program(f: Any, device: Any, extra_files: dict[str, Any] | None, name: str) -> Any:
    """Return the function or module of a program file."""
    extra: dict[str, Any] = {**(extra_files or {}), _HEAD: None}
    program = saving.load(f, device=device, extra=extra)
    if extra_files is not None:
        extra_files.update({key: extra[key] for key in extra_files})
    try:
        head = json.loads(extra[_HEAD]) if extra[_HEAD] is not None else {}
        names, skipped, training = dict(head.get("names") or {}), list(head.get("skipped") or ()), bool(head.get("training"))
        if not all(isinstance(one, str) for one in (*names, *names.values(), *skipped)):
            raise TypeError
    except (ValueError, TypeError, AttributeError):
        raise CheckpointError(name, f"its member {_HEAD} is malformed") from None
    if not any(kind != "constant" for kind in program.kinds.values()) and head.get("kind") != "module":
        return ScriptFunction(Programs(program), head["name"] if isinstance(head.get("name"), str) else "")
    try:
        made = RecursiveScriptModule({"forward": Programs(program)}, names, training)
        made._take({n: t for n, t in program.tensors.items() if program.kinds[n] != "constant"}, program.tied, skipped)
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(name, f"its parameters and modules have invalid names: {error}") from None
    return made


def checked_result(output: Any, strict: bool) -> None:
    """Raise RuntimeError unless a result consists of tensors."""
    from metatensor._core.capture import Value

    if output is None:
        raise RuntimeError("torch.jit.trace: the function returned None; a trace must return tensors, because it has no other effect")

    def fits(value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return bool(value) and all(map(fits, value))
        if isinstance(value, dict):
            return bool(value) and all(map(fits, value.values()))
        return isinstance(value, Value)

    if not fits(output):
        raise RuntimeError("torch.jit.trace: expected tensors, or lists, tuples or dicts of tensors, as the result")
    if strict and _has_dict(output):
        raise RuntimeError("torch.jit.trace: the result has a dict, whose keys are fixed; pass strict=False to accept that")


def _has_dict(value: Any) -> bool:
    return isinstance(value, dict) or isinstance(value, (list, tuple)) and any(map(_has_dict, value))


