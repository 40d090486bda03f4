"""Observe one run of a model: the cost and module of every operator, and the peak of memory.

`RunObserver` is a dispatch mode with a memory tracker and hooks on all modules. It does not extend the lifetime of any
tensor, so the peak is that of an unobserved run.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any, NamedTuple

from metatensor._core.memory import MemoryTracker
from metatensor._core.modes import DispatchMode
from metatensor._core.source_locations import is_ours
from metatensor.analysis.describe import describe
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.report import Gap, Peak
from metatensor.nn._hooks import register_module_forward_hook, register_module_forward_pre_hook
from metatensor.rules.flops import FREE, UNCOUNTED, classify

__all__ = ["Failure", "Progress", "RunObserver", "failure_of"]

Progress = Callable[[int, int, str], None]
"""Called as ``progress(done, modules, path)`` after each call of a module."""


class Failure(NamedTuple):
    """An operator that raised, the module in which it ran, and its inputs.

    It is attached to the exception; see `failure_of`.
    """

    op: str
    inputs: Any
    path: str


def failure_of(error: BaseException) -> Failure | None:
    """Return the operator that raised ``error`` in an observed run, or None."""
    return getattr(error, "_metatensor_failure", None)


class RunObserver(DispatchMode):
    """Context manager that observes one run of the model inventoried by ``inventory``. Use it once, in one thread.

    Afterwards `flops_by_path`, `flops_by_op`, `uncounted`, `calls`, `outputs`, `ops` and `peak` hold the results.
    """

    def __init__(self, inventory: Inventory, progress: Progress | None = None) -> None:
        self.inventory = inventory
        self.progress = progress
        self.flops_by_path: Counter[str] = Counter()
        self.flops_by_op: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.outputs: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        self.ops = 0
        self._gaps: dict[str, Counter[str]] = defaultdict(Counter)
        self._memory = MemoryTracker()
        self._highest = 0
        self._at_peak: tuple[str | None, str | None, str | None] = (None, None, None)
        self._stack: list[tuple[int, str]] = [(0, "")]
        self._known: dict[Any, tuple[str, str, Callable[..., int] | None]] = {}
        self._thread = threading.get_ident()
        self._start: FrameType | None = None
        self._exits = ExitStack()

    # The run ------------------------------------------------------------------

    def __enter__(self) -> RunObserver:
        self._start = sys._getframe(1)
        self._exits.enter_context(register_module_forward_pre_hook(self._before))
        self._exits.enter_context(register_module_forward_hook(self._after, always_call=True))
        self._exits.enter_context(self._memory)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._start = None
        self._highest = max(self._highest, self._memory.peak)
        super().__exit__(*error)
        self._exits.close()

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run one operator and record its cost."""
        try:
            out = op(*args, **kwargs)
        except Exception as error:
            if failure_of(error) is None:
                failure = Failure(op.name, describe([*args, *kwargs.values()]), self._stack[-1][1])
                with suppress(AttributeError):  # an exception may have slots
                    error._metatensor_failure = failure  # type: ignore[attr-defined]
            raise
        self.ops += 1
        known = self._known.get(op)
        if known is None:
            known = self._known[op] = (op.functional.name, *classify(op.functional))
        name, kind, rule = known
        if rule is not None:
            if "out" in kwargs:
                kwargs = {name: value for name, value in kwargs.items() if name != "out"}
            count = rule(out, *args, **kwargs)
            self.flops_by_path[self._stack[-1][1]] += count
            self.flops_by_op[name] += count
        elif kind == UNCOUNTED:
            self.uncounted[name] += 1
        elif kind != FREE:
            self._gaps[name][self._stack[-1][1]] += 1
        # The tracker knows the peak, but not the operator.
        if self._memory.peak > self._highest:
            self._highest = self._memory.peak
            self._at_peak = (op.name, self._stack[-1][1], self._line(sys._getframe(1)))
        return out

    def _before(self, module: Any, args: tuple) -> None:
        if threading.get_ident() != self._thread:
            return
        path = self._path(module)
        self._stack.append((id(module), path))
        self.inputs[path] = args and describe(args)

    def _after(self, module: Any, args: tuple, output: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        while len(self._stack) > 1:  # entries above this module remain after exceptions
            identity, path = self._stack.pop()
            if identity == id(module):
                self.calls[path] += 1
                self.outputs[path] = describe(output)
                if self.progress is not None:
                    self.progress(sum(self.calls.values()), len(self.inventory.rows), path)
                break

    def _path(self, module: Any) -> str:
        """Return the path under which ``module`` is called.

        If it is not part of the model, return its caller's path.
        """
        above = self._stack[-1][1]
        paths = self.inventory.paths.get(id(module))
        if paths is None:
            return above
        if len(paths) > 1:
            inside = f"{above}." if above else ""
            for path in paths:
                if path.startswith(inside):
                    return path
        return paths[0]

    # Results --------------------------------------------------------------------

    @property
    def gaps(self) -> list[Gap]:
        """Operators without a FLOP rule."""
        return [Gap(name, sum(paths.values()), tuple(paths)) for name, paths in self._gaps.items()]

    @property
    def peak(self) -> Peak:
        """The greatest number of bytes alive at once, and where it was reached."""
        return Peak(self._highest, *self._at_peak)

    def flops(self) -> dict[str, int]:
        """Return the FLOPs per path, including submodules."""
        totals: Counter[str] = Counter()
        for path, count in self.flops_by_path.items():
            totals[path] += count
            while path:
                path = path.rpartition(".")[0]
                totals[path] += count
        return totals

    def _line(self, frame: FrameType | None) -> str | None:
        """Return the innermost line outside metatensor since the run began, or the innermost line if there is none."""
        inside = None
        while frame is not None and frame is not self._start:
            if not is_ours(frame):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            if inside is None:
                inside = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return inside
