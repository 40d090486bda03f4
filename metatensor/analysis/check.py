"""`check`: test whether a model runs and stays within budgets, and locate the failure if not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metatensor._core.source_locations import location_of
from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.describe import describe, relative, spec_text
from metatensor.analysis.estimate import at_inference, has_lazy, report_of
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import Progress, RunObserver, failure_of
from metatensor.analysis.report import Report
from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count

__all__ = ["CheckResult", "Overrun", "build_failure", "check", "run_check"]


@dataclass(frozen=True)
class Overrun:
    """A budget that the model exceeds. ``name`` is "parameters", "bytes" or "flops"."""

    name: str
    limit: int
    actual: int

    def __str__(self) -> str:
        text = bytes_text if self.name == "bytes" else count_text
        return f"{self.actual:,} {self.name} ({text(self.actual)}) are over the budget of {self.limit:,} ({text(self.limit)})"


@dataclass
class CheckResult:
    """The result of `check`. It is true if the model passed (`ok`). Otherwise it holds the reasons.

    ``str()`` of it is a short report.
    """

    model: str
    error: BaseException | None = None
    """The exception that building or running the model raised."""
    module: str | None = None
    """The path of the module that failed: empty for the model itself, None if no module was running."""
    module_kind: str | None = None
    module_inputs: Any = None
    """The positional arguments of that module, as strings such as ``float32[1,1024,768]``."""
    op: str | None = None
    """The operator that raised, if one did."""
    op_inputs: Any = None
    location: str | None = None
    """The line of the model's code that raised, ``file:line``."""
    report: Report | None = None
    """The estimate, if the model ran."""
    overruns: list[Overrun] = field(default_factory=list)
    hint: str | None = None
    """Advice about the error, if there is any."""

    @property
    def ok(self) -> bool:
        """True if the model ran and is within all budgets."""
        return self.error is None and not self.overruns

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of JSON types."""
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
        """Return the lines of the report about the error, as (label, text) pairs."""
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
        """Return the reasons why figures are incomplete."""
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
    """Run ``model(*inputs, **kwargs)`` as `estimate` does and report whether it works and stays within budgets.

    An `Exception` that the model raises is not propagated but described by the result.

    Parameters
    ----------
    model : nn.Module or callable
        The model, usually on meta.
    *inputs, **kwargs
        Arguments of the model.
    max_params : int or str, optional
        Largest number of parameters, such as ``8_000_000_000`` or "8B".
    max_bytes : int or str, optional
        Largest number of bytes of parameters, buffers, inputs and peak activations together, such as "10GB".
    max_flops : int or str, optional
        Largest number of FLOPs of the forward, such as "2T".

    Returns
    -------
    CheckResult
        True if the model ran and no budget is exceeded.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.nn.Linear(4, 2, device="meta")
    >>> bool(mt.analysis.check(model, mt.empty(3, 4, device="meta"), max_params=10))
    True
    >>> result = mt.analysis.check(model, mt.empty(3, 5, device="meta"))
    >>> bool(result), result.op
    (False, 'nn.functional.linear')
    """
    budgets = (
        _limit("max_params", max_params, parse_count),
        _limit("max_bytes", max_bytes, parse_bytes),
        _limit("max_flops", max_flops, functools.partial(parse_count, unit="flops")),
    )
    return run_check(model, inputs, kwargs, budgets)


def _limit(name: str, value: Any, parse: Callable[[str], int]) -> int | None:
    """Return a budget as an integer, or None. Raise TypeError or SizeError, with its name, if it is invalid."""
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
    """Run `check` with its arguments in a tuple and a dict. ``progress`` is called after each module."""
    for _ in range(1 + has_lazy(model)):  # the first run gives lazy modules their shapes
        inventory = Inventory(model)
        observer = RunObserver(inventory, progress)
        result = CheckResult(inventory.rows[0].kind)
        try:
            with at_inference(model, args, kwargs), observer:
                output = describe(model(*args, **kwargs))
        except (Exception, SystemExit) as error:
            _explain(result, error, inventory, observer)
            return result
    result.report = report = report_of(inventory, observer, args, kwargs, output)
    actual = (("parameters", report.parameters), ("bytes", report.total_bytes), ("flops", report.flops))
    for (name, value), limit in zip(actual, budgets, strict=True):
        if limit is not None and value > limit:
            result.overruns.append(Overrun(name, limit, value))
    return result


def build_failure(name: str, error: BaseException) -> CheckResult:
    """Return the result for a model whose construction raised ``error``."""
    return CheckResult(name, error, location=location_of(error.__traceback__))


def _explain(result: CheckResult, error: BaseException, inventory: Inventory, observer: RunObserver) -> None:
    """Record the module, the operator and the line that raised ``error``."""
    result.error = error
    result.location = location_of(error.__traceback__)
    failure = failure_of(error)
    path = getattr(error, "module_path", None)
    if failure is not None:
        result.op, result.op_inputs = failure.op, failure.inputs
        path = failure.path
    if path is None or not inventory.paths:
        return
    row = inventory.by_path.get(path)
    result.module = str(path)
    result.module_kind = row.kind if row is not None else getattr(path, "leaf", None)
    result.module_inputs = observer.inputs.get(str(path))
