"""`pipeline`: the stages of a traced model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import metatensor as mt
from metatensor._core.capture import Capture
from metatensor._core.modes import current_modes
from metatensor.distributed.pipelining._messages import TensorSpec
from metatensor.distributed.pipelining.stage import _PipelineStageBase

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "build_stage", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a stage begins, for ``split_spec`` of `pipeline`."""

    BEGINNING = 1
    """Before the first call of a module."""
    END = 2
    """After the last call of a module."""


class _Marks(threading.local):
    found: list[Any] | None = None


_marks = _Marks()


def pipe_split() -> None:
    """Begin a new stage here, in a model that `pipeline` traces. Elsewhere it has no effect."""
    if _marks.found is not None:
        capture = next((mode for mode in reversed(current_modes()) if isinstance(mode, Capture)), None)
        if capture is not None:
            _marks.found.append(list(capture.calls))


class _StageModule(mt.nn.Module):
    """A part of a model: runs a program with the parameters and buffers of the model, which keep their names."""

    def __init__(self, program: Any, model: Any, constants: Mapping[str, Any]) -> None:
        super().__init__()
        object.__setattr__(self, "program", program)
        self._places: dict[str, tuple[str, str]] = {}
        fixed = [name for name in program.tensors if program.kinds[name] == "constant"]
        self._constants = {name: constants.get(name, program.tensors[name]) for name in fixed}
        names = {name: name for name in program.held if program.kinds[name] != "constant"} | dict(program.tied)
        order = [name for members in (model.named_parameters, model.named_buffers) for name, _ in members(remove_duplicate=False)]
        for name in filter(names.__contains__, order):
            own = names[name]
            path, _, leaf = name.rpartition(".")
            owner = model.get_submodule(path)
            holder = self._holder(path)
            if leaf in owner._parameters:
                holder.register_parameter(leaf, owner._parameters[leaf])
            else:
                holder.register_buffer(leaf, owner._buffers[leaf], persistent=leaf not in owner._non_persistent_buffers_set)
            if name == own:
                self._places[name] = path, leaf

    def _holder(self, path: str) -> Any:
        module: Any = self
        for name in filter(None, path.split(".")):
            if name not in module._modules:
                module.add_module(name, mt.nn.Module())
            module = module._modules[name]
        return module

    def tensor(self, name: str) -> Any:
        """Return a parameter or buffer by its name in the model."""
        path, leaf = self._places[name]
        return getattr(self.get_submodule(path), leaf)

    def copy_parameter(self, name: str) -> None:
        """Replace a parameter by a copy, under all of its names."""
        old = self.tensor(name)
        made = mt.nn.Parameter(old.detach().clone(), requires_grad=old.requires_grad)
        for module in self.modules():
            for leaf, parameter in module._parameters.items():
                if parameter is old:
                    module.register_parameter(leaf, made)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        program = self.program
        program.tensors = self._constants | {name: self.tensor(name) for name in self._places}
        result = program(*args, **kwargs)
        for effect in program.effects:
            path, leaf = self._places[effect.name]
            setattr(self.get_submodule(path), leaf, program.tensors[effect.name])
        program.tensors = {}
        return result

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._constants = {name: fn(tensor) for name, tensor in self._constants.items()}
        return super()._apply(fn, recurse)

    def extra_repr(self) -> str:
        return f"{len(self.program)} calls"


@dataclass
class PipeInfo:
    """What the stages of a `Pipe` know about each other."""

    num_stages: int
    shared: Mapping[str, tuple[int, ...]]
    """The parameters that several stages use, with these stages."""


class _PipelineStage(_PipelineStageBase):
    """A stage of a `Pipe`. The shapes of all messages are known from the traced program."""

    def __init__(self, stage_module: Any, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None) -> None:
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group)
        self.shared = pipe_info.shared
        self._module = stage_module
        program = stage_module.program
        inputs = [] if stage_index == 0 else [_spec(value) for value in program.arguments[0]]
        outputs = [] if stage_index == pipe_info.num_stages - 1 else [_spec(value) for value in program.output]
        self._static = {"inputs": inputs, "outputs": outputs}
        if self.device.type == "meta" or not any(one.is_meta for one in (*stage_module.parameters(), *stage_module.buffers())):
            stage_module.to(self.device)

    def parameter(self, name: str) -> Any:
        return self._module.tensor(name)


def _spec(value: Any) -> TensorSpec:
    return TensorSpec(tuple(value.shape), str(value.dtype).rpartition(".")[2], value.requires_grad)


