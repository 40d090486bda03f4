"""The result of an estimate: plain data that can be printed as a table or converted to a dict or JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metatensor.analysis.accuracy import band

if TYPE_CHECKING:
    from rich.console import RenderableType

    from metatensor.analysis.assumptions import Assumption
    from metatensor.analysis.profiling import Profile
    from metatensor.analysis.step_time import StepTime

__all__ = ["CONVENTION", "EXCLUDED", "SCHEMA", "Gap", "ModuleRow", "Peak", "Report", "SharedGroup"]

CONVENTION = "a multiply-add is 2; matrix products, convolutions and attention are counted"
SCHEMA = 1
"""Version of the JSON form. It is increased when a key is removed or changes its meaning."""
EXCLUDED = ("rounding and caching by the device's allocator", "kernels' workspaces", "the device's context and code")


@dataclass
class ModuleRow:
    """Figures of one module. All except those named ``own_`` include its submodules."""

    path: str
    """Path in the model (``layers.3.attn``); empty for the model itself."""
    kind: str
    """The name of its class."""
    depth: int
    parameters: int = 0
    """Number of elements. Tied parameters count once."""
    own_parameters: int = 0
    """Number of elements without those of submodules."""
    buffers: int = 0
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    own_parameter_bytes: int = 0
    """Size without submodules. Memory that several modules share counts in the first of them, so the sum over all modules is the total."""
    own_buffer_bytes: int = 0
    """The same for buffers."""
    flops: int = 0
    calls: int = 0
    output: Any = None
    """The result of the module's last call, with strings such as ``float32[1,1024,768]`` in place of tensors."""
    peak_bytes: int | None = None
    """Size in bytes of the storages that its calls allocated and that were alive at the peak. None if the timeline was not recorded."""
    made_bytes: int | None = None
    """Size in bytes of all storages that its calls allocated. None if the timeline was not recorded."""
    seconds: float | None = None
    """Predicted seconds of its forward pass. None without a device, or if the time of an operator is unknown."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return dict(vars(self))


@dataclass(frozen=True)
class Peak:
    """The moment at which activations took the most memory."""

    bytes: int
    """Size of all tensors created by the forward that were alive at the peak, including temporary ones inside operators."""
    op: str | None = None
    """The operator at which the peak was reached."""
    module: str | None = None
    """The path of the module in which that operator ran; empty for the model itself."""
    location: str | None = None
    """The line of the model's code, ``file:line``."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return dict(vars(self))


@dataclass(frozen=True)
class SharedGroup:
    """Names that share memory, in whole or in part, and the size of that memory in bytes, which counts once."""

    names: tuple[str, ...]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return {"names": list(self.names), "bytes": self.bytes}


