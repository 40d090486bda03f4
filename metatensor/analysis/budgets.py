"""`within_budget`: limit the memory, the FLOPs and the parameters of the code in a ``with`` block."""

from __future__ import annotations

from collections import Counter
from typing import Any

from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.describe import relative
from metatensor.analysis.profiling import Profile, _Run
from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count
from metatensor.nn._referenced import referenced_modules

__all__ = ["BudgetExceededError", "within_budget"]

ROWS = 3


class BudgetExceededError(AssertionError):
    """The code in a `within_budget` block exceeded a limit. The message names the largest contributions, and where they were made.

    Attributes
    ----------
    budget : within_budget
        The block.
    """

    def __init__(self, message: str, budget: within_budget) -> None:
        super().__init__(message)
        self.budget = budget


class within_budget:
    """Context manager that raises `BudgetExceededError` at its end if the code inside exceeded a limit.

    The figures are those of this thread. If the code raises an exception, no limit is tested.

    Parameters
    ----------
    memory : int or str, optional
        Largest peak of the memory of tensors, in bytes or as text such as "2GB": of those that the code creates, and of
        the parameters and buffers of the modules that it calls.
    flops : int or str, optional
        Largest number of floating-point operations, such as "4.1G". A multiply-add is two.
    parameters : int or str, optional
        Largest number of elements of the parameters of the modules that the code calls, such as "30M".
    objects : object
        Modules, or a dict of objects with modules among them, that count even if the code does not call them.

    Attributes
    ----------
    peak_bytes, total_flops, total_parameters : int
        The figures of the code, after the block.
    profile : Profile
        What was in memory, after the block.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"), mt.analysis.within_budget(memory="1MB", flops="2M") as budget:
    ...     y = mt.nn.Linear(128, 64)(mt.empty(100, 128))
    >>> budget.total_flops, budget.peak_bytes  # the layer, its input and its output
    (1638400, 109824)
    """

    profile: Profile
    peak_bytes: int
    total_flops: int
    total_parameters: int

    def __init__(
        self, *, memory: int | str | None = None, flops: int | str | None = None, parameters: int | str | None = None, objects: Any = None
    ) -> None:
        self.memory = _limit("memory", memory)
        self.flops = _limit("flops", flops)
        self.parameters = _limit("parameters", parameters)
        values = list(objects.values()) if isinstance(objects, dict) else [objects]
        self._values = values

    def __enter__(self) -> within_budget:
        self._run = _Run(None, (), {})
        for _, module in referenced_modules(None, tuple(self._values)):
            self._run.met.meet(module)
        self._calls = CallRecorder()
        self._run.__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._calls.__exit__(kind, error, traceback)
        self._run.__exit__(kind, error, traceback)
        self.profile = Profile(self._run, None)
        self.peak_bytes = self.profile.peak
        self.total_flops = sum(call.flops for call in self._calls.calls)
        self.total_parameters = sum(p.numel() for p in self._run._parameters())
        lines = self._exceeded() if kind is None else []
        del self._run, self._calls, self._values
        if lines:
            raise BudgetExceededError("\n".join(lines), self)

    def _exceeded(self) -> list[str]:
        """Return the lines of the message."""
        lines = []
        if self.memory is not None and self.peak_bytes > self.memory:
            lines.append(f"the peak of memory, {bytes_text(self.peak_bytes)}, is over the budget of {bytes_text(self.memory)}")
            operator, module, line = self.profile.peak_place
            if operator:
                lines.append(f"  reached in {operator}" + (f" of {module}" if module else "") + (f" at {relative(line)}" if line else ""))
            for by in ("category", "operator", "line"):
                rows = [(relative(key) if by == "line" and key else key, value) for key, value in self.profile.at_peak(by).items()]
                lines.append(f"  alive then, by {by}: {_most([(key or '(none)', bytes_text(value)) for key, value in rows])}")
        if self.flops is not None and self.total_flops > self.flops:
            lines.append(f"{count_text(self.total_flops)} FLOPs are over the budget of {count_text(self.flops)}")
            by_op: Counter[str] = Counter()
            for call in self._calls.calls:
                by_op[call.op] += call.flops
            lines.append(f"  by operator: {_most([(name, count_text(count)) for name, count in by_op.most_common() if count])}")
        if self.parameters is not None and self.total_parameters > self.parameters:
            lines.append(f"{count_text(self.total_parameters)} parameters are over the budget of {count_text(self.parameters)}")
            sizes = []
            for module in self._run.modules:
                own = sum(p.numel() for p in module._parameters.values() if p is not None)
                path = self._run.paths[self._run.met.number(module)]
                sizes.append((own, f"{path} ({type(module).__name__})"))
            sizes.sort(key=lambda row: -row[0])
            lines.append(f"  by module: {_most([(name, count_text(own)) for own, name in sizes if own])}")
        return lines


def _limit(name: str, value: Any) -> int | None:
    """Return a limit as an integer. Raise TypeError or SizeError, with its name, if it is invalid."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected an integer or a text such as '2G', got {type(value).__name__}")
    try:
        return parse_bytes(value) if name == "memory" else parse_count(value, "flops" if name == "flops" else "")
    except SizeError as error:
        raise SizeError(f"{name}: {error}") from None


def _most(rows: list[tuple[str, str]]) -> str:
    shown = ", ".join(f"{name} {size}" for name, size in rows[:ROWS])
    return shown + (f" and {len(rows) - ROWS} more" if len(rows) > ROWS else "")
