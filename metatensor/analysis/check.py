"""`check`: test whether a model runs and stays within budgets, and locate the failure if not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from metatensor._core.source_locations import location_of
from metatensor._core.units import bytes_text, count_text, seconds_text
from metatensor.analysis.assumptions import assuming
from metatensor.analysis.describe import describe, relative, spec_text
from metatensor.analysis.estimate import at_inference, has_lazy, report_of
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.observation import Progress, RunObserver, failure_of
from metatensor.analysis.report import Report
from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count, parse_seconds
from metatensor.analysis.step_time import StepTime, time_of
from metatensor.analysis.training import TrainingReport, estimate_training
from metatensor.devices.profiles import DeviceProfile, device_profile

OPTIONS = ("recompute=", "there is no optimizer", "estimate_training: ", "precision ")
"""How messages about invalid options of a training step begin."""

STEP_OPTIONS = ("loss", "optimizer", "precision", "recompute", "foreach", "grad_accumulation", "convention")

__all__ = ["Budgets", "CheckResult", "Overrun", "build_failure", "check", "run_check"]


class Budgets(NamedTuple):
    """The greatest figures that pass, in the order of `CheckResult.figures`. None is no limit."""

    parameters: int | None = None
    bytes: int | None = None
    flops: int | None = None
    seconds: float | None = None


NO_BUDGETS = Budgets()


@dataclass(frozen=True)
class Overrun:
    """A budget that the model exceeds. ``name`` is "parameters", "bytes", "flops" or "seconds"."""

    name: str
    limit: int | float
    actual: int | float
    what: str = "budget"
    """What sets the limit: the budget, the memory of a device, or a baseline."""

    def __str__(self) -> str:
        if self.name == "seconds":
            return f"{seconds_text(self.actual)} are over the {self.what} of {seconds_text(self.limit)}"
        text = bytes_text if self.name == "bytes" else count_text
        actual, limit = int(self.actual), int(self.limit)
        return f"{actual:,} {self.name} ({text(actual)}) are over the {self.what} of {limit:,} ({text(limit)})"


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
    training: TrainingReport | None = None
    """The estimate of a training step, if one was requested and the model ran."""
    time: StepTime | None = None
    """The predicted time, if a device was given and the model ran."""
    problems: list[str] = field(default_factory=list)
    """Reasons why a budget cannot be checked."""

    @property
    def ok(self) -> bool:
        """True if the model ran and is within all budgets."""
        return self.error is None and not self.overruns and not self.problems

    def figures(self) -> dict[str, int | float | None]:
        """Return the figures that budgets limit: parameters, bytes, flops, and seconds if a device was given. Empty after an error.

        None is an unknown time.
        """
        found: dict[str, int | float | None] = {}
        if self.training is not None:
            count = self.training.trainable_parameters + self.training.frozen_parameters
            found = {"parameters": count, "bytes": self.training.total_bytes, "flops": self.training.flops}
        elif self.report is not None:
            found = {"parameters": self.report.parameters, "bytes": self.report.total_bytes, "flops": self.report.flops}
        if found and self.time is not None:
            found["seconds"] = self.time.seconds
        return found

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
        figures: dict[str, Any] = self.figures()
        if figures:
            figures["flops_gaps"] = self._gaps()
        if self.time is not None:
            figures["device"] = self.time.device
        return {
            "ok": self.ok,
            "model": self.model,
            "error": error,
            "over_budget": [dict(vars(overrun)) for overrun in self.overruns],
            "problems": self.problems,
            **figures,
        }

    def __str__(self) -> str:
        if self.error is not None:
            return "\n".join([f"{self.model}: failed", *(f"  {name}: {text}" for name, text in self.lines())])
        state = "ok" if self.ok else "over budget" if self.overruns else "cannot be checked"
        head = f"{self.model}: {state}"
        figures = self.figures()
        if figures:
            step = "one training step, " if self.training is not None else ""
            head += (f": {step}{figures['parameters']:,} parameters, {bytes_text(int(figures['bytes'] or 0))}, "
                     f"{count_text(int(figures['flops'] or 0))} FLOPs")  # fmt: skip
        if self.time is not None:
            seconds = self.time.seconds
            head += f", {'an unknown time' if seconds is None else seconds_text(seconds)} on {self.time.device}"
        return "\n".join([head, *(f"  {text}" for text in (*self.overruns, *self.problems, *self.warnings()))])

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
        return [f"no FLOP rule for {gap['op']}, called {gap['calls']} times: its FLOPs are missing" for gap in self._gaps()]

    def _gaps(self) -> list[dict[str, Any]]:
        if self.training is not None:
            return self.training.flops_gaps
        return [] if self.report is None else [gap.to_dict() for gap in self.report.gaps]


def check(
    model: Any,
    /,
    *inputs: Any,
    max_params: int | str | None = None,
    max_bytes: int | str | None = None,
    max_flops: int | str | None = None,
    max_step_time: float | str | None = None,
    device: Any = None,
    training: bool = False,
    **kwargs: Any,
) -> CheckResult:
    """Run ``model(*inputs, **kwargs)`` as `estimate` does and report whether it works and stays within budgets.

    An `Exception` that the model raises is not propagated but described by the result.

    Parameters
    ----------
    model : nn.Module or callable
        The model, usually on meta.
    *inputs, **kwargs
        Arguments of the model. With ``training``, the options of `estimate_training` may be among them.
    max_params : int or str, optional
        Largest number of parameters, such as ``8_000_000_000`` or "8B".
    max_bytes : int or str, optional
        Largest number of bytes of parameters, buffers, inputs and peak activations together, such as "10GB".
    max_flops : int or str, optional
        Largest number of FLOPs, such as "2T".
    max_step_time : float or str, optional
        Longest predicted time, in seconds or as a text such as "200ms". It needs a device.
    device : str, path or DeviceProfile, optional
        A device, as `device_profile` takes it. Its memory is a budget too.
    training : bool
        Whether to run a training step, as `estimate_training` does, instead of a forward pass. The model then runs in its
        current mode. Default False.

    Returns
    -------
    CheckResult
        True if the model ran and no budget is exceeded.

    Raises
    ------
    ValueError
        If a budget, the device or an option of the training step is invalid.

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
    if max_step_time is not None and device is None:
        raise ValueError("check: max_step_time needs a device")
    budgets = Budgets(
        _limit("max_params", max_params, parse_count),
        _limit("max_bytes", max_bytes, parse_bytes),
        _limit("max_flops", max_flops, functools.partial(parse_count, unit="flops")),
        max_step_time if isinstance(max_step_time, float) else _limit("max_step_time", max_step_time, parse_seconds),
    )
    profile = None if device is None else device_profile(device)
    options = {name: kwargs.pop(name) for name in STEP_OPTIONS if name in kwargs} if training else None
    return run_check(model, inputs, kwargs, budgets, device=profile, training=options)