@dataclass(frozen=True)
class Gap:
    """An operator that may cost FLOPs but has no rule. Its cost is missing from the total."""

    op: str
    calls: int
    modules: tuple[str, ...]
    """The paths of the modules that called it."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return {"op": self.op, "calls": self.calls, "modules": list(self.modules)}


@dataclass
class Report:
    """The cost of a model at inference. ``str()`` and printing with rich give a table."""

    model: str
    """Name of the model's class, or of the function."""
    modules: list[ModuleRow]
    """Every module in depth-first order, the model first."""
    inputs: Any
    output: Any
    input_bytes: int
    peak: Peak
    flops: int
    flops_by_op: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, int] = field(default_factory=dict)
    """Number of calls, by name, of operators that count as 0 by convention."""
    gaps: list[Gap] = field(default_factory=list)
    shared: list[SharedGroup] = field(default_factory=list)
    ops: int = 0
    """Number of operators run."""
    profile: Profile | None = None
    """The memory in use over time, if it was requested (``timeline=True``)."""
    time: StepTime | None = None
    """The predicted time on a device, as `time_of` returns it, if it was set."""
    policy: str = "meta"
    """Name of the kernel policy, see `metatensor.analysis.policy`."""
    assumptions: list[Assumption] = field(default_factory=list)
    """Sizes and numbers that depend on values and were assumed, see `metatensor.analysis.assume`. FLOPs, memory and sizes that follow
    from them are bounds, or hold for the given figures."""

    @property
    def parameters(self) -> int:
        """Number of elements of all parameters. Tied ones count once."""
        return self.modules[0].parameters

    @property
    def buffers(self) -> int:
        """Number of elements of all buffers."""
        return self.modules[0].buffers

    @property
    def parameter_bytes(self) -> int:
        """Size of all parameters in bytes. Tied ones count once."""
        return self.modules[0].parameter_bytes

    @property
    def buffer_bytes(self) -> int:
        """Size of all buffers in bytes."""
        return self.modules[0].buffer_bytes

    @property
    def total_bytes(self) -> int:
        """Memory of a forward in bytes: parameters, buffers, inputs, and activations at their peak."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.peak.bytes

    def module(self, path: str) -> ModuleRow:
        """Return the row of the module at ``path``. Raise KeyError if there is none."""
        for row in self.modules:
            if row.path == path:
                return row
        raise KeyError(f"no module {path!r}; there are {', '.join(repr(row.path) for row in self.modules[:12])}"
                       + (", ..." if len(self.modules) > 12 else ""))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict of JSON types. The keys are part of the public interface; docs/report-schema.md describes them."""
        return {
            "kind": "inference",
            "schema": SCHEMA,
            "model": self.model,
            "inputs": self.inputs,
            "output": self.output,
            "parameters": self.parameters,
            "buffers": self.buffers,
            "parameter_bytes": self.parameter_bytes,
            "buffer_bytes": self.buffer_bytes,
            "input_bytes": self.input_bytes,
            "peak_activation": self.peak.to_dict(),
            "total_bytes": self.total_bytes,
            "flops": self.flops,
            "flops_by_op": self.flops_by_op,
            "flops_convention": CONVENTION,
            "flops_gaps": [gap.to_dict() for gap in self.gaps],
            "flops_uncounted_ops": self.uncounted,
            "shared": [group.to_dict() for group in self.shared],
            "excluded": list(EXCLUDED),
            "policy": self.policy,
            "error_bands": [band(kind).to_dict() for kind in ("inference memory", "FLOPs")],
            "ops": self.ops,
            "assumptions": [each.to_dict() for each in self.assumptions],
            **details(self.modules, self.profile, self.time),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained page with all figures to a file. It needs Plotly: ``pip install 'metatensor-device[report]'``.

        Its timeline needs ``estimate(..., timeline=True)``, its predicted times need `time`.
        """
        from metatensor.analysis.page import write

        write(path, self.to_dict())

    def _repr_html_(self) -> str:
        from metatensor.analysis.notebook import table
        from metatensor.analysis.table import HEADINGS, lines, totals

        rows = [("\u00a0\u00a0" * depth + cells[0], *cells[1:]) for depth, cells in lines(self)]
        return table(HEADINGS, rows, 3) + table(("total", ""), totals(self), 2) + f"<p>not included: {', '.join(EXCLUDED)}</p>"

    def __str__(self) -> str:
        from metatensor.analysis.table import as_text

        return as_text(self)

    def __rich__(self) -> RenderableType:
        from metatensor.analysis.table import as_rich

        return as_rich(self)


def details(modules: list[ModuleRow], profile: Profile | None, time: StepTime | None) -> dict[str, Any]:
    """Return the modules, the timeline and the predicted time of a report as JSON types."""
    if profile is not None:
        from metatensor.analysis.timeline import by_module

        by_module(profile, modules)
    if time is not None and time.forward is not None and time.by_module:
        seconds: dict[str, float] = {}
        for inner, value in time.by_module.items():
            path = inner
            seconds[path] = seconds.get(path, 0.0) + value
            while path:
                path = path.rpartition(".")[0]
                seconds[path] = seconds.get(path, 0.0) + value
        for row in modules:
            row.seconds = seconds.get(row.path)
    found: dict[str, Any] = {"modules": [row.to_dict() for row in modules]}
    if profile is not None:
        found["profile"] = profile.figures()
    if time is not None:
        found["time"] = time.to_dict()
    return found
