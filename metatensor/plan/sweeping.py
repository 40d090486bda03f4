"""Sweeps: searches whose candidates run on any executor, and whose results are kept in a file.

A search is divided into parts that share no measured block: one for each tensor degree, placement of the sequence and precision, and for
each micro-batch, context and expert degree that is asked for. Each part is a search of its own, which any process can run. The
best of all parts are the best of the search.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import hashlib
import inspect
import itertools
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.tensor import Tensor
from metatensor._version import __version__
from metatensor.nn.modules.module import Module
from metatensor.plan.candidates import KEEP, divisors
from metatensor.plan.layouts import Layout, Rejected
from metatensor.plan.nearest import topology_of
from metatensor.plan.rates import rates_of
from metatensor.plan.sweep_file import SweepFile

__all__ = ["Case", "Progress", "WorkerError", "saved_plans", "sweep"]

AXES = ("precision", "tensor", "context", "expert", "sequence", "micro_batches")
"""The options that divide a search into parts."""
FREE = ("price",)
"""Options that change no result of a part."""
_kept = threading.local()
"""The model that this thread of a worker made last, and the digest of its case."""


class WorkerError(RuntimeError):
    """Raised if a process of an executor has ended before its result."""


@dataclass
class Case:
    """One search of a sweep.

    Parameters
    ----------
    make : callable
        Returns the model, a tuple of inputs and a dict of named inputs, as `search` takes them. On an executor of other processes it is
        pickled; each worker calls it once.
    settings : dict
        The other arguments of `search`: ``devices``, ``global_batch``, and so on.
    labels : dict
        What distinguishes the case from others, such as ``{"sequence": 4096}``. It is shown.
    """

    make: Callable[[], tuple[Any, tuple, dict[str, Any]]]
    settings: dict[str, Any]
    labels: dict[str, Any] = field(default_factory=dict)


class Progress:
    """Writes how far a sweep is to a stream: on one line of a terminal, else a line from time to time.

    Parameters
    ----------
    stream : file, optional
        Default: stderr.
    """

    def __init__(self, stream: Any = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.start = self.shown = time.monotonic()
        self.state = ""
        """What was done at the last call."""
        self.terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.width = 0

    def __call__(self, parts: int, all_parts: int, candidates: int) -> None:
        """Show a state: parts that are done, all parts, and candidates that were costed here."""
        now = time.monotonic()
        last = parts == all_parts
        self.state = f"{parts} of {all_parts} parts"
        if not last and now - self.shown < (0.2 if self.terminal else 10.0):
            return
        self.shown = now
        rate = candidates / max(now - self.start, 1e-3) * 60
        text = f"{parts} of {all_parts} parts, {candidates:,} candidates" + (f", {rate:,.0f} a minute" if candidates else "")
        if self.terminal:
            self.stream.write("\r" + text.ljust(self.width) + ("\n" if last else ""))
            self.width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()


class _Given:
    """Returns a model and inputs that exist already."""

    def __init__(self, model: Any, inputs: tuple, kwargs: dict[str, Any]) -> None:
        self.model, self.inputs, self.kwargs = model, inputs, kwargs

    def __call__(self) -> tuple[Any, tuple, dict[str, Any]]:
        return self.model, self.inputs, self.kwargs


def given(model: Any, inputs: tuple, kwargs: dict[str, Any], settings: dict[str, Any]) -> Case:
    """Return the case of a search."""
    return Case(_Given(model, inputs, kwargs), settings)


def sweep(
    cases: Iterable[Case], *, executor: Any = None, file: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> list[Any]:  # fmt: skip
    """Search layouts for several models, sequences, batches or devices, on an executor.

    Parameters
    ----------
    cases : iterable of Case
        The searches.
    executor : str or Executor, optional
        What runs them: a name such as ``"process"``, ``"process:2"``, ``"dask:ADDRESS"``, ``"ray:ADDRESS"`` or ``"mpi"``, see
        `metatensor.utils.executors`, or an object with ``submit``. Default: this process.
    file : str or path, optional
        An SQLite file that keeps the results. Those that it already holds are not computed again, so an interrupted sweep continues.
        Results of a model whose source, parameters or inputs have changed are not used. A file can hold any number of sweeps.
    progress : callable, optional
        Function of the number of parts that are done, of all parts, and of candidates that were costed in this call, such as `Progress`.

    Returns
    -------
    list of TrainingPlan
        The plans, in the order of the cases.

    Raises
    ------
    ValueError
        If a case is invalid, or cannot be sent to other processes.
    SweepError
        If the file does not hold a sweep, or cannot be written.
    WorkerError
        If a process of the executor has ended, for instance for lack of memory. What is done is in the file. This also holds if a
        part raises another error.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.plan.sweeping import Case, sweep
    >>> def make():
    ...     with mt.device("meta"):
    ...         layers = [mt.nn.TransformerEncoderLayer(64, 4, dropout=0.0, batch_first=True) for _ in range(2)]
    ...         return mt.nn.Sequential(*layers), (mt.empty(1, 32, 64),), {}
    >>> cases = [Case(make, {"devices": devices, "global_batch": 16, "recompute": ["none"]}) for devices in ("2xH100", "4xH100")]
    >>> [plan.best.degrees.devices for plan in sweep(cases)]
    [2, 4]
    """
    cases = list(cases)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(SweepFile(file)) if file is not None else None
        works = [_Work(case, store) for case in cases]
        todo = [(work, part) for work in works for part in work.missing]
        total, done, candidates = sum(len(work.parts) for work in works), sum(len(work.parts) - len(work.missing) for work in works), 0
        if executor is not None and todo:
            own = isinstance(executor, str)
            if own:
                from metatensor.utils.executors import open_executor

                executor = stack.enter_context(open_executor(executor))
            if not callable(getattr(executor, "submit", None)):
                raise TypeError(f"sweep: executor must be a name such as 'process', or have a method submit, got {executor!r}")
            results = _submitted(executor, todo, own)
        else:
            results = ((work, part, None if work.is_done(part) else work.run(part)) for work, part in todo)
        if progress is not None:
            progress(done, total, 0)
        try:
            for work, part, found in results:
                done += 1
                if found is not None:  # else another process has done it in the meantime
                    work.add(part, *found)
                    candidates += len(found[0]) + len(found[1])
                if progress is not None:
                    progress(done, total, candidates)
        except BrokenExecutor as error:
            kept = f"{done} of {total} parts are kept in {file}, and the same sweep continues from there" if file is not None else \
                "a sweep with a file would keep what is done"
            raise WorkerError("sweep: a process that costs layouts has ended; it may have been killed, or lacked memory "
                              f"({kept})") from error  # fmt: skip
        return [work.plan() for work in works]


def _submitted(executor: Any, todo: Sequence[tuple[_Work, dict[str, Any]]], own: bool) -> Iterator[tuple[_Work, dict[str, Any], Any]]:
    """Run parts on an executor, and yield their results as they come.

    If one fails, those that do not run yet are cancelled, and the results of the others are yielded before the error is raised. Whoever
    opened the executor ends its processes after an interrupt; if that is the sweep, ``own`` is true.
    """
    futures: dict[Future[Any], tuple[_Work, dict[str, Any]]] = {}
    failed: Exception | None = None
    try:
        for work, part in todo:
            futures[executor.submit(_run, work.message, work.digest, part)] = work, part
        left = set(futures)
        while left:
            ready, left = wait(left, return_when=FIRST_COMPLETED)
            for future in ready:
                try:
                    found = future.result()
                except Exception as error:
                    failed = failed or error
                else:
                    yield (*futures[future], found)
            if failed is not None:
                left = {future for future in left if not future.cancel()}
        if failed is not None:
            raise failed
    except KeyboardInterrupt:
        if not own:
            _cancel(futures)
        raise
    except BaseException:
        _cancel(futures)
        raise


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def _run(message: bytes, digest: str, part: dict[str, Any]) -> tuple[list[Layout], list[Rejected], list[str]]:
    """Search a part. Workers run this."""
    if getattr(_kept, "digest", None) != digest:
        make, settings = pickle.loads(message)
        _kept.digest, _kept.made, _kept.settings = digest, make(), settings
    return _searched(_kept.made, {**_kept.settings, **part})


def _searched(made: tuple[Any, tuple, dict[str, Any]], settings: dict[str, Any]) -> tuple[list[Layout], list[Rejected], list[str]]:
    from metatensor.plan.searching import search

    model, inputs, kwargs = made
    plan = search(model, *inputs, **settings, **kwargs)
    return plan.layouts, [Rejected(one.degrees, one.limit, one.by) for one in plan.rejected], plan.remarks


class _Work:
    """A case with its parts and the results so far."""

    def __init__(self, case: Case, store: SweepFile | None) -> None:
        self.case, self.store = case, store
        settings = case.settings
        _check_settings(settings)
        self.made = case.make()
        self.topology, _ = topology_of(settings["devices"])
        self.layouts: list[Layout] = []
        self.rejected: list[Rejected] = []
        self.remarks: list[str] = []
        # An empty search checks the options, so that mistakes are found before anything is sent.
        from metatensor.plan.searching import search

        model, inputs, kwargs = self.made
        self.empty = search(model, *inputs, **{**settings, "tensor": [self.topology.size + 1]}, **kwargs)
        self.parts = list(parts_of(settings, self.topology, self.empty.reach))
        done: set[str] = set()
        if store is not None:
            described = {"parts": len(self.parts), "model": self.empty.model, "labels": case.labels,
                         "devices": str(settings["devices"]), "global_batch": settings["global_batch"],
                         "precision": self.empty.precision, "memory": self.empty.memory,
                         "power": self.topology.device.power, "price": settings.get("price", self.topology.device.price)}  # fmt: skip
            self.number = store.case(fingerprint(self.made, settings, self.topology), described)
            done = store.done(self.number)
        self.missing = [part for part in self.parts if json.dumps(part) not in done]
        self._message: bytes | None = None

    @property
    def message(self) -> bytes:
        """The model and the settings for other processes."""
        if self._message is None:
            try:
                self._message = pickle.dumps((self.case.make, self.case.settings))
                pickle.loads(self._message)
            except Exception as error:
                raise ValueError(
                    f"sweep: {self.empty.model} cannot be sent to other processes ({type(error).__name__}: {str(error)[:200]}); define its "
                    "classes, the loss and functions of the inputs at the top level of a module, or leave out the executor"
                ) from error
        return self._message

    @property
    def digest(self) -> str:
        """What distinguishes the message from others."""
        return hashlib.sha256(self.message).hexdigest()

    def is_done(self, part: dict[str, Any]) -> bool:
        """Return whether the file has the results of a part by now."""
        return self.store is not None and json.dumps(part) in self.store.done(self.number)

    def run(self, part: dict[str, Any]) -> tuple[list[Layout], list[Rejected], list[str]]:
        """Search a part in this process."""
        return _searched(self.made, {**self.case.settings, **part})

    def add(self, part: dict[str, Any], layouts: list[Layout], rejected: list[Rejected], remarks: list[str]) -> None:
        """Add the results of a part."""
        if self.store is not None:
            self.store.add(self.number, json.dumps(part), layouts, rejected, remarks)
        else:
            self.layouts += layouts
            self.rejected += rejected
            self.remarks += [one for one in remarks if one not in self.remarks]

    def plan(self) -> Any:
        """Return the plan of all parts."""
        rates = rates_of(self.topology.device, self.case.settings.get("price"))
        if self.store is not None:
            self.layouts, self.rejected, self.remarks = self.store.results(self.number, rates)
        self.empty.reason = None
        if not self.layouts and not self.rejected:  # nothing is costed in such a search
            from metatensor.plan.searching import search

            model, inputs, kwargs = self.made
            self.empty.reason = search(model, *inputs, **self.case.settings, **kwargs).reason
        return joined(self.empty, self.layouts, self.rejected, self.remarks, self.case.settings.get("keep", KEEP))


def _check_settings(settings: dict[str, Any]) -> None:
    """Raise ValueError unless the settings of a case are arguments of a search."""
    from metatensor.plan.searching import SETTINGS

    for name in settings:
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SETTINGS)}"
            raise ValueError(f"sweep: a case has the unknown setting {name!r}; {hint}")
    for name in ("devices", "global_batch"):
        if name not in settings:
            raise ValueError(f"sweep: the settings of a case lack {name!r}")


def joined(plan: Any, layouts: list[Layout], rejected: list[Rejected], remarks: list[str], keep: int | None) -> Any:
    """Return a plan with the results of parts: the ``keep`` fastest layouts, and those for which no other is both faster and smaller."""
    by_degrees = {layout.degrees: layout for layout in layouts}
    plan.layouts, least = [], None
    for layout in sorted(by_degrees.values(), key=lambda one: (one.seconds, one.peak)):
        front = least is None or layout.peak < least
        if front:
            least = layout.peak
        if front or keep is None or len(plan.layouts) < keep:
            plan.layouts.append(layout)
    others = {(one.degrees, one.limit): one for one in rejected}
    plan.rejected = sorted(others.values(), key=lambda one: (one.by is None, one.by or 0))
    plan.remarks = remarks
    return plan


def parts_of(settings: dict[str, Any], where: Any, reach: int) -> Iterator[dict[str, Any]]:
    """Yield the options of the parts of a search. ``reach`` is the largest degree of tensor parallelism that is tried by default.

    A part tries all micro-batches if none are asked for, since how large they may be depends on the memory of the blocks.
    """
    precision = settings.get("precision", "bf16-master")
    values = {
        "precision": [precision] if isinstance(precision, str) else list(precision),
        "tensor": settings.get("tensor") or divisors(min(reach, where.size)),
        "context": settings.get("context") or (None,), "expert": settings.get("expert") or (None,),
        "sequence": settings.get("sequence", (False, True)), "micro_batches": settings.get("micro_batches") or (None,),
    }  # fmt: skip
    for chosen in itertools.product(*(values[name] for name in AXES)):
        precision, tensor, context, expert, sequence, micro = chosen
        if where.size % (tensor * (context or 1)) or sequence and tensor == 1 or settings["global_batch"] % (micro or 1):
            continue
        part = {"precision": precision, "tensor": [tensor], "sequence": [sequence]}
        part |= {"micro_batches": [micro]} if micro is not None else {}
        part |= {"context": [context]} if context is not None else {}
        yield part | ({"expert": [expert]} if expert is not None else {})


def fingerprint(made: tuple[Any, tuple, dict[str, Any]], settings: dict[str, Any], where: Any) -> str:
    """Return a digest of what results depend on: model, source and attributes of its modules, inputs, settings, devices, version."""
    model, inputs, kwargs = made
    found = hashlib.sha256()

    def add(value: Any) -> None:
        found.update(json.dumps(value, sort_keys=True, default=_text).encode())
        found.update(b"\0")

    modules = list(model.modules()) if isinstance(model, Module) else []
    own = vars(Module()).keys()
    add([_settings({name: value for name, value in vars(module).items() if name not in own}) for module in modules])
    add([__version__, repr(model), [(name, list(p.shape), str(p.dtype), p.requires_grad) for name, p in model.named_parameters()]])
    for kind in sorted({type(module) for module in modules}, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}"):
        add(_text(kind))
    made_by_function = len(inputs) == 1 and callable(inputs[0]) and not hasattr(inputs[0], "shape")
    arguments = inputs[0](1) if made_by_function else (inputs, kwargs)
    add(_settings(arguments))
    irrelevant = ("power", "price", "figures", "aliases", "note")
    profile = {name: value for name, value in where.device.to_dict().items() if name not in irrelevant}
    add({name: _settings(value) for name, value in settings.items() if name not in ("devices", *FREE)})
    add([str(where), profile, {**where.to_dict(), "figures": None}])
    return found.hexdigest()


def _settings(value: Any, depth: int = 4) -> Any:
    """Return what distinguishes a value of an argument or an attribute, as JSON types and what `_text` takes."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        return [list(value.shape), str(value.dtype)]
    if isinstance(value, functools.partial):
        return [_text(value.func), _settings((value.args, value.keywords), depth)]
    if isinstance(value, (list, tuple)):
        return [_settings(one, depth) for one in value]
    if isinstance(value, dict):
        return {str(name): _settings(one, depth) for name, one in value.items()}
    if isinstance(value, (DType, Device)) or callable(value) and not isinstance(value, Module):
        return _text(value)
    inside = vars(value) if depth and hasattr(value, "__dict__") and not isinstance(value, Module) else {}
    return [type(value).__qualname__, _settings(inside, depth - 1)]


