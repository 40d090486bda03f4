"""`fit`: find the largest batch that fits into a device's memory, and changes that make a given batch fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import metatensor as mt
from metatensor._core.nested import map_tensors, tensors_in
from metatensor.analysis.fit_changes import alternatives, combined, described
from metatensor.analysis.fit_report import FitChange, FitReport, FitSetting, FitTrial
from metatensor.analysis.fit_runs import Arguments, Runs
from metatensor.analysis.fit_search import Search, divisors
from metatensor.analysis.functions import as_module
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.report import EXCLUDED
from metatensor.analysis.sizes import parse_bytes
from metatensor.analysis.step_time import EXCLUDED as TIME_EXCLUDED
from metatensor.analysis.utilization import batch_of
from metatensor.devices.profiles import DeviceProfile, device_profile

__all__ = ["KEPT", "fit", "limit_of", "resized", "run_fit"]

KEPT = ("sequence", "precision", "recompute", "accumulation", "optimizer", "foreach")
"""What `fit` may change besides the batch, as ``keep`` names it."""

FIELDS = ("sequence", "precision", "recompute", "optimizer", "foreach")
"""Fields of a setting that changes may affect, besides the batch and its division into micro-batches."""
NEARLY = 1.05
"""Combinations of changes are listed if they save more than a twentieth of the time."""


def fit(
    model: Any, /, *inputs: Any, device: Any = None, max_memory: int | str | None = None, training: bool = False,
    batch: int | None = None, sequence: int | None = None, loss: Callable[[Any], Any] | None = None, optimizer: Any = "adamw",
    precision: str | None = None, recompute: str = "none", foreach: bool = False, grad_accumulation: int = 1,
    keep: Collection[str] = (), precisions: Sequence[str] | None = None, recomputes: Sequence[str] | None = None,
    optimizers: Sequence[Any] | None = None, **kwargs: Any,
) -> FitReport:
    """Find the largest batch that fits into a device's memory, and changes that make the requested batch fit.

    Each figure is an estimate of a run on meta, by `estimate` or `estimate_training`. The largest batch is found by
    bisection: it fits, and the next larger batch does not. If the requested batch does not fit, the search tries other
    precisions, recomputation, micro-batches, optimizers and shorter sequences. Combinations of changes are tried, unless a
    part of the combination is already enough.

    Parameters
    ----------
    model : nn.Module or callable
        The model, on meta. With ``training``, a module in its training mode.
    *inputs, **kwargs
        Arguments of the model, on meta, for one micro-batch. The first size of the first tensor is the batch. Other tensors
        with the same first size change with it. Or one function with the parameters ``batch`` and, if there is one,
        ``sequence``, which returns the argument, a tuple of arguments, or a dict of keyword arguments.
    device : str, path or DeviceProfile, optional
        The device, as `device_profile` takes it, for the limit and for predicted times.
    max_memory : int or str, optional
        The available memory, in bytes or as a text such as "70GB". Default: that of the device.
    training : bool
        Whether a training step runs instead of a forward pass. Default False.
    batch : int, optional
        The requested samples of a micro-batch. Default: the batch of the inputs, or 1 with a function.
    sequence : int, optional
        The requested length of a sample, for a function that takes it.
    loss, optimizer, precision, recompute, foreach, grad_accumulation
        The requested training step, as for `estimate_training`. Without training, only ``precision`` has an effect: "bf16" or
        "fp16" convert weights and inputs.
    keep : collection of str
        The settings that must not change: "sequence", "precision", "recompute", "accumulation", "optimizer", "foreach".
    precisions, recomputes, optimizers : sequence, optional
        What to try instead of the requested settings. Default: settings that usually need less memory.

    Returns
    -------
    FitReport
        True if the requested setting fits.

    Raises
    ------
    ValueError
        If there is no limit, an argument has an invalid value, or the model is not on meta.
    Exception
        Any exception that the model raises with the requested setting.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model, x = mt.nn.Linear(100, 100, bias=False), mt.empty(10_000, 100)
    >>> report = mt.analysis.fit(model, x, training=True, optimizer="sgd", max_memory="4MB")
    >>> bool(report), report.largest.setting.batch, [change.changes for change in report.changes][0]
    (False, 4899, ('4 micro-batches of 2,500',))
    """
    arguments, wanted = _arguments(inputs, kwargs, batch, sequence)
    profile = None if device is None else device_profile(device)
    limit, source = limit_of(profile, parse_bytes(max_memory) if isinstance(max_memory, str) else max_memory)
    unknown = [name for name in keep if name not in KEPT]
    if unknown:
        raise ValueError(f"fit: keep {unknown[0]!r} is unknown; choose from {', '.join(KEPT)}")
    if grad_accumulation < 1:
        raise ValueError(f"fit: grad_accumulation must be at least 1, got {grad_accumulation}")
    requested = FitSetting(wanted, sequence, precision, recompute, grad_accumulation, optimizer, foreach)
    tried = {"precision": precisions, "recompute": recomputes, "optimizer": optimizers}
    return run_fit(model, arguments, requested, limit, source, profile, training, loss, keep, tried)


def run_fit(
    model: Any, arguments: Arguments, requested: FitSetting, limit: int, limit_of: str, profile: DeviceProfile | None = None,
    training: bool = False, loss: Any = None, keep: Collection[str] = (), tried: Mapping[str, Sequence[Any] | None] | None = None,
    progress: Callable[[FitSetting], None] | None = None,
) -> FitReport:
    """Run `fit` with a function that returns the model's arguments. ``progress`` is called before each estimate."""
    if training:
        model = as_module(model)
    if isinstance(model, mt.nn.Module):
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_meta:
                raise ValueError(f"fit: {name} is on {tensor.device}; use a copy on meta")
    if requested.precision is not None and not isinstance(model, mt.nn.Module):
        raise ValueError(f"fit: precision needs a module, got {type(model).__name__}")
    options, remarks = alternatives(model, requested, profile, training, keep, tried or {})
    runs = Runs(model, arguments, loss, training, limit, profile)
    first, times = runs.trial(requested)  # raises what the model raises
    search = Search(runs.bytes, limit, progress)
    ends = search.greatest(lambda size: replace(requested, batch=size), requested.batch)
    changes: list[FitChange] = []
    if not first.fits:
        found = _necessary(requested, _smaller(search, requested, options, "accumulation" in keep))
        changes = _cheapest(model, requested, [trial for setting in found if (trial := runs.known(setting)) is not None], training)
    remarks = [*(remarks if not first.fits else []), *search.remarks()]
    if profile is None:
        remarks.append("times are unknown, because no device is given")
    else:
        remarks += [*times, f"time leaves out: {', '.join(TIME_EXCLUDED)}"]
    largest, above = (trial if trial is None or trial.bytes is None else runs.known(trial.setting) for trial in ends)
    return FitReport(Inventory(model).rows[0].kind, training, limit, limit_of, None if profile is None else profile.name, first, largest,
                     above, changes, remarks, EXCLUDED, runs.estimates)  # fmt: skip


