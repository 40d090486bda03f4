"""The estimates that `fit` runs: only the memory that a setting needs, or a complete estimate with the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from metatensor.analysis.estimate import estimate
from metatensor.analysis.fit_report import FitSetting, FitTrial
from metatensor.analysis.precision import precision_named
from metatensor.analysis.step_memory import StepMemory, step_memory
from metatensor.analysis.step_time import StepTime, time_of
from metatensor.analysis.training import estimate_training
from metatensor.devices.profiles import DeviceProfile
from metatensor.rules.policies import policy, policy_for

__all__ = ["Arguments", "Runs"]

Arguments = Callable[[int, int | None], tuple[tuple, dict[str, Any]]]
"""A function that returns the arguments of the model for a batch and a sequence length."""


class Runs:
    """Runs estimates of one model, which was built once, with different settings.

    Parameters
    ----------
    model : nn.Module or callable
        The model, on meta.
    arguments : callable
        Returns the arguments of the model for a batch and a sequence length.
    loss : callable or None
        The loss, as for `estimate_training`.
    training : bool
        Whether a training step runs.
    limit : int
        The available memory, in bytes.
    profile : DeviceProfile or None
        The device for which times are predicted. Without one, there are no times.
    """

    def __init__(
        self, model: Any, arguments: Arguments, loss: Any, training: bool, limit: int, profile: DeviceProfile | None
    ) -> None:
        self.model, self.arguments, self.loss, self.training, self.limit, self.profile = model, arguments, loss, training, limit, profile
        self.policy = policy_for(None, profile)  # estimates of memory use the kernels that `estimate_training` uses for this device
        self.estimates = 0
        self._passes: dict[FitSetting, StepMemory] = {}
        self._optimizers: dict[tuple[Any, ...], StepMemory] = {}

    def bytes(self, setting: FitSetting) -> int:
        """Return the peak memory of a setting in bytes.

        The optimizer's memory depends neither on the batch nor on recomputation, so it is measured once for each precision.
        """
        if not self.training:
            return self._forward(setting, False)[0]
        passes = replace(setting, optimizer=None, foreach=False)
        optimizer = (setting.precision, setting.optimizer, setting.foreach)
        if passes not in self._passes or optimizer not in self._optimizers:
            self.estimates += 1
            args, kwargs = self.arguments(setting.batch, setting.sequence)
            with policy(self.policy):
                found = step_memory(self.model, args, kwargs, **self._options(setting))
            self._passes[passes], self._optimizers[optimizer] = found, found
        return self._passes[passes].with_optimizer(self._optimizers[optimizer]).total_bytes

    def trial(self, setting: FitSetting) -> tuple[FitTrial, list[str]]:
        """Estimate a setting and return its trial, with its time if there is a device, and remarks on the time."""
        if self.training:
            self.estimates += 1
            args, kwargs = self.arguments(setting.batch, setting.sequence)
            report = estimate_training(self.model, *args, device=self.profile, **self._options(setting), **kwargs)
            size, time, passes = report.total_bytes, report.time, 1
        else:
            (size, time), passes = self._forward(setting, self.profile is not None), setting.grad_accumulation
        seconds = None if time is None or time.seconds is None else time.seconds * passes
        return FitTrial(setting, size, seconds, size <= self.limit), [] if time is None else time.remarks

    def known(self, setting: FitSetting) -> FitTrial | None:
        """Return the trial of a setting, or None if the model does not run with it."""
        try:
            return self.trial(setting)[0]
        except Exception:
            return None

    def _forward(self, setting: FitSetting, timed: bool) -> tuple[int, StepTime | None]:
        """Return the peak memory of a forward pass in bytes, and if ``timed``, its time."""
        self.estimates += 1
        way = precision_named(setting.precision)
        args, kwargs = self.arguments(setting.batch, setting.sequence)
        with way.applied(self.model) as converted, way.forward():
            args, kwargs = converted((args, kwargs))
            with policy(self.policy):
                size = estimate(self.model, *args, **kwargs).total_bytes
            return size, time_of(self.model, *args, device=self.profile, **kwargs) if timed else None

    def _options(self, setting: FitSetting) -> dict[str, Any]:
        return {"loss": self.loss, "optimizer": setting.optimizer, "precision": setting.precision, "recompute": setting.recompute,
                "foreach": setting.foreach, "grad_accumulation": setting.grad_accumulation}  # fmt: skip