def _text(value: Any) -> str:
    """Return a text for a value that JSON lacks: a name, with the source where there is one."""
    if callable(value):
        try:
            source = inspect.getsource(value)
        except (OSError, TypeError):
            source = ""
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}\n{source}"
    return f"{type(value).__qualname__} {value}"


def saved_plans(file: str | os.PathLike[str]) -> list[tuple[dict[str, Any], Any]]:
    """Return the descriptions and the plans of all cases in a file, with all layouts that were costed.

    A plan of a case that is not finished has a remark on it.

    Raises
    ------
    SweepError
        If the file does not exist or does not hold a sweep.
    """
    from metatensor.plan.rates import Rates
    from metatensor.plan.searching import TrainingPlan

    found = []
    with SweepFile(file, create=False) as store:
        for number, about in store.cases():
            results = store.results(number, Rates(about["power"], about["price"]))
            plan = TrainingPlan(about["model"], about["devices"], about["memory"], about["global_batch"], about["precision"], [], [])
            joined(plan, *results, keep=None)
            done, parts = len(store.done(number)), about.get("parts")
            if isinstance(parts, int) and done < parts:
                plan.unfinished = f"{done} of {parts} parts"
                plan.remarks.append(f"the sweep is not finished: {plan.unfinished} are in the file")
            found.append((about, plan))
    return found
