"""The result of an estimate: plain data, with its totals, as a dict, as JSON and as a table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["CONVENTION", "EXCLUDED", "Gap", "ModuleRow", "Peak", "Report", "SharedGroup"]

CONVENTION = "a multiply-add is 2; matrix products, convolutions and attention are counted"
EXCLUDED = ("rounding and caching by the device's allocator", "kernels' workspaces", "the device's context and code")


@dataclass
class ModuleRow:
    """One module. Everything but ``own_*`` includes its submodules."""

    path: str
    """Its name in the model (``layers.3.attn``); empty for the model itself."""
    kind: str
    """Its class."""
    depth: int
    parameters: int = 0
    """Elements, those of tied parameters once."""
    own_parameters: int = 0
    """Elements that are this module's own, not its submodules'."""
    buffers: int = 0
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    flops: int = 0
    calls: int = 0
    output: Any = None
    """What its last call returned: texts such as ``float32[1,1024,768]`` in the lists and dicts they came in."""

    def to_dict(self) -> dict[str, Any]:
        """All fields, in types that JSON has."""
        return dict(vars(self))


@dataclass(frozen=True)
class Peak:
    """The moment at which activations took the most memory."""

    bytes: int
    """Of all tensors made during the forward that were alive then."""
    op: str | None = None
    """The operator that made the last of them."""
    module: str | None = None
    """The path of the module in which it ran; empty for the model itself."""
    location: str | None = None
    """The line of the model's code, ``file:line``."""

    def to_dict(self) -> dict[str, Any]:
        """All fields, in types that JSON has."""
        return dict(vars(self))


@dataclass(frozen=True)
class SharedGroup:
    """Names that are the same memory, in whole or in part, and its size in bytes, which counts once."""

    names: tuple[str, ...]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """All fields, in types that JSON has."""
        return {"names": list(self.names), "bytes": self.bytes}


@dataclass(frozen=True)
class Gap:
    """An operator that may cost FLOPs but has no rule: its cost is missing from the total."""

    op: str
    calls: int
    modules: tuple[str, ...]
    """The paths of the modules that called it."""

    def to_dict(self) -> dict[str, Any]:
        """All fields, in types that JSON has."""
        return {"op": self.op, "calls": self.calls, "modules": list(self.modules)}


@dataclass
class Report:
    """What a model costs at inference. ``str()`` of it is a table; so is printing it with rich."""

    model: str
    """Name of the model's class, or of the function."""
    modules: list[ModuleRow]
    """Every module, the model first, in the order of their names in it."""
    inputs: Any
    output: Any
    input_bytes: int
    peak: Peak
    flops: int
    flops_by_op: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, int] = field(default_factory=dict)
    """Calls of operators that count as 0 by convention, by name."""
    gaps: list[Gap] = field(default_factory=list)
    shared: list[SharedGroup] = field(default_factory=list)
    ops: int = 0
    """Operators run in all."""

    @property
    def parameters(self) -> int:
        """Elements of all parameters, those of tied ones once."""
        return self.modules[0].parameters

    @property
    def buffers(self) -> int:
        """Elements of all buffers."""
        return self.modules[0].buffers

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters, tied ones once."""
        return self.modules[0].parameter_bytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return self.modules[0].buffer_bytes

    @property
    def total_bytes(self) -> int:
        """The most memory a forward needs: parameters, buffers, inputs, and activations at their peak."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.peak.bytes

    def module(self, path: str) -> ModuleRow:
        """The row of the module at ``path``; KeyError where there is none."""
        for row in self.modules:
            if row.path == path:
                return row
        raise KeyError(f"no module {path!r}; there are {', '.join(repr(row.path) for row in self.modules[:12])}"
                       + (", ..." if len(self.modules) > 12 else ""))

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has; the keys are part of the interface."""
        return {
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
            "ops": self.ops,
            "modules": [row.to_dict() for row in self.modules],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        from metatensor.analysis.table import as_text

        return as_text(self)

    def __rich__(self) -> RenderableType:
        from metatensor.analysis.table import as_rich

        return as_rich(self)