def _limit(name: str, value: Any, parse: Callable[[str], Any]) -> Any:
    """Return a budget as a number, or None. Raise TypeError or SizeError, with its name, if it is invalid."""
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
    budgets: Budgets = NO_BUDGETS,
    progress: Progress | None = None,
    device: DeviceProfile | None = None,
    training: dict[str, Any] | None = None,
    convention: str = "torch",
) -> CheckResult:
    """Run `check` with its arguments in a tuple and a dict.

    ``progress`` is called after each module. ``training`` holds options of `estimate_training`; None runs a forward pass.
    Invalid options of a training step raise ValueError.
    """
    if training is None:
        result = _forward(model, args, kwargs, progress)
        if device is not None and result.error is None:
            result.time = time_of(model, *args, device=device, convention=convention, **kwargs)
    else:
        result = _step(model, args, kwargs, {"convention": convention, **training, "device": device})
    compare(result, budgets, device)
    return result


def _forward(model: Any, args: tuple, kwargs: dict[str, Any], progress: Progress | None = None) -> CheckResult:
    for _ in range(1 + has_lazy(model)):  # the first run gives lazy modules their shapes
        inventory = Inventory(model)
        observer = RunObserver(inventory, progress)
        result = CheckResult(inventory.rows[0].kind)
        try:
            with assuming(None) as assumed, at_inference(model, args, kwargs), observer:
                output = describe(model(*args, **kwargs))
        except (Exception, SystemExit) as error:
            _explain(result, error, inventory, observer)
            return result
    result.report = report_of(inventory, observer, args, kwargs, output)
    result.report.assumptions = assumed()
    return result


def _step(model: Any, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]) -> CheckResult:
    try:
        report = estimate_training(model, *args, **options, **kwargs)
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and str(error).startswith(OPTIONS):
            raise
        forward = _forward(model, args, kwargs)
        if type(forward.error) is type(error):  # the forward pass alone fails too, and shows in which module
            return forward
        return CheckResult(type(model).__name__, error, location=location_of(error.__traceback__))
    return CheckResult(report.model, training=report, time=report.time)


def compare(result: CheckResult, budgets: Budgets, device: DeviceProfile | None) -> None:
    """Record which budgets the figures exceed, and which cannot be checked."""
    figures = result.figures()
    if not figures:
        return
    for name, limit in budgets._asdict().items():
        actual = figures.get(name)
        if limit is not None and actual is not None and actual > limit:
            result.overruns.append(Overrun(name, limit, actual))
        elif limit is not None and actual is None:
            result.problems.append(f"the time on {device.name if device else 'no device'} is unknown, so its budget cannot be checked")
    memory = None if device is None else device.visible_memory or device.memory
    if device is not None and memory is not None and (figures["bytes"] or 0) > memory:
        result.overruns.append(Overrun("bytes", memory, figures["bytes"] or 0, f"memory of {device.name}"))


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