def _smaller(search: Search, requested: FitSetting, options: Mapping[str, Sequence[Any]], whole_only: bool) -> list[FitSetting]:
    """Return settings that fit, with as few micro-batches as possible.

    A combination of changes is left out if a part of it makes the requested micro-batch fit.
    """
    found: list[FitSetting] = []
    enough: list[set[tuple[str, Any]]] = []
    for changes in combined(options):
        if any(part < set(changes) for part in enough):
            continue
        setting = replace(requested, **dict(changes))
        if search.fits(setting):
            found.append(setting)
            enough.append(set(changes))
        elif not whole_only:
            split = _split(search, setting)
            found += [split] if split is not None else []
    if "sequence" in options and requested.sequence is not None:
        trial, _ = search.greatest(lambda size: replace(requested, sequence=size), requested.sequence)
        found += [trial.setting] if trial is not None else []
    return found


def _split(search: Search, setting: FitSetting) -> FitSetting | None:
    """Return the setting with the fewest equal micro-batches that fit, for the same samples, or None."""
    counts = [n for n in divisors(setting.samples) if n > setting.grad_accumulation]
    settings = [replace(setting, batch=setting.samples // n, grad_accumulation=n) for n in counts]
    if settings and settings[-1].batch == 1 and search.trial(settings[-1]).bytes is None:  # batch normalization needs two samples
        settings.pop()
    if not settings or not search.fits(settings[-1]):
        return None
    low, high = -1, len(settings) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.fits(settings[middle]) else (middle, high)
    return settings[high]


def _necessary(requested: FitSetting, settings: Sequence[FitSetting]) -> list[FitSetting]:
    """Drop settings that change more than another setting, but need as many micro-batches.

    Changes of precision are kept, because they save time too.
    """

    def part(a: FitSetting, b: FitSetting) -> bool:
        same = all(getattr(a, name) in (getattr(requested, name), getattr(b, name)) for name in ("recompute", "optimizer", "foreach"))
        return a != b and same and (a.precision, a.sequence) == (b.precision, b.sequence) and a.grad_accumulation <= b.grad_accumulation

    return [setting for setting in settings if not any(part(other, setting) for other in settings)]


def _cheapest(model: Any, requested: FitSetting, trials: Sequence[FitTrial], training: bool) -> list[FitChange]:
    """Return the changes of the trials, the cheapest first, without combinations that are no better than a cheaper change."""
    rows = [FitChange(*described(model, requested, trial.setting, training), trial) for trial in trials if trial.fits]

    def pointless(row: FitChange, other: FitChange) -> bool:
        """Return whether another change loses no more and is as fast, within `NEARLY`.

        If times are unknown, `other` must be a part of `row`.
        """
        if row is other or len(row.changes) < 2 or not set(other.lost) <= set(row.lost):
            return False
        mine, its = row.trial.seconds, other.trial.seconds
        if mine is not None and its is not None:
            return its <= mine * NEARLY and (set(other.lost) < set(row.lost) or its < mine or len(other.changes) < len(row.changes))
        a, b = other.trial.setting, row.trial.setting
        part = all(getattr(a, name) in (getattr(requested, name), getattr(b, name)) for name in FIELDS)
        return part and a.grad_accumulation <= b.grad_accumulation

    rows = [row for row in rows if not any(pointless(row, other) for other in rows)]
    unknown = float("inf")

    def price(row: FitChange) -> tuple[float, ...]:
        seconds = row.trial.seconds_per_sample
        return row.rank, unknown if seconds is None else seconds, len(row.changes), row.trial.bytes or 0

    return sorted(rows, key=price)


def limit_of(profile: DeviceProfile | None, max_memory: int | None, option: str = "max_memory") -> tuple[int, str]:
    """Return the available memory in bytes, and what sets it. Raise ValueError, with the name of the option, if it is unknown."""
    if max_memory is not None:
        if max_memory < 1:
            raise ValueError(f"fit: {option} must be at least 1 byte, got {max_memory}")
        return max_memory, option
    memory = None if profile is None else profile.visible_memory or profile.memory
    if profile is None or memory is None:
        what = "there is no device" if profile is None else f"the memory of {profile.name} is unknown"
        raise ValueError(f"fit: {what}; give the memory in {option}")
    return memory, f"the memory of {profile.name}"


def _arguments(inputs: tuple, kwargs: dict[str, Any], batch: int | None, sequence: int | None) -> tuple[Arguments, int]:
    """Return the function for the model's arguments, and the requested batch."""
    for name, value in (("batch", batch), ("sequence", sequence)):
        if value is not None and value < 1:
            raise ValueError(f"fit: {name} must be at least 1, got {value}")
    first = inputs[0] if len(inputs) == 1 else None
    if first is None or not callable(first) or isinstance(first, (mt.Tensor, mt.nn.Module)):
        if sequence is not None:
            raise ValueError("fit: sequence needs inputs that are a function of batch and sequence")
        found = batch_of((inputs, kwargs))
        if not found:
            raise ValueError("fit: no input has a batch; its first tensor with dimensions must have at least one sample")
        return resized(inputs, kwargs, found), batch or found
    takes = "sequence" in inspect.signature(first).parameters
    if takes != (sequence is not None):
        raise ValueError("fit: the function of the inputs takes a sequence; give one" if takes else "fit: the function of the inputs "
                         "takes no sequence")  # fmt: skip

    def made(size: int, length: int | None) -> tuple[tuple, dict[str, Any]]:
        with mt.device("meta"):
            result = first(batch=size, sequence=length) if takes else first(batch=size)
        if isinstance(result, Mapping):
            return (), {**kwargs, **result}
        return tuple(result) if isinstance(result, (tuple, list)) else (result,), kwargs

    return made, batch or 1


def resized(args: tuple, kwargs: dict[str, Any], batch: int) -> Arguments:
    """Return a function that changes the first size of tensors in which it is ``batch``."""
    for t in tensors_in((args, kwargs)):
        if not t.is_meta:
            raise ValueError(f"fit: an input is on {t.device}; use one on meta")

    def made(size: int, _: int | None) -> tuple[tuple, dict[str, Any]]:
        def one(t: Any) -> Any:
            if size == batch or t.dim() == 0 or t.shape[0] != batch:
                return t
            return mt.empty((size, *t.shape[1:]), dtype=t.dtype, device="meta", requires_grad=t.requires_grad)

        return map_tensors(one, (args, kwargs))

    return made
