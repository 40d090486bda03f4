"""The predicted time of a pass or a training step, with its throughput and utilization."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor._core.units import seconds_text
from metatensor.analysis.accuracy import Band, band
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.estimate import at_inference, has_lazy
from metatensor.analysis.flame import spans
from metatensor.analysis.timing import Timing, predict
from metatensor.analysis.utilization import CONVENTIONS, batch_of, model_flops
from metatensor.devices.profiles import DeviceProfile, device_profile

__all__ = ["EXCLUDED", "StepTime", "step_time", "time_of"]

EXCLUDED = ("loading data", "transfers from the host", "communication", "gaps between kernels",
            "memory that the allocator asks the system for")  # fmt: skip
"""What predicted times leave out."""


@dataclass
class StepTime:
    """Predicted seconds of a step on a device. Unknown figures are None. ``str()`` gives a table."""

    device: str
    forward: float | None
    backward: float | None = None
    """Seconds of the backward pass without recomputation. None for an inference, and if unknown."""
    recompute: float | None = None
    """Seconds of recomputation in the backward pass; 0 if there is none."""
    optimizer: float | None = None
    training: bool = False
    batch: int | None = None
    """Samples of a step: the first size of the first input, times the micro-batches."""
    convention: str = "torch"
    model_flops: float | None = None
    """Operations of the step by the convention."""
    peak_rate: float | None = None
    """Operations per second of the device in `dtype`."""
    dtype: str | None = None
    """The dtype in which most operations run."""
    by_op: dict[str, float] = field(default_factory=dict)
    """Seconds by operator, the longest first."""
    by_module: dict[str, float] = field(default_factory=dict)
    """Seconds of the forward pass by module path."""
    spans: dict[str, list[Any]] = field(default_factory=dict)
    """The calls of one micro-batch and the optimizer on an axis of seconds, as `metatensor.analysis.flame.spans` returns them."""
    remarks: list[str] = field(default_factory=list)
    band: Band | None = None
    """The errors of such predictions. None if they were not compared with measured times."""

    @property
    def seconds(self) -> float | None:
        """Seconds of the whole step."""
        parts = [self.forward, self.backward, self.recompute, self.optimizer] if self.training else [self.forward]
        return None if None in parts else sum(part or 0.0 for part in parts)

    @property
    def samples_per_second(self) -> float | None:
        """Samples of the batch over the seconds."""
        return self.batch / self.seconds if self.batch and self.seconds else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization by the convention: 0.5 is half of the device's peak."""
        known = self.model_flops is not None and self.seconds and self.peak_rate
        return self.model_flops / (self.seconds * self.peak_rate) if known else None  # type: ignore[operator]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types: seconds, operations, operations per second."""
        return {**vars(self), "seconds": self.seconds, "samples_per_second": self.samples_per_second, "mfu": self.mfu,
            "excluded": list(EXCLUDED), "band": None if self.band is None else self.band.to_dict()}

    def lines(self) -> list[tuple[str, str]]:
        """Return the table as (label, text) pairs."""
        rows = [("time, forward", self.forward)]
        if self.training:
            rows += [("time, backward", self.backward), ("time, computed again", self.recompute), ("time, optimizer", self.optimizer),
                     ("time of a step", self.seconds)]  # fmt: skip
        lines = [(name, _seconds(value)) for name, value in rows if name != "time, computed again" or value]
        lines.append(("samples per second", "unknown" if self.samples_per_second is None else f"{self.samples_per_second:,.4g}"))
        return [*lines, (f"MFU ({self.convention})", "unknown" if self.mfu is None else f"{self.mfu:.1%}")]

    def notes(self) -> list[str]:
        """Return how the figures were found and what they leave out."""
        chosen = CONVENTIONS[self.convention]
        peak = "unknown" if self.peak_rate is None else f"{self.peak_rate / 1e12:.4g} TFLOP/s"
        return [*self.remarks, f"MFU: {chosen.formula}; peak in {self.dtype or 'an unknown dtype'}: {peak}; source: {chosen.source}; "
                f"leaves out: {chosen.leaves_out}", f"time leaves out: {', '.join(EXCLUDED)}",
                "such times were not compared with measured ones" if self.band is None else str(self.band)]  # fmt: skip

    def __str__(self) -> str:
        lines = self.lines()
        width = max(24, *(len(name) + 2 for name, _ in lines))
        return "\n".join([*(f"{name:<{width}}{text:>12}" for name, text in lines), "", *self.notes()])


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else seconds_text(value)


