"""The conformance suite for devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from metatensor._core.device import backend_for
from metatensor._core.op import registry

__all__ = ["DeviceReport", "check_device"]


@dataclass
class DeviceReport:
    """The result of `check_device`. ``str()`` gives a readable summary."""

    device: str
    passed: list[str] = field(default_factory=list)
    """Names of the checks that passed."""
    failures: dict[str, str] = field(default_factory=dict)
    """Maps the names of failed checks to error messages."""
    kernels: list[str] = field(default_factory=list)
    """Operators whose kernels were run and compared with the reference."""
    not_sampled: list[str] = field(default_factory=list)
    """Operators with a kernel that was not run because no arguments were found for it."""
    missing: list[str] = field(default_factory=list)
    """Registered operators without a kernel on this device. They may still work by decomposition."""
    gradients: list[str] = field(default_factory=list)
    """Operators whose gradients were compared with the reference."""
    without_gradient: list[str] = field(default_factory=list)
    """Operators whose gradients the device cannot compute, or that it cannot compute at all."""

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        lines = [
            f"device {self.device}: {len(self.passed)} checks passed, {len(self.failures)} failed; "
            f"{len(self.kernels)} kernels compared, {len(self.not_sampled)} not sampled, {len(self.missing)} ops without a kernel"
        ]
        if self.gradients or self.without_gradient:
            lines[0] += f"; {len(self.gradients)} gradients compared, {len(self.without_gradient)} not computed"
        lines += [f"  FAILED {name}: {reason}" for name, reason in self.failures.items()]
        return "\n".join(lines)


def check_device(name: str, *, reference: str = "cpu", skip: Iterable[str] = (), only: Iterable[str] | None = None,
                 kernels: bool = True, train: bool = False) -> DeviceReport:  # fmt: skip
    """Run the conformance suite on device type ``name``.

    The suite covers allocation, copies to, from and within the device, views, conversions between all dtypes, memory
    statistics, random numbers, error handling, and use from several threads. It runs every kernel on strided inputs and
    compares the results with those of the ``reference`` device.

    Parameters
    ----------
    name : str
        The device type to check.
    reference : str
        The device type to compare kernels with.
    skip : iterable of str
        Names of checks or operators to leave out (``"kernel add"``, or just ``"add"``).
    only : iterable of str, optional
        Names of the only checks and operators to run. Default: all.
    kernels : bool
        Whether to check kernels at all.
    train : bool
        Whether to compare the gradients of all built-in operators, including those without a kernel, with those of the
        reference. This takes some minutes. Operators whose gradients the device cannot compute are listed in the
        report. Custom operators are compared only if ``only`` names them. Default False.

    Returns
    -------
    DeviceReport

    Raises
    ------
    AssertionError
        If any check fails. The message names each failed check and the reason.
    RuntimeError
        If the device or the reference is not available.
    ValueError
        If ``only`` or ``skip`` has a name that is not one of a check or an operator.

    Examples
    --------
    >>> import metatensor as mt
    >>> report = mt.testing.check_device("cpu", only=["views share memory"])
    >>> report.passed
    ['views share memory']
    """
    from metatensor.testing import device_basics, device_gradients, device_kernels

    for needed in dict.fromkeys((name, reference)):
        backend = backend_for(needed)
        if not backend.is_available():
            raise RuntimeError(f"check_device: {needed} is not available: {backend.unavailable_reason()}")
    backend = backend_for(name)
    left_out, wanted = set(skip), None if only is None else {_plain(name) for name in only}
    known = {title for title, _ in device_basics.checks()} | {overload.qualname for op in registry.values() for overload in op.overloads}
    unknown = {_plain(name) for name in left_out | (wanted or set())} - known
    if unknown:
        raise ValueError(f"check_device: there is no check or operator named {', '.join(map(repr, sorted(unknown)))}")
    report = DeviceReport(name)
    for title, check in device_basics.checks():
        if title not in left_out and (wanted is None or title in wanted):
            _run(report, title, partial(check, backend, reference))
    if kernels:
        _kernels(report, device_kernels.cases(backend, reference, report, wanted), left_out)
    if train:
        for qualname, case in device_gradients.gradient_cases(backend, reference, report, wanted):
            title = f"gradient {qualname}"
            if qualname not in left_out and title not in left_out:
                _run(report, title, case)
    if report.failures:
        raise AssertionError(str(report))
    return report


def _plain(name: str) -> str:
    return name.removeprefix("kernel ").removeprefix("gradient ")


def _kernels(report: DeviceReport, cases: Iterator[tuple[str, Callable[[], None]]], skip: set[str]) -> None:
    for qualname, case in cases:
        title = f"kernel {qualname}"
        if qualname in skip or title in skip:
            continue
        try:
            case()
        except NotImplementedError:
            report.missing.append(qualname)  # a kernel that raises this counts as missing
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
