"""The conformance suite of devices: what every backend must do, checked from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from metatensor._core.device import backend_for

__all__ = ["DeviceReport", "check_device"]


@dataclass
class DeviceReport:
    """What `check_device` found. ``str()`` of it is a summary for people."""

    device: str
    passed: list[str] = field(default_factory=list)
    """Names of the checks that passed."""
    failures: dict[str, str] = field(default_factory=dict)
    """Check to what went wrong."""
    kernels: list[str] = field(default_factory=list)
    """Ops whose kernels were run and compared with the reference."""
    not_sampled: list[str] = field(default_factory=list)
    """Ops with a kernel for which no arguments were found: they were not run."""
    missing: list[str] = field(default_factory=list)
    """Ops of the registry without a kernel on this device (a decomposition may do)."""

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        lines = [
            f"device {self.device}: {len(self.passed)} checks passed, {len(self.failures)} failed; "
            f"{len(self.kernels)} kernels compared, {len(self.not_sampled)} not sampled, {len(self.missing)} ops without a kernel"
        ]
        lines += [f"  FAILED {name}: {reason}" for name, reason in self.failures.items()]
        return "\n".join(lines)


def check_device(name: str, *, reference: str = "cpu", skip: Iterable[str] = (), only: Iterable[str] | None = None,
                 kernels: bool = True) -> DeviceReport:  # fmt: skip
    """Run the conformance suite on the device type ``name`` and return a `DeviceReport`.

    It covers allocation, copies to, from and within the device, views, conversions between all dtypes, memory
    statistics, every kernel against the ``reference`` device on strided inputs, random streams, errors, and use from
    several threads. ``skip`` holds names of checks and of ops (``kernel add``, or just ``add``) to leave out;
    ``kernels=False`` leaves out all kernels.

    Raises AssertionError, naming each failed check and what went wrong, unless all pass; RuntimeError where the device
    or the reference is not available.
    """
    from metatensor.testing import device_basics, device_kernels

    for needed in dict.fromkeys((name, reference)):
        backend = backend_for(needed)
        if not backend.is_available():
            raise RuntimeError(f"check_device: {needed} is not available: {backend.unavailable_reason()}")
    backend = backend_for(name)
    left_out, wanted = set(skip), None if only is None else {name.removeprefix("kernel ") for name in only}
    report = DeviceReport(name)
    for title, check in device_basics.checks():
        if title not in left_out and (wanted is None or title in wanted):
            _run(report, title, partial(check, backend, reference))
    if kernels:
        _kernels(report, device_kernels.cases(backend, reference, report, wanted), left_out)
    if report.failures:
        raise AssertionError(str(report))
    return report


def _kernels(report: DeviceReport, cases: Iterator[tuple[str, Callable[[], None]]], skip: set[str]) -> None:
    for qualname, case in cases:
        title = f"kernel {qualname}"
        if qualname in skip or title in skip:
            continue
        try:
            case()
        except NotImplementedError:
            report.missing.append(qualname)  # the kernel says that it cannot, here: the same as none
            continue
        except Exception as error:
            report.failures[title] = _text(error)
        else:
            report.passed.append(title)
        report.kernels.append(qualname)


def _run(report: DeviceReport, title: str, check: Callable[[], None]) -> None:
    try:
        check()
    except Exception as error:
        report.failures[title] = _text(error)
    else:
        report.passed.append(title)


def _text(error: Exception) -> str:
    return (str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}") or "failed"
