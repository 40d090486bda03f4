"""What a model keeps between decode steps, found by running its own code on meta.

Nothing is assumed about the architecture. The state is whatever survives a call of the model: the fields of its output that
its forward takes again, and what its modules hold. So keys and values of any grouping, latent vectors, sliding windows and
recurrent states are all found in the same way, and their sizes are what the model's own code allocates.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.memory import MemoryLog, MemoryTracker
from metatensor._core.nested import tensors_in
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.estimate import at_inference
from metatensor.nn.modules.module import Module

__all__ = ["Arguments", "Decoder", "StateTensor", "state_tensors", "token_ids"]

Arguments = Callable[[int, int], tuple[tuple, dict[str, Any]]]
"""A function that returns the arguments of the model for a batch and a number of tokens of each sequence."""

PATIENCE = 1.0
"""Seconds that one run may take. States of longer sequences are extrapolated."""


def token_ids(batch: int, tokens: int) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments of a model whose only input is token ids, ``int64[batch, tokens]``."""
    return (mt.empty(batch, tokens, dtype=mt.int64, device="meta"),), {}


class StateTensor(NamedTuple):
    """A tensor that the model keeps between steps."""

    name: str
    """Its path in the state, such as ``"past_key_values.layers.0.keys"``."""
    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    """Bytes of its storage, 0 if an earlier tensor has the same storage."""


@dataclass
class _State:
    """The state after a call: fields of the output by name, to be passed to the next call."""

    fed: dict[str, Any]


