"""Measure a device: write a profile with its rates and the cost of each operator.

Small programs take turns on the device, and every call is timed; see `metatensor.analysis.calibration.programs`. To the
times of each operator, a line or a curve is fitted; see `metatensor.analysis.calibration.fitting`.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import metatensor as mt
from metatensor._version import __version__
from metatensor.analysis.calibration.fitting import by_kind, by_operator
from metatensor.analysis.calibration.measuring import Sample, clock_for, measure, overheads
from metatensor.analysis.calibration.programs import Program, programs
from metatensor.devices.profiles import DeviceProfile, OperatorCost, load_profile
from metatensor.devices.profiles.loading import NAME, profile_of_text

__all__ = ["calibrate", "calibration_text"]

RATED = ("float32", "float64", "bfloat16", "float16")


def calibrate(
    device: Any = "cpu", output: str | os.PathLike[str] | None = None, *, quick: bool = False, seconds: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> DeviceProfile:
    """Measure a device, and return its profile.

    The profile has the rate of matrix products by dtype, the bandwidth of copies, the overhead of a call, and, for about 190
    operators and variants of them, the time as a function of the bytes that they move and of their operations. Calibration takes
    less than two minutes. Other programs that run at the same time make the figures worse. On cpu, the times are those of NumPy's kernels
    with the number of threads that its library uses: one with ``OPENBLAS_NUM_THREADS=1``.

    Parameters
    ----------
    device : device or str
        A device with kernels that compute before a call returns. Default: "cpu".
    output : path, optional
        TOML file to write. Its name without ``.toml`` is that of the profile.
    quick : bool
        Whether to measure half as many sizes for a quarter of the time. Default False.
    seconds : float, optional
        Longest time for measuring operators. Default: 75, or 20 with ``quick``. Each program runs at least twice.
    progress : callable, optional
        Called with the finished fraction, from 0 to 1.

    Returns
    -------
    DeviceProfile
        The profile. `estimate` and `metatensor.analysis.timing.predict` take it.

    Raises
    ------
    ValueError
        If the device does not compute, or the name of the file is not valid for a profile.
    """
    if output is not None and (not str(output).endswith(".toml") or not NAME.fullmatch(Path(output).stem)):
        raise ValueError(f"calibrate: {os.fspath(output)!r} cannot be a profile: the name must be lower-case letters, digits and "
                         "hyphens, and end in .toml")  # fmt: skip
    text = calibration_text(device, quick=quick, seconds=seconds, progress=progress)
    if output is None:
        return profile_of_text(text, f"measured-{mt.device(device).type}.toml")
    Path(output).write_text(text, encoding="utf-8")
    return load_profile(output)


def calibration_text(
    device: Any = "cpu", *, quick: bool = False, seconds: float | None = None, progress: Callable[[float], None] | None = None,
    clock: Callable[[], float] | None = None, found: list[Program] | None = None,
) -> str:
    """Measure a device, and return its profile as TOML. ``clock`` and ``found`` replace the clock and the programs."""
    where = mt.device(device)
    if where.type == "meta":
        raise ValueError("calibrate: the meta device computes nothing; give a device with kernels, such as 'cpu'")
    if where.type == "cuda":
        raise ValueError("calibrate: CUDA devices compute after a call has returned, which these measurements do not wait for")
    chosen, counts = clock_for(where)
    clock = clock or chosen
    state = mt.get_rng_state()
    try:
        mt.manual_seed(0)
        tried = list(programs(where, 2 if quick else 1)) if found is None else found
        samples, failed = measure(tried, clock, seconds=seconds or (20.0 if quick else 75.0), rounds=4 if quick else 12, progress=progress)
        between = overheads(where, clock)
        rates = _rates(where, clock, samples, 256 if quick or found is not None else 768)
    finally:
        mt.set_rng_state(state)
    threads = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or "as many as the library uses"
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    source = f"Measured on {today}: {counts}, threads: {threads}, {_versions()}"
    return _written(where.type, source, samples, between, rates, failed)


def _versions() -> str:
    found = [f"metatensor {__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy",):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def _rates(device: Any, clock: Callable[[], float], samples: list[Sample], n: int) -> dict[str, float]:
    """Return the operations per second of square matrix products by dtype, each the highest of several."""
    found: dict[str, float] = {}
    for name in RATED:
        size = n if name in ("float32", "float64") else n // 2
        try:
            x = mt.rand(size, size, device=device).to(getattr(mt, name))
            best = 0.0
            for _ in range(6):
                start = clock()
                x @ x
                spent = clock() - start
                best = max(best, 2 * size**3 / spent if spent > 0 else 0.0)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
        if best:
            found[name] = best
    timed = [sample for sample in samples if sample.call.op in ("mm", "matmul") and sample.seconds > 0]
    products = [sample.call.flops / sample.seconds for sample in timed]
    if "float32" in found:
        found["float32"] = max([found["float32"], *products])
    return found


def _bandwidth(samples: list[Sample]) -> float | None:
    """Return bytes read and written per second by the largest copies."""
    copies = [sample for sample in samples if sample.call.op == "clone" and not sample.call.form and sample.seconds > 0]
    if not copies:
        return None
    most = max(sample.call.bytes for sample in copies)
    return max(sample.call.bytes / sample.seconds for sample in copies if sample.call.bytes == most)


def _capacity(device: str) -> int | None:
    if device != "cpu" or not hasattr(os, "sysconf"):
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine() or "unknown processor"


def _written(
    device: str, source: str, samples: list[Sample], between: dict[str, float], rates: dict[str, float], failed: list[str]
) -> str:
    """Return the profile as TOML."""
    bandwidth, capacity = _bandwidth(samples), _capacity(device)
    launches = [sample.seconds for sample in samples if sample.call.launches and sample.seconds > 0]
    lines = [f"# Written by `metatensor calibrate --device {device}`.", f"title = {_quoted(f'{_processor()}, as measured')}",
             'vendor = "measured"', f'kind = "{"cpu" if device == "cpu" else "accelerator"}"', f'backend = "{device}"']  # fmt: skip
    if failed:
        lines.append(f"note = {_quoted('not measured, because the device cannot run them: ' + '; '.join(failed)[:2000])}")
    if capacity or bandwidth:
        lines += ["", "[memory]"]
    if capacity:
        lines.append(f'capacity = {{ value = "{capacity} B", source = "here" }}')
    if bandwidth:
        lines.append(f'bandwidth = {{ value = "{bandwidth / 1e9:.4g} GB/s", source = "here", note = "of the largest copy" }}')
    lines += ["", "[rates]"] if rates else []
    for name, rate in rates.items():
        lines.append(f'{name} = {{ value = "{rate / 1e9:.4g} GFLOP/s", source = "here", note = "the fastest matrix product" }}')
    lines += ["", "[launch]"]
    if launches:
        least = min(launches)
        lines.append(f'overhead = {{ value = "{least * 1e6:.4g} us", source = "here", note = "the shortest call of an operator" }}')
    lines += [f'{phase} = {{ value = "{value * 1e6:.4g} us", source = "here" }}' for phase, value in between.items() if value > 1e-9]
    for table, costs in (("kinds", by_kind(samples)), ("operators", by_operator(samples))):
        lines += ["", f"[{table}]", 'source = "here"', *(['dtype = "float32"'] if table == "operators" else [])]
        lines += [f"{_quoted(name)} = {_cost(cost)}" for name, cost in costs.items()]
    lines += ["", "[sources.here]", f"title = {_quoted(source)}", ""]
    return "\n".join(lines)


def _cost(cost: OperatorCost) -> str:
    parts = [] if cost.bytes else [f'overhead = "{max(cost.overhead * 1e6, 1e-6):.4g} us"']
    parts += [f'bandwidth = "{cost.bandwidth / 1e9:.4g} GB/s"'] if cost.bandwidth else []
    parts += [f'rate = "{cost.rate / 1e9:.4g} GFLOP/s"'] if cost.rate else []
    parts += [f'repeated = "{cost.repeated / 1e9:.4g} GB/s"'] if cost.repeated else []
    if cost.bytes:
        parts.append(f"bytes = [{', '.join(f'{value:.0f}' for value in cost.bytes)}]")
        parts += [f"seconds = [{', '.join(f'{value:.3e}' for value in cost.seconds)}]"]
    return "{ " + ", ".join(parts) + " }"


def _quoted(text: str) -> str:
    """Return a TOML string."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
