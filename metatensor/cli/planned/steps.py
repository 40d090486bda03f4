"""Recording of a script's own training loop, for ``metatensor run --device meta --profile``."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.accounting import storage_numbers
from metatensor._core.nested import tensors_in
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.profiling import Profile, _Run
from metatensor.cli.planned.mode import PlanMode
from metatensor.cli.planned.values import Values
from metatensor.nn.modules.module import register_module_forward_hook
from metatensor.optim import Optimizer
from metatensor.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["RECORDED", "Enough", "Recorded", "RecordingMode", "StepRecorder", "Update"]

RECORDED = 10
"""Steps that are recorded if the number of steps is not limited."""
HOST = ("cpu", "meta")
"""Device types whose tensors are on the host in a planned script; meta is its default device."""


class Enough(SystemExit):
    """Ends a script after the steps that were requested."""


class Update(NamedTuple):
    """The recording from the end of one call of ``optimizer.step`` to the end of the next."""

    optimizer: int
    """Identifies the optimizer; 0 at the end of the script."""
    events: int
    """The number of events in the memory log so far."""
    calls: int
    """The number of calls of operators so far."""


class Recorded(NamedTuple):
    """The recording of a script."""

    profile: Profile
    calls: list[Call]
    steps: list[list[Update]]
    """The calls of ``optimizer.step`` by step of the training loop."""
    rest: Update
    """The end of the recording."""
    optimizers: list[str]
    inputs: set[int]
    """Numbers of the storages that the script passed to models."""
    host: set[int] | None
    """Numbers of the storages on the host, None if the script moved nothing to a device."""
    host_calls: set[int]
    """Positions of calls on the host."""
    parameters: list[Any]
    cut: bool
    """Whether the script ran more steps than were recorded."""


class _Calls(CallRecorder):
    """A recorder of calls that can be switched off while other modes are above it."""

    on = True

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return super().dispatch(op, args, kwargs) if self.on else op(*args, **kwargs)


class StepRecorder:
    """Records the memory and the calls of a planned script, and finds its training steps.

    A step ends with a call of ``optimizer.step``. If a script has several optimizers, consecutive calls of different ones
    belong to one step.

    Parameters
    ----------
    limit : int, optional
        The number of steps after which the script ends. By default it runs to its end, and the first `RECORDED` are recorded.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.run = _Run(None, (), {})
        self.calls = _Calls()
        self.on = False
        self.thread = threading.get_ident()
        self.ended = self.cut = False
        self.updates: list[Update] = []
        self.starts = [0]  # positions in updates at which steps begin
        self.inputs: set[int] = set()
        self.moved: set[int] = set()
        self.host_operators: list[list[int]] = []
        self.host_calls: set[int] = set()
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._names: dict[str, None] = {}
        self._depth = 0
        self._handles: list[Any] = []
        self._parameters: list[Any] = []
        self._found: Recorded | None = None

    # Start and end ----------------------------------------------------------------------------

    def start(self, values: Values) -> PlanMode:
        """Begin, after backward passes have been replaced. Return the mode of the plan, which the caller enters."""
        self.on = True
        self.run.__enter__()
        self._handles = [
            register_module_forward_hook(self._forward, with_kwargs=True), register_optimizer_step_pre_hook(self._begin),
            register_optimizer_step_post_hook(self._end),  # after the hooks of the run
        ]  # fmt: skip
        self._passes()
        self._note_optimizers()
        self.calls.__enter__()
        return RecordingMode(values, self)

    def stop(self) -> Recorded:
        """Stop recording, unless it has stopped already, and return the recording."""
        if self._found is None:
            rest = Update(0, len(self.run.log), len(self.calls.calls))
            self.on = self.calls.on = False
            for handle in [] if self.ended else self._handles:
                handle.remove()
            self._parameters = list(self.run._parameters())
            self.run.__exit__(None, None, None)
            profile = Profile(self.run, None)
            bounds = [*self.starts, len(self.updates)]
            steps = [self.updates[a:b] for a, b in zip(bounds, bounds[1:], strict=False) if a < b]
            self._found = Recorded(profile, self.calls.calls, steps, rest, list(self._names), self.inputs, self._host(profile),
                                   self.host_calls, self._parameters, self.cut)  # fmt: skip
        return self._found

    def _host(self, profile: Profile) -> set[int] | None:
        if not self.moved:
            return None
        found, ranges, at = set(), self.host_operators, 0
        for event in profile.events:  # in the order of operators
            if event.kind != "birth":
                continue
            while at < len(ranges) and ranges[at][1] < event.operator:
                at += 1
            if at < len(ranges) and ranges[at][0] < event.operator and event.storage not in self.moved:
                found.add(event.storage)
        return found

    # Phases and steps ---------------------------------------------------------------------------

    def _passes(self) -> None:
        """Record which operators belong to backward passes."""

        def noted(function: Any) -> Any:
            @functools.wraps(function)
            def backward(*args: Any, **kwargs: Any) -> Any:
                stack, attribution = self.run.follower.outer, self.run.attribution
                depth, module = len(stack), attribution.module
                try:
                    return self._in_phase("backward", function, args, kwargs)
                finally:
                    if self.here:  # recomputation in the pass may have left modules without calling their hooks
                        del stack[depth:]
                        attribution.module = module

            return backward

        for owner, name in ((mt.Tensor, "backward"), (mt.autograd, "backward"), (mt.autograd, "grad")):
            setattr(owner, name, noted(getattr(owner, name)))

    def _in_phase(self, phase: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function. The operators that it calls belong to a phase."""
        if threading.get_ident() != self.thread:
            return function(*args, **kwargs)
        before, self.calls.phase = self.calls.phase, phase
        try:
            return function(*args, **kwargs)
        finally:
            self.calls.phase = before

    def _note_optimizers(self) -> None:
        """Record the optimizers that exist."""
        restore, known = Optimizer._restore, self._optimizers

        @functools.wraps(restore)
        def noted(optimizer: Any, attributes: dict[str, Any]) -> None:
            restore(optimizer, attributes)
            known.add(optimizer)

        setattr(Optimizer, "_restore", noted)  # noqa: B010

    def _begin(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if self.ended:  # the script has caught the exception
            raise Enough(0)
        self._depth += 1
        if self._depth > 1 or threading.get_ident() != self.thread:  # an optimizer that calls another, or a thread
            return None
        if any(update.optimizer == id(optimizer) for update in self.updates[self.starts[-1] :]):
            self.starts.append(len(self.updates))
            self._end_of_step()
        self.calls.phase = "optimizer"
        closure = args[0] if args else kwargs.get("closure")
        if not callable(closure):
            return None
        wrapped = functools.partial(self._in_phase, "forward", closure, (), {})
        return ((wrapped, *args[1:]), kwargs) if args else (args, {**kwargs, "closure": wrapped})

    def _end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth or threading.get_ident() != self.thread:
            return
        self.calls.phase = "forward"
        if not self.on:
            return
        self.updates.append(Update(id(optimizer), len(self.run.log), len(self.calls.calls)))
        self._names[type(optimizer).__name__] = None
        done = {update.optimizer for update in self.updates[self.starts[-1] :]}
        if {id(other) for other in self._optimizers} <= done:
            self.starts.append(len(self.updates))
            self._end_of_step()

    def _end_of_step(self) -> None:
        steps = len(self.starts) - 1
        if self.limit is not None and steps >= self.limit:
            self.ended = True
            self._depth = 0
            self.stop()
            raise Enough(0)
        if self.limit is None and steps >= RECORDED:
            self.cut = True
            self.stop()

    @property
    def here(self) -> bool:
        """Whether the running thread is being recorded."""
        return self.on and threading.get_ident() == self.thread

    # Tensors --------------------------------------------------------------------------------------

    def _forward(self, module: Any, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        """Record the storages passed to models."""
        if self.here and len(self.run.follower.outer) <= 1:  # that of the module itself
            self.inputs.update(filter(None, storage_numbers(list(tensors_in((args, kwargs))))))

    def operators(self) -> int:
        """Return the number of the last operator."""
        return self.run.log.first_operator + len(self.run.attribution)

    def on_host(self, first: int, calls: int) -> None:
        """Record that the operators after number `first`, and the calls from position `calls`, ran on the host."""
        last = self.operators()
        if last > first:
            if self.host_operators and self.host_operators[-1][1] == first:
                self.host_operators[-1][1] = last
            else:
                self.host_operators.append([first, last])
        self.host_calls.update(range(calls, len(self.calls.calls)))


def _needs_copy(tensor: Any, numbers: list[int]) -> bool:
    """Return whether moving a tensor must copy it, so that its memory on the device is counted.

    That is so for tensors of other threads, such as batches, and for parts of a larger tensor, such as a data set.
    """
    if tensor.requires_grad or not tensor.is_meta:
        return False
    return numbers == [0] or bool(tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size())


class RecordingMode(PlanMode):
    """A mode of the plan that also records which tensors are on the host for the script, and which on a device.

    All of them are really on meta. A tensor is on a device if the script moved it or created it there, or computed it from such a
    tensor.
    """

    def __init__(self, values: Values, recorder: StepRecorder) -> None:
        super().__init__(values)
        self.recorder = recorder

    def on_cpu(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator unchanged."""
        recorder = self.recorder
        if not recorder.here:
            return super().on_cpu(op, args, kwargs)
        first, calls = recorder.operators(), len(recorder.calls.calls)
        out = super().on_cpu(op, args, kwargs)
        recorder.on_host(first, calls)
        return out

    def run(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator on meta."""
        recorder = self.recorder
        if not recorder.here:
            return super().run(op, args, kwargs)
        first, calls = recorder.operators(), len(recorder.calls.calls)
        named = self._names_device(args, kwargs)
        numbers = storage_numbers(list(tensors_in((args, kwargs))))
        there_already = not recorder.moved.isdisjoint(numbers)
        there = named or there_already
        if named and op.name == "_to_copy" and not there_already and _needs_copy(args[0], numbers):
            out = args[0].clone()
            if args[0].dtype != kwargs.get("dtype", args[0].dtype):
                out = super().run(op, (out, *args[1:]), kwargs)
        else:
            out = super().run(op, args, kwargs)
        if there:
            recorder.moved.update(filter(None, storage_numbers(list(tensors_in(out)))))
        else:
            recorder.on_host(first, calls)
        return out

    def _names_device(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call names a device other than the host."""
        device = kwargs.get("device")
        if isinstance(device, mt.device):
            return device.type not in HOST
        for value in args:
            if isinstance(value, mt.device):
                return value.type not in HOST
        default = mt.get_default_device()
        return default.type not in HOST and not any(True for _ in tensors_in((args, kwargs)))