class Decoder:
    """Runs a model as an inference server does: a prompt, then steps that use what the model kept.

    Parameters
    ----------
    model : nn.Module or callable
        The model, on meta.
    arguments : callable
        Returns the arguments for a batch and a number of tokens. Default: `token_ids`.
    feed : callable, optional
        Function of the output that returns the keyword arguments of the next call. By default these are the fields of the
        output that have the name of a parameter of forward, such as ``past_key_values``.
    """

    def __init__(self, model: Any, arguments: Arguments | None = None, feed: Callable[[Any], dict[str, Any]] | None = None) -> None:
        self.model, self.arguments, self.feed = model, arguments or token_ids, feed
        function = model.forward if isinstance(model, Module) else model
        self.parameters = set(inspect.signature(function).parameters)
        self.seconds: dict[int, float] = {}
        """Seconds that the longest run on this machine took, by number of tokens."""

    @contextmanager
    def _inference(self) -> Iterator[None]:
        with at_inference(self.model, *self.arguments(1, 1)):
            yield

    def _call(self, batch: int, tokens: int, state: _State | None) -> _State:
        """Run the model on ``tokens`` further tokens of each sequence, and return the new state. The output is dropped."""
        args, kwargs = self.arguments(batch, tokens)
        if "use_cache" in self.parameters:
            kwargs.setdefault("use_cache", True)
        start = time.thread_time()  # what else runs on the machine must not change figures
        output = self.model(*args, **kwargs, **({} if state is None else state.fed))
        self.seconds[tokens] = max(self.seconds.get(tokens, 0.0), time.thread_time() - start)
        if self.feed is not None:
            return _State(self.feed(output))
        return _State({name: value for name, value in _fields(output) if name in self.parameters and value is not None})

    def state_bytes(self, batch: int, tokens: int) -> int:
        """Return the bytes that are kept after a decode step at whose end each sequence has ``tokens`` tokens."""
        memory = MemoryTracker()
        with self._inference(), memory:
            state = self._reached(batch, tokens)
            kept = memory.current
            del state
        return kept

    def _reached(self, batch: int, tokens: int) -> _State:
        if tokens < 1 or batch < 1:
            raise ValueError(f"plan: a sequence has at least one token, and a batch one sequence; got {tokens} and {batch}")
        if tokens == 1:
            return self._call(batch, 1, None)
        return self._call(batch, 1, self._call(batch, tokens - 1, None))

    def tensors(self, batch: int, tokens: int) -> list[StateTensor]:
        """Return the tensors of the state after such a step. What the modules themselves keep is not among them."""
        with self._inference():
            return state_tensors(self._reached(batch, tokens).fed)

    def working_peak(self, batch: int, before: int, tokens: int) -> int:
        """Return the peak bytes of the temporary tensors of a step, which adds ``tokens`` tokens to ``before`` earlier ones.

        Tensors of the earlier state that the step replaces are not counted.
        """
        with self._inference():
            state = self._call(batch, before, None) if before else None
            with MemoryLog() as log:
                state = self._call(batch, tokens, state)
                events = log.events()
            del state
        dying = {event.storage for event in events if event.kind == "death"}
        now = peak = 0
        for event in events:
            if event.storage in dying:
                now += event.change
                peak = max(peak, now)
        return peak

    def waiting(self, batch: int, before: int, tokens: int) -> float:
        """Return the seconds in which a step of ``tokens`` tokens after ``before`` others waits for other devices."""
        return 0.0

    def by_module(self, batch: int, tokens: int) -> dict[str, int]:
        """Return the bytes of the state after a decode step, by the path of the module that made them."""
        with self._inference(), _Makers(self.model) as makers:
            state = self._reached(batch, tokens)
        found: dict[str, int] = {}
        for storage in {tensor.untyped_storage() for _, tensor in _walk(state.fed, "", set())}:
            path = makers.of.get(storage, "")
            found[path] = found.get(path, 0) + storage.nbytes()
        return found

    def calls(self, batch: int, before: int, tokens: int, dtype: Any = None) -> list[Call]:
        """Return the calls of a step that adds ``tokens`` tokens to ``before`` earlier ones.

        Where a tensor of the state grows by concatenation, only the new part is charged, as a server writes it in place. If ``dtype`` is
        given, such tensors are charged as if they were stored in it.
        """
        with self._inference():
            state = self._call(batch, before, None) if before else None
            with _Growth(self.model) as recorder:
                state = self._call(batch, tokens, state)
            kept = {tensor.untyped_storage() for _, tensor in _walk(state.fed, "", set())}
        calls = recorder.calls
        for i, (storage, added) in recorder.joined.items():
            if storage in kept:
                calls[i] = calls[i]._replace(read=added, written=added)
        for i, storage, itemsize in recorder.reads if dtype is not None else ():
            if storage in kept and calls[i].launches:
                nbytes = min(storage.nbytes(), calls[i].read)
                calls[i] = calls[i]._replace(read=calls[i].read - nbytes + nbytes // itemsize * dtype.itemsize)
        return calls


class _Makers(CallRecorder):
    """Records which module made each storage."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.of: dict[Any, str] = {}

    def _run(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        for t in tensors_in(out):
            self.of.setdefault(t.untyped_storage(), self._stack[-1])
        return out


class _Growth(CallRecorder):
    """Records calls, the results of concatenations with the bytes of all parts but the largest, and which calls read them."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.joined: dict[int, tuple[Any, int]] = {}
        self.reads: list[tuple[int, Any, int]] = []
        self._results: set[Any] = set()

    def _run(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        if op.name == "cat":
            tensors = list(map(local_part, tensors_in(args[0] if args else kwargs["tensors"])))
            sizes = [t.numel() * t.element_size() for t in tensors]
            storage = local_part(out).untyped_storage()
            self.joined[len(self.calls)] = storage, sum(sizes) - max(sizes)
            if out.is_floating_point():
                self._results.add(storage)
            return out
        for t in map(local_part, tensors_in((args, kwargs))):
            if t.untyped_storage() in self._results:
                self.reads.append((len(self.calls), t.untyped_storage(), t.element_size()))
        return out


def _fields(output: Any) -> list[tuple[str, Any]]:
    """Return the named fields of an output: entries of a dict, fields of a named tuple, attributes of an object."""
    if isinstance(output, dict):
        return [(str(name), value) for name, value in output.items()]
    if hasattr(output, "_fields"):
        return list(zip(output._fields, output, strict=True))
    if isinstance(output, (mt.Tensor, list, tuple)):
        return []
    return list(getattr(output, "__dict__", {}).items())


def state_tensors(state: Any) -> list[StateTensor]:
    """Return the tensors in a state with their paths. Storages count once."""
    found, seen = [], set()
    for name, t in _walk(state, "", set()):
        storage = t.untyped_storage()
        found.append(StateTensor(name, t.dtype, tuple(t.shape), 0 if storage in seen else storage.nbytes()))
        seen.add(storage)
    return found


def local_part(t: Any) -> Any:
    """Return the part of a distributed tensor on this rank, or a plain tensor itself."""
    return getattr(t, "_local_tensor", t)


def _walk(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in containers and attributes of objects, each object once."""
    if isinstance(value, mt.Tensor):
        yield path, local_part(value)
        return
    if id(value) in seen or isinstance(value, (Module, str, bytes, int, float, type)) or value is None:
        return
    seen.add(id(value))
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif hasattr(value, "__dict__"):
        items = vars(value).items()
    for name, item in items:
        yield from _walk(item, f"{path}.{name}" if path else str(name), seen)