def time_of(model: Any, /, *inputs: Any, device: Any, convention: str = "torch", **kwargs: Any) -> StepTime:
    """Run ``model(*inputs, **kwargs)`` once, as `estimate` does, and predict how long an inference takes on a device.

    Parameters
    ----------
    model : nn.Module or callable
        The model.
    *inputs, **kwargs
        Its arguments.
    device : str, path or DeviceProfile
        The device, as `device_profile` takes it. With a profile that `calibrate` measured, times are based on measured
        operators, otherwise on peak rates and assumed efficiencies.
    convention : str
        How MFU counts operations: "torch", "macs", "6nd" or "megatron". Default: "torch".

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model, x = mt.nn.Linear(8192, 8192, dtype=mt.bfloat16), mt.empty(8192, 8192, dtype=mt.bfloat16)
    >>> time = mt.analysis.time_of(model, x, device="h100-80gb")
    >>> round(time.forward * 1e3, 2), round(time.mfu, 2), time.batch  # milliseconds, part of the peak, samples
    (1.59, 0.7, 8192)
    """
    profile = device_profile(device)
    if has_lazy(model):
        with at_inference(model, inputs, kwargs):
            model(*inputs, **kwargs)
    with at_inference(model, inputs, kwargs), CallRecorder(model) as recorder:
        model(*inputs, **kwargs)
    return step_time(profile, recorder.calls, None, 1, model, (inputs, kwargs), convention, training=False)


def step_time(
    profile: DeviceProfile, calls: list[Call], plain: list[Call] | None, times: int, model: Any, inputs: Any,
    convention: str, training: bool = True
) -> StepTime:
    """Return the predicted time of recorded calls.

    Parameters
    ----------
    profile : DeviceProfile
        The device.
    calls : list of Call
        The calls of a step with one micro-batch.
    plain : list of Call or None
        The calls of the same step without recomputation, if the step has any.
    times : int
        Micro-batches of a step.
    model, inputs
        The model and its arguments, for conventions of MFU.
    convention : str
        How MFU counts operations.
    training : bool
        Whether the calls are of a training step.
    """
    timing = predict(calls, profile)
    less = timing if plain is None else predict(plain, profile)
    counted = sum(call.flops for call in (calls if plain is None else plain) if call.phase != "optimizer")
    flops, why = model_flops(convention, model, inputs, counted, training)
    batch = batch_of(inputs)
    by_dtype: Counter[str] = Counter()
    for call in calls:
        by_dtype[call.dtype] += call.flops
    dtype = max(by_dtype, key=lambda name: by_dtype[name]) if any(by_dtype.values()) else None
    passes = _passes(timing)
    if training and profile.kind != "cpu":
        timing.assumptions.append("operators run as the kernel policy says; a fused optimizer takes less")
    remarks = timing.notes() + ([f"MFU unknown: {why}"] if why else [])
    found = StepTime(profile.name, _times(less.phases.get("forward", 0.0), times), training=training, convention=convention, dtype=dtype,
                     batch=None if batch is None else batch * times, model_flops=None if flops is None else flops * times,
                     peak_rate=profile.rate(dtype) if dtype else None, by_op=timing.by_op, by_module=timing.by_module,
                     spans=spans(calls, profile), remarks=remarks, band=_band(profile, training))  # fmt: skip
    if training:
        known = _passes(less)
        found.backward = _times(less.phases.get("backward", 0.0), times)
        found.recompute = None if passes is None or known is None else max(0.0, passes - known) * times
        found.optimizer = timing.phases.get("optimizer", 0.0)
    return found


def _band(profile: DeviceProfile, training: bool) -> Band | None:
    if profile.kind == "cpu":
        return band("time, cpu") if profile.operators else None
    return band("time, accelerator") if training and profile.kind == "gpu" else None


def _times(seconds: float | None, times: int) -> float | None:
    return None if seconds is None else seconds * times


def _passes(timing: Timing) -> float | None:
    """Return the seconds of forward and backward."""
    parts = [timing.phases.get(phase, 0.0) for phase in ("forward", "backward")]
    return None if None in parts else sum(part or 0.0 for part in parts)


def recorded_step(forward: Any, update: Any, model: Any) -> list[Call]:
    """Return the calls of a training step: ``forward()`` returns the loss, ``update()`` runs the optimizer."""
    with CallRecorder(model) as recorder:
        loss = forward()
        recorder.phase = "backward"
        loss.backward()
        del loss
        recorder.phase = "optimizer"
        with mt.enable_grad():
            update()
    return recorder.calls