class Pipe(mt.nn.Module):
    """The stages of a traced model. Created by `pipeline`. A call runs them all, one after the other.

    Attributes
    ----------
    num_stages : int
        Number of stages.
    program : Program
        The program of the whole model.
    """

    def __init__(self, model: Any, program: Any, starts: list[int], originals: Mapping[int, Any]) -> None:
        super().__init__()
        object.__setattr__(self, "program", program)
        parts = import_module("metatensor.program").chain(program, starts)
        self.num_stages = len(parts)
        constants = {name: originals[id(tensor)] for name, tensor in program.tensors.items() if id(tensor) in originals}
        self.shared: dict[str, tuple[int, ...]] = {}
        for name in program.parameters:
            where = tuple(i for i, part in enumerate(parts) if name in part.held)
            if len(where) > 1:
                self.shared[name] = where
        self._built: set[int] = set()
        for i, part in enumerate(parts):
            self.add_module(f"submod_{i}", _StageModule(part, model, constants))

    def get_stage_module(self, stage_idx: int) -> Any:
        """Return the module of a stage. Its parameters are those of the model, with their names. Raise ValueError if it does not exist."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Pipe.get_stage_module: there are stages 0 to {self.num_stages - 1}, got {stage_idx}")
        return getattr(self, f"submod_{stage_idx}")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages."""
        result = self.submod_0(*args, **kwargs)
        for i in range(1, self.num_stages):
            result = self.get_stage_module(i)(*result)
        return result

    def info(self) -> PipeInfo:
        """Return what `build_stage` needs."""
        return PipeInfo(self.num_stages, self.shared)

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> _PipelineStage:
        """Return a stage for schedules. Its module is moved to the device, unless it has parameters on meta.

        If it shares a parameter with a stage that has been built before, it gets a copy.

        Parameters
        ----------
        stage_index : int
            The number of the stage.
        device : device
            Where it computes.
        group : ProcessGroup, optional
            The ranks of the pipeline. Default: all.
        """
        module = self.get_stage_module(stage_index)
        for name, where in self.shared.items():
            if stage_index in where and self._built & {*where} - {stage_index}:
                module.copy_parameter(name)
        self._built.add(stage_index)
        return build_stage(module, stage_index, self.info(), device, group)

    def print_readable(self) -> None:
        """Print the programs of the stages."""
        for i in range(self.num_stages):
            print(f"stage {i}\n{self.get_stage_module(i).program}")

    def __repr__(self) -> str:
        calls = [len(self.get_stage_module(i).program) for i in range(self.num_stages)]
        return f"<Pipe of {self.program.name}, {self.num_stages} stages of {calls} calls>"

    __str__ = __repr__


def build_stage(stage_module: Any, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None) -> _PipelineStage:
    """Return a stage for schedules from the module of a `Pipe`, which may have been changed, and ``pipe.info()``."""
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)


def pipeline(
    module: Any, mb_args: tuple[Any, ...], mb_kwargs: dict[str, Any] | None = None, split_spec: Mapping[str, SplitPoint] | None = None,
    split_policy: Callable[[Any], Any] | None = None,
) -> Pipe:  # fmt: skip
    """Trace a model and divide it into stages.

    The model is traced on meta (see `metatensor.program.trace`), without computing anything. Stages begin where `split_spec` or
    `split_policy` says, and where the model calls `pipe_split`. Each stage sends the next one everything that this or a later stage
    needs. A program is fixed: each microbatch has the shapes of the example, and dropout and batch norm run in
    the mode (training or evaluation) that the model is in now.

    A parameter that several stages use, such as a tied embedding, is in each of them. Schedules sum its gradients at the end of a step,
    so that optimizers keep the copies equal.

    Parameters
    ----------
    module : Module
        The model. The stages have its parameters and buffers, on any device.
    mb_args, mb_kwargs
        Example arguments for one microbatch. Their values do not matter.
    split_spec : mapping of SplitPoint, optional
        Names of submodules, and whether a stage begins before or after them.
    split_policy : callable, optional
        A function of the `Program` that returns the indices of the calls with which stages begin, such as that of `balanced_stages`.

    Returns
    -------
    Pipe
        The stages.

    Raises
    ------
    AttributeError
        If the model has no submodule of a name.
    ValueError
        If both `split_spec` and `split_policy` are given, a submodule is not called, or a call writes in place to a tensor of an
        earlier stage.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed import pipelining
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.ReLU(), mt.nn.Linear(16, 4))
    >>> pipe = pipelining.pipeline(model, (mt.empty(2, 8, device="meta"),), split_spec={"2": pipelining.SplitPoint.BEGINNING})
    >>> [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]
    [['0.weight', '0.bias'], ['2.weight', '2.bias']]
    """
    if not isinstance(module, mt.nn.Module):
        raise TypeError(f"pipeline: expected a Module, got {type(module).__name__}")
    if not isinstance(mb_args, (tuple, list)):
        raise TypeError(f"pipeline: mb_args must be a tuple of the positional arguments of a microbatch, got {type(mb_args).__name__}")
    if split_spec is not None and split_policy is not None:
        raise ValueError("pipeline: give one of split_spec and split_policy")
    for name in split_spec or ():
        module.get_submodule(name)
    meta_copies = import_module("metatensor.deferred.meta_copies")
    converter = meta_copies.MetaConverter()
    copied, args, kwargs = meta_copies.converted((module, tuple(mb_args), dict(mb_kwargs or {})), converter)
    before, _marks.found = _marks.found, []
    try:
        with import_module("metatensor.program.restoring").restoring(), mt.device("meta"):
            program = import_module("metatensor.program").trace(copied, *args, **kwargs)
        marked = _marks.found
    finally:
        _marks.found = before
    starts = {_after(program, calls) for calls in marked or ()}
    starts |= set(_specified(program, split_spec) if split_spec else ())
    if split_policy is not None:
        starts |= set(split_policy(program))
    originals = {id(made): tensor for made, tensor in converter._made.values()}
    return Pipe(module, program, sorted(starts - {0, len(program.calls)}), originals)


def _after(program: Any, calls: list[Any]) -> int:
    """Return the index after the last of the given calls that is still in the program, or 0."""
    earlier = {id(call) for call in calls}
    return max((i + 1 for i, call in enumerate(program.calls) if id(call) in earlier), default=0)


def _specified(program: Any, spec: Mapping[str, SplitPoint]) -> list[int]:
    module_calls = import_module("metatensor.program.passes.splitting").module_calls
    found = []
    for name, point in spec.items():
        if not isinstance(point, SplitPoint):
            raise TypeError(f"pipeline: split_spec[{name!r}] must be a SplitPoint, got {type(point).__name__}")
        inside = module_calls(program, name)
        found.append(inside[0] if point is SplitPoint.BEGINNING else inside[-1] + 1)
    return found
