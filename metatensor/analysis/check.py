"""`check`: does a model run, and does it stay within budgets? Where not, where exactly not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.where import location_of
from metatensor.analysis.census import Census
from metatensor.analysis.describe import bytes_text, count_text, describe, relative, spec_text
from metatensor.analysis.estimate import at_inference, has_lazy, report_of
from metatensor.analysis.record import Progress, Recorder, failure_of
from metatensor.analysis.report import Report
from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count

__all__ = ["CheckResult", "Overrun", "build_failure", "check", "run_check"]


@dataclass(frozen=True)
class Overrun:
    """A budget that the model is over: ``name`` is "parameters", "bytes" or "flops"."""

    name: str
    limit: int
    actual: int

    def __str__(self) -> str:
        text = bytes_text if self.name == "bytes" else count_text
        return f"{self.actual:,} {self.name} ({text(self.actual)}) are over the budget of {self.limit:,} ({text(self.limit)})"


@dataclass
class CheckResult:
    """Whether a model passed (`ok`, also its truth value), and if not why."""

    model: str
    error: BaseException | None = None
    """What building or running the model raised."""
    module: str | None = None
    """The path of the module that failed; empty for the model itself, None where it was not being run."""
    module_kind: str | None = None
    module_inputs: Any = None
    """What that module was called with, as texts such as ``float32[1,1024,768]``."""
    op: str | None = None
    """The operator that raised, where one did."""
    op_inputs: Any = None
    location: str | None = None
    """The line of the model's code that raised, ``file:line``."""
    report: Report | None = None
    """The estimate, where the model ran."""
    overruns: list[Overrun] = field(default_factory=list)
    hint: str | None = None
    """What to do about the error, where that is known."""

    @property
    def ok(self) -> bool:
        """True where the model ran and every budget held."""
        return self.error is None and not self.overruns

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        error = None
        if self.error is not None:
            error = {
                "type": type(self.error).__name__,
                "message": str(self.error),
                "module": self.module,
                "module_type": self.module_kind,
                "module_inputs": self.module_inputs,
                "op": self.op,
                "op_inputs": self.op_inputs,
                "location": self.location,
                "hint": self.hint,
            }
        figures = {}
        if self.report is not None:
            figures = {
                "parameters": self.report.parameters,
                "bytes": self.report.total_bytes,
                "flops": self.report.flops,
                "flops_gaps": [gap.to_dict() for gap in self.report.gaps],
            }
        return {
            "ok": self.ok,
            "model": self.model,
            "error": error,
            "over_budget": [dict(vars(overrun)) for overrun in self.overruns],
            **figures,
        }

    def __str__(self) -> str:
        if self.error is not None:
            return "\n".join([f"{self.model}: failed", *(f"  {name}: {text}" for name, text in self.lines())])
        head = f"{self.model}: {'ok' if self.ok else 'over budget'}"
        if self.report is not None:
            head += (
                f": {self.report.parameters:,} parameters, {bytes_text(self.report.total_bytes)}, "
                f"{count_text(self.report.flops)} FLOPs"
            )
        return "\n".join([head, *(f"  {overrun}" for overrun in self.overruns), *(f"  {text}" for text in self.warnings())])

    def lines(self) -> list[tuple[str, str]]:
        """Everything known of the error, as pairs of a label and a text."""
        lines = [("error", f"{type(self.error).__name__}: {self.error}".removesuffix(": "))]
        if self.module is not None:
            where = f"{self.module} ({self.module_kind})" if self.module else f"the model itself ({self.module_kind})"
            lines.append(("module", where))
            if self.module_inputs:
                lines.append(("called with", spec_text(self.module_inputs)))
        if self.op is not None:
            lines.append(("operator", f"{self.op}{spec_text(self.op_inputs)}"))
        if self.location is not None:
            lines.append(("at", relative(self.location)))
        if self.hint is not None:
            lines.append(("hint", self.hint))
        return lines

    def warnings(self) -> list[str]:
        """What makes the figures less than whole."""
        gaps = self.report.gaps if self.report is not None else []
        return [f"no FLOP rule for {gap.op}, called {gap.calls} times: its FLOPs are missing" for gap in gaps]


def check(
    model: Any,
    /,
    *inputs: Any,
    max_params: int | str | None = None,
    max_bytes: int | str | None = None,
    max_flops: int | str | None = None,
    **kwargs: Any,
) -> CheckResult:
    """Run ``model(*inputs, **kwargs)`` as `estimate` does, and return what came of it; no `Exception` escapes.

    Budgets are upper limits that still pass: ``max_params`` parameters, ``max_bytes`` bytes of parameters, buffers,
    inputs and activations at their peak, ``max_flops`` FLOPs of the forward. They are integers, or texts such as "8B" and
    "10GB". The result is true where all is well.
    """
    budgets = (
        _limit("max_params", max_params, parse_count),
        _limit("max_bytes", max_bytes, parse_bytes),
        _limit("max_flops", max_flops, functools.partial(parse_count, unit="flops")),
    )
    return run_check(model, inputs, kwargs, budgets)


def _limit(name: str, value: Any, parse: Callable[[str], int]) -> int | None:
    """Return a budget as an integer. TypeError or ValueError, with its name, for what is none."""
    if value is None or isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise TypeError(f"check: {name} must be an integer or a text such as '8B', got {type(value).__name__}")
    try:
        return parse(value)
    except SizeError as error:
        raise SizeError(f"check: {name}: {error}") from None


def run_check(
    model: Any,
    args: tuple,
    kwargs: dict[str, Any],
    budgets: tuple[int | None, int | None, int | None] = (None, None, None),
    progress: Progress | None = None,
) -> CheckResult:
    """`check` with the arguments in a tuple and a dict, and a callable that is told of the progress."""
    for _ in range(1 + has_lazy(model)):  # the first run gives lazy modules their shapes
        census = Census(model)
        recorder = Recorder(census, progress)
        result = CheckResult(census.rows[0].kind)
        try:
            with at_inference(model, args, kwargs), recorder:
                output = describe(model(*args, **kwargs))
        except (Exception, SystemExit) as error:
            _explain(result, error, census, recorder)
            return result
    result.report = report = report_of(census, recorder, args, kwargs, output)
    actual = (("parameters", report.parameters), ("bytes", report.total_bytes), ("flops", report.flops))
    for (name, value), limit in zip(actual, budgets, strict=True):
        if limit is not None and value > limit:
            result.overruns.append(Overrun(name, limit, value))
    return result


def build_failure(name: str, error: BaseException) -> CheckResult:
    """The result where a model could not even be built: ``error`` is what that raised."""
    return CheckResult(name, error, location=location_of(error.__traceback__))


def _explain(result: CheckResult, error: BaseException, census: Census, recorder: Recorder) -> None:
    """Where ``error`` came from."""
    result.error = error
    result.location = location_of(error.__traceback__)
    failure = failure_of(error)
    path = getattr(error, "module_path", None)
    if failure is not None:
        result.op, result.op_inputs = failure.op, failure.inputs
        path = failure.path
    if path is None or not census.paths:
        return
    row = census.by_path.get(path)
    result.module = str(path)
    result.module_kind = row.kind if row is not None else getattr(path, "leaf", None)
    result.module_inputs = recorder.inputs.get(str(path))
